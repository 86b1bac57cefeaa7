//! The states of recurrent blocks, which are read from the cache, updated and written back.

mod mamba;

use super::GraphBuilder;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Buffer, Tensor, TensorId};
use crate::engine::llama_cpp::architecture::Trait;

/// The state rows of the batch's sequences.
#[derive(Clone, Copy)]
pub struct RecurrentInput {
    pub copy: TensorId,
    main: TensorId,
    rest: TensorId,
}

/// The states of a recurrent block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RecurrentState {
    /// The last inputs of its convolution.
    Rolling,
    /// The state-space or delta-net state.
    Recurrent,
    /// The last inputs of the convolution over its table of n-grams.
    Ngrams,
}

/// Computes the output from the states and the rows used by the batch.
type StateUpdate<'f, 'a> = &'f mut dyn FnMut(&mut GraphBuilder<'a>, TensorId, TensorId) -> TensorId;

impl<'a> GraphBuilder<'a> {
    /// Tokens per sequence of the batch.
    pub(super) fn n_seq_tokens(&self) -> u64 {
        self.batch.n_seq_tokens()
    }

    /// Inputs for the recurrent blocks.
    pub(super) fn recurrent_input(&mut self) -> RecurrentInput {
        let rows = self.memory.recurrent.as_ref().map_or(self.batch.n_seqs, |recurrent| recurrent.sequences);
        let copy = self.g.input(Type::I32, [rows, 1, 1, 1], "rs_s_copy");
        let main = self.g.window(copy, [self.batch.n_seqs, 1, 1, 1], []);
        // all sequences but the first, or those of the batch
        let n_rest = if self.release.gathers_states_once { rows - 1 } else { rows - self.batch.n_seqs };
        let rest = self.g.window(copy, [n_rest, 1, 1, 1], []);
        RecurrentInput { copy, main, rest }
    }

    /// The cache of one state of a block: one row per sequence.
    pub(super) fn state(&mut self, il: usize, which: RecurrentState) -> TensorId {
        let at = which as usize;
        if !self.states[il][at].is_some()
            && let Some(recurrent) = &self.memory.recurrent
        {
            let place = recurrent.layers.get(il).copied().flatten().unwrap_or(self.placement.cpu);
            let (elements, label) = match which {
                RecurrentState::Rolling => (recurrent.r, "cache_r"),
                RecurrentState::Recurrent => (recurrent.s, "cache_s"),
                RecurrentState::Ngrams => (recurrent.ngrams_of(il), "cache_ple_r"),
            };
            let ne = [elements, recurrent.rows(), 1, 1];
            self.states[il][at] = self.g.given(Type::F32, ne, Buffer::Cache(place), label, il as i16);
        }
        self.states[il][at]
    }

    /// The state rows of the batch; rows of other sequences are copied along.
    pub(super) fn read_state(&mut self, input: RecurrentInput, state: TensorId) -> TensorId {
        self.carry_state(input, state, None)
    }

    /// The same, but `step` reads the rows itself.
    pub(super) fn carry_state(
        &mut self,
        input: RecurrentInput,
        state: TensorId,
        step: Option<StateUpdate<'_, 'a>>,
    ) -> TensorId {
        let [size, rows, ..] = self.g[state].ne;
        let n_seqs = self.batch.n_seqs;
        let others = self.g[input.copy].ne[0] - n_seqs;
        let states = self.g.reshape(state, [size, rows, 1, 1]);
        let cleared = self.g.window(states, [size, 1, 1, 1], []);
        let cleared = self.g.scale_in_place(cleared);
        self.g.expand(cleared);

        let single_gather = step.is_none() && self.release.gathers_states_once;
        let gathered = self.g.get_rows(states, if single_gather { input.copy } else { input.rest });
        let gap = self.g[gathered].nb[1];
        let output = match step {
            Some(step) => step(self, states, input.main),
            None if single_gather => self.g.window(gathered, [size, n_seqs, 1, 1], [gap]),
            None => self.g.get_rows(states, input.main),
        };
        self.g.expand(output);

        let kept = if self.release.gathers_states_once {
            self.g.window(gathered, [size, others, 1, 1], [gap])
        } else {
            gathered
        };
        let stride = self.g[state].nb[1];
        let target = self.g.window(state, [size, others, 1, 1], [stride]);
        self.g.store(kept, target);
        output
    }

    /// The rolling state of a block, and what the batch's sequences have in it: `columns` inputs of every channel.
    pub(super) fn rolling_columns(
        &mut self,
        input: RecurrentInput,
        il: usize,
        shape: [u64; 2],
    ) -> (TensorId, TensorId) {
        let state = self.state(il, RecurrentState::Rolling);
        (state, self.columns_of(input, state, shape))
    }

    /// What the batch's sequences have in `state`: `columns` inputs of every channel.
    fn columns_of(&mut self, input: RecurrentInput, state: TensorId, [columns, channels]: [u64; 2]) -> TensorId {
        let old = self.read_state(input, state);
        self.g.reshape(old, [columns, channels, self.batch.n_seqs, 1])
    }

    /// The input of a convolution: the `state` followed by `x` (`[channels, tokens, sequences]`); the last
    /// columns are written back to the state. `flat` writes them as one row, as Mamba version 1 does.
    pub(super) fn convolved_input(
        &mut self,
        input: RecurrentInput,
        state: TensorId,
        x: TensorId,
        columns: u64,
        flat: bool,
    ) -> TensorId {
        let channels = self.g[x].ne[0];
        let old = self.columns_of(input, state, [columns, channels]);
        let x = self.g.transpose(x);
        let all = self.g.concat(old, x, 0);
        self.store_columns(state, all, columns, flat);
        all
    }

    /// Writes the last columns of a convolution's input back to its state, and those before as snapshots.
    pub(super) fn store_columns(&mut self, state: TensorId, all: TensorId, columns: u64, flat: bool) {
        for _ in 0..self.snapshots_written() {
            self.store_last_columns(state, all, columns, flat);
        }
    }

    /// States that a batch writes: no more than its tokens, except in delta nets.
    pub(super) fn snapshots_written(&self) -> u64 {
        let states = 1 + self.cx.n_rs_seq;
        let all = self.architecture.has(Trait::WritesAllSnapshots);
        if all { states } else { states.min(self.n_seq_tokens()) }
    }

    fn store_last_columns(&mut self, state: TensorId, all: TensorId, columns: u64, flat: bool) {
        let n_seqs = self.batch.n_seqs;
        let Tensor { ne, nb, .. } = self.g[all];
        let mut last = self.g.window(all, [columns, ne[1], ne[2], 1], [nb[1], nb[2]]);
        if self.architecture.has(Trait::CopiesRollingState) {
            last = self.g.cont(last);
        }
        let row = columns * ne[1];
        let target = if flat {
            self.g.window(state, [row * n_seqs, 1, 1, 1], [])
        } else {
            let stride = self.g[state].nb[1];
            self.g.window(state, [row, n_seqs, 1, 1], [stride])
        };
        self.g.store(last, target);
    }
}
