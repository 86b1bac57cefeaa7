//! Timeline of the allocator: the tensors alive in each device's compute buffer, from the first operation to the last.

mod kind;
mod page;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::alike::{alike, blocks_title};
use super::trace::{self, Phase, Trace};
use crate::engine::ggml::allocate::Lifetime;
use crate::engine::ggml::tensor::{Op, TensorId};
use crate::engine::llama_cpp::{MemoryBreakdown, ReservedGraph, ResolvedRequest};
use crate::engine::{EngineError, PlanRequest};
use crate::plan::Plan;
use crate::settings::FlashAttn;
use crate::units::{Bytes, Tokens};
pub use kind::TimelineKind;
use kind::kinds;
pub use page::TimelineRows;

/// The page.
#[derive(Clone, Debug)]
pub struct AllocationPage {
    /// The plan's allocations.
    pub walk: AllocationWalk,
    /// The current value of what the variation changes; empty without one.
    pub label: String,
    /// The allocations with one thing changed.
    pub other: Option<VariedWalk>,
    /// The batch whose graph it is, as one sentence.
    pub batch: String,
    /// Which graph is shown.
    pub phase: Phase,
    /// One sentence if the engine builds no graph and llama.cpp's is shown instead.
    pub remark: Option<String>,
}

/// A second walk, to compare with the first.
#[derive(Clone, Debug)]
pub struct VariedWalk {
    /// The changed value: `flash attention off`.
    pub label: String,
    /// The allocations, or why llama.cpp refuses.
    pub walk: Result<AllocationWalk, EngineError>,
}

/// A change of one setting; the placement of layers stays unless it is what changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variation {
    /// Flash attention switched.
    FlashAttention,
    /// An ubatch of 2048 tokens if it is 512, else of 512.
    Ubatch,
    /// One layer less on GPUs if all are, else all.
    Layers,
}

impl Variation {
    /// All variations, in the order of the menu.
    pub const ALL: [Self; 3] = [Self::FlashAttention, Self::Ubatch, Self::Layers];

    /// The request with the change.
    fn changed(self, resolved: &ResolvedRequest, measured: &MemoryBreakdown) -> ResolvedRequest {
        let mut other = resolved.clone();
        let now = &measured.parameters;
        match self {
            Self::FlashAttention => {
                other.options.flash_attn = if now.flash_attn { FlashAttn::Off } else { FlashAttn::On };
            }
            Self::Ubatch => {
                other.options.n_ubatch = if now.n_ubatch == 512 { 2048 } else { 512 };
                other.options.n_batch = other.options.n_batch.max(other.options.n_ubatch);
            }
            Self::Layers => {
                let all = resolved.loaded.hparams.n_layer_all + 1;
                let one_less = if measured.offloaded() == all { all - 1 } else { all };
                other.spread.gpu_layers = Some(one_less as u64);
            }
        }
        other
    }

    /// The value in `measured`: `ubatch 512`.
    fn label(self, measured: &MemoryBreakdown, resolved: &ResolvedRequest) -> String {
        match self {
            Self::FlashAttention => {
                format!("flash attention {}", if measured.parameters.flash_attn { "on" } else { "off" })
            }
            Self::Ubatch => format!("ubatch {}", Tokens(measured.parameters.n_ubatch)),
            Self::Layers => format!("{} of {} layers", measured.offloaded(), resolved.loaded.hparams.n_layer_all + 1),
        }
    }

    /// The requested value, if llama.cpp refuses and nothing was measured.
    fn requested_label(self, resolved: &ResolvedRequest) -> String {
        match self {
            Self::FlashAttention => format!("flash attention {}", resolved.options.flash_attn),
            Self::Ubatch => format!("ubatch {}", Tokens(resolved.options.n_ubatch)),
            Self::Layers => format!("{} layers", resolved.spread.gpu_layers.unwrap_or_default()),
        }
    }
}

impl AllocationPage {
    /// The timelines of the graph of `plan` in `phase`, and of a variation if one is given.
    ///
    /// # Errors
    /// If llama.cpp refuses the model or the settings.
    pub fn of(
        request: &PlanRequest,
        plan: &Plan,
        versus: Option<Variation>,
        phase: Phase,
    ) -> Result<Self, EngineError> {
        let trace = Trace::of(request, plan, phase)?;
        let other = versus.map(|versus| Self::varied(versus, &trace));
        let label = versus.map(|versus| versus.label(&trace.measured, &trace.resolved)).unwrap_or_default();
        let walk = AllocationWalk::of(&trace);
        let batch = walk.shown_graph(&trace);
        let more = if phase == Phase::Prompt { walk.larger_besides(&trace) } else { None };
        let remark = trace.remark.into_iter().chain(more).reduce(|all, next| format!("{all} {next}"));
        Ok(Self { walk, label, other, batch, phase, remark })
    }

    fn varied(versus: Variation, trace: &Trace) -> VariedWalk {
        let resolved = versus.changed(&trace.resolved, &trace.measured);
        let requested = versus.requested_label(&resolved);
        match trace.again(resolved, trace.phase) {
            Ok(other) => {
                let label = versus.label(&other.measured, &other.resolved);
                VariedWalk { label, walk: Ok(AllocationWalk::of(&other)) }
            }
            Err(refusal) => VariedWalk { label: requested, walk: Err(refusal) },
        }
    }
}

/// The allocations of a schedule.
#[derive(Clone, Debug)]
pub struct AllocationWalk {
    /// Its steps, in order: an operation, or a copy between devices.
    pub moments: Vec<Moment>,
    /// One for each device in use; RAM is the last.
    pub timelines: Vec<Timeline>,
    /// The steps in runs of one block, or of none.
    runs: Vec<Range<usize>>,
    /// The runs that are alike together.
    alike: Vec<Vec<usize>>,
}

/// How much of a walk is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zoom {
    /// Every step.
    #[default]
    All,
    /// Of blocks that are alike the first.
    Alike,
    /// One block.
    Block,
}

impl Zoom {
    /// The next one, around.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::All => Self::Alike,
            Self::Alike => Self::Block,
            Self::Block => Self::All,
        }
    }
}

/// The shown steps of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkView {
    /// How much is shown.
    pub zoom: Zoom,
    /// The steps, ascending, as indices into the walk's.
    pub moments: Vec<usize>,
    /// Names of shown steps, which begin there: of blocks, or of operations.
    pub names: Vec<(usize, String)>,
}

impl WalkView {
    /// The place of the step `at` among the shown, or of the last one before it.
    pub fn place(&self, at: usize) -> usize {
        self.moments.partition_point(|moment| *moment <= at).saturating_sub(1)
    }

    /// The step at a place.
    pub fn moment(&self, place: usize) -> usize {
        self.moments.get(place.min(self.moments.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    /// What is shown, for a title; nothing if it is all.
    pub fn title(&self, walk: &AllocationWalk) -> Option<String> {
        let first = self.moments.first().and_then(|at| walk.moments.get(*at));
        match self.zoom {
            Zoom::All => None,
            Zoom::Alike => Some("alike blocks folded".to_owned()),
            Zoom::Block => Some(match first?.layer {
                Some(layer) => format!("block {layer}"),
                None if self.moments.first() == Some(&0) => "before the blocks".to_owned(),
                None => "after the blocks".to_owned(),
            }),
        }
    }

    /// What a name is of.
    pub const fn named(&self) -> &'static str {
        match self.zoom {
            Zoom::All | Zoom::Alike => "block",
            Zoom::Block => "op",
        }
    }
}

/// A step of the allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The tensor that is computed or copied: `kq-3`.
    pub name: String,
    /// The operation: `MUL_MAT`; `COPY` between devices, `KEEP` for a tensor kept until it is copied.
    pub op: &'static str,
    /// Index of the timeline whose device executes it.
    pub backend: usize,
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
    /// Bytes reserved by the allocator for this graph.
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
        let copies: HashMap<_, _> = schedule.crossings().map(|(_, original, copy)| (copy, original)).collect();
        let layers: HashMap<TensorId, Option<usize>> = graph.nodes.iter().copied().zip(trace::layers(graph)).collect();
        // copies belong to the operation that follows them
        let mut layer = None;
        let mut moments: Vec<Moment> = schedule
            .nodes
            .iter()
            .rev()
            .map(|&(id, place)| {
                let tensor = &graph[id];
                let (op, of) = match (tensor.op, copies.get(&id)) {
                    (_, Some(original)) => ("COPY", *original),
                    (Op::None, None) => ("KEEP", tensor.view_of.get().unwrap_or(id)),
                    (op, None) => (op.name(), id),
                };
                layer = layers.get(&id).copied().unwrap_or(layer);
                Moment { name: trace::name(graph, of), op, backend: usize::from(place), layer }
            })
            .collect();
        moments.reverse();
        let kinds = kinds(details);
        let timelines =
            (0..trace.backends.len()).map(|backend| Timeline::of(trace, backend, moments.len(), &kinds)).collect();
        let mut walk = Self { moments, timelines, runs: Vec::new(), alike: Vec::new() };
        walk.runs = walk.runs_of_blocks();
        walk.alike = alike(walk.runs.iter().map(|run| walk.signature(run)));
        walk
    }

    /// A sentence on the devices where another graph of the load, which is not shown, reserves more.
    fn larger_besides(&self, trace: &Trace) -> Option<String> {
        let devices = self.timelines.iter().zip(&trace.measured.compute).enumerate();
        let larger = devices.filter_map(|(backend, (timeline, bytes))| {
            let reserves =
                |graph: &&ReservedGraph| graph.reserved.get(backend).is_some_and(|piece| piece.bytes == *bytes);
            let graph = trace.details.besides.iter().find(reserves).filter(|_| timeline.reserved.0 < *bytes)?;
            let of = if graph.batch.n_seq_tokens() == 1 { "one token per sequence" } else { "one sequence" };
            Some(format!("{} on {} for that of {of}", Bytes(*bytes), timeline.id))
        });
        let larger: Vec<String> = larger.collect();
        (!larger.is_empty()).then(|| format!("For another graph more is reserved: {}.", larger.join(" and ")))
    }

    /// The batch whose graph it is, and for one token what its buffers are reserved at.
    fn shown_graph(&self, trace: &Trace) -> String {
        let graph = format!("This is the graph of {}", trace.batch());
        if trace.phase == Phase::Prompt {
            return format!("{graph}.");
        }
        let devices = self.timelines.iter().zip(&trace.measured.compute);
        let each = devices.filter(|(_, reserved)| **reserved > 0);
        let each = each
            .map(|(timeline, reserved)| format!("{} of {} on {}", timeline.reserved, Bytes(*reserved), timeline.id));
        match each.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => format!("{graph}."),
            each => format!("{graph}; it uses what a prompt's reserved: {each}."),
        }
    }

    /// The block of a run.
    fn layer(&self, run: &Range<usize>) -> Option<usize> {
        self.moments.get(run.start).and_then(|moment| moment.layer)
    }

    /// What runs that are alike have in common: operations, their devices, and what is alive on every device.
    fn signature(&self, run: &Range<usize>) -> u64 {
        let hasher = &mut DefaultHasher::new();
        self.layer(run).is_none().then_some(run.start).hash(hasher);
        for at in run.clone() {
            self.moments.get(at).map(|moment| (moment.op, moment.backend)).hash(hasher);
            for timeline in &self.timelines {
                (timeline.alive.get(at), timeline.grown.get(at)).hash(hasher);
            }
        }
        hasher.finish()
    }

    fn runs_of_blocks(&self) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (at, moment) in self.moments.iter().enumerate() {
            let same =
                |run: &&mut Range<usize>| self.moments.get(run.start).is_some_and(|first| first.layer == moment.layer);
            match runs.last_mut().filter(same) {
                Some(run) => run.end = at + 1,
                None => runs.push(at..at + 1),
            }
        }
        runs
    }

    /// What `zoom` shows around the step `at`.
    pub fn view(&self, zoom: Zoom, at: usize) -> WalkView {
        let runs = &self.runs;
        let mut view = WalkView { zoom, moments: Vec::new(), names: Vec::new() };
        match zoom {
            Zoom::All => {
                view.moments = (0..self.moments.len()).collect();
                let mut seen = None;
                // blocks may be left and entered again
                let mut first = |layer: usize| seen.replace(layer).is_none_or(|seen| layer > seen);
                let named = runs.iter().filter_map(|run| self.layer(run).map(|layer| (run.start, layer)));
                view.names =
                    named.filter(|(_, layer)| first(*layer)).map(|(at, layer)| (at, layer.to_string())).collect();
            }
            Zoom::Alike => {
                for group in &self.alike {
                    let Some(first) = group.first().and_then(|run| runs.get(*run)) else { continue };
                    let layers: Vec<usize> = group.iter().filter_map(|run| self.layer(runs.get(*run)?)).collect();
                    if !layers.is_empty() {
                        let title = blocks_title(&layers);
                        let title = title.strip_prefix("blocks ").or(title.strip_prefix("block ")).unwrap_or(&title);
                        view.names.push((view.moments.len(), title.to_owned()));
                    }
                    view.moments.extend(first.clone());
                }
            }
            Zoom::Block => {
                let run = runs.iter().find(|run| run.contains(&at)).cloned().unwrap_or(0..self.moments.len());
                let name = |(column, at): (usize, usize)| Some((column, self.moments.get(at)?.op.to_owned()));
                view.names = run.clone().enumerate().filter_map(name).collect();
                view.moments = run.collect();
            }
        }
        view
    }
}

impl Timeline {
    fn of(trace: &Trace, at: usize, moments: usize, kinds: &[TimelineKind]) -> Self {
        let (details, backend) = (&trace.details, &trace.backends[at]);
        let graph = &details.graph;
        let here = details.lifetimes.iter().filter(|life| usize::from(life.place) == at);
        // an operand reused in place ends at that step, any other lives to the end of its last step
        let reused: HashSet<(u32, usize)> =
            here.clone().filter_map(|life| Some((life.takes_over.get()?.0, life.from))).collect();
        let end = |life: &Lifetime| {
            let is_reused = reused.contains(&(life.id.0, life.until));
            if is_reused { life.until } else { (life.until + 1).min(moments) }
        };
        let size = |life: &Lifetime| life.bytes.next_multiple_of(backend.alignment);
        let grown = grown(here.clone().map(|life| (life.from, life.chunk, life.offset + size(life))), moments);
        // several buffers are shown one after the other, at their final sizes
        let starts = starts(here.clone().map(|life| (life.chunk, life.offset + size(life))));
        let start = |chunk: usize| starts.get(chunk).copied().unwrap_or(0);
        let lives: Vec<TensorLife> = here
            .map(|life| TensorLife {
                name: trace::name(graph, life.id),
                shape: trace::shape(&graph[life.id]),
                kind: kinds[life.id.index()],
                offset: start(life.chunk) + life.offset,
                bytes: size(life),
                from: life.from,
                end: end(life),
                takes_over: life.takes_over.get().map(|operand| trace::name(graph, operand)),
            })
            .collect();
        let top = grown.last().copied().unwrap_or(0);
        Self {
            id: backend.id.clone(),
            device: backend.device,
            reserved: Bytes(top),
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
