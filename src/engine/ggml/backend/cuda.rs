//! CUDA cards, and AMD's with ROCm, which is the same code (`ggml-cuda.cu`, `fattn.cu`, 0.1.161).

use super::{AllocDeps, Backend, SplitGraph, padded};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{Op, Tensor, TensorId, UnaryOp};

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

    fn bytes(&self, tensor: &Tensor) -> u64 {
        padded(tensor, 512)
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

// Flash attention: which heads and types have a kernel, and the f16 copies that it takes of other caches
// (`ggml_cuda_get_best_fattn_kernel` and `ggml_cuda_flash_attn_ext_get_alloc_size` in `fattn.cu`, 0.1.161).

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
    fn flash_attention_supported(self, graph: &Graph, tensor: &Tensor) -> bool {
        let Some(attention) = Attention::of(graph, tensor) else { return true };
        let Attention { k, v, .. } = attention;
        let head = match (k.ne[0], v.ne[0]) {
            (40 | 64 | 72 | 80 | 96 | 112 | 128 | 256, v) => v == k.ne[0],
            (192, 128) => attention.grouped() && attention.group().is_multiple_of(8),
            (320, 256) => attention.grouped() && attention.group().is_multiple_of(32),
            (512 | 576, 512) => attention.grouped(),
            _ => false,
        };
        head && [k.ty, v.ty].into_iter().all(|ty| self.has_kernel_for(ty)) && (self.rules.mixed_caches || k.ty == v.ty)
    }

    fn has_kernel_for(self, ty: Type) -> bool {
        match ty {
            Type::F32 | Type::F16 | Type::Bf16 | Type::Q4_0 | Type::Q8_0 => true,
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
    fn flash_attention_bytes(self, graph: &Graph, tensor: &Tensor) -> u64 {
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

// What is kept and moved for the fused kernels of mixtures of experts (`ggml_backend_cuda_graph_optimize`,
// 0.1.161).

/// Largest number of experts per token whose sum is fused.
const MOST_SUMMED: u64 = 15;

/// Moves a shared expert right behind the routed ones, so that one kernel computes both; their input and the chosen
/// experts are kept until then.
fn group_shared(split: &mut SplitGraph<'_>, kept: &mut AllocDeps) {
    let op = |split: &SplitGraph<'_>, at: usize| split.graph[split.node(at)].op;
    let mut at = 0;
    while at + 5 < split.len() {
        if op(split, at) == Op::MulMatId {
            for shared in at + 3..split.len().saturating_sub(2) {
                let ops = [op(split, shared), op(split, shared + 1)];
                if ops == [Op::MulMatId; 2] {
                    break;
                }
                if ops[0] != Op::MulMat || !is_shared_expert(split, at, shared) {
                    continue;
                }
                split.nodes()[at + 3..shared + 3].rotate_right(3);
                let (graph, last) = (&*split.graph, split.node(at + 5));
                let up = graph.operand(&graph[split.node(at + 2)], 1);
                let operands = [1, 2].map(|operand| up.and_then(|up| graph.operand(&graph[up], operand)));
                operands.into_iter().flatten().for_each(|operand| kept.add(operand, last));
                at += 5;
                break;
            }
        }
        at += 1;
    }
}

/// Whether the nodes from `routed` are the experts' up and gate products with their activation, and those from `shared`
/// the same of a shared expert with the same input (`ggml_cuda_match_shared_expert`).
fn is_shared_expert(split: &SplitGraph<'_>, routed: usize, shared: usize) -> bool {
    let limit = |at: usize| split.graph[split.node(at)].limit.to_bits();
    let nodes = [routed, routed + 1, routed + 2, shared, shared + 1, shared + 2];
    let ops = [Op::MulMatId, Op::MulMatId, Op::Glu, Op::MulMat, Op::MulMat, Op::Glu];
    let graph = &*split.graph;
    if nodes.iter().zip(ops).any(|(at, op)| graph[split.node(*at)].op != op)
        || limit(routed + 2) != limit(shared + 2)
        || !split.fusible(&nodes, &[routed + 2, shared + 2])
    {
        return false;
    }
    let (Some(pair), Some(shared_pair)) = (gated_pair(split, routed), gated_pair(split, shared)) else { return false };
    let of = |id: TensorId, at: usize| graph.operand(&graph[id], at);
    let (Some(weight), Some(input)) = (of(pair.up, 0), of(pair.up, 1)) else { return false };
    let (Some(shared_weight), Some(shared_input)) = (of(shared_pair.up, 0), of(shared_pair.up, 1)) else {
        return false;
    };
    let (w, s, x) = (&graph[weight], &graph[shared_weight], &graph[input]);
    let is_matrix = |tensor: &Tensor| tensor.ne[2] == 1 && tensor.ne[3] == 1;
    w.buffer.place().is_some()
        && w.ty.block() > 1
        && x.op == Op::Reshape
        && of(input, 0) == Some(shared_input)
        && x.ne[1] == 1
        && x.ne[3] == 1
        && is_matrix(&graph[shared_input])
        && [input, shared_input, shared_weight].into_iter().all(|id| graph.is_contiguous(id))
        && (w.ty, w.ne[0], w.ne[1], w.nb[1], w.ne[3]) == (s.ty, s.ne[0], s.ne[1], s.nb[1], 1)
        && is_matrix(s)
        && s.op == Op::None
}

/// Two products of the same input with matrices of one type and shape, joined by an activation.
struct GatedPair {
    up: TensorId,
}

/// The pair of products and the activation from node `at` (`ggml_cuda_should_fuse_mul_mat`).
fn gated_pair(split: &SplitGraph<'_>, at: usize) -> Option<GatedPair> {
    let graph = &*split.graph;
    let glu = &graph[split.node(at + 2)];
    let (gate, up) = (graph.operand(glu, 0)?, graph.operand(glu, 1)?);
    let products = [split.node(at), split.node(at + 1)];
    if products != [gate, up] && products != [up, gate] {
        return None;
    }
    let of = |id: TensorId, at: usize| graph.operand(&graph[id], at);
    let same_layout = graph[of(up, 0)?].same_layout(&graph[of(gate, 0)?]);
    (same_layout && of(up, 1) == of(gate, 1) && of(up, 2) == of(gate, 2)).then_some(GatedPair { up })
}

impl Cuda {
    /// Keeps the operands of fused products, weighted sums and routing.
    fn keep(self, split: &SplitGraph<'_>, kept: &mut AllocDeps) {
        let mut at = 0;
        while at < split.len() {
            if self.rules.keeps_gated_products && self.fuses_products(split, at) {
                let last = split.node(at + 2);
                for id in [split.node(at), split.node(at + 1)] {
                    kept.add(id, last);
                    split.graph.sources(&split.graph[id]).for_each(|operand| kept.add(operand, last));
                }
                at += 3;
                continue;
            }
            if let Some(sum) = WeightedSum::at(split, at) {
                let last = split.node(at + sum.nodes - 1);
                sum.operands.into_iter().flatten().for_each(|operand| kept.add(operand, last));
                at += sum.nodes - 1;
            }
            if self.rules.keeps_routing
                && let Some(nodes) = routing(split, at)
            {
                // the node after the last one of the routing, though it does not belong to it
                let Some(last) = split.node_after(at + nodes) else { return };
                for id in (at..at + nodes).map(|at| split.node(at)) {
                    kept.add(id, last);
                    split.graph.sources(&split.graph[id]).for_each(|operand| kept.add(operand, last));
                }
                at += nodes - 1;
            }
            at += 1;
        }
    }

    /// Whether the products and the activation from node `at` are one kernel for many tokens
    /// (`ggml_cuda_mul_mat_q_fusion_matches`).
    fn fuses_products(self, split: &SplitGraph<'_>, at: usize) -> bool {
        if at + 2 >= split.len() || !matches!(self.units, MatrixUnits::Turing | MatrixUnits::Ada) {
            return false;
        }
        let graph = &*split.graph;
        let (product, activation) = (&graph[split.node(at)], &graph[split.node(at + 2)]);
        if activation.op != Op::Glu || !matches!(product.op, Op::MulMat | Op::MulMatId) {
            return false;
        }
        gated_pair(split, at).is_some_and(|GatedPair { up }| {
            let weight = graph.operand(&graph[up], 0).map(|weight| &graph[weight]);
            weight.is_some_and(|weight| {
                matches!(weight.ty, Type::Q4K | Type::Q5K | Type::Q6K | Type::Q8_0 | Type::Iq4Xs)
                    && weight.ne[1].is_multiple_of(FUSED_ROWS)
            })
        })
    }
}

/// Rows of the tiles that the fused product has kernels for (`ggml_cuda_mmq_needs_fallback`).
const FUSED_ROWS: u64 = 128;

/// The experts' results times their weights, summed over the experts.
struct WeightedSum {
    /// Results, weights, and the factor of the results if there is one.
    operands: [Option<TensorId>; 3],
    /// Number of nodes.
    nodes: usize,
}

impl WeightedSum {
    /// The sum that starts at node `at` (`ggml_cuda_match_moe_weighted_reduction`).
    fn at(split: &SplitGraph<'_>, at: usize) -> Option<Self> {
        let graph = &*split.graph;
        let is_product = |id: TensorId| graph[id].op == Op::Mul && graph[id].ty == Type::F32 && graph.is_contiguous(id);
        let first = split.node(at);
        if !is_product(first) {
            return None;
        }
        let second = (at + 1 < split.len()).then(|| split.node(at + 1)).filter(|second| is_product(*second));
        let scaled = second.and_then(|second| {
            let (full, weights) = results_and_weights(graph, second)?;
            let (results, scale) = results_and_weights(graph, first).filter(|_| full == first)?;
            Some((second, [Some(results), Some(weights), Some(scale)], 2))
        });
        let (weighted, operands, products) = if let Some(scaled) = scaled {
            scaled
        } else {
            let (results, weights) = results_and_weights(graph, first)?;
            (first, [Some(results), Some(weights), None], 1)
        };
        let Tensor { ne: [_, used, ..], .. } = graph[weighted];
        if !(2..=MOST_SUMMED).contains(&used) {
            return None;
        }
        let nodes = 2 * used as usize + products - 1;
        if at + nodes > split.len() || !sums_views(split, weighted, at + products..at + nodes, used as usize) {
            return None;
        }
        let all: Vec<usize> = (at..at + nodes).collect();
        split.fusible(&all, &all[nodes - 1..]).then_some(Self { operands, nodes })
    }
}

/// The operands of a product that has the shape of one and takes one factor per expert and token from the other.
fn results_and_weights(graph: &Graph, product: TensorId) -> Option<(TensorId, TensorId)> {
    let of = &graph[product];
    let operands = (graph.operand(of, 0)?, graph.operand(of, 1)?);
    let plain = |id: TensorId| graph[id].ty == Type::F32 && graph.is_contiguous(id);
    let fits = |(results, weights): &(TensorId, TensorId)| {
        let (results, weights) = (*results, *weights);
        plain(results)
            && plain(weights)
            && graph[results].ne == of.ne
            && graph[weights].ne == [1, of.ne[1], of.ne[2], of.ne[3]]
    };
    [operands, (operands.1, operands.0)].into_iter().find(fits)
}

/// Whether the nodes of `range` are one view per expert of `weighted`, and their sum from the first to the last.
fn sums_views(split: &SplitGraph<'_>, weighted: TensorId, range: std::ops::Range<usize>, used: usize) -> bool {
    let graph = &*split.graph;
    let of = &graph[weighted];
    let tokens = of.ne[2] * of.ne[3];
    let (mut views, mut sum) = (Vec::with_capacity(used), None);
    let mut adds = 0;
    for id in range.map(|at| split.node(at)) {
        let node = &graph[id];
        match node.op {
            Op::View => {
                if views.len() == used || !reads(graph, id, 0, weighted) || node.ne != [of.ne[0], tokens, 1, 1] {
                    return false;
                }
                views.push(id);
            }
            Op::Add => {
                let (Some(&first), Some(&next)) = (views.first(), views.get(adds + 1)) else { return false };
                if !reads(graph, id, 0, sum.unwrap_or(first)) || !reads(graph, id, 1, next) || node.ty != Type::F32 {
                    return false;
                }
                sum = Some(id);
                adds += 1;
            }
            _ => return false,
        }
    }
    views.len() == used && adds + 1 == used
}

/// The number of nodes of the routing that starts at node `at`, if one kernel computes it
/// (`ggml_cuda_topk_moe_fusion`, `ggml_cuda_should_use_topk_moe`).
fn routing(split: &SplitGraph<'_>, at: usize) -> Option<usize> {
    let graph = &*split.graph;
    let first = split.node(at);
    let logits = graph.operand(&graph[first], 0)?;
    // the next node, if it is this operation on `operand`
    let follows = |at: usize, op: Op, operand: TensorId| {
        (at < split.len()).then(|| split.node(at)).filter(|id| graph[*id].op == op && reads(graph, *id, 0, operand))
    };
    let (probabilities, mut next) = match (graph[first].op, graph[first].unary) {
        (Op::SoftMax, _) if graph.sources(&graph[first]).count() == 1 => (first, at + 1),
        (Op::Unary, Some(UnaryOp::Sigmoid)) => (first, at + 1),
        (Op::Unary, Some(UnaryOp::Softplus)) => (follows(at + 1, Op::Sqrt, first)?, at + 2),
        _ => return None,
    };
    let reshaped = follows(next, Op::Reshape, probabilities)?;
    next += 1;
    let biased = follows(next, Op::Add, probabilities);
    next += usize::from(biased.is_some());
    let sorted = follows(next, Op::Argsort, biased.unwrap_or(probabilities))?;
    let chosen = follows(next + 1, Op::View, sorted)?;
    let mut weights = follows(next + 2, Op::GetRows, reshaped).filter(|id| reads(graph, *id, 1, chosen))?;
    let ids = next + 1;
    next += 3;
    if let Some((end, normalised)) = normalisation(graph, &follows, next, weights) {
        (next, weights) = (end, normalised);
    }
    if let Some(scaled) = follows(next, Op::Scale, weights) {
        (next, weights) = (next + 1, scaled);
    }
    let experts = graph[sorted].ne[0];
    let instantiated = (experts.is_power_of_two() && experts <= 512) || experts == 288 || experts == 576;
    let all: Vec<usize> = (at..next).collect();
    let contiguous = graph.is_contiguous(weights) && graph.is_contiguous(logits);
    (instantiated && contiguous && split.fusible(&all, &[ids, next - 1])).then_some(next - at)
}

/// The end of a normalisation of `weights` that starts at node `next`, and its result.
fn normalisation(
    graph: &Graph,
    follows: &impl Fn(usize, Op, TensorId) -> Option<TensorId>,
    next: usize,
    weights: TensorId,
) -> Option<(usize, TensorId)> {
    let flat = follows(next, Op::Reshape, weights)?;
    let sum = follows(next + 1, Op::SumRows, flat)?;
    let clamped = follows(next + 2, Op::Clamp, sum)?;
    let divided = follows(next + 3, Op::Div, flat).filter(|id| reads(graph, *id, 1, clamped))?;
    Some((next + 5, follows(next + 4, Op::Reshape, divided)?))
}
