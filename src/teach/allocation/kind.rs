//! The kinds of tensors of a graph, by their purpose.

use std::hash::Hash;

use crate::engine::ggml::Graph;
use crate::engine::ggml::tensor::{Buffer, Op, Tensor, TensorId};
use crate::engine::llama_cpp::AllocationDetails;
use crate::page::Hue;
use crate::page::chart::Series;

/// A kind of tensor, by its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimelineKind {
    /// Hidden states of the batch, and everything that no other kind covers.
    Activations,
    /// Attention scores.
    Scores,
    /// Attention masks.
    Masks,
    /// Logits over the vocabulary.
    Logits,
    /// Activations of experts.
    Experts,
    /// Weights copied from another device for one operation.
    Weights,
    /// Caches copied from another device for one operation.
    Caches,
}

impl TimelineKind {
    /// All kinds, from the bottom of the stacked chart to its top.
    pub const ALL: [Self; 7] =
        [Self::Weights, Self::Caches, Self::Activations, Self::Experts, Self::Scores, Self::Masks, Self::Logits];

    /// How charts show it.
    pub const fn series(self) -> Series<'static> {
        let (sign, hue) = match self {
            Self::Weights => ("█", Hue::Weights),
            Self::Caches => ("▓", Hue::Cache),
            Self::Activations => ("▒", Hue::Graph),
            Self::Experts => ("╱", Hue::EvenGpu),
            Self::Scores => ("≈", Hue::OddGpu),
            Self::Masks => ("░", Hue::InUse),
            Self::Logits => ("○", Hue::Ram),
        };
        Series { name: self.word(), sign, hue }
    }

    /// Its name on the screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Activations => "activations",
            Self::Scores => "attention scores",
            Self::Masks => "masks",
            Self::Logits => "logits",
            Self::Experts => "experts",
            Self::Weights => "copied weights",
            Self::Caches => "copied KV cache",
        }
    }

    /// Its index in [`Self::ALL`].
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|&kind| kind == self).unwrap_or(0)
    }
}

/// The kind of every tensor of the graph, including copies.
pub(super) fn kinds(details: &AllocationDetails) -> Vec<TimelineKind> {
    let (graph, schedule) = (&details.graph, &details.schedule);
    // a copy has the kind of its original
    let mut kinds: Vec<TimelineKind> = graph.tensors.iter().map(by_name).collect();
    for &id in &graph.nodes {
        kinds[id.index()] = of_node(graph, &kinds, id);
    }
    for (_, original, first) in schedule.crossings() {
        let kind = kinds[original.index()];
        for copy in kinds.iter_mut().skip(first.index()).take(schedule.copies) {
            *copy = kind;
        }
    }
    kinds
}

fn by_name(tensor: &Tensor) -> TimelineKind {
    match (tensor.buffer, tensor.label) {
        (Buffer::Weights(_), _) => TimelineKind::Weights,
        (Buffer::Cache(_), _) => TimelineKind::Caches,
        (Buffer::Unallocated, "kq" | "kq_soft_max") => TimelineKind::Scores,
        (Buffer::Unallocated, label) if label.ends_with("mask") => TimelineKind::Masks,
        (Buffer::Unallocated, label) if label.starts_with("ffn_moe") => TimelineKind::Experts,
        (Buffer::Unallocated, _) => TimelineKind::Activations,
    }
}

fn of_node(graph: &Graph, kinds: &[TimelineKind], id: TensorId) -> TimelineKind {
    let tensor = &graph[id];
    let named = by_name(tensor);
    if named != TimelineKind::Activations || matches!(tensor.op, Op::MulMatId | Op::AddId) {
        return if named == TimelineKind::Activations { TimelineKind::Experts } else { named };
    }
    if let Some(below) = tensor.view_of.get() {
        return kinds[below.index()];
    }
    let Some(first) = graph.sources(tensor).next() else { return named };
    let weight = &graph[first];
    let vocabulary = matches!(weight.buffer, Buffer::Weights(_)) && matches!(weight.label, "output" | "token_embd");
    if tensor.op == Op::MulMat && vocabulary {
        return TimelineKind::Logits;
    }
    // elementwise operations and copies keep the kind of their operand
    if keeps_kind(tensor.op) && weight.elements() == tensor.elements() { kinds[first.index()] } else { named }
}

const fn keeps_kind(op: Op) -> bool {
    matches!(
        op,
        Op::Scale | Op::Unary | Op::Clamp | Op::Add | Op::Mul | Op::Div | Op::Cpy | Op::Cont | Op::Dup | Op::SoftMax
    )
}
