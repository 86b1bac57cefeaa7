//! Operations that one kernel computes; they are moved together, and what they read from outside is kept until the last
//! (`ggml-metal-fusion.cpp`, 0.1.161).

use super::MetalRules;
use crate::engine::ggml::Type;
use crate::engine::ggml::backend::{AllocDeps, SplitGraph};
use crate::engine::ggml::tensor::{Buffer, Op, Tensor, TensorId, UnaryOp};

/// Operations of one group at most.
const MOST: usize = 16;
/// Experts that routing is fused for, at most.
const MOST_EXPERTS: u64 = 1024;

/// What the operations of a pattern must fulfil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// A norm with weights and bias.
    Norm,
    /// A norm and a constant.
    NormScale,
    /// Sums of one layout.
    Sums,
    /// The new state of a delta rule, written into the cache.
    DeltaRule,
    /// Routing of experts.
    Routing,
    /// The weighted sum of experts.
    Experts,
    /// A convolution with `SiLU`.
    Convolution,
    /// A product and a sum with something that is no weight.
    Product,
}

/// Consecutive operations.
struct Pattern {
    /// With views.
    ops: &'static [Op],
    check: Check,
}

macro_rules! patterns {
    ($($check:ident: $($op:ident)+;)*) => {
        &[$(Pattern { ops: &[$(Op::$op),+], check: Check::$check },)*]
    };
}

/// All of them, in the order in which they are tried; of those that match the longest counts.
const PATTERNS: &[Pattern] = patterns! {
    Norm: Norm Mul;
    Norm: Norm Mul Add;
    NormScale: Norm Scale;
    Norm: RmsNorm Mul;
    Norm: RmsNorm Mul Add;
    NormScale: RmsNorm Scale;
    Sums: Add Add;
    Sums: Add Add Add;
    Sums: Add Add Add Add;
    Sums: Add Add Add Add Add;
    Sums: Add Add Add Add Add Add;
    Sums: Add Add Add Add Add Add Add;
    DeltaRule: GatedDeltaNet Cpy;
    Routing: SoftMax Reshape Argsort View GetRows;
    Routing: SoftMax Reshape Argsort View GetRows Scale;
    Routing: SoftMax Reshape Argsort View GetRows Reshape SumRows Clamp Div Reshape;
    Routing: SoftMax Reshape Argsort View GetRows Reshape SumRows Clamp Div Reshape Scale;
    Experts: Mul View View Add;
    Experts: Mul View View View Add Add;
    Experts: Mul View View View View Add Add Add;
    Experts: Mul View View View View View Add Add Add Add;
    Experts: Mul View View View View View View Add Add Add Add Add;
    Experts: Mul View View View View View View View Add Add Add Add Add Add;
    Experts: Mul View View View View View View View View Add Add Add Add Add Add Add;
    Convolution: SsmConv Unary;
    Product: MulMat Add;
};

/// The patterns that a release knows.
fn known(rules: MetalRules) -> impl Iterator<Item = &'static Pattern> {
    PATTERNS.iter().filter(move |pattern| rules.fuses_products || pattern.check != Check::Product)
}

impl Pattern {
    /// Its operations without views.
    fn computed(&self) -> impl Iterator<Item = Op> + '_ {
        self.ops.iter().copied().filter(|op| !op.is_view())
    }
}

/// Keeps what consecutive operations of a pattern read from outside until the last of them; by operations alone.
pub(super) fn keep(split: &SplitGraph<'_>, kept: &mut AllocDeps, rules: MetalRules) {
    let matches = |at: usize, pattern: &Pattern| {
        at + pattern.ops.len() <= split.len()
            && pattern.ops.iter().enumerate().all(|(next, op)| split.graph[split.node(at + next)].op == *op)
    };
    let mut at = 0;
    while at < split.len() {
        let found = known(rules).filter(|pattern| matches(at, pattern)).map(|pattern| pattern.ops.len()).max();
        let len = found.unwrap_or(1);
        if found.is_some() {
            let last = split.node(at + len - 1);
            for own in at..at + len {
                for source in split.graph.sources(&split.graph[split.node(own)]) {
                    if !(at..own).any(|earlier| split.node(earlier) == source) {
                        kept.add(source, last);
                    }
                }
            }
        }
        at += len;
    }
}

/// Number of nodes of the group that begins at `at`: patterns that follow one another, with the views between them.
pub(super) fn len(split: &SplitGraph<'_>, at: usize, rules: MetalRules) -> usize {
    let is_empty = |at: usize| {
        let op = split.graph[split.node(at)].op;
        op.is_view() || op == Op::None
    };
    if is_empty(at) || !known(rules).any(|pattern| pattern.ops[0] == split.graph[split.node(at)].op) {
        return 1;
    }
    let mut computed = [0; MOST];
    let mut count = 0;
    for next in (at..split.len()).filter(|next| !is_empty(*next)).take(MOST) {
        computed[count] = next;
        count += 1;
    }
    let computed = &computed[..count];
    let mut taken = 0;
    while let Some(len) = longest(split, &computed[taken..], rules).filter(|len| taken + len <= MOST) {
        taken += len;
    }
    match taken.checked_sub(1).and_then(|last| computed.get(last)) {
        Some(last) => (last - at + 1).min(MOST),
        None => 1,
    }
}

/// Operations of the longest pattern that matches the first of `nodes`, which are not views.
fn longest(split: &SplitGraph<'_>, nodes: &[usize], rules: MetalRules) -> Option<usize> {
    let graph = &*split.graph;
    let mut best = None;
    for pattern in known(rules) {
        let len = pattern.computed().count();
        let ops = || pattern.computed().zip(nodes).all(|(op, at)| graph[split.node(*at)].op == op);
        if best.is_some_and(|best| len <= best) || len > nodes.len() || !ops() {
            continue;
        }
        let nodes = &nodes[..len];
        let whole = matches!(pattern.check, Check::DeltaRule | Check::Routing | Check::Experts);
        if (whole || is_chain(split, nodes)) && passes(split, pattern, nodes) {
            best = Some(len);
        }
    }
    best
}

/// Whether each operation reads the one before, in the same shape, and nothing else reads it.
fn is_chain(split: &SplitGraph<'_>, nodes: &[usize]) -> bool {
    let graph = &*split.graph;
    nodes.windows(2).all(|pair| {
        let [before, node] = [pair[0], pair[1]].map(|at| split.node(at));
        let reads = |at: usize| graph.operand(&graph[node], at) == Some(before);
        (reads(0) || reads(1)) && graph[node].ne == graph[before].ne
    }) && split.fusible(nodes, &nodes[nodes.len() - 1..])
}

/// Whether the pattern's own conditions hold.
fn passes(split: &SplitGraph<'_>, pattern: &Pattern, nodes: &[usize]) -> bool {
    let graph = &*split.graph;
    let id = |at: usize| split.node(nodes[at]);
    let node = |at: usize| &graph[id(at)];
    let operand = |at: usize, operand: usize| graph.operand(node(at), operand);
    let follows = |at: usize| operand(at, 0) == Some(id(at - 1));
    match pattern.check {
        Check::NormScale => follows(1) && node(1).ty == Type::F32,
        Check::Norm => (1..nodes.len()).all(|at| {
            let fits = operand(at, 1)
                .is_some_and(|weight| graph[weight].ne[0] == node(0).ne[0] && has_whole_rows(&graph[weight]));
            follows(at) && fits && node(at).ty == Type::F32
        }),
        Check::Sums => (1..nodes.len()).all(|at| {
            let addends = operand(at, 1).zip(operand(at - 1, 1));
            follows(at) && addends.is_some_and(|(a, b)| graph[a].same_layout(&graph[b]))
        }),
        Check::DeltaRule => writes_state(split, id(0), id(1)),
        Check::Routing => routes(split, pattern, nodes),
        Check::Experts => sums_experts(split, pattern, nodes),
        Check::Convolution => {
            follows(1)
                && node(1).unary == Some(UnaryOp::Silu)
                && [node(0).ty, node(1).ty] == [Type::F32; 2]
                && has_whole_rows(node(1))
        }
        Check::Product => {
            let reads = [0, 1].map(|at| operand(1, at) == Some(id(0)));
            let other = operand(1, usize::from(reads[0])).map(|other| &graph[other]);
            let weights = operand(0, 0).is_some_and(|weights| is_tiled(graph[weights].ty));
            let input = operand(0, 1).is_some_and(|input| graph[input].ty == Type::F32);
            let is_weight = |tensor: &Tensor| {
                let base = tensor.view_of.get().map_or(tensor.buffer, |of| graph[of].buffer);
                matches!(base, Buffer::Weights(_))
            };
            let other = other.is_some_and(|other| other.ty == Type::F32 && !is_weight(other));
            reads[0] != reads[1] && weights && input && other && node(1).ty == Type::F32
        }
    }
}

/// Types of weights whose products are fused with a sum (`ggml_metal_mul_mv_mma_type_supported`).
const fn is_tiled(ty: Type) -> bool {
    matches!(
        ty,
        Type::F32
            | Type::F16
            | Type::Q4_0
            | Type::Q4_1
            | Type::Q5_0
            | Type::Q5_1
            | Type::Q8_0
            | Type::Q4K
            | Type::Q5K
            | Type::Q6K
    )
}

/// Whether elements of a row follow one another (`ggml_is_contiguous_rows`).
const fn has_whole_rows(tensor: &Tensor) -> bool {
    tensor.ne[0] == tensor.ty.block() || tensor.nb[0] == tensor.ty.block_bytes()
}

/// Whether `copy` writes the new state of the delta rule `rule` into rows of a cache.
fn writes_state(split: &SplitGraph<'_>, rule: TensorId, copy: TensorId) -> bool {
    let graph = &*split.graph;
    let (Some(v), Some(state), Some(target)) =
        (graph.operand(&graph[rule], 2), graph.operand(&graph[copy], 0), graph.operand(&graph[copy], 1))
    else {
        return false;
    };
    let [head, heads, _, sequences] = graph[v].ne;
    let size = head * head * heads;
    let target = &graph[target];
    !graph[rule].output
        && !graph[copy].output
        && graph[state].op == Op::View
        && graph[state].view_of == rule
        && graph.is_contiguous(state)
        && target.ty == Type::F32
        && target.ne == [size, sequences, 1, 1]
        && target.nb[..2] == [4, 4 * size]
}

/// The nodes of the whole pattern, with views, that begins at `first` and ends `last`.
fn whole(split: &SplitGraph<'_>, pattern: &Pattern, first: usize) -> Option<Vec<TensorId>> {
    let end = first + pattern.ops.len();
    let ids: Vec<TensorId> = (first..end.min(split.len())).map(|at| split.node(at)).collect();
    let same = ids.len() == pattern.ops.len() && ids.iter().zip(pattern.ops).all(|(id, op)| split.graph[*id].op == *op);
    same.then_some(ids)
}

/// Routing: softmax, the chosen experts and their weights, normalised and scaled or not.
fn routes(split: &SplitGraph<'_>, pattern: &Pattern, nodes: &[usize]) -> bool {
    let (graph, first) = (&*split.graph, nodes[0]);
    let Some(ids) = whole(split, pattern, first) else { return false };
    let scaled = pattern.ops.last() == Some(&Op::Scale);
    let normalised = pattern.ops.len() >= 10;
    // without a scale the last node is a view, which is not among the computed ones
    let end = ids.len() - usize::from(normalised && !scaled);
    if nodes.last() != Some(&(first + end - 1)) {
        return false;
    }
    let reads = |at: usize, operand: usize, of: usize| graph.operand(&graph[ids[at]], operand) == Some(ids[of]);
    let Some(logits) = graph.operand(&graph[ids[0]], 0) else { return false };
    let (input, chosen) = (&graph[logits], &graph[ids[3]]);
    let out = ids[ids.len() - 1];
    let [experts, tokens, ..] = input.ne;
    let used = chosen.ne[0];
    let shapes = experts <= MOST_EXPERTS
        && used <= experts
        && input.ne[2..] == [1, 1]
        && chosen.ne[1..] == [tokens, 1, 1]
        && graph[out].ne == [1, used, tokens, 1]
        && chosen.nb[..2] == [4, 4 * experts];
    let routed = reads(1, 0, 0) && reads(2, 0, 0) && reads(3, 0, 2) && reads(4, 0, 1) && reads(4, 1, 3);
    let normal = !normalised
        || (reads(5, 0, 4) && reads(6, 0, 5) && reads(7, 0, 6) && reads(8, 0, 5) && reads(8, 1, 7) && reads(9, 0, 8));
    let scale = !scaled || reads(ids.len() - 1, 0, ids.len() - 2);
    let all: Vec<usize> = (first..first + ids.len()).collect();
    graph.sources(&graph[ids[0]]).count() == 1
        && shapes
        && graph.is_contiguous(logits)
        && graph.is_contiguous(out)
        && routed
        && normal
        && scale
        && split.fusible(&all, &[first + 3, first + ids.len() - 1])
}

/// The experts' results times their weights, one view per expert, and their sum.
fn sums_experts(split: &SplitGraph<'_>, pattern: &Pattern, nodes: &[usize]) -> bool {
    let (graph, first) = (&*split.graph, nodes[0]);
    let Some(ids) = whole(split, pattern, first) else { return false };
    let used = ids.len() / 2;
    if nodes.last() != Some(&(first + ids.len() - 1)) {
        return false;
    }
    let product = &graph[ids[0]];
    let (Some(results), Some(weights)) = (graph.operand(product, 0), graph.operand(product, 1)) else { return false };
    let last = ids[ids.len() - 1];
    let [size, experts, tokens, batches] = graph[results].ne;
    let shapes = experts == used as u64
        && batches == 1
        && graph[weights].ne == [1, experts, tokens, 1]
        && graph[last].ne == [size, tokens, 1, 1];
    let plain = [results, weights, last].iter().all(|id| graph[*id].ty == Type::F32 && graph.is_contiguous(*id));
    let views = ids[1..=used].iter().all(|id| {
        let view = &graph[*id];
        graph.operand(view, 0) == Some(ids[0]) && view.ne[..2] == [size, tokens] && view.nb[1] == product.nb[2]
    });
    let sums = (1..used).all(|at| {
        let before = if at == 1 { ids[1] } else { ids[used + at - 1] };
        let add = &graph[ids[used + at]];
        graph.operand(add, 0) == Some(before) && graph.operand(add, 1) == Some(ids[at + 1])
    });
    let all: Vec<usize> = (first..first + ids.len()).collect();
    product.ty == Type::F32 && shapes && plain && views && sums && split.fusible(&all, &all[all.len() - 1..])
}
