//! How large things are at a place of a knob's track.

use crate::engine::ggml::Backend;
use crate::settings::InEffect;

/// How large things are at a place of a track: where the extent is the same under the same rules, so are the graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// One number for what graphs grow with.
    pub(super) size: u64,
    pub(super) parts: [u64; 6],
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

    /// A place for one sequence of so many tokens.
    #[cfg(test)]
    pub const fn of_context(tokens: u64) -> Self {
        Self { size: 2 * tokens, parts: [tokens, tokens, 512, 512, 1, 1] }
    }

    /// Whether nothing but the context or the batch differs: then what differs at all grows evenly from one to the other;
    /// where both do, nearly so.
    pub fn is_even_with(self, other: Self) -> bool {
        self.size != other.size && self.parts[4..] == other.parts[4..]
    }

    /// How far from each other two places are.
    pub const fn distance(self, other: Self) -> u64 {
        self.size.abs_diff(other.size)
    }

    /// How far this is from `here`, where 1 is `there`.
    pub fn part_of(self, here: Self, there: Self) -> f64 {
        let [here, there, at] = [here, there, self].map(|place| place.size as f64);
        (at - here) / (there - here)
    }

    /// Whether GPUs take over work on weights in RAM: for a whole batch, and for a token of each sequence, by which
    /// llama.cpp tries flash attention.
    pub const fn taken_over(&self) -> [bool; 2] {
        let [_, _, _, tokens, sequences, _] = self.parts;
        let least = Backend::CUDA.offload_batch;
        [tokens >= least, sequences >= least]
    }
}
