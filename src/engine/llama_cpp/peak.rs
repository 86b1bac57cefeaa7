//! The contents of a compute buffer at its peak.

use super::measure::Allocated;
use crate::engine::ggml::Graph;
use crate::engine::ggml::allocate::Lifetime;
use crate::engine::ggml::tensor::{BackendId, Buffer, Op, Tensor};
use crate::plan::{AliveKind, AliveTensors, Branch, BufferKind, Peak, Term};
use crate::units::Bytes;

/// Maximum number of operands searched for a label.
const MAX_LABEL_DISTANCE: usize = 6;

/// The peak of the buffer of `bytes` bytes on `place`, the plan's `device`.
pub(super) fn peak(device: usize, place: BackendId, bytes: u64, details: &Allocated<'_>) -> Peak {
    let here = || details.lifetimes.iter().filter(|life| life.place == place);
    // the buffer is as large as the highest end of any tensor
    let farthest = here().max_by_key(|life| (life.offset.saturating_add(life.bytes), std::cmp::Reverse(life.from)));
    let step = farthest.map_or(0, |life| life.from);
    let copied = CopiedSources::of(place, details);
    let mut alive: Vec<AliveKind> = Vec::new();
    for life in here().filter(|life| life.from <= step && step <= life.until && life.bytes > 0) {
        add(&mut alive, life, details.graph, &copied);
    }
    let held: u64 = alive.iter().map(|alive| alive.bytes.0).sum();
    if let Some(rest) = bytes.checked_sub(held).filter(|rest| *rest > 0) {
        alive.push(AliveKind { kind: BufferKind::Fragmentation, bytes: Bytes(rest), tensors: Vec::new() });
    }
    alive.sort_by_key(|alive| std::cmp::Reverse(alive.bytes));
    for kind in &mut alive {
        kind.tensors.sort_by_key(|held| std::cmp::Reverse(held.bytes));
    }
    let node =
        details.schedule.nodes.get(step).map_or_else(String::new, |(id, _)| name(&details.graph[*id], details.graph));
    let (step, steps) = details.in_whole(step);
    Peak { device, bytes: Bytes(bytes), node, step: (step + 1).min(steps), steps, alive }
}

/// The peak as terms of a sum.
pub(super) fn branch(name: String, peak: &Peak) -> Branch {
    let term = |alive: &AliveKind| {
        let formula = match alive.tensors.as_slice() {
            [] => "the rest of the buffer".to_owned(),
            [one] if one.count == 1 => format!("{}: {}", one.name, one.shape),
            several => format!("{} tensors", several.iter().map(|held| held.count).sum::<usize>()),
        };
        Term { name: alive.kind.name().to_owned(), numbers: formula.clone(), formula, bytes: alive.bytes }
    };
    Branch { name, bytes: peak.bytes, terms: peak.alive.iter().map(term).collect() }
}

fn add(alive: &mut Vec<AliveKind>, life: &Lifetime, graph: &Graph, copied: &CopiedSources) {
    let tensor = &graph[life.id];
    let (kind, bytes) = (kind(tensor, graph, copied), Bytes(life.bytes));
    let held = AliveTensors { name: name(tensor, graph), shape: shape(tensor), count: 1, bytes };
    let Some(known) = alive.iter_mut().find(|known| known.kind == kind) else {
        alive.push(AliveKind { kind, bytes, tensors: vec![held] });
        return;
    };
    known.bytes += bytes;
    match known.tensors.iter_mut().find(|other| other.name == held.name && other.shape == held.shape) {
        Some(other) => {
            other.count += 1;
            other.bytes += bytes;
        }
        None => known.tensors.push(held),
    }
}

/// The tensor's name in llama.cpp, label and block; for an unnamed one its operation and the nearest label.
fn name(tensor: &Tensor, graph: &Graph) -> String {
    let labelled = |tensor: &Tensor| match tensor.layer {
        block if block >= 0 => format!("{}-{block}", tensor.label),
        _ => tensor.label.to_owned(),
    };
    match nearest_labelled(tensor, graph) {
        Some(_) if !tensor.label.is_empty() => labelled(tensor),
        Some(from) => format!("{} of {}", operation(tensor.op), labelled(from)),
        None => operation(tensor.op).to_owned(),
    }
}

/// The tensor if it has a label, else the nearest first operand with one.
fn nearest_labelled<'g>(tensor: &'g Tensor, graph: &'g Graph) -> Option<&'g Tensor> {
    let first = |tensor: &&Tensor| graph.sources(tensor).next().map(|id| &graph[id]);
    std::iter::successors(Some(tensor), first).take(MAX_LABEL_DISTANCE).find(|tensor| !tensor.label.is_empty())
}

/// `f16 · 32768 × 512`
fn shape(tensor: &Tensor) -> String {
    let last = tensor.ne.iter().rposition(|&length| length > 1).unwrap_or(0);
    let lengths: Vec<String> = tensor.ne.iter().take(last + 1).map(ToString::to_string).collect();
    format!("{} · {}", tensor.ty.name(), lengths.join(" × "))
}

/// Weights and caches copied to a device, by label and block.
struct CopiedSources(Vec<(Buffer, &'static str, i16)>);

impl CopiedSources {
    fn of(place: BackendId, details: &Allocated<'_>) -> Self {
        let splits = details.schedule.splits.iter().filter(|split| split.place == place);
        let inputs = splits.flat_map(|split| details.schedule.inputs(split)).map(|id| &details.graph[*id]);
        let original = |tensor: &Tensor| {
            let owner = tensor.view_of.get().map_or(tensor.buffer, |id| details.graph[id].buffer);
            (owner != Buffer::Unallocated).then_some((owner, tensor.label, tensor.layer))
        };
        Self(inputs.filter_map(original).collect())
    }

    fn kind(&self, copy: &Tensor) -> Option<BufferKind> {
        let (buffer, ..) = self.0.iter().find(|(_, label, block)| (*label, *block) == (copy.label, copy.layer))?;
        match buffer {
            Buffer::Weights(_) => Some(BufferKind::CopiedWeights),
            Buffer::Cache(_) => Some(BufferKind::CopiedCaches),
            Buffer::Unallocated => None,
        }
    }
}

/// Kinds by label prefix; the first match counts.
const LABELS: [(&str, BufferKind); 19] = [
    ("result_output", BufferKind::Logits),
    ("kq_soft_max", BufferKind::Scores),
    ("kqv", BufferKind::Attention),
    ("kq", BufferKind::Scores),
    ("fattn", BufferKind::Attention),
    ("wqkv", BufferKind::Attention),
    ("ffn_moe_logits", BufferKind::Routing),
    ("ffn_moe_probs", BufferKind::Routing),
    ("ffn_moe_topk", BufferKind::Routing),
    ("ffn_moe_weights", BufferKind::Routing),
    ("ffn_moe_argsort", BufferKind::Routing),
    ("ffn_moe_out", BufferKind::Hidden),
    ("ffn_moe", BufferKind::Experts),
    ("ffn_inp", BufferKind::Hidden),
    ("ffn_out", BufferKind::Hidden),
    ("ffn", BufferKind::FeedForward),
    ("delta_net", BufferKind::States),
    ("embd", BufferKind::Hidden),
    ("l_out", BufferKind::Hidden),
];

/// Label parts of inputs.
const INPUTS: [&str; 3] = ["inp_", "out_ids", "rs_s_copy"];

fn kind(tensor: &Tensor, graph: &Graph, copied: &CopiedSources) -> BufferKind {
    if tensor.op == Op::None {
        return match tensor.label {
            label if label.contains("mask") => BufferKind::Masks,
            label if INPUTS.iter().any(|part| label.contains(part)) => BufferKind::Inputs,
            _ => copied.kind(tensor).unwrap_or(BufferKind::SplitInputs),
        };
    }
    // a product starts a new kind; other operations belong to what they operate on
    let subject =
        if matches!(tensor.op, Op::MulMat | Op::MulMatId) { Some(tensor) } else { nearest_labelled(tensor, graph) };
    let label = subject.map_or("", |tensor| tensor.label);
    let labelled = LABELS.iter().find(|(start, _)| label.starts_with(start)).map(|(_, kind)| *kind);
    labelled.unwrap_or(match tensor.op {
        Op::MulMatId | Op::AddId => BufferKind::Experts,
        Op::SoftMax => BufferKind::Scores,
        Op::Rope | Op::RopeBack | Op::FlashAttn => BufferKind::Attention,
        Op::Argsort => BufferKind::Routing,
        Op::SsmConv | Op::SsmScan | Op::GatedDeltaNet => BufferKind::States,
        Op::Norm | Op::RmsNorm => BufferKind::Hidden,
        Op::Glu => BufferKind::FeedForward,
        _ => BufferKind::Intermediates,
    })
}

/// Names of unnamed tensors.
const fn operation(op: Op) -> &'static str {
    match op {
        Op::MulMat => "matrix product",
        Op::MulMatId => "expert matrix product",
        Op::Norm | Op::RmsNorm | Op::L2Norm | Op::GroupNorm => "normalised rows",
        Op::Add | Op::AddId | Op::Sub => "sum",
        Op::Mul | Op::Div | Op::Scale => "product",
        Op::Rope => "rotated queries or keys",
        Op::RopeBack => "attention rotated back",
        Op::SoftMax => "softmax",
        Op::Cont | Op::Cpy | Op::Dup | Op::Concat | Op::Pad | Op::Repeat => "copy in another layout",
        Op::GetRows => "rows looked up",
        Op::Unary | Op::Glu => "activation",
        Op::FlashAttn => "flash attention",
        Op::None => "copy",
        _ => "intermediate tensor",
    }
}
