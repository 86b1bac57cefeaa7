//! CUDA cards, and AMD's with ROCm, which is the same code (`ggml-cuda.cu`, `fattn.cu`, 0.1.161).

mod flash_attention;
mod fusion;

use super::{AllocDeps, Backend, SplitGraph, to_multiple};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{Op, Tensor, TensorId};
use fusion::group_shared;

/// A CUDA or ROCm card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cuda {
    /// What flash attention's kernels are chosen by.
    pub units: MatrixUnits,
    /// The differences between releases.
    pub rules: CudaRules,
    /// Built with events, required for pipeline parallelism; not so with `GGML_CUDA_NO_PEER_COPY`.
    pub events: bool,
}

/// The matrix units of a card, as far as the kernel for few tokens depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixUnits {
    /// Before Volta, and AMD's others.
    None,
    /// Compute capability 7.0.
    Volta,
    /// From 7.5 up to Ampere.
    Turing,
    /// From 8.9: Ada and newer.
    Ada,
    /// AMD's of data centres: CDNA.
    Mfma,
    /// AMD's of graphics cards: from RDNA 3.
    Wmma,
}

impl MatrixUnits {
    /// Those of a compute capability; the most common if it is unknown.
    pub const fn of(compute: Option<(u32, u32)>) -> Self {
        match compute {
            Some((7, 0..=2)) => Self::Volta,
            Some((major, minor)) if major > 8 || (major == 8 && minor >= 9) => Self::Ada,
            None | Some((7 | 8, _)) => Self::Turing,
            Some(_) => Self::None,
        }
    }

    /// Those of one of AMD's architectures, by ROCm's name of it; the most common if it is unknown (`amd_mfma_available`
    /// and `amd_wmma_available` in `common.cuh`, 0.1.161).
    pub fn of_gfx(name: Option<&str>) -> Self {
        let number = |name: &str| u32::from_str_radix(name.strip_prefix("gfx")?, 16).ok();
        match name.and_then(number) {
            // integrated GPUs
            Some(0x909 | 0x90c) => Self::None,
            Some(0x908..0x1010) => Self::Mfma,
            None | Some(0x1100..) => Self::Wmma,
            Some(_) => Self::None,
        }
    }
}

/// Queries of a KV head that AMD's matrix units of data centres do not compute yet.
const fn mfma_from(head: u64) -> u64 {
    match head {
        0..=64 => 8,
        65..=128 => 16,
        _ => 64,
    }
}

/// The backend's differences between releases.
#[allow(clippy::struct_excessive_bools, reason = "each is a difference of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaRules {
    /// Flash attention has kernels for K and V of different types, and for `q4_1`, `q5_0` and `q5_1`; otherwise only in
    /// builds with `GGML_CUDA_FA_ALL_QUANTS`.
    pub mixed_caches: bool,
    /// What a fused weighted sum of experts reads is kept until its end (`ggml_backend_cuda_graph_optimize`, 0.1.159).
    pub keeps_expert_sums: bool,
    /// Shared experts are moved behind the routed ones, and what fused routing reads is kept (likewise, 0.1.161).
    pub keeps_routing: bool,
    /// What the fused products of a gate and a feed-forward matrix read is kept until their activation
    /// (`ggml_cuda_mul_mat_q_fusion_matches`, `llama-cpp-sys-4` 0.11.0, read).
    pub keeps_gated_products: bool,
    /// Rows of k-quants and i-quants can be looked up.
    pub looks_up_k_quants: bool,
    /// Mamba 2 with a state of 96 has a kernel.
    pub state_of_96: bool,
    /// The `f16` copies of a cache that flash attention takes stand behind its result in the compute buffer; otherwise the
    /// backend takes them besides at the first prompt (ggml-org/llama.cpp 23907, of the first days of June 2026).
    pub reserves_copies: bool,
    /// Heads of up to 256 are computed by the matrix units of AMD's graphics cards, otherwise of up to 128.
    pub wide_wmma: bool,
}

impl CudaRules {
    /// `llama-cpp-sys-4` 0.11.0, by its source.
    pub const NEWEST: Self = Self { keeps_gated_products: true, ..Self::NOVEMBER_2026 };
    /// Release 2026-11 (0.1.161).
    pub const NOVEMBER_2026: Self = Self { keeps_routing: true, state_of_96: true, ..Self::SEPTEMBER_2026 };
    /// Release 2026-09 (0.1.159).
    pub const SEPTEMBER_2026: Self = Self {
        mixed_caches: true,
        keeps_expert_sums: true,
        keeps_routing: false,
        keeps_gated_products: false,
        looks_up_k_quants: true,
        state_of_96: false,
        reserves_copies: true,
        wide_wmma: true,
    };
    /// Release 2026-08-05 (0.1.154).
    pub const EARLY_AUGUST_2026: Self =
        Self { mixed_caches: false, keeps_expert_sums: false, wide_wmma: false, ..Self::SEPTEMBER_2026 };
    /// Release 2026-08 (0.1.150).
    pub const AUGUST_2026: Self = Self { looks_up_k_quants: false, ..Self::EARLY_AUGUST_2026 };
    /// Release 2026-05 and older ones.
    pub const MAY_2026: Self = Self { reserves_copies: false, ..Self::AUGUST_2026 };
}

impl Default for Cuda {
    fn default() -> Self {
        Self { units: MatrixUnits::Turing, rules: CudaRules::NOVEMBER_2026, events: true }
    }
}

impl Backend for Cuda {
    fn alignment(&self) -> u64 {
        128
    }

    fn pipelines(&self) -> bool {
        self.events
    }

    fn padding(&self, ty: Type, row: u64) -> u64 {
        to_multiple(ty, row, 512)
    }

    fn allocation(&self, graph: &Graph, tensor: &Tensor) -> u64 {
        match tensor.op {
            Op::FlashAttn => self.flash_attention_bytes(graph, tensor),
            _ => self.bytes(tensor),
        }
    }

    /// The operations of models' graphs that may be refused (`ggml_backend_cuda_device_supports_op`); all others are
    /// supported. (An indexer is refused unless it has 4, 32 or 64 heads of 128; all published ones do, and the reference
    /// figures count every one as supported.)
    fn supports(&self, graph: &Graph, tensor: &Tensor) -> bool {
        let operand = |at: usize| graph.operand(tensor, at).map(|id| &graph[id]);
        match tensor.op {
            Op::FlashAttn => self.flash_attention_supported(graph, tensor),
            Op::MulMat | Op::MulMatId => {
                let f16 = |at: usize| operand(at).is_some_and(|operand| operand.ty == Type::F16);
                (!f16(1) || f16(0)) && !(tensor.op == Op::MulMatId && tensor.f32_operand)
            }
            Op::Mul => graph.sources(tensor).all(|source| graph[source].ty.block() == 1),
            Op::GetRows => operand(0).is_none_or(|rows| self.looks_up(rows)),
            Op::SsmScan => operand(0).zip(operand(3)).is_none_or(|(state, a)| {
                let [d_state, d_head, heads, _] = state.ne;
                if a.ne[0] == 1 {
                    let sizes = d_state == 128 || d_state == 256 || (d_state == 96 && self.rules.state_of_96);
                    sizes && d_head.is_multiple_of(16)
                } else {
                    d_state == 16 && d_head == 1 && heads.is_multiple_of(128)
                }
            }),
            Op::SsmConv => operand(0).is_none_or(|columns| columns.ne[1].is_multiple_of(128)),
            Op::Im2Col => graph.sources(tensor).all(|source| graph.is_contiguous(source)),
            Op::Unary | Op::Roll => graph.sources(tensor).all(|source| graph.is_contiguous(source)),
            Op::Concat => graph.sources(tensor).all(|source| graph[source].ty == tensor.ty),
            Op::Repeat => operand(0).is_none_or(|from| matches!(from.ty, Type::F32 | Type::F16)),
            _ => true,
        }
    }

    fn graph_optimize(&self, split: &mut SplitGraph<'_>, kept: &mut AllocDeps) {
        if self.rules.keeps_routing {
            group_shared(split, kept);
        }
        if self.rules.keeps_expert_sums {
            self.keep(split, kept);
        }
    }
}

impl Cuda {
    /// Whether rows of `tensor` can be looked up.
    fn looks_up(self, tensor: &Tensor) -> bool {
        match tensor.ty {
            Type::F32
            | Type::F16
            | Type::Bf16
            | Type::I32
            | Type::Q4_0
            | Type::Q4_1
            | Type::Q5_0
            | Type::Q5_1
            | Type::Q8_0 => true,
            Type::Iq4Nl | Type::Mxfp4 => self.rules.looks_up_k_quants && tensor.ne[0].is_multiple_of(256),
            Type::I8 | Type::I16 | Type::I64 | Type::F64 | Type::Q8K | Type::Tq1_0 | Type::Tq2_0 | Type::Nvfp4 => false,
            _ => self.rules.looks_up_k_quants,
        }
    }
}

/// Whether `id` is operand `at` of `tensor`.
fn reads(graph: &Graph, tensor: TensorId, at: usize, id: TensorId) -> bool {
    graph.operand(&graph[tensor], at) == Some(id)
}
