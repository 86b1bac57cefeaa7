//! Which weights a device cannot use: they go to RAM, whatever the device of their layer
//! (`weight_buft_supported` in `llama-model-loader.cpp`, 0.1.161).

use super::architectures::Trait;
use super::hparams::Hparams;
use super::repack::Layouts;
use super::weights::{LlmTensor, TensorSuffix, Weight, Weights};
use super::{Device, LoadedModel};
use crate::engine::ggml::tensor::{BackendId, Buffer, Op};
use crate::engine::ggml::{Backend, Graph, Type};
use crate::machine::CpuInstructions;

/// Tokens of the operation that a weight is tried with.
const TOKENS: u64 = 512;
/// Sequences of a state-space operation that a weight is tried with.
const SEQUENCES: u64 = 3;

/// An operation, and type and shape of a weight.
type TriedWeight = (Op, Type, [u64; 4]);

/// The weights that GPUs refuse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeightHomes {
    /// Per GPU, indices into [`Weights::all`], ascending.
    refused: Vec<Vec<usize>>,
    /// Per GPU, whether it refuses the token embeddings as output matrix.
    refuses_tied_output: Vec<bool>,
    /// Bytes of the weights that the CPU repacks where they are in RAM, by index into [`Weights::all`]; empty if none.
    repacked: Vec<Option<u64>>,
    /// The same of the token embeddings as output matrix.
    repacked_tied_output: Option<u64>,
}

impl WeightHomes {
    /// The weights of `model` that `devices` refuse, and those for which the CPU has `layouts`.
    pub fn new(model: &LoadedModel, devices: &[Device], layouts: Layouts) -> Self {
        let mut homes = Self::default();
        let tied = model.weights.find_global(LlmTensor::TokenEmbd, TensorSuffix::Weight);
        if layouts.instructions != CpuInstructions::None {
            let repacked = |weight: &Weight| layouts.bytes(operation(weight, model)?, weight);
            homes.repacked = model.weights.all.iter().map(repacked).collect();
            homes.repacked_tied_output = tied.and_then(|at| layouts.bytes(Op::MulMat, &model.weights.all[at]));
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
            let refused = |(at, weight): (usize, &Weight)| refuses(operation(weight, model)?, weight).then_some(at);
            homes.refused.push(model.weights.all.iter().enumerate().filter_map(refused).collect());
            let output = tied.map(|index| &model.weights.all[index]);
            homes.refuses_tied_output.push(output.is_some_and(|output| refuses(Op::MulMat, output)));
        }
        homes
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
    pub fn embeddings_twice_in_ram(&self, homes: &WeightHomes) -> bool {
        let embeddings = self.find_global(LlmTensor::TokenEmbd, TensorSuffix::Weight);
        embeddings.is_some_and(|index| homes.refuses(0, index) != homes.refuses_tied_output(0))
    }
}
