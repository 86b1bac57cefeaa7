//! What llama.cpp's trials end in, for all places of a knob's track: how large caches and batches are decides none of them,
//! for a trial has a batch of its own.

use foldhash::HashMap;

use super::context::{Batch, Context};
use super::placement::Placement;
use crate::engine::ggml::families::Draft;
use crate::engine::ggml::{Backend, Op};

/// What decides a trial, besides the placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Without what differs along a track.
    context: Context,
    batch: Batch,
    backends: Vec<Backend>,
}

/// All that were held.
#[derive(Debug, Default)]
pub struct Trials {
    all: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    trial: Trial,
    /// Whether every such operation is computed where its block is.
    stays: HashMap<(Op, Placement), bool>,
    /// Its graphs that nobody uses: one stands for all places.
    drafts: Vec<Draft>,
}

impl Trial {
    pub fn new(context: &Context, batch: Batch, backends: &[Backend]) -> Self {
        let wherever = Context { n_ctx: 0, n_ctx_seq: 0, n_batch: 0, n_ubatch: 0, n_outputs_max: 0, ..context.clone() };
        Self { context: wherever, batch, backends: backends.to_vec() }
    }
}

impl Trials {
    /// How one ended under a placement, where it was held.
    pub fn end(&self, trial: &Trial, op: Op, placement: &Placement) -> Option<bool> {
        self.of(trial)?.stays.get(&(op, placement.clone())).copied()
    }

    /// A graph for one, where there is any left.
    pub fn draft(&mut self, trial: &Trial) -> Option<Draft> {
        self.all.iter_mut().find(|held| held.trial == *trial)?.drafts.pop()
    }

    /// Notes how one ended with a graph, which is kept.
    pub fn note(&mut self, trial: Trial, op: Op, placement: Placement, stays: bool, draft: Draft) {
        let at = self.all.iter().position(|held| held.trial == trial).unwrap_or_else(|| {
            self.all.push(Held { trial, stays: HashMap::default(), drafts: Vec::new() });
            self.all.len() - 1
        });
        let held = &mut self.all[at];
        held.stays.insert((op, placement), stays);
        held.drafts.push(draft);
    }

    fn of(&self, trial: &Trial) -> Option<&Held> {
        self.all.iter().find(|held| held.trial == *trial)
    }
}
