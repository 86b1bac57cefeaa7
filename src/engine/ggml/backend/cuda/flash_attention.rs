//! Flash attention: which heads and types have a kernel, and the f16 copies that it takes of other caches
//! (`ggml_cuda_get_best_fattn_kernel` and `ggml_cuda_flash_attn_ext_get_alloc_size` in `fattn.cu`, 0.1.161).

use super::{Cuda, MatrixUnits, mfma_from};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::Tensor;

/// Cells of a cache are padded to a multiple of this, and kernels for grouped queries require it.
const CELLS: u64 = 256;

/// Operands of one attention.
struct Attention<'g> {
    q: &'g Tensor,
    k: &'g Tensor,
    v: &'g Tensor,
    mask: Option<&'g Tensor>,
    /// Scores have a bias by distance (`ALiBi`).
    biased: bool,
}

impl<'g> Attention<'g> {
    fn of(graph: &'g Graph, tensor: &Tensor) -> Option<Self> {
        let operand = |at: usize| graph.operand(tensor, at).map(|id| &graph[id]);
        Some(Self { q: operand(0)?, k: operand(1)?, v: operand(2)?, mask: operand(3), biased: tensor.limit > 0.0 })
    }

    /// Query heads per KV head.
    const fn group(&self) -> u64 {
        self.q.ne[2] / if self.k.ne[2] == 0 { 1 } else { self.k.ne[2] }
    }

    /// Whether kernels compute the queries of a KV head together.
    fn grouped(&self) -> bool {
        let aligned = |tensor: &Tensor| tensor.ty.block() > 1 || tensor.nb[1..].iter().all(|nb| nb.is_multiple_of(16));
        !self.biased
            && self.group() >= 2
            && self.mask.is_some_and(aligned)
            && self.k.ne[1].is_multiple_of(CELLS)
            && [self.q, self.k, self.v].into_iter().all(aligned)
    }

    fn quantised(&self) -> bool {
        self.k.ty.block() > 1 || self.v.ty.block() > 1
    }
}

impl Cuda {
    /// Whether there is a kernel.
    pub(super) fn flash_attention_supported(self, graph: &Graph, tensor: &Tensor) -> bool {
        let Some(attention) = Attention::of(graph, tensor) else { return true };
        let Attention { k, v, .. } = attention;
        let head = match (k.ne[0], v.ne[0]) {
            (40 | 64 | 72 | 80 | 96 | 112 | 128 | 256, v) => v == k.ne[0],
            (192, 128) => attention.grouped() && attention.group().is_multiple_of(8),
            (320, 256) => attention.grouped() && attention.group().is_multiple_of(32),
            (512 | 576, 512) => attention.grouped(),
            _ => false,
        };
        let of_fork = [k.ty, v.ty].iter().any(|ty| matches!(ty, Type::Fork(_)));
        let together = self.rules.mixed_caches || k.ty == v.ty || of_fork;
        head && [k.ty, v.ty].into_iter().all(|ty| self.has_kernel_for(ty)) && together
    }

    fn has_kernel_for(self, ty: Type) -> bool {
        match ty {
            // a fork has kernels for its own
            Type::F32 | Type::F16 | Type::Bf16 | Type::Q4_0 | Type::Q8_0 | Type::Fork(_) => true,
            Type::Q4_1 | Type::Q5_0 | Type::Q5_1 => self.rules.mixed_caches,
            _ => false,
        }
    }

    /// Whether the kernel for few tokens is chosen, which reads all types but f32 as they are.
    fn uses_vector_kernel(self, attention: &Attention<'_>) -> bool {
        let Attention { q, k, .. } = attention;
        let [head, tokens, _, streams] = q.ne;
        if head > 256 || !head.is_multiple_of(64) || head == 192 || !k.ne[1].is_multiple_of(CELLS) {
            return false;
        }
        let (group, quantised) = (attention.group(), attention.quantised());
        let alone = tokens == 1 && !attention.grouped();
        let together = if attention.biased { tokens } else { tokens * (1 << group.trailing_zeros().min(3)) };
        match self.units {
            MatrixUnits::Mfma if together > mfma_from(head) => false,
            MatrixUnits::Wmma if attention.grouped() && self.is_for_wmma(head, together) => false,
            MatrixUnits::Ada | MatrixUnits::None | MatrixUnits::Mfma | MatrixUnits::Wmma if quantised => tokens <= 2,
            MatrixUnits::Ada => {
                let long = group > 4 && (k.ne[1] >= 8192 || (self.rules.mixed_caches && head >= 256));
                alone || (tokens == 1 && streams == 1 && !long)
            }
            MatrixUnits::Turing if quantised => tokens == 1,
            MatrixUnits::Turing | MatrixUnits::None | MatrixUnits::Mfma | MatrixUnits::Wmma => alone,
            MatrixUnits::Volta => together <= 2,
        }
    }

    /// Whether the matrix units of AMD's graphics cards compute so many queries of a KV head.
    const fn is_for_wmma(self, head: u64, queries: u64) -> bool {
        if head <= 128 { queries > 8 } else { self.rules.wide_wmma && queries > 16 }
    }

    /// The result, and after it copies of K and V in f16 for kernels that read nothing else; V needs none of its own if
    /// it is a part of K.
    pub(super) fn flash_attention_bytes(self, graph: &Graph, tensor: &Tensor) -> u64 {
        let result = tensor.bytes();
        let reserves = self.rules.reserves_copies && self.flash_attention_supported(graph, tensor);
        let Some(attention) = Attention::of(graph, tensor).filter(|_| reserves) else { return result };
        let Attention { k, v, .. } = attention;
        let vector = self.uses_vector_kernel(&attention);
        let copied = |tensor: &Tensor| if vector { tensor.ty == Type::F32 } else { tensor.ty != Type::F16 };
        let part_of_k = v.view_of.is_some() && v.view_of == k.view_of;
        let mut end = result;
        if copied(k) {
            end = end.next_multiple_of(128) + 2 * k.elements();
        }
        if copied(v) && !part_of_k {
            end = end.next_multiple_of(128) + 2 * v.elements();
        }
        end
    }
}
