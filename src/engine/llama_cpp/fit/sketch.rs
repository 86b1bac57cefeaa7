//! What placements come to by the graphs of others like them: close enough to tell where a limit lies before anybody looks
//! there exactly.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::ggml::Backend;
use crate::engine::ggml::tensor::Place;
use crate::engine::llama_cpp::cache::Memory;
use crate::engine::llama_cpp::context::{Context, Options};
use crate::engine::llama_cpp::error::Refusal;
use crate::engine::llama_cpp::hparams::Hparams;
use crate::engine::llama_cpp::placement::{Part, Placement};
use crate::engine::llama_cpp::{Device, Loaded, Measured, backends};
use crate::plan::InEffect;

/// Graphs that were measured along a knob's track while everything else stayed, the GPUs too.
#[derive(Debug, Default)]
pub struct Graphs {
    /// Per placement, and per shape: what graphs took along the track.
    of_placements: Mutex<HashMap<Known, Line>>,
    of_shapes: Mutex<HashMap<Shape, Line>>,
    /// Weights do not change along a track.
    weights: Mutex<HashMap<Known, Vec<u64>>>,
}

/// A placement, with one of a fit's contexts.
type Known = (usize, Placement);

/// Bytes per device at places of a track.
type Line = BTreeMap<Extent, Vec<u64>>;

/// A way to tell what a graph takes at a place.
type Tell = fn(&Line, Extent) -> Option<Vec<u64>>;

/// How large things are at a place of a track: where the extent is the same under the same rules, so are the graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// One number for what graphs grow with.
    size: u64,
    parts: [u64; 6],
}

impl Extent {
    /// By the knobs in effect.
    pub fn of(effect: &InEffect) -> Self {
        let sequences = effect.parallel.max(1);
        // every sequence has as many tokens of a batch
        let tokens = effect.ubatch.min(effect.ctx_total).div_ceil(sequences).saturating_mul(sequences);
        let outputs = effect.outputs.unwrap_or(0);
        let parts = [effect.ctx_total, effect.ctx_per_sequence, effect.ubatch, tokens, sequences, outputs];
        Self { size: parts.into_iter().fold(0, u64::saturating_add), parts }
    }

    /// Whether GPUs take over work on weights in RAM: for a whole batch, and for a token of each sequence, by which
    /// llama.cpp tries flash attention.
    pub const fn taken_over(&self) -> [bool; 2] {
        let [_, _, _, tokens, sequences, _] = self.parts;
        let least = Backend::CUDA.offload_batch;
        [tokens >= least, sequences >= least]
    }
}

/// A place on a track where a plan is sketched.
#[derive(Debug)]
pub struct Sketch<'a> {
    graphs: &'a Graphs,
    at: Extent,
    basis: Basis,
    /// Contexts in the order in which fits come to them: the first is another than the one that they choose.
    contexts: RefCell<Vec<u64>>,
}

/// By which graphs a place is sketched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Those that are known along the track.
    Track,
    /// That of every placement: no sketch any more.
    Graph,
}

/// What graphs have in common that take much the same: which devices compute one after the other, which kinds of blocks
/// each has, and what overflows where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shape {
    /// Which of a fit's contexts.
    context: usize,
    /// Devices in the order in which they compute, and what each begins with, where that is told apart.
    homes: Vec<(Place, Option<Kind>)>,
    kinds: Vec<(Place, Kind)>,
    overflow: Vec<(Place, Part, Option<Place>)>,
    full_offload: bool,
}

/// What a block remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Kind {
    recurrent: bool,
    window: bool,
    /// Another block's cache.
    shared: bool,
}

impl Kind {
    fn of(hparams: &Hparams, il: usize) -> Self {
        let is = |blocks: &[bool]| blocks.get(il).copied().unwrap_or(false);
        let shared = hparams.n_layer_kv_from_start.is_some_and(|owners| il >= owners);
        Self { recurrent: is(&hparams.is_recr), window: is(&hparams.is_swa), shared }
    }
}

impl Shape {
    fn of(hparams: &Hparams, placement: &Placement, context: usize) -> Self {
        let blocks = placement.homes().into_iter().enumerate();
        let mut kinds: Vec<_> = blocks.map(|(il, home)| (home, Kind::of(hparams, il))).collect();
        let mut homes: Vec<_> = kinds.iter().map(|&(home, kind)| (home, Some(kind))).collect();
        homes.dedup_by_key(|(home, _)| *home);
        kinds.sort_unstable();
        kinds.dedup();
        let home = |block: usize| placement.layers.get(block).copied().unwrap_or(placement.output);
        let mut overflow: Vec<_> =
            placement.overrides().iter().map(|away| (home(away.block), away.part, away.gpu)).collect();
        overflow.sort_unstable();
        overflow.dedup();
        Self { context, homes, kinds, overflow, full_offload: placement.full_offload }
    }

    /// The same whatever devices begin with.
    fn coarse(self) -> Self {
        Self { homes: self.homes.into_iter().map(|(home, _)| (home, None)).collect(), ..self }
    }
}

impl Graphs {
    /// What the graph of a placement takes at a place of the track, as far as `basis` lets it be told.
    fn told(&self, basis: Basis, placement: &Known, shapes: &[Shape; 2], at: Extent) -> Option<Vec<u64>> {
        let of_placement = |tell: Tell| lock(&self.of_placements).get(placement).and_then(|line| tell(line, at));
        let of_shape = |shape: &Shape, tell: Tell| lock(&self.of_shapes).get(shape).and_then(|line| tell(line, at));
        let [fine, coarse] = shapes;
        match basis {
            Basis::Track => of_placement(measured)
                .or_else(|| of_placement(between))
                .or_else(|| of_placement(beyond))
                .or_else(|| of_shape(fine, measured))
                .or_else(|| of_shape(fine, between))
                .or_else(|| of_shape(coarse, measured))
                .or_else(|| of_shape(coarse, between)),
            Basis::Graph => of_placement(measured),
        }
    }

    fn note(&self, placement: Known, shapes: [Shape; 2], at: Extent, compute: &[u64]) {
        lock(&self.of_placements).entry(placement).or_default().insert(at, compute.to_vec());
        for shape in shapes {
            lock(&self.of_shapes).entry(shape).or_default().insert(at, compute.to_vec());
        }
    }

    fn weights(&self, model: &Loaded, placement: Known, backends: &[Backend]) -> Vec<u64> {
        if let Some(known) = lock(&self.weights).get(&placement) {
            return known.clone();
        }
        let weights = placement.1.weights(model, backends);
        lock(&self.weights).insert(placement, weights.clone());
        weights
    }
}

impl<'a> Sketch<'a> {
    /// At a place of the track; what `graphs` lack for it is measured and added to them.
    pub fn new(graphs: &'a Graphs, at: Extent, basis: Basis) -> Self {
        Self { graphs, at, basis, contexts: RefCell::default() }
    }

    /// What `placement` takes; `measure` finds it out by its graph, where nothing like it is known.
    pub(super) fn measure(
        &self,
        model: &Loaded,
        devices: &[Device],
        placement: &Placement,
        options: &Options,
        measure: impl FnOnce() -> Result<Measured, Refusal>,
    ) -> Result<Measured, Refusal> {
        let Self { graphs, at, basis, .. } = *self;
        let context = self.context(options.n_ctx);
        let fine = Shape::of(&model.hparams, placement, context);
        let shapes = [fine.clone(), fine.coarse()];
        let known = (context, placement.clone());
        let Some(compute) = graphs.told(basis, &known, &shapes, at) else {
            let measured = measure()?;
            graphs.note(known, shapes, at, &measured.compute);
            return Ok(measured);
        };
        let parameters = Context::new(options, &model.hparams, &model.release)?;
        let backends = backends(devices);
        let memory = Memory::new(&model.hparams, model.family.architecture, &parameters, placement);
        Ok(Measured {
            model: graphs.weights(model, known, &backends),
            context: memory.bytes(&backends),
            compute,
            parameters,
            homes: placement.homes(),
        })
    }

    /// The how many-th context this is.
    fn context(&self, n_ctx: u64) -> usize {
        let mut contexts = self.contexts.borrow_mut();
        contexts.iter().position(|known| *known == n_ctx).unwrap_or_else(|| {
            contexts.push(n_ctx);
            contexts.len() - 1
        })
    }
}

fn measured(line: &Line, at: Extent) -> Option<Vec<u64>> {
    line.get(&at).cloned()
}

/// On the line through the nearest that were measured on either side.
fn between(line: &Line, at: Extent) -> Option<Vec<u64>> {
    Some(through(line.range(..at).next_back()?, line.range(at..).next()?, at))
}

/// On the line through the two nearest, which are on the same side, as far beyond the near one as the other is before it.
fn beyond(line: &Line, at: Extent) -> Option<Vec<u64>> {
    let (mut before, mut after) = (line.range(..at).rev(), line.range(at..));
    let (near, far) = (before.next().or_else(|| after.next())?, before.next().or_else(|| after.next())?);
    (near.0.size.abs_diff(at.size) <= near.0.size.abs_diff(far.0.size)).then(|| through(near, far, at))
}

fn through((one, bytes): (&Extent, &Vec<u64>), (other, others): (&Extent, &Vec<u64>), at: Extent) -> Vec<u64> {
    let on_line = |(&y, &other_y)| on_line((one.size, y), (other.size, other_y), at.size);
    bytes.iter().zip(others).map(on_line).collect()
}

/// What holds at `at` on the line through two points; nothing where it falls below nothing.
fn on_line((x, y): (u64, u64), (other_x, other_y): (u64, u64), at: u64) -> u64 {
    let [x, y, other_x, other_y, at] = [x, y, other_x, other_y, at].map(i128::from);
    let run = other_x - x;
    let rise = if run == 0 { 0 } else { (other_y - y).saturating_mul(at - x) / run };
    u64::try_from((y + rise).max(0)).unwrap_or(u64::MAX)
}

/// What whoever held the lock last left is whole: it only adds.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::on_line;

    #[test]
    fn lines_go_through_both_points_and_never_below_nothing() {
        for (at, held) in [(10, 100), (20, 120), (15, 110), (30, 140), (0, 80)] {
            assert_eq!(on_line((10, 100), (20, 120), at), held);
            assert_eq!(on_line((20, 120), (10, 100), at), held);
        }
        assert_eq!(on_line((10, 5), (20, 20), 0), 0);
        assert_eq!(on_line((10, 5), (10, 5), 10), 5);
        assert_eq!(on_line((0, 0), (1, u64::MAX), u64::MAX), u64::MAX);
    }
}
