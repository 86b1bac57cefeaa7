//! The allocator's steps through a schedule, and the tensors alive at each step on each device.

use super::kind::{self, TimelineKind};
use crate::engine::ggml::allocate::Lifetime;
use crate::engine::ggml::tensor::Op;
use crate::teach::names;
use crate::teach::trace::Trace;
use crate::units::Bytes;

/// The allocations of a schedule.
#[derive(Clone, Debug)]
pub struct AllocationWalk {
    /// Its steps, in order: an operation, or a copy between devices.
    pub moments: Vec<Moment>,
    /// One for each device in use; RAM is the last.
    pub timelines: Vec<Timeline>,
}

/// A step of the allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The tensor that is computed or copied: `kq-3`.
    pub name: String,
    /// The operation: `MUL_MAT`; `COPY` between devices, `KEEP` for a tensor kept until it is copied.
    pub op: &'static str,
    /// Index of the timeline whose device executes it.
    pub home: usize,
    /// The block that it belongs to; `None` before the first and after the last.
    pub layer: Option<usize>,
}

/// One device's compute buffer.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// `GPU0`, `CPU`.
    pub id: String,
    /// Index into the plan's devices.
    pub device: usize,
    /// Bytes reserved by the allocator: the plan's graph for this device.
    pub reserved: Bytes,
    /// Bytes that it would reserve without reuse.
    pub naive: Bytes,
    /// The first step at which the buffer has its final size.
    pub peak: usize,
    /// The tensors in the buffer, in the order of allocation.
    pub lives: Vec<TensorLife>,
    /// Bytes alive at each step, by kind in the order of [`TimelineKind::ALL`].
    pub alive: Vec<[u64; TimelineKind::ALL.len()]>,
    /// Size of the buffer by each step, in bytes.
    pub grown: Vec<u64>,
}

/// A tensor in a buffer, with its lifetime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorLife {
    /// `kq-3`.
    pub name: String,
    /// `f32 4096×512`.
    pub shape: String,
    /// Its kind.
    pub kind: TimelineKind,
    /// Its offset; several buffers of a device are laid out one after the other.
    pub offset: u64,
    /// Its bytes, rounded up to the device's alignment.
    pub bytes: u64,
    /// The step at which it is allocated.
    pub from: usize,
    /// The first step at which it is free again.
    pub end: usize,
    /// The operand whose bytes it reuses in place.
    pub takes_over: Option<String>,
}

impl AllocationWalk {
    /// Reads the allocations from a trace.
    pub fn of(trace: &Trace) -> Self {
        let details = &trace.details;
        let (graph, schedule) = (&details.graph, &details.schedule);
        let copies: std::collections::HashMap<_, _> =
            schedule.crossings().map(|(_, original, copy)| (copy, original)).collect();
        let moments: Vec<Moment> = schedule
            .nodes
            .iter()
            .map(|&(id, place)| {
                let tensor = &graph[id];
                let (op, of) = match (tensor.op, copies.get(&id)) {
                    (_, Some(original)) => ("COPY", *original),
                    (Op::None, None) => ("KEEP", tensor.view_of.get().unwrap_or(id)),
                    (op, None) => (op.name(), id),
                };
                let layer = usize::try_from(graph[of].layer).ok();
                Moment { name: names::name(graph, of), op, home: usize::from(place), layer }
            })
            .collect();
        let kinds = kind::kinds(details);
        let timelines = (0..trace.homes.len()).map(|home| Timeline::of(trace, home, moments.len(), &kinds)).collect();
        Self { moments, timelines }
    }
}

impl Timeline {
    fn of(trace: &Trace, at: usize, moments: usize, kinds: &[TimelineKind]) -> Self {
        let (details, home) = (&trace.details, &trace.homes[at]);
        let graph = &details.graph;
        let here = details.lifetimes.iter().filter(|life| usize::from(life.place) == at);
        // an operand reused in place ends at that step, any other lives to the end of its last step
        let reused: std::collections::HashSet<(u32, usize)> =
            here.clone().filter_map(|life| Some((life.takes_over.get()?.0, life.from))).collect();
        let end = |life: &Lifetime| {
            let is_reused = reused.contains(&(life.id.0, life.until));
            if is_reused { life.until } else { (life.until + 1).min(moments) }
        };
        let size = |life: &Lifetime| life.bytes.next_multiple_of(home.alignment);
        let grown = grown(here.clone().map(|life| (life.from, life.chunk, life.offset + size(life))), moments);
        // several buffers are shown one after the other, at their final sizes
        let starts = starts(here.clone().map(|life| (life.chunk, life.offset + size(life))));
        let start = |chunk: usize| starts.get(chunk).copied().unwrap_or(0);
        let lives: Vec<TensorLife> = here
            .map(|life| TensorLife {
                name: names::name(graph, life.id),
                shape: names::shape(&graph[life.id]),
                kind: kinds[life.id.index()],
                offset: start(life.chunk) + life.offset,
                bytes: size(life),
                from: life.from,
                end: end(life),
                takes_over: life.takes_over.get().map(|operand| names::name(graph, operand)),
            })
            .collect();
        let top = grown.last().copied().unwrap_or(0);
        Self {
            id: home.id.clone(),
            device: home.device,
            reserved: Bytes(trace.measured.compute.get(at).copied().unwrap_or(0)),
            naive: lives.iter().map(|life| Bytes(life.bytes)).sum(),
            peak: grown.iter().position(|bytes| *bytes == top).unwrap_or(0),
            alive: alive(&lives, moments),
            grown,
            lives,
        }
    }

    /// The tensors alive at step `moment`, by offset.
    pub fn alive_at(&self, moment: usize) -> Vec<&TensorLife> {
        let is_alive = |life: &&TensorLife| life.from <= moment && moment < life.end && life.bytes > 0;
        let mut lives: Vec<&TensorLife> = self.lives.iter().filter(is_alive).collect();
        lives.sort_by_key(|life| life.offset);
        lives
    }
}

fn alive(lives: &[TensorLife], moments: usize) -> Vec<[u64; TimelineKind::ALL.len()]> {
    let mut changes = vec![[0i128; TimelineKind::ALL.len()]; moments + 1];
    for life in lives {
        let kind = life.kind.index();
        changes[life.from.min(moments)][kind] += i128::from(life.bytes);
        changes[life.end.min(moments)][kind] -= i128::from(life.bytes);
    }
    let mut now = [0i128; TimelineKind::ALL.len()];
    let mut steps = Vec::with_capacity(moments);
    for change in &changes[..moments] {
        for (now, change) in now.iter_mut().zip(change) {
            *now += change;
        }
        steps.push(now.map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX)));
    }
    steps
}

/// Total size of the buffers by each step; `ends` are a step, a buffer, and the end of a tensor in it.
fn grown(ends: impl Iterator<Item = (usize, usize, u64)>, moments: usize) -> Vec<u64> {
    let mut ends: Vec<_> = ends.collect();
    ends.sort_unstable();
    let (mut ends, mut lengths) = (ends.into_iter().peekable(), Vec::<u64>::new());
    let step = |moment: usize| {
        while let Some((_, chunk, end)) = ends.next_if(|(from, ..)| *from <= moment) {
            lengths.resize(lengths.len().max(chunk + 1), 0);
            lengths[chunk] = lengths[chunk].max(end);
        }
        lengths.iter().sum()
    };
    (0..moments).map(step).collect()
}

/// The start of each buffer if they are laid out one after the other.
fn starts(ends: impl Iterator<Item = (usize, u64)>) -> Vec<u64> {
    let mut lengths: Vec<u64> = Vec::new();
    for (chunk, end) in ends {
        lengths.resize(lengths.len().max(chunk + 1), 0);
        lengths[chunk] = lengths[chunk].max(end);
    }
    let begin = |next: &mut u64, length: &u64| {
        let start = *next;
        *next += length;
        Some(start)
    };
    lengths.iter().scan(0, begin).collect()
}
