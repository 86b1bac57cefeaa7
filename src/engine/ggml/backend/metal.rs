//! Apple's GPUs (`ggml-metal*.cpp`, `ggml-metal-device.m`, 0.1.161).

mod flash_attn;
mod groups;
mod order;

use super::{AllocDeps, Backend, SplitGraph, batch};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{Op, Tensor};

/// An Apple GPU, from the M1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metal {
    /// The differences between releases.
    pub rules: MetalRules,
}

/// The backend's differences between releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetalRules {
    /// Attention reserves f16 copies of K and V, products of experts room for scales, and what fused operations read
    /// is kept until their end.
    pub reserves_more: bool,
    /// A product and the sum after it are one group (`ggml-metal-fusion.cpp`, 0.1.161).
    pub fuses_products: bool,
}

impl MetalRules {
    /// Release 2026-11 (0.1.161).
    pub const NOVEMBER_2026: Self = Self { reserves_more: true, fuses_products: true };
    /// Release 2026-09 (0.1.159).
    pub const SEPTEMBER_2026: Self = Self { reserves_more: true, fuses_products: false };
    /// Releases 2026-08-05 (0.1.154) and 2026-08 (0.1.150).
    pub const AUGUST_2026: Self = Self { reserves_more: false, fuses_products: false };
}

impl Default for Metal {
    fn default() -> Self {
        Self { rules: MetalRules::NOVEMBER_2026 }
    }
}

/// Bytes of the scales that a product of experts reserves: two factors and one per thread group (`N_MM_NPART_AMAX`).
const EXPERT_SCALES: u64 = 8 + 256 * 4;

impl Backend for Metal {
    fn alignment(&self) -> u64 {
        32
    }

    fn has_host_buffers(&self) -> bool {
        false
    }

    fn offloads(&self, tensor: &Tensor) -> bool {
        matches!(tensor.op, Op::MulMat | Op::MulMatId) && batch(tensor) >= 32
    }

    fn allocation(&self, graph: &Graph, tensor: &Tensor) -> u64 {
        let bytes = self.bytes(tensor);
        let operand = |at: usize| graph.operand(tensor, at).map(|id| &graph[id]);
        match tensor.op {
            Op::Argsort | Op::CumSum => 2 * bytes,
            Op::MulMatId => {
                let experts = operand(0).map_or(0, |weights| weights.ne[2]);
                let tokens = operand(2).map_or(0, |ids| ids.ne[1]);
                bytes + 4 * experts * (1 + tokens) + if self.rules.reserves_more { EXPERT_SCALES } else { 0 }
            }
            Op::FlashAttn => bytes + flash_attn::extra(graph, tensor, self.rules),
            _ => bytes,
        }
    }

    /// The operations of models' graphs that may be refused (`ggml_metal_device_supports_op`); all others are supported.
    fn supports(&self, graph: &Graph, tensor: &Tensor) -> bool {
        let operand = |at: usize| graph.operand(tensor, at).map(|id| &graph[id]);
        match tensor.op {
            Op::FlashAttn => flash_attn::supported(graph, tensor, self.rules),
            Op::MulMat | Op::MulMatId => {
                operand(0).is_none_or(|weights| !matches!(weights.ty, Type::Nvfp4 | Type::Tq1_0))
            }
            _ => true,
        }
    }

    fn graph_optimize(&self, split: &mut SplitGraph<'_>, kept: &mut AllocDeps) {
        if self.rules.reserves_more {
            groups::keep(split, kept, self.rules);
        }
        order::reorder(split, self.rules);
    }
}
