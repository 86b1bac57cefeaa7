//! Vulkan (`ggml-vulkan.cpp`, 0.1.161). All devices reorder and refuse alike; what differs is four limits.

mod order;
mod patterns;

use super::{AllocDeps, Backend, Cpu, SplitGraph};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::ops::is_contiguous;
use crate::engine::ggml::tensor::{Op, Tensor};

/// Memory is allocated in blocks of this size, on the device and on the host.
const BLOCK: u64 = 1 << 30;

/// A device, with the limits that it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vulkan {
    /// `minStorageBufferOffsetAlignment`: of every tensor in a device buffer.
    pub alignment: u64,
    /// `minMemoryMapAlignment`: of every tensor in a host buffer.
    pub host_alignment: u64,
    /// `maxStorageBufferRange`: the largest tensor that an operation may read or write.
    pub max_tensor: u64,
    /// `maxBufferSize`: likewise.
    pub max_buffer: u64,
    /// The differences between releases.
    pub rules: VulkanRules,
}

/// The backend's differences between releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VulkanRules {
    /// Norms are fused with what follows, attention's writes with what precedes; nodes that touch the same memory keep
    /// their order, and inputs of fused routing are kept until its end.
    pub fuses_more: bool,
    /// Flash attention reads `iq4_nl`.
    pub attends_to_iq4_nl: bool,
    /// Compared with what the backend's own code decides; otherwise its source was read.
    pub compared: bool,
}

impl VulkanRules {
    /// Release 2026-11 (0.1.161).
    pub const NOVEMBER_2026: Self = Self { fuses_more: true, attends_to_iq4_nl: true, compared: true };
    /// Release 2026-09 (0.1.159).
    pub const SEPTEMBER_2026: Self = Self { compared: false, ..Self::NOVEMBER_2026 };
    /// Release 2026-08-05 (0.1.154).
    pub const EARLY_AUGUST_2026: Self = Self { attends_to_iq4_nl: true, compared: false, ..Self::AUGUST_2026 };
    /// Release 2026-08 (0.1.150).
    pub const AUGUST_2026: Self = Self { fuses_more: false, attends_to_iq4_nl: false, compared: true };
}

impl Default for Vulkan {
    /// NVIDIA's driver.
    fn default() -> Self {
        Self {
            alignment: 16,
            host_alignment: 64,
            max_tensor: (4 << 30) - 1,
            max_buffer: 1 << 40,
            rules: VulkanRules::NOVEMBER_2026,
        }
    }
}

impl Backend for Vulkan {
    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn host(&self) -> Option<Cpu> {
        Some(Cpu { alignment: self.host_alignment, max_buffer: BLOCK })
    }

    fn max_buffer(&self) -> u64 {
        BLOCK
    }

    fn supports(&self, graph: &Graph, tensor: &Tensor) -> bool {
        let most = self.max_tensor.min(self.max_buffer);
        tensor.bytes() <= most
            && graph.sources(tensor).all(|source| graph[source].bytes() <= most)
            && supports_op(graph, tensor, self.rules)
    }

    fn graph_optimize(&self, split: &mut SplitGraph<'_>, kept: &mut AllocDeps) {
        order::reorder(split, kept, self.rules);
    }
}

/// The operations of models' graphs that may be refused whatever their size (`ggml_backend_vk_device_supports_op`); all
/// others are supported.
fn supports_op(graph: &Graph, tensor: &Tensor, rules: VulkanRules) -> bool {
    let operand = |at: usize| graph.operand(tensor, at).map(|id| &graph[id]);
    match tensor.op {
        Op::MulMat | Op::MulMatId => {
            let (Some(a), Some(b)) = (operand(0), operand(1)) else { return true };
            let batches = if tensor.op == Op::MulMat { operand(0) } else { operand(2) };
            batches.is_none_or(|batches| batches.ne[3] == b.ne[3])
                && (is_plain(a.ty) || a.ty == Type::Bf16 || is_dense(a))
                && (is_plain(b.ty) || is_dense(b))
                && !(a.ty == Type::Bf16 && b.ty == Type::F16)
                && !(tensor.op == Op::MulMatId && tensor.f32_operand)
        }
        Op::FlashAttn => operand(1).zip(operand(2)).is_none_or(|(k, v)| {
            let heads = k.ne[0].is_multiple_of(8) && v.ne[0].is_multiple_of(8);
            let readable = |ty: Type| is_cached(ty) && (ty != Type::Iq4Nl || rules.attends_to_iq4_nl);
            heads && readable(k.ty) && readable(v.ty) && (k.ty == Type::Bf16) == (v.ty == Type::Bf16)
        }),
        Op::SetRows => is_cached(tensor.ty),
        Op::Cont | Op::Cpy | Op::Dup => operand(0).zip(graph.operand(tensor, 0)).is_none_or(|(from, id)| {
            let to = operand(1).map_or(from.ty, |to| to.ty);
            let converts = |a: Type, b: Type| a == Type::F32 && (is_cached(b) || b == Type::I32);
            let dense = || graph.is_contiguous(id) && is_contiguous(tensor);
            converts(from.ty, to)
                || converts(to, from.ty)
                || (from.ty == to && from.ty.block_bytes().is_multiple_of(2) && (from.ty.block() == 1 || dense()))
        }),
        Op::SsmScan => operand(0).zip(operand(3)).is_none_or(|(state, a)| {
            let mamba_2 = a.nb[1] == 4;
            mamba_2 && matches!(state.ne[0], 128 | 256) && state.ne[1].is_multiple_of(16)
        }),
        _ => true,
    }
}

/// Types that a product reads in any layout.
const fn is_plain(ty: Type) -> bool {
    matches!(ty, Type::F32 | Type::F16)
}

/// Types that a cache may have.
const fn is_cached(ty: Type) -> bool {
    matches!(
        ty,
        Type::F32
            | Type::F16
            | Type::Bf16
            | Type::Q8_0
            | Type::Q5_1
            | Type::Q5_0
            | Type::Q4_1
            | Type::Q4_0
            | Type::Iq4Nl
    )
}

/// Whether rows follow one another, and matrices do (`ggml_vk_dim01_contiguous`).
const fn is_dense(tensor: &Tensor) -> bool {
    let Tensor { ty, ne, nb, .. } = *tensor;
    nb[0] == ty.block_bytes() && nb[1] == nb[0] * ne[0] / ty.block() && (ne[3] == 1 || nb[3] == nb[2] * ne[2])
}
