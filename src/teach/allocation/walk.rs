//! One walk of the allocator through a schedule: the moments, and what is alive in them on each device.

use super::kind::{self, TimelineKind};
use crate::engine::ggml::allocate::Lifetime;
use crate::engine::ggml::tensor::Op;
use crate::machine::DeviceKind;
use crate::teach::names;
use crate::teach::trace::Trace;
use crate::units::Bytes;

/// A walk.
#[derive(Clone, Debug)]
pub struct AllocationWalk {
    /// Its steps, in order: an operation, or a copy between devices.
    pub moments: Vec<Moment>,
    /// One for each device that takes part; RAM is the last.
    pub timelines: Vec<Timeline>,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// What is computed or copied: `kq-3`.
    pub name: String,
    /// How: `MUL_MAT`; `COPY` between devices, `KEEP` for what waits to be copied.
    pub op: &'static str,
    /// The timeline whose device does it.
    pub home: usize,
    /// The block that it belongs to; none for what comes before and after them.
    pub layer: Option<usize>,
}

/// One device's compute buffer.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// `GPU0`, `CPU`.
    pub id: String,
    /// Index into the plan's devices.
    pub device: usize,
    /// GPU or CPU.
    pub kind: DeviceKind,
    /// What the allocator reserves, in bytes: the plan's graph for this device.
    pub reserved: Bytes,
    /// What it would have to reserve if nothing were ever freed.
    pub naive: Bytes,
    /// The first moment in which the buffer is as large as it gets.
    pub peak: usize,
    /// What holds bytes when, in the order of allocation.
    pub lives: Vec<TensorLife>,
    /// Bytes alive in each moment, by kind as in [`TimelineKind::ALL`].
    pub alive: Vec<[u64; TimelineKind::ALL.len()]>,
    /// Bytes that the buffer has grown to by each moment.
    pub grown: Vec<u64>,
}

/// A tensor that holds bytes for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorLife {
    /// `kq-3`.
    pub name: String,
    /// `f32 4096×512`.
    pub shape: String,
    /// What it is for.
    pub kind: TimelineKind,
    /// Where it begins; a device's several buffers lie one after the other.
    pub offset: u64,
    /// Bytes, rounded up to the device's alignment.
    pub bytes: u64,
    /// The first moment in which it is there.
    pub from: usize,
    /// The first moment in which it is not.
    pub end: usize,
    /// The operand whose bytes it took over.
    pub takes_over: Option<String>,
}

impl AllocationWalk {
    /// Reads off what llama.cpp's allocator did.
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
        // who is taken over is gone in that moment; who is freed lives until its end
        let heirs: std::collections::HashSet<(u32, usize)> =
            here.clone().filter_map(|life| Some((life.takes_over.get()?.0, life.from))).collect();
        let end = |life: &Lifetime| {
            let inherited = heirs.contains(&(life.id.0, life.until));
            if inherited { life.until } else { (life.until + 1).min(moments) }
        };
        let size = |life: &Lifetime| life.bytes.next_multiple_of(home.alignment);
        let grown = grown(here.clone().map(|life| (life.from, life.chunk, life.offset + size(life))), moments);
        // several buffers are shown one after the other, each as long as it gets
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
            kind: if at + 1 < trace.homes.len() { DeviceKind::Gpu } else { DeviceKind::Cpu },
            reserved: Bytes(trace.measured.compute.get(at).copied().unwrap_or(0)),
            naive: lives.iter().map(|life| Bytes(life.bytes)).sum(),
            peak: grown.iter().position(|bytes| *bytes == top).unwrap_or(0),
            alive: alive(&lives, moments),
            grown,
            lives,
        }
    }

    /// What holds bytes in `moment`, from the beginning of the buffer to its end.
    pub fn alive_at(&self, moment: usize) -> Vec<&TensorLife> {
        let there = |life: &&TensorLife| life.from <= moment && moment < life.end && life.bytes > 0;
        let mut lives: Vec<&TensorLife> = self.lives.iter().filter(there).collect();
        lives.sort_by_key(|life| life.offset);
        lives
    }

    /// Bytes alive in `moment`.
    pub fn alive_bytes(&self, moment: usize) -> Bytes {
        self.alive.get(moment).map_or(Bytes::ZERO, |kinds| kinds.iter().map(|bytes| Bytes(*bytes)).sum())
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

/// How long the buffers are together by each moment; `ends` are moments, buffers, and where in them something ends.
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

/// Where each buffer begins if they lie one after the other.
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
