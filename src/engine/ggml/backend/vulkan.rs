//! Vulkan (`ggml-vulkan.cpp`, 0.1.161). All devices reorder and refuse alike; what differs is four limits.

use super::{AllocDeps, Backend, Cpu, SplitGraph};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::{Graph, is_contiguous};
use crate::engine::ggml::tensor::{Op, Tensor, TensorId, UnaryOp};

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
        reorder(split, kept, self.rules);
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

/// Types that a cache may have; a fork's has its own.
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
            | Type::Fork(_)
    )
}

/// Whether rows follow one another, and matrices do (`ggml_vk_dim01_contiguous`).
const fn is_dense(tensor: &Tensor) -> bool {
    let Tensor { ty, ne, nb, .. } = *tensor;
    nb[0] == ty.block_bytes() && nb[1] == nb[0] * ne[0] / ty.block() && (ne[3] == 1 || nb[3] == nb[2] * ne[2])
}

// The order of a split: nodes that do not need one another are brought together, so that they may run at once
// (`ggml_vk_graph_optimize`, 0.1.161).

/// Nodes looked at from the first that is not done.
const WINDOW: usize = 20;
/// Nodes looked at behind one for others that are fused with it.
const AHEAD: usize = 15;
/// The same for a cache's write, before norms were fused.
const AHEAD_OF_WRITE: usize = 10;

/// The state of the reordering; nodes are indices into the split.
struct Order<'a> {
    graph: &'a Graph,
    rules: VulkanRules,
    nodes: &'a [TensorId],
    ops: Vec<Op>,
    /// For every node, which of those before it it needs: bit `k` for the node `k + 1` before.
    needs: Vec<u32>,
    /// Marked as taken.
    done: Vec<bool>,
    /// For every tensor, whether it is in the new order.
    out: Vec<bool>,
    ordered: Vec<TensorId>,
}

/// Reorders `split`, and keeps what fused routing reads.
fn reorder(split: &mut SplitGraph<'_>, kept: &mut AllocDeps, rules: VulkanRules) {
    let nodes = split.nodes().to_vec();
    let uses = split.uses;
    let graph = &*split.graph;
    let mut order = Order {
        graph,
        rules,
        ops: nodes.iter().map(|id| graph[*id].op).collect(),
        needs: needs(graph, &nodes, rules),
        done: vec![false; nodes.len()],
        out: vec![false; graph.tensors.len()],
        ordered: Vec::with_capacity(nodes.len()),
        nodes: &nodes,
    };
    let mut first = 0;
    while first < nodes.len() {
        if let Some(pattern) = order.pattern(first) {
            if pattern.routes && rules.fuses_more {
                order.keep(first, pattern.len, kept);
            }
            order.put(&(first..first + pattern.len).collect::<Vec<_>>());
        } else {
            let set = order.set(first, uses);
            order.put(&set);
        }
        while order.done.get(first) == Some(&true) {
            first += 1;
        }
    }
    let ordered = order.ordered;
    split.nodes().copy_from_slice(&ordered);
}

/// What nodes need of those before them, within the window.
fn needs(graph: &Graph, nodes: &[TensorId], rules: VulkanRules) -> Vec<u32> {
    let root = |id: TensorId| graph[id].view_of.get().unwrap_or(id);
    let roots: Vec<TensorId> = nodes.iter().map(|id| root(*id)).collect();
    let needs = |later: usize, earlier: usize| {
        if roots[later] == roots[earlier] {
            return true;
        }
        let mut sources = graph.sources(&graph[nodes[later]]);
        if !rules.fuses_more || is_view(graph, nodes[later]) || is_view(graph, nodes[earlier]) {
            return sources.any(|source| source == nodes[earlier]);
        }
        sources.any(|source| root(source) == roots[earlier])
            || graph.sources(&graph[nodes[earlier]]).any(|source| root(source) == roots[later])
    };
    (0..nodes.len())
        .map(|later| {
            let before = later.min(WINDOW - 1);
            (0..before).filter(|back| needs(later, later - 1 - back)).fold(0, |bits, back| bits | 1 << back)
        })
        .collect()
}

fn is_view(graph: &Graph, id: TensorId) -> bool {
    graph[id].op.is_view() || graph[id].op == Op::None
}

impl Order<'_> {
    fn is_view(&self, at: usize) -> bool {
        self.ops[at].is_view() || self.ops[at] == Op::None
    }

    fn source(&self, at: usize, operand: usize) -> Option<TensorId> {
        self.graph.operand(&self.graph[self.nodes[at]], operand)
    }

    fn reads(&self, at: usize, operand: usize, of: usize) -> bool {
        self.source(at, operand) == Some(self.nodes[of])
    }

    /// Whether it is given from outside, or in the new order.
    fn is_ready(&self, id: TensorId) -> bool {
        self.graph[id].op == Op::None || self.out[id.index()]
    }

    /// The pattern of nodes not done that starts at `at`.
    fn pattern(&self, at: usize) -> Option<Found> {
        pattern_of(self.rules, |next| {
            let open = self.done.get(at + next) == Some(&false);
            open.then(|| self.ops[at + next])
        })
    }

    /// Appends these nodes to the new order.
    fn put(&mut self, set: &[usize]) {
        for &at in set {
            self.ordered.push(self.nodes[at]);
            self.out[self.nodes[at].index()] = true;
            self.done[at] = true;
        }
    }

    /// Keeps what the routing from `first` reads from outside until its end, or until the scale behind it.
    fn keep(&self, first: usize, len: usize, kept: &mut AllocDeps) {
        let scaled = self.ops.get(first + len) == Some(&Op::Scale);
        let last = self.nodes[first + len - usize::from(!scaled)];
        for at in first..first + len {
            for source in self.graph.sources(&self.graph[self.nodes[at]]) {
                if !self.nodes[first..at].contains(&source) {
                    kept.add(source, last);
                }
            }
        }
    }

    /// Nodes from `first` that are neither done nor in `set`, and that `at` needs.
    fn blocking(&self, at: usize, first: usize) -> impl Iterator<Item = usize> + '_ {
        let mut bits = self.needs[at];
        std::iter::from_fn(move || {
            let back = bits.trailing_zeros() as usize;
            bits = bits.checked_sub(1 << back.min(31))?;
            (back < WINDOW).then(|| at - 1 - back)
        })
        .filter(move |before| *before >= first && !self.done[*before])
    }

    /// The nodes that are computed next: the first, those of the window that need nothing before them, and what is fused
    /// with these; then views of them.
    fn set(&mut self, first: usize, uses: &[u32]) -> Vec<usize> {
        let end = (first + WINDOW).min(self.nodes.len());
        let mut set = vec![first];
        for at in first + 1..end {
            if self.done[at] || self.is_view(at) || self.pattern(at).is_some() {
                continue;
            }
            let last = set.last().copied().unwrap_or(first);
            if self.blocking(at, first).all(|before| before == last && self.fuses(before, at)) {
                set.push(at);
                self.pull(at, uses, &mut set);
            }
        }
        if set.last().is_some_and(|last| self.ops[*last] != Op::Add) {
            for at in first + 1..end {
                let joins =
                    !self.done[at] && self.is_view(at) && self.blocking(at, first).all(|before| set.contains(&before));
                if joins {
                    set.push(at);
                }
            }
        }
        set
    }

    /// Whether `at` may follow `before`, which it needs, in one kernel.
    fn fuses(&self, before: usize, at: usize) -> bool {
        let between = || (before + 1..at).all(|between| self.done[between] || self.is_view(between));
        match (self.ops[before], self.ops[at]) {
            (Op::RmsNorm, Op::Mul) => {
                if self.rules.fuses_more {
                    between()
                } else {
                    at == before + 1
                }
            }
            (Op::Unary, Op::Mul) => self.rules.fuses_more && between(),
            (Op::MulMat | Op::Add | Op::SsmConv, Op::Add)
            | (Op::MulMatId, Op::AddId | Op::Mul)
            | (Op::SsmConv, Op::Unary) => at == before + 1,
            _ => false,
        }
    }

    /// Takes nodes behind `at` into the set that are fused with it.
    fn pull(&mut self, at: usize, uses: &[u32], set: &mut Vec<usize>) {
        let ahead = at + 1..(at + AHEAD).min(self.nodes.len());
        let (op, before) = (self.ops[at], self.ops[at - 1]);
        let mut writer = at;
        if (before, op) == (Op::RmsNorm, Op::Mul) {
            let given = |id: Option<TensorId>| id.is_none_or(|id| self.graph[id].op == Op::None);
            let rotates = |next: &usize| {
                let [positions, factors] = [1, 2].map(|operand| self.source(*next, operand));
                self.ops[*next] == Op::Rope && self.reads(*next, 0, at) && given(positions) && given(factors)
            };
            if let Some(rope) = ahead.clone().find(rotates) {
                writer = rope;
                self.take(rope, set);
            }
        }
        self.pull_write(writer, uses, set);
        let follower = match (before, op) {
            (Op::MulMatId, Op::AddId) => Some((Op::Mul, true)),
            (Op::MulMat, Op::Add) => Some((Op::Add, true)),
            (Op::SsmConv, Op::Add) => Some((Op::Unary, false)),
            _ => None,
        };
        if let Some((follower, binary)) = follower {
            let follows = |next: &usize| {
                let other = || self.source(*next, 1).is_some_and(|other| self.is_ready(other));
                self.ops[*next] == follower && self.reads(*next, 0, at) && (!binary || other())
            };
            if let Some(next) = ahead.clone().find(follows) {
                self.take(next, set);
            }
        }
        if op == Op::Unary
            && self.rules.fuses_more
            && let Some(product) = ahead.clone().find(|next| self.multiplies(*next, at))
        {
            self.take(product, set);
        }
    }

    fn take(&mut self, at: usize, set: &mut Vec<usize>) {
        set.push(at);
        self.done[at] = true;
    }

    /// The view of `at` that is written into a cache, and the write, so that they are consecutive.
    fn pull_write(&mut self, at: usize, uses: &[u32], set: &mut Vec<usize>) {
        let more = self.rules.fuses_more;
        if self.ops[at] != Op::Rope && !(more && self.ops[at] == Op::RmsNorm) {
            return;
        }
        let end = (at + if more { AHEAD } else { AHEAD_OF_WRITE }).min(self.nodes.len());
        let open = |next: &usize| !more || !self.done[*next];
        let Some(view) =
            (at + 1..end).filter(open).find(|next| self.ops[*next] == Op::View && self.reads(*next, 0, at))
        else {
            return;
        };
        let writes = |next: &usize| self.ops[*next] == Op::SetRows && self.reads(*next, 0, view);
        let Some(write) = (view + 1..end).filter(open).find(writes) else { return };
        let alone = |at: usize| {
            let id = self.nodes[at];
            uses.get(id.index()) == Some(&1) && !self.graph[id].output
        };
        let free = || self.blocking(write, at + 1).all(|between| between == view || self.is_view(between));
        if !more || (alone(at) && alone(view) && free()) {
            self.take(view, set);
            self.take(write, set);
        }
    }

    /// Whether node `at` multiplies the function's result of node `unary` by something ready, in one kernel
    /// (`ggml_vk_can_fuse_unary_mul`).
    fn multiplies(&self, at: usize, unary: usize) -> bool {
        let first = self.reads(at, 0, unary);
        let Some(other) = self.source(at, usize::from(first)) else { return false };
        if self.ops[at] != Op::Mul || !(first || self.reads(at, 1, unary)) || !self.is_ready(other) {
            return false;
        }
        let (result, product, factor) =
            (&self.graph[self.nodes[unary]], &self.graph[self.nodes[at]], &self.graph[other]);
        let known = matches!(result.unary, Some(UnaryOp::Gelu | UnaryOp::Sigmoid | UnaryOp::Silu | UnaryOp::Softplus));
        let (small, large) = if first { (factor, result) } else { (result, factor) };
        known
            && matches!(result.ty, Type::F32 | Type::F16)
            && [product.ty, factor.ty] == [result.ty; 2]
            && self.graph.is_contiguous_1(other)
            && self.source(unary, 0).is_some_and(|argument| self.graph.is_contiguous_1(argument))
            && small.ne.iter().zip(large.ne).all(|(small, large)| *small > 0 && large.is_multiple_of(*small))
    }
}

// Consecutive operations that one kernel computes; they keep their order (`ggml-vulkan.cpp`, 0.1.161 and 0.1.150).
// Patterns with operations that no graph here has are left out.

/// Consecutive operations.
type Pattern = &'static [Op];

/// Routing of experts: its inputs are kept until its end.
const ROUTING: [Pattern; 4] = [
    &[
        Op::SoftMax,
        Op::Reshape,
        Op::Argsort,
        Op::View,
        Op::GetRows,
        Op::Reshape,
        Op::SumRows,
        Op::Clamp,
        Op::Div,
        Op::Reshape,
    ],
    &[
        Op::Unary,
        Op::Reshape,
        Op::Add,
        Op::Argsort,
        Op::View,
        Op::GetRows,
        Op::Reshape,
        Op::SumRows,
        Op::Clamp,
        Op::Div,
        Op::Reshape,
    ],
    &[Op::SoftMax, Op::Reshape, Op::Argsort, Op::View, Op::GetRows],
    &[Op::Argsort, Op::View, Op::GetRows, Op::Reshape, Op::SoftMax, Op::Reshape],
];

/// Norms and positions with what follows them.
const NORMS: [Pattern; 5] = [
    &[Op::RmsNorm, Op::Mul, Op::Add, Op::Mul],
    &[Op::RmsNorm, Op::Mul, Op::Add],
    &[Op::RmsNorm, Op::Mul, Op::Rope, Op::View, Op::SetRows],
    &[Op::RmsNorm, Op::View, Op::SetRows],
    &[Op::Rope, Op::View, Op::SetRows],
];

/// A pattern found in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    /// Number of nodes.
    pub len: usize,
    /// Whether it routes tokens to experts.
    pub routes: bool,
}

/// The first pattern that starts with `ops`.
fn pattern_of(rules: VulkanRules, ops: impl Fn(usize) -> Option<Op>) -> Option<Found> {
    let norms = if rules.fuses_more { &NORMS[..] } else { &[] };
    let patterns = ROUTING.iter().map(|pattern| (*pattern, true)).chain(norms.iter().map(|pattern| (*pattern, false)));
    let matches = |pattern: Pattern| pattern.iter().enumerate().all(|(at, op)| ops(at) == Some(*op));
    patterns
        .into_iter()
        .find(|(pattern, _)| matches(pattern))
        .map(|(pattern, routes)| Found { len: pattern.len(), routes })
}
