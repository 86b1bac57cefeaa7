//! What llama.cpp's trials end in, for all places of a knob's track: how large caches and batches are decides none of them,
//! for a trial has a batch of its own.

use foldhash::HashMap;

use super::context::{Batch, Context};
use super::placement::Placement;
use crate::engine::ggml::{Backend, Op};
use crate::engine::llama_cpp::graph::Draft;

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

/// One of them, under every placement.
#[derive(Debug)]
pub struct Held {
    trial: Trial,
    /// Whether every such operation is computed where its block is.
    pub stays: HashMap<(Op, Placement), bool>,
    /// Its graphs that nobody uses: one stands for all places.
    pub drafts: Vec<Draft>,
}

impl Trial {
    pub fn new(context: &Context, batch: Batch, backends: &[Backend]) -> Self {
        let wherever = Context { n_ctx: 0, n_ctx_seq: 0, n_batch: 0, n_ubatch: 0, n_outputs_max: 0, ..context.clone() };
        Self { context: wherever, batch, backends: backends.to_vec() }
    }
}

impl Trials {
    /// What is known of one.
    pub fn of(&mut self, trial: &Trial) -> &mut Held {
        let at = self.all.iter().position(|held| held.trial == *trial).unwrap_or_else(|| {
            self.all.push(Held { trial: trial.clone(), stays: HashMap::default(), drafts: Vec::new() });
            self.all.len() - 1
        });
        &mut self.all[at]
    }
}
