//! What is kept and moved for the fused kernels of mixtures of experts (`ggml_backend_cuda_graph_optimize`,
//! 0.1.161).

use super::super::{AllocDeps, SplitGraph};
use super::{Cuda, MatrixUnits, reads};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{Op, Tensor, TensorId, UnaryOp};

/// Largest number of experts per token whose sum is fused.
const MOST_SUMMED: u64 = 15;

/// Moves a shared expert right behind the routed ones, so that one kernel computes both; their input and the chosen
/// experts are kept until then.
pub(super) fn group_shared(split: &mut SplitGraph<'_>, kept: &mut AllocDeps) {
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
    pub(super) fn keep(self, split: &SplitGraph<'_>, kept: &mut AllocDeps) {
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
