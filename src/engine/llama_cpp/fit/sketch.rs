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
    /// Per placement, and per shape of a device's part: what graphs took along the track.
    of_placements: Mutex<HashMap<Known, Line<Vec<u64>>>>,
    of_shapes: Mutex<HashMap<Shape, Line<u64>>>,
    /// Weights do not change along a track.
    weights: Mutex<HashMap<Known, Vec<u64>>>,
}

/// A placement, with one of a fit's contexts.
type Known = (usize, Placement);

/// What was measured at places of a track.
type Line<T> = BTreeMap<Extent, T>;

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

/// What graphs have in common of which a device takes much the same, whatever the others take.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shape {
    /// Which of a fit's contexts.
    context: usize,
    device: Place,
    /// The device that computes before it, and what kind of block it begins with itself, where that is told apart.
    begins: Option<(Place, Option<Kind>)>,
    kinds: Vec<Kind>,
    has_output: bool,
    /// Which parts of its blocks are elsewhere, and what of others' blocks it has.
    away: Vec<(Part, Option<Place>)>,
    guests: Vec<(Part, Place)>,
    /// What the first GPU takes over: whole blocks, and parts of blocks.
    taken_over: (bool, Vec<Part>),
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
    /// One for each device, RAM last.
    fn of(hparams: &Hparams, placement: &Placement, context: usize) -> Vec<Self> {
        let homes = placement.homes();
        let home = |block: usize| placement.layers.get(block).copied().unwrap_or(placement.output);
        let away = |device: Place| placement.overrides().iter().filter(move |away| home(away.block) == device);
        let to = |device: Option<Place>| placement.overrides().iter().filter(move |away| away.gpu == device);
        let of = |device: Place| {
            let own = |il: &usize| homes[*il] == device;
            let first = homes.iter().position(|home| *home == device);
            let is_ram = device == placement.cpu;
            let takes_over = device == 0 && !is_ram;
            Self {
                context,
                device,
                begins: first.map(|il| (homes[il.saturating_sub(1)], Some(Kind::of(hparams, il)))),
                kinds: set((0..homes.len()).filter(own).map(|il| Kind::of(hparams, il))),
                has_output: placement.output == device,
                away: set(away(device).map(|away| (away.part, away.gpu))),
                guests: set(to(Some(device).filter(|_| !is_ram)).map(|away| (away.part, home(away.block)))),
                taken_over: (
                    takes_over && homes.contains(&placement.cpu),
                    set(to(None).filter(|_| takes_over).map(|away| away.part)),
                ),
                full_offload: placement.full_offload,
            }
        };
        (0..=placement.cpu).map(of).collect()
    }

    /// The same whatever it begins with.
    fn coarse(self) -> Self {
        Self { begins: self.begins.map(|(before, _)| (before, None)), ..self }
    }
}

/// Each of `of` once.
fn set<T: Ord>(of: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = of.collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Graphs {
    /// What the graph of a placement takes at a place of the track, as far as `basis` lets it be told.
    fn told(&self, basis: Basis, placement: &Known, shapes: &[[Shape; 2]], at: Extent) -> Option<Vec<u64>> {
        let of_placements = lock(&self.of_placements);
        let line = of_placements.get(placement);
        let measured = line.and_then(|line| line.get(&at).cloned());
        if measured.is_some() || basis == Basis::Graph {
            return measured;
        }
        let of_placement = || {
            let [(x, one), (other_x, other)] = ends(line?, at)?;
            Some(one.iter().zip(other).map(|(y, other_y)| on_line([(x, *y), (other_x, *other_y)], at)).collect())
        };
        let of_shapes = || {
            let lines = lock(&self.of_shapes);
            let of_shape = |shape: &Shape| {
                let line = lines.get(shape)?;
                let along = || Some(on_line(ends(line, at)?.map(|(x, y)| (x, *y)), at));
                line.get(&at).copied().or_else(along)
            };
            shapes.iter().map(|[fine, coarse]| of_shape(fine).or_else(|| of_shape(coarse))).collect()
        };
        of_placement().or_else(of_shapes)
    }

    fn note(&self, placement: Known, shapes: Vec<[Shape; 2]>, at: Extent, compute: &[u64]) {
        lock(&self.of_placements).entry(placement).or_default().insert(at, compute.to_vec());
        let mut of_shapes = lock(&self.of_shapes);
        for (shapes, bytes) in shapes.into_iter().zip(compute) {
            for shape in shapes {
                of_shapes.entry(shape).or_default().insert(at, *bytes);
            }
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
        let shapes = Shape::of(&model.hparams, placement, context).into_iter();
        let shapes: Vec<_> = shapes.map(|fine| [fine.clone(), fine.coarse()]).collect();
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

/// What a line is drawn through: the nearest that were measured on either side of `at`; or the two nearest on one side, as
/// far beyond the near one as the other is before it.
fn ends<T>(line: &Line<T>, at: Extent) -> Option<[(Extent, &T); 2]> {
    let (mut before, mut after) = (line.range(..at).rev(), line.range(at..));
    let pair = match (before.next(), after.next()) {
        (Some(below), Some(above)) => [below, above],
        (Some(near), None) => [near, before.next()?],
        (None, Some(near)) => [near, after.next()?],
        (None, None) => return None,
    };
    let [near, far] = pair;
    let is_between = near.0 < &at && &at <= far.0;
    let is_near = near.0.size.abs_diff(at.size) <= near.0.size.abs_diff(far.0.size);
    (is_between || is_near).then(|| pair.map(|(extent, measured)| (*extent, measured)))
}

/// What holds at `at` on the line through two points; nothing where it falls below nothing.
fn on_line([(one, y), (other, other_y)]: [(Extent, u64); 2], at: Extent) -> u64 {
    let [x, y, other_x, other_y, at] = [one.size, y, other.size, other_y, at.size].map(i128::from);
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
    use super::{Extent, on_line};

    #[test]
    fn lines_go_through_both_points_and_never_below_nothing() {
        let at = |size| Extent { size, parts: [0; 6] };
        let line = |(x, y), (other_x, other_y), place| on_line([(at(x), y), (at(other_x), other_y)], at(place));
        for (place, held) in [(10, 100), (20, 120), (15, 110), (30, 140), (0, 80)] {
            assert_eq!(line((10, 100), (20, 120), place), held);
            assert_eq!(line((20, 120), (10, 100), place), held);
        }
        assert_eq!(line((10, 5), (20, 20), 0), 0);
        assert_eq!(line((10, 5), (10, 5), 10), 5);
        assert_eq!(line((0, 0), (1, u64::MAX), u64::MAX), u64::MAX);
    }
}
