//! What graphs of different placements have in common.

use crate::engine::ggml::tensor::Place;
use crate::engine::llama_cpp::hparams::Hparams;
use crate::engine::llama_cpp::placement::{Part, Placement};

/// A shape, and what is left of it when less is told apart.
pub type Levels = [Shape; 3];

/// What graphs have in common of which a device takes much the same, whatever the others take.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
        let homes = placement.homes();
        let home = |block: usize| placement.layers.get(block).copied().unwrap_or(placement.output);
        let away = |device: Place| placement.overrides().iter().filter(move |away| home(away.block) == device);
        let to = |device: Option<Place>| placement.overrides().iter().filter(move |away| away.gpu == device);
        let of = |device: Place| {
            let own = |il: &usize| homes[*il] == device;
            let first = homes.iter().position(|home| *home == device);
            let is_ram = device == placement.cpu;
            let takes_over = device == 0 && !is_ram;
            let shape = Self {
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
            };
            shape.levels()
        };
        (0..=placement.cpu).map(of).collect()
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

/// Each of `of` once.
fn set<T: Ord>(of: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = of.collect();
    all.sort_unstable();
    all.dedup();
    all
}
