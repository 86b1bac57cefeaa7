//! What graphs of different placements have in common.

use crate::engine::ggml::tensor::Place;
use crate::engine::llama_cpp::hparams::Hparams;
use crate::engine::llama_cpp::placement::{Part, Placement};

/// A shape, and what is left of it when less is told apart.
pub type Levels = [Shape; 3];

/// What graphs have in common of which a device takes much the same, whatever the others take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
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
    pub fn of(hparams: &Hparams, placement: &Placement, context: usize) -> Vec<Levels> {
        let Placement { output, cpu, full_offload, .. } = *placement;
        let mut shapes: Vec<Self> =
            (0..=cpu).map(|device| Self { context, device, full_offload, ..Self::default() }).collect();
        let mut before = None;
        for (il, home) in placement.homes().into_iter().enumerate() {
            let (shape, kind) = (&mut shapes[usize::from(home)], Kind::of(hparams, il));
            shape.begins.get_or_insert((before.unwrap_or(home), Some(kind)));
            include(&mut shape.kinds, kind);
            before = Some(home);
        }
        shapes[usize::from(output)].has_output = true;
        for away in placement.overrides() {
            let home = placement.of_block(away.block);
            include(&mut shapes[usize::from(home)].away, (away.part, away.gpu));
            match away.gpu {
                Some(gpu) => include(&mut shapes[usize::from(gpu)].guests, (away.part, home)),
                None if cpu > 0 => include(&mut shapes[0].taken_over.1, away.part),
                None => {}
            }
        }
        shapes[0].taken_over.0 = cpu > 0 && placement.layers.iter().chain([&output]).any(|home| *home == cpu);
        shapes.into_iter().map(Self::levels).collect()
    }

    /// This, and ever less of it: whatever it begins with, and whichever parts of blocks are elsewhere.
    fn levels(self) -> Levels {
        let whatever_it_begins_with = Self { begins: self.begins.map(|(before, _)| (before, None)), ..self.clone() };
        let whatever_is_elsewhere = Self {
            away: Vec::new(),
            guests: Vec::new(),
            taken_over: (self.taken_over.0, Vec::new()),
            ..whatever_it_begins_with.clone()
        };
        [self, whatever_it_begins_with, whatever_is_elsewhere]
    }
}

/// `of` has `one`, at its place in their order.
fn include<T: Ord>(of: &mut Vec<T>, one: T) {
    if let Err(at) = of.binary_search(&one) {
        of.insert(at, one);
    }
}
