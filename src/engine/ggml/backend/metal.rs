//! Apple's GPUs (`ggml-metal*.cpp`, `ggml-metal-device.m`, 0.1.161).

use std::ops::Range;

use super::{AllocDeps, Backend, SplitGraph, batch};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{Buffer, Op, Tensor, TensorId, UnaryOp};

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
            Op::FlashAttn => bytes + extra(graph, tensor, self.rules),
            _ => bytes,
        }
    }

    /// The operations of models' graphs that may be refused (`ggml_metal_device_supports_op`); all others are supported.
    fn supports(&self, graph: &Graph, tensor: &Tensor) -> bool {
        let operand = |at: usize| graph.operand(tensor, at).map(|id| &graph[id]);
        match tensor.op {
            Op::FlashAttn => supported(graph, tensor, self.rules),
            Op::MulMat | Op::MulMatId => {
                operand(0).is_none_or(|weights| !matches!(weights.ty, Type::Nvfp4 | Type::Tq1_0))
            }
            _ => true,
        }
    }

    fn graph_optimize(&self, split: &mut SplitGraph<'_>, kept: &mut AllocDeps) {
        if self.rules.reserves_more {
            keep(split, kept, self.rules);
        }
        reorder(split, self.rules);
    }
}

// Flash attention: which heads and types have a kernel, and the room that it takes besides its result
// (`ggml-metal-ops.cpp`, `ggml-metal-device.m`, 0.1.161).

/// Cells of a group (`OP_FLASH_ATTN_EXT_NCPSG`), for few tokens (`…_VEC_NCPSG`), and tokens (`…_NQPSG`).
const CELLS: u64 = 64;
const FEW_CELLS: u64 = 32;
const TOKENS: u64 = 8;
/// Groups whose results are kept apart, and the most tokens of which they are.
const PARTIAL: u64 = 32;

/// Whether there is a kernel.
fn supported(graph: &Graph, tensor: &Tensor, rules: MetalRules) -> bool {
    let operand = |at: usize| graph.operand(tensor, at).map(|id| &graph[id]);
    let (Some(q), Some(k), Some(v)) = (operand(0), operand(1), operand(2)) else { return true };
    let head = matches!(q.ne[0], 32 | 40 | 48 | 64 | 72 | 80 | 96 | 112 | 128 | 192 | 256 | 320 | 512 | 576);
    let smaller = !rules.reserves_more || (k.ne[0] >= v.ne[0] && (k.ne[0] != 72 || v.ne[0] == 72));
    let ty = matches!(
        k.ty,
        Type::F32 | Type::F16 | Type::Bf16 | Type::Q8_0 | Type::Q4_0 | Type::Q4_1 | Type::Q5_0 | Type::Q5_1
    );
    head && smaller && ty && k.ty == v.ty
}

/// Bytes besides the result.
fn extra(graph: &Graph, tensor: &Tensor, rules: MetalRules) -> u64 {
    let operand = |at: usize| graph.operand(tensor, at).map(|id| &graph[id]);
    let (Some(q), Some(k), Some(v)) = (operand(0), operand(1), operand(2)) else { return 0 };
    let mask = operand(3);
    let [head, tokens, heads, streams] = q.ne;
    let part_of_k = v.view_of.is_some() && v.view_of == k.view_of;

    // the last cells, padded to a group: of the f16 copies if there are some
    let copied = rules.reserves_more && tokens >= 32 && k.ty.block() > 1;
    let strides =
        if copied { [2 * k.ne[0], 2 * if part_of_k { k.ne[0] } else { v.ne[0] }] } else { [k.nb[1], v.nb[1]] };
    let mask_rows = mask.map_or(0, |mask| 2 * mask.ne[1] * mask.ne[2] * mask.ne[3]);
    let padding = CELLS * (strides[0] * k.ne[2] * k.ne[3] + strides[1] * v.ne[2] * v.ne[3] + mask_rows);

    // which blocks of the mask hide everything
    let few = tokens < 20 && head.is_multiple_of(32);
    let (rows, columns) = if few { (1, FEW_CELLS) } else { (TOKENS, CELLS) };
    let blocks = mask.map_or(0, |mask| {
        (mask.ne[0].div_ceil(columns) * tokens.div_ceil(rows) * mask.ne[2] * mask.ne[3]).next_multiple_of(32)
    });

    // results of groups, with the sum and the maximum of each
    let partial = 4 * tokens.min(PARTIAL) * heads * streams * PARTIAL * (v.ne[0] + 2);

    let copy = |tensor: &Tensor| (2 * tensor.elements()).next_multiple_of(16);
    let copies = if !rules.reserves_more {
        0
    } else if part_of_k {
        copy(k)
    } else {
        copy(k) + copy(v)
    };
    padding + blocks + partial + copies
}

// The order of a split: when an operation must wait for those that run, later ones that need not are brought before
// it (`ggml_graph_optimize` in `ggml-metal-common.cpp`, 0.1.161).

/// Groups looked at behind one that must wait, itself among them.
const AHEAD: usize = 64;

/// What a set of operations reads and writes: for every tensor that the split touches the number of the set, of which only
/// the latest counts.
struct Touched {
    set: u32,
    read: Vec<u32>,
    written: Vec<u32>,
}

impl Touched {
    fn new(tensors: usize) -> Self {
        Self { set: 1, read: vec![0; tensors], written: vec![0; tensors] }
    }

    /// Begins a new set.
    fn reset(&mut self) {
        self.set += 1;
    }

    fn add(&mut self, Touches { sources, results }: Touches<'_>) {
        for at in sources {
            self.read[*at as usize] = self.set;
        }
        for at in results {
            self.written[*at as usize] = self.set;
        }
    }

    /// Whether what touches these may run at the same time as the set.
    fn lets_in(&self, Touches { sources, results }: Touches<'_>) -> bool {
        let is_written = |at: &u32| self.written[*at as usize] == self.set;
        let is_read = |at: &u32| self.read[*at as usize] == self.set;
        !sources.iter().any(is_written) && !results.iter().any(|at| is_written(at) || is_read(at))
    }
}

/// What a group reads from outside and what it writes, by numbers that the tensors have in the split.
#[derive(Clone, Copy)]
struct Touches<'g> {
    sources: &'g [u32],
    results: &'g [u32],
}

/// The last [`AHEAD`] groups before one, a bit each; the highest is the one just before.
type Before = u64;

/// Which of the last groups before the group `at` read and wrote a tensor.
#[derive(Clone, Copy, Default)]
struct History {
    at: usize,
    read: Before,
    written: Before,
}

impl History {
    const LAST: Before = 1 << (Before::BITS - 1);

    /// The same before a later group.
    fn before(&mut self, at: usize) -> &mut Self {
        let moved = |groups: Before| u32::try_from(at - self.at).map_or(0, |by| groups.checked_shr(by).unwrap_or(0));
        *self = Self { at, read: moved(self.read), written: moved(self.written) };
        self
    }
}

/// Operations that one kernel computes.
struct Group {
    nodes: Range<usize>,
    is_empty: bool,
    /// Others may be moved across it.
    may_move: bool,
    /// In [`Groups::touched`]: what it reads, and behind that what it writes.
    sources: Range<usize>,
    results: Range<usize>,
    /// Those of the groups before it that it cannot run beside.
    waits_for: Before,
}

/// The groups of a split.
struct Groups {
    all: Vec<Group>,
    touched: Vec<u32>,
    /// How many tensors they touch.
    tensors: usize,
}

impl Groups {
    /// Those of `split`. `numbers` is as [`SplitGraph::numbers`].
    fn of(split: &SplitGraph<'_>, rules: MetalRules, numbers: &mut Vec<u32>) -> Self {
        let graph = &*split.graph;
        numbers.resize(numbers.len().max(graph.tensors.len()), 0);
        let mut ids: Vec<TensorId> = Vec::new();
        let mut number = |id: TensorId| {
            let base = graph[id].view_of.get().unwrap_or(id);
            let number = &mut numbers[base.index()];
            if *number == 0 {
                ids.push(base);
                *number = ids.len() as u32;
            }
            *number - 1
        };
        let mut groups = Self { all: Vec::with_capacity(split.len()), touched: Vec::new(), tensors: 0 };
        let (mut history, mut at) = (Vec::new(), 0);
        while at < split.len() {
            let nodes = at..at + group_len(split, at, rules);
            let own = &graph.nodes[split.range.start + nodes.start..split.range.start + nodes.end];
            let first = groups.touched.len();
            let sources = own.iter().flat_map(|id| graph.sources(&graph[*id])).filter(|source| !own.contains(source));
            groups.touched.extend(sources.map(&mut number));
            let middle = groups.touched.len();
            groups.touched.extend(own.iter().map(|id| number(*id)));
            at = nodes.end;
            groups.add(graph[own[0]].op, nodes, [first, middle], &mut history);
        }
        for id in &ids {
            numbers[id.index()] = 0;
        }
        groups.tensors = ids.len();
        groups
    }

    /// The next group: of [`Self::touched`] it reads what begins `at` the first, and writes what begins at the second.
    fn add(&mut self, op: Op, nodes: Range<usize>, [first, middle]: [usize; 2], history: &mut Vec<History>) {
        let at = self.all.len();
        let (sources, results) = (first..middle, middle..self.touched.len());
        let least = self.touched[first..].iter().max().map_or(0, |last| *last as usize + 1);
        history.resize(history.len().max(least), History::default());
        let mut waits_for = 0;
        for tensor in &self.touched[sources.clone()] {
            waits_for |= history[*tensor as usize].before(at).written;
        }
        for tensor in &self.touched[results.clone()] {
            let History { read, written, .. } = *history[*tensor as usize].before(at);
            waits_for |= read | written;
        }
        for tensor in &self.touched[sources.clone()] {
            history[*tensor as usize].before(at + 1).read |= History::LAST;
        }
        for tensor in &self.touched[results.clone()] {
            history[*tensor as usize].before(at + 1).written |= History::LAST;
        }
        let is_empty = op.is_view() || op == Op::None;
        self.all.push(Group { nodes, is_empty, may_move: may_move(op), sources, results, waits_for });
    }

    fn touches(&self, group: &Group) -> Touches<'_> {
        Touches { sources: &self.touched[group.sources.clone()], results: &self.touched[group.results.clone()] }
    }

    /// The groups in their new order.
    fn order(&self) -> Vec<usize> {
        let groups = &self.all;
        let mut order = Vec::with_capacity(groups.len());
        let mut used = vec![false; groups.len()];
        let mut running = Touched::new(self.tensors);
        for (at, group) in groups.iter().enumerate() {
            if used[at] {
                continue;
            }
            if !group.is_empty && !running.lets_in(self.touches(group)) {
                // those that wait, from this one on: a bit each, the lowest is this one
                let mut waiting: Before = 1;
                for next in at + 1..(at + AHEAD).min(groups.len()) {
                    if used[next] {
                        continue;
                    }
                    let later = &groups[next];
                    if !later.may_move {
                        break;
                    }
                    let behind = next - at;
                    let is_free = later.waits_for & (waiting << (AHEAD - behind)) == 0;
                    if is_free && (later.is_empty || running.lets_in(self.touches(later))) {
                        running.add(self.touches(later));
                        order.push(next);
                        used[next] = true;
                    } else {
                        waiting |= 1 << behind;
                    }
                }
                running.reset();
            }
            running.add(self.touches(group));
            order.push(at);
        }
        order
    }
}

/// Reorders `split`, group by group.
fn reorder(split: &mut SplitGraph<'_>, rules: MetalRules) {
    let mut numbers = std::mem::take(split.numbers);
    let groups = Groups::of(split, rules, &mut numbers);
    *split.numbers = numbers;
    let nodes = split.nodes().to_vec();
    let order = groups.order();
    let ordered = order.iter().filter_map(|group| nodes.get(groups.all[*group].nodes.clone())).flatten();
    for (to, id) in split.nodes().iter_mut().zip(ordered) {
        *to = *id;
    }
}

/// Operations that others may be moved across.
const fn may_move(op: Op) -> bool {
    matches!(
        op,
        Op::MulMat
            | Op::MulMatId
            | Op::Rope
            | Op::Norm
            | Op::RmsNorm
            | Op::GroupNorm
            | Op::L2Norm
            | Op::SumRows
            | Op::SsmConv
            | Op::SsmScan
            | Op::Clamp
            | Op::Tri
            | Op::Diag
            | Op::Mul
            | Op::Add
            | Op::Sub
            | Op::Div
            | Op::Glu
            | Op::Scale
            | Op::Unary
            | Op::GetRows
            | Op::SetRows
            | Op::Set
            | Op::Cpy
            | Op::Cont
            | Op::Repeat
            | Op::None
    ) || op.is_view()
}

// Operations that one kernel computes; they are moved together, and what they read from outside is kept until the
// last (`ggml-metal-fusion.cpp`, 0.1.161).

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

/// The patterns that a release knows and that begin with `op`.
fn known(rules: MetalRules, op: Op) -> impl Iterator<Item = &'static Pattern> {
    let begins = move |pattern: &&Pattern| pattern.ops[0] == op;
    PATTERNS.iter().filter(begins).filter(move |pattern| rules.fuses_products || pattern.check != Check::Product)
}

impl Pattern {
    /// Its operations without views.
    fn computed(&self) -> impl Iterator<Item = Op> + '_ {
        self.ops.iter().copied().filter(|op| !op.is_view())
    }
}

/// Keeps what consecutive operations of a pattern read from outside until the last of them; by operations alone.
fn keep(split: &SplitGraph<'_>, kept: &mut AllocDeps, rules: MetalRules) {
    let matches = |at: usize, pattern: &Pattern| {
        at + pattern.ops.len() <= split.len()
            && pattern.ops.iter().enumerate().all(|(next, op)| split.graph[split.node(at + next)].op == *op)
    };
    let mut at = 0;
    while at < split.len() {
        let first = split.graph[split.node(at)].op;
        let found = known(rules, first).filter(|pattern| matches(at, pattern)).map(|pattern| pattern.ops.len()).max();
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
fn group_len(split: &SplitGraph<'_>, at: usize, rules: MetalRules) -> usize {
    let is_empty = |at: usize| {
        let op = split.graph[split.node(at)].op;
        op.is_view() || op == Op::None
    };
    if is_empty(at) || known(rules, split.graph[split.node(at)].op).next().is_none() {
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
    let first = graph[split.node(*nodes.first()?)].op;
    let mut best = None;
    for pattern in known(rules, first) {
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
