//! Where weights may be: those that a device cannot use go to RAM, and some have a layout of the CPU's own there.

use super::architecture::Trait;
use super::devices::Device;
use super::hparams::Hparams;
use super::loaded::LoadedModel;
use super::weights::{LlmTensor, TensorSuffix, Weight, Weights};
use crate::engine::ggml::tensor::{BackendId, Buffer, Op};
use crate::engine::ggml::{Backend, Graph, Tensor, Type};
use crate::gguf;
use crate::machine::CpuInstructions;

// Which weights a device cannot use: they go to RAM, whatever the device of their layer (`weight_buft_supported` in
// `llama-model-loader.cpp`, 0.1.161).

/// Tokens of the operation that a weight is tried with.
const TOKENS: u64 = 512;
/// Sequences of a state-space operation that a weight is tried with.
const SEQUENCES: u64 = 3;

/// An operation, and type and shape of a weight.
type TriedWeight = (Op, Type, [u64; 4]);

/// The weights that GPUs refuse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeightBuffers {
    /// Per GPU, indices into [`Weights::all`], ascending.
    refused: Vec<Vec<usize>>,
    /// Per GPU, whether it refuses the token embeddings as output matrix.
    refuses_tied_output: Vec<bool>,
    /// Bytes of the weights that the CPU repacks where they are in RAM, by index into [`Weights::all`]; empty if none.
    repacked: Vec<Option<u64>>,
    /// The same of the token embeddings as output matrix.
    repacked_tied_output: Option<u64>,
}

impl WeightBuffers {
    /// The weights of `model` that `devices` refuse, and those for which the CPU has `layouts`.
    pub fn new(model: &LoadedModel, devices: &[Device], layouts: Layouts) -> Self {
        let mut buffers = Self::default();
        let tied = model.weights.find_global(LlmTensor::TokenEmbd, TensorSuffix::Weight);
        if layouts.instructions != CpuInstructions::None {
            let repacked = |weight: &Weight| layouts.bytes(operation(weight, model)?, weight);
            buffers.repacked = model.weights.all.iter().map(repacked).collect();
            buffers.repacked_tied_output = tied.and_then(|at| layouts.bytes(Op::MulMat, &model.weights.all[at]));
        }
        let mut graph = Graph::default();
        for device in devices {
            let mut tried: Vec<(TriedWeight, bool)> = Vec::new();
            let mut refuses = |op: Op, weight: &Weight| {
                let key = (op, weight.ty, weight.ne);
                if let Some((_, known)) = tried.iter().find(|(other, _)| *other == key) {
                    return *known;
                }
                let refused = !can_use(&*device.backend, op, weight, &model.hparams, &mut graph);
                tried.push((key, refused));
                refused
            };
            let Weights { all, kinds, .. } = &model.weights;
            let refuses_kind =
                |first: &usize| operation(&all[*first], model).is_some_and(|op| refuses(op, &all[*first]));
            let refused: Vec<bool> = kinds.iter().map(refuses_kind).collect();
            let of_kinds = all.iter().enumerate().filter(|(_, weight)| refused[weight.kind]);
            buffers.refused.push(of_kinds.map(|(at, _)| at).collect());
            let output = tied.map(|index| &model.weights.all[index]);
            buffers.refuses_tied_output.push(output.is_some_and(|output| refuses(Op::MulMat, output)));
        }
        buffers
    }

    /// Whether `device` cannot use the weight with this index. The CPU uses all.
    pub fn refuses(&self, device: BackendId, index: usize) -> bool {
        self.refused.get(usize::from(device)).is_some_and(|refused| refused.binary_search(&index).is_ok())
    }

    /// Bytes of the weight with this index in a layout of the CPU's own, if it has one.
    pub fn repacked(&self, index: usize) -> Option<u64> {
        self.repacked.get(index).copied().flatten()
    }

    /// The same of the token embeddings as output matrix.
    pub fn repacked_tied_output(&self) -> Option<u64> {
        self.repacked_tied_output
    }

    /// Whether any GPU refuses any weight.
    pub fn refuses_any(&self) -> bool {
        self.refused.iter().any(|refused| !refused.is_empty())
    }

    /// Whether `device` cannot use the token embeddings as output matrix.
    pub fn refuses_tied_output(&self, device: BackendId) -> bool {
        self.refuses_tied_output.get(usize::from(device)).copied().unwrap_or(false)
    }
}

impl LoadedModel {
    /// The layouts by which its release repacks weights for `instructions`.
    pub fn layouts(&self, instructions: CpuInstructions) -> Layouts {
        Layouts { instructions, one_bit: self.release.repacks_one_bit }
    }
}

/// The operation that a weight is used in, if a device may refuse it (`LLM_TENSOR_INFOS` in `llama-arch.cpp`, 0.1.161).
fn operation(weight: &Weight, model: &LoadedModel) -> Option<Op> {
    let slot = match weight.role? {
        (slot, TensorSuffix::Weight) => slot,
        (_, TensorSuffix::LoraA | TensorSuffix::LoraB) => return Some(Op::MulMatId),
        _ => return None,
    };
    Some(match slot {
        LlmTensor::TokenEmbd
        | LlmTensor::PositionEmbd
        | LlmTensor::TokenTypes
        | LlmTensor::PerLayerTokenEmbd
        | LlmTensor::NextnEmbedTokens
        | LlmTensor::AttnRelB
        | LlmTensor::EncAttnRelB
        | LlmTensor::D2t
        | LlmTensor::AttnCompressorApe
        | LlmTensor::IndexerCompressorApe
        | LlmTensor::FfnGateTid2Eid
        | LlmTensor::DsparkMarkovW1
        | LlmTensor::DflashSelectorPrev
        | LlmTensor::DflashSelectorNext => Op::GetRows,
        LlmTensor::FfnGateExps
        | LlmTensor::FfnUpExps
        | LlmTensor::FfnGateUpExps
        | LlmTensor::FfnDownExps
        | LlmTensor::FfnGateChexps
        | LlmTensor::FfnUpChexps
        | LlmTensor::FfnDownChexps => Op::MulMatId,
        LlmTensor::HcAttnNorm
        | LlmTensor::HcFfnNorm
        | LlmTensor::HcHeadNorm
        | LlmTensor::PleNormKey
        | LlmTensor::PleNormQuery
        | LlmTensor::PleNormConv
        | LlmTensor::NextnHnorm
        | LlmTensor::NextnHcHeadNorm => Op::Mul,
        LlmTensor::SsmConv1d | LlmTensor::ShortConvConv | LlmTensor::PleConv1d => Op::SsmConv,
        // that of delta nets is a factor, and no operand of a scan
        LlmTensor::SsmA if model.hparams.n_embd_head_kda > 0 => return None,
        // PLaMo 2's has one dimension
        LlmTensor::SsmA if weight.ne[1] > 1 || model.family.architecture.has(Trait::DecayIsScanned) => Op::SsmScan,
        _ if weight.ne[1] > 1 && slot != LlmTensor::SsmD => Op::MulMat,
        _ => return None,
    })
}

/// Whether `backend` can compute `op` with `weight`.
fn can_use(backend: &dyn Backend, op: Op, weight: &Weight, hparams: &Hparams, graph: &mut Graph) -> bool {
    graph.clear();
    let [rows, columns, x, y] = weight.ne;
    let w = graph.given(weight.ty, weight.ne, Buffer::Unallocated, "", -1);
    let mut operand = |ty: Type, ne: [u64; 4]| graph.input(ty, ne, "");
    let result = match op {
        Op::GetRows => {
            let ids = operand(Type::I32, [TOKENS, 1, 1, 1]);
            graph.get_rows(w, ids)
        }
        Op::MulMatId => {
            let used = hparams.n_expert_used.iter().copied().max().unwrap_or(1).max(1);
            let input = operand(Type::F32, [rows, used, TOKENS, 1]);
            let ids = operand(Type::I32, [used, TOKENS, 1, 1]);
            graph.mul_mat_id(w, input, ids)
        }
        Op::Mul => {
            let input = operand(Type::F32, weight.ne);
            graph.mul(input, w)
        }
        Op::SsmConv => {
            let input = operand(Type::F32, [rows + TOKENS - 1, columns, SEQUENCES, 1]);
            graph.ssm_conv(input, w)
        }
        Op::SsmScan => {
            let state = if rows == 1 { hparams.ssm.d_state } else { rows };
            let (heads, groups) = (columns, hparams.ssm.n_group.max(1));
            let head = hparams.ssm.d_inner / heads.max(1);
            let s = operand(Type::F32, [state, head, heads, SEQUENCES]);
            let x = operand(Type::F32, [head, heads, TOKENS, SEQUENCES]);
            let dt = operand(Type::F32, [heads, TOKENS, SEQUENCES, 1]);
            let [b, c] = [0; 2].map(|_| operand(Type::F32, [state, groups, TOKENS, SEQUENCES]));
            let ids = operand(Type::I32, [SEQUENCES, 1, 1, 1]);
            graph.ssm_scan([s, x, dt, w, b, c, ids], 1)
        }
        _ => {
            let input = operand(Type::F32, [rows, TOKENS, x, y]);
            graph.mul_mat(w, input)
        }
    };
    backend.supports(graph, &graph[result])
}

impl Weights {
    /// Whether RAM holds the token embeddings twice if they are the output matrix too: as rows to look up and as a
    /// matrix they are in different buffers if a GPU can use one of the two from its host buffer and not the other.
    pub fn embeddings_twice_in_ram(&self, buffers: &WeightBuffers) -> bool {
        let embeddings = self.find_global(LlmTensor::TokenEmbd, TensorSuffix::Weight);
        embeddings.is_some_and(|index| buffers.refuses(0, index) != buffers.refuses_tied_output(0))
    }
}

// Weights that the CPU computes with in a layout of its own: llama.cpp writes them into buffers beside the file
// (`CPU_REPACK`, and `AMX`), unless a GPU offers host buffers, which come first (`make_cpu_buft_list` in
// `llama-model.cpp`, `ggml-cpu/repack.cpp` and `ggml-cpu/amx/`, 0.1.161). Builds with `KleidiAI` or for other
// processors have further layouts, which are not planned.

/// The layouts that a build of llama.cpp has for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layouts {
    /// The CPU's instructions.
    pub instructions: CpuInstructions,
    /// There is one of one-bit weights for ARM (from 0.1.159 on).
    pub one_bit: bool,
}

impl Layouts {
    /// Bytes that `weight` takes in a layout of its own as the weight of `op`; none if it stays as it is in the file.
    pub(super) fn bytes(self, op: Op, weight: &Weight) -> Option<u64> {
        self.layout(op, weight.ty, weight.ne).map(|bytes| weight.in_layout(bytes))
    }

    /// Whether experts that are in RAM get a layout of the CPU's own.
    pub fn takes_experts(self, tensor: &gguf::Tensor) -> bool {
        self.layout(Op::MulMatId, tensor.ty, sides(tensor)).is_some()
    }

    /// Whether a matrix that is in RAM gets one.
    pub fn takes_matrix(self, tensor: &gguf::Tensor) -> bool {
        self.layout(Op::MulMat, tensor.ty, sides(tensor)).is_some()
    }

    fn layout(self, op: Op, ty: Type, ne: [u64; 4]) -> Option<u64> {
        self.amx(op, ty, ne).or_else(|| self.repacks(op, ty, ne).then(|| Tensor::new(ty, ne).bytes()))
    }

    /// As `ggml_repack_get_optimal_repack_type` chooses, and `supports_op` allows: products with whole groups of rows.
    fn repacks(self, op: Op, ty: Type, ne: [u64; 4]) -> bool {
        use CpuInstructions as C;
        let dimensions = ne.iter().rposition(|&n| n != 1).map_or(1, |last| last + 1);
        if !matches!((op, dimensions), (Op::MulMat, 2) | (Op::MulMatId, 3)) {
            return false;
        }
        let rows = match (self.instructions, ty) {
            (C::Avx2 | C::Avx512 | C::Amx, Type::Q4_0 | Type::Q4K | Type::Iq4Nl | Type::Mxfp4)
            | (C::Avx512 | C::Amx, Type::Q2K)
            | (C::NeonDotprod | C::NeonI8mm, Type::Q4K | Type::Q5K | Type::Q6K) => 8,
            (C::NeonDotprod | C::NeonI8mm, Type::Q4_0 | Type::Iq4Nl | Type::Mxfp4 | Type::Q8_0) => 4,
            (C::NeonDotprod | C::NeonI8mm, Type::Q1_0) if self.one_bit => 4,
            _ => return false,
        };
        ne[1].is_multiple_of(rows)
    }

    /// Bytes in AMX's own buffer (`ggml_backend_amx_get_alloc_size` in `ggml-cpu/amx/mmq.cpp`, 0.1.161).
    fn amx(self, op: Op, ty: Type, ne: [u64; 4]) -> Option<u64> {
        /// Rows of the result that are computed at once (2 `TILE_N`).
        const ROWS: u64 = 32;
        if self.instructions != CpuInstructions::Amx || op != Op::MulMat || !ne[1].is_multiple_of(ROWS) {
            return None;
        }
        // columns that are computed at once, and what each block has besides in that layout
        let (columns, more) = match ty {
            Type::Q4_0 | Type::Q4_1 => (32, 0),
            Type::Q8_0 => (32, 4),
            Type::Q4K | Type::Q5K => (256, 4),
            Type::Q6K => (256, 0),
            Type::Iq4Xs => (256, 2),
            Type::F16 => (16, 0),
            _ => return None,
        };
        let [wide, rows, ..] = ne;
        let blocks = if more > 0 { wide / ty.block() * rows } else { 0 };
        // of quantised weights room for one matrix is reserved, whatever they have
        let matrix = Tensor::new(ty, [wide, rows, 1, 1]).bytes() + more * blocks;
        let bytes = if ty == Type::F16 { Tensor::new(ty, ne).bytes() } else { matrix };
        wide.is_multiple_of(columns).then_some(bytes)
    }
}

/// The shape of a tensor in a file.
fn sides(tensor: &gguf::Tensor) -> [u64; 4] {
    std::array::from_fn(|at| tensor.dims.get(at).copied().unwrap_or(1))
}

/// What of a model's weights is in RAM, and in which buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightsInRam {
    /// Bytes in buffers of the CPU's own layouts.
    pub repacked: u64,
    /// Bytes of the other weights.
    pub others: u64,
    /// Bytes from the first to the last of the others in the mapped files.
    pub span: u64,
}

impl WeightsInRam {
    /// All bytes where the file is mapped: what is not read through the mapping is in it all the same.
    pub const fn mapped(self) -> u64 {
        self.repacked + self.span
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn weight(ty: Type, ne: [u64; 4]) -> Weight {
        let bytes = Tensor::new(ty, ne).bytes();
        Weight { block: Some(0), role: None, index: 0, ty, ne, bytes, file: 0, start: 0, kind: 0 }
    }

    #[rstest]
    #[case("avx2", Type::Q4K, true)]
    #[case("avx2", Type::Q2K, false)]
    #[case("avx512", Type::Q2K, true)]
    #[case("avx512", Type::Q6K, false)]
    #[case("avx512", Type::Q8_0, false)]
    #[case("avx2", Type::Mxfp4, true)]
    #[case("neon-dotprod", Type::Q6K, true)]
    #[case("neon-i8mm", Type::Q8_0, true)]
    #[case("neon-i8mm", Type::Q2K, false)]
    #[case("none", Type::Q4_0, false)]
    #[case("avx512", Type::F16, false)]
    fn types_are_repacked_by_the_instructions(#[case] cpu: &str, #[case] ty: Type, #[case] repacked: bool) {
        let layouts = Layouts { instructions: cpu.parse().unwrap(), one_bit: true };
        let dense = weight(ty, [2048, 1024, 1, 1]);
        assert_eq!(layouts.bytes(Op::MulMat, &dense), repacked.then_some(dense.bytes));
        let experts = weight(ty, [2048, 1024, 8, 1]);
        assert_eq!(layouts.bytes(Op::MulMatId, &experts), repacked.then_some(experts.bytes));
        // rows to look up, a product with several matrices, and rows that are no whole groups
        assert_eq!(layouts.bytes(Op::GetRows, &dense), None);
        assert_eq!(layouts.bytes(Op::MulMat, &experts), None);
        assert_eq!(layouts.bytes(Op::MulMat, &weight(ty, [2048, 1026, 1, 1])), None);
    }

    #[test]
    fn one_bit_weights_have_a_layout_for_arm_since_0_1_159() {
        let bits = weight(Type::Q1_0, [2048, 1024, 1, 1]);
        let arm = |one_bit| Layouts { instructions: CpuInstructions::NeonDotprod, one_bit };
        assert!(arm(true).bytes(Op::MulMat, &bits).is_some() && arm(false).bytes(Op::MulMat, &bits).is_none());
    }

    #[test]
    fn amx_takes_products_before_anything_else_does() {
        let amx = Layouts { instructions: CpuInstructions::Amx, one_bit: true };
        let of = |ty| amx.bytes(Op::MulMat, &weight(ty, [4096, 1024, 1, 1]));
        let plain = |ty| weight(ty, [4096, 1024, 1, 1]).bytes;
        assert_eq!(of(Type::Q8_0), Some(plain(Type::Q8_0) + 4 * 128 * 1024));
        assert_eq!(of(Type::Q4K), Some(plain(Type::Q4K) + 4 * 16 * 1024));
        assert_eq!(of(Type::F16), Some(plain(Type::F16)));
        assert_eq!(of(Type::Q2K), Some(plain(Type::Q2K)), "repacked");
        assert_eq!(of(Type::Q3K), None);
        // its products are no experts', which are repacked
        let experts = weight(Type::Q4K, [4096, 1024, 8, 1]);
        assert_eq!(amx.bytes(Op::MulMatId, &experts), Some(experts.bytes));
    }
}
