//! A knob's range as an engine sees it, and what the engine makes of each value.

use std::collections::HashMap;

use super::{Case, Goal};
use crate::plan::{InEffect, Plan, Verdict};
use crate::settings::FlashAttn;
use crate::settings::knob::{Bounds, Knob};

/// The values of a knob that an engine tells apart, ascending, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Track {
    /// The first value.
    low: u64,
    /// The last value.
    high: u64,
    grain: u64,
}

impl Track {
    /// From the knob's smallest value that means something to the end of its range.
    pub fn of(case: &Case<'_>, knob: Knob, bounds: &Bounds) -> Self {
        let grain = case.engine.grain(knob, case.settings).max(1);
        Self::new(knob.least(), knob.stops(bounds).last(), grain)
    }

    /// Multiples of `grain` from `low` to `high`, and `high` itself.
    pub fn new(low: u64, high: u64, grain: u64) -> Self {
        let low = low.div_ceil(grain).saturating_mul(grain).min(high);
        Self { low, high, grain }
    }

    /// The same up to `high`, if that is anywhere on it.
    pub fn up_to(self, high: u64) -> Option<Self> {
        (high >= self.low).then(|| Self { high: self.high.min(high), ..self })
    }

    /// The place of the last value.
    pub fn last(&self) -> u64 {
        (self.high - self.low).div_ceil(self.grain)
    }

    /// The value at a place.
    pub fn value(&self, place: u64) -> u64 {
        self.low.saturating_add(place.saturating_mul(self.grain)).min(self.high)
    }

    /// The place of `value`, or of the last one below it.
    pub fn place(&self, value: u64) -> u64 {
        if value >= self.high { self.last() } else { value.saturating_sub(self.low) / self.grain }
    }

    /// Places to look at first, ascending, with both ends: where the knob snaps, and both sides of every value after
    /// which the engine's rules change.
    pub fn samples(&self, case: &Case<'_>, knob: Knob, bounds: &Bounds) -> Vec<u64> {
        let stops = knob.stops(bounds);
        let mut places: Vec<u64> = stops.as_slice().iter().map(|&stop| self.place(stop)).collect();
        for &edge in case.engine.edges(knob, case.settings) {
            places.extend([self.place(edge), self.place(edge) + 1]);
        }
        let last = self.last();
        places.extend([0, last.saturating_sub(1), last]);
        places.retain(|&place| place <= last);
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// What an engine makes of one value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    /// The goal is met.
    pub meets: bool,
    /// Layers on GPUs.
    pub offloaded: usize,
    /// `None` where the engine makes no plan.
    pub verdict: Option<Verdict>,
    /// Under which of its rules the engine planned.
    pub regime: Option<Regime>,
}

/// What an engine's rules made of the knobs that are held, and which GPUs it uses. Where it stays the same, more of the
/// moved knob is taken never to need less.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Regime {
    /// The knobs in effect; those that merely follow the moved one are zero.
    pub effect: InEffect,
    /// The GPUs that are asked for something.
    pub gpus: Vec<bool>,
}

impl Regime {
    fn of(plan: &Plan, knob: Knob) -> Self {
        let mut effect = plan.settings.clone();
        if effect.batch == effect.ctx {
            (effect.batch, effect.ubatch) = (0, 0);
        }
        (effect.ctx, effect.ctx_total, effect.ctx_per_sequence) = (0, 0, 0);
        match knob {
            Knob::Parallel => (effect.parallel, effect.outputs) = (0, None),
            Knob::Batch => (effect.batch, effect.ubatch, effect.outputs) = (0, 0, None),
            Knob::Ubatch => (effect.ubatch, effect.outputs) = (0, None),
            Knob::Outputs => effect.outputs = None,
            Knob::GpuLayers => effect.gpu_layers = 0,
            Knob::CpuMoe => effect.n_cpu_moe = None,
            Knob::FlashAttn => effect.flash_attn = FlashAttn::Auto,
            Knob::Context
            | Knob::CacheType
            | Knob::CacheTypeK
            | Knob::CacheTypeV
            | Knob::KvUnified
            | Knob::TensorSplit => {}
        }
        Self { effect, gpus: plan.gpus().iter().map(|gpu| gpu.asked().0 > 0).collect() }
    }
}

/// One knob's track, looked at place by place; no place is planned twice.
pub(super) struct Survey<'a> {
    case: Case<'a>,
    knob: Knob,
    goal: Goal,
    pub track: Track,
    seen: HashMap<u64, Seen>,
}

impl<'a> Survey<'a> {
    pub fn new(case: Case<'a>, knob: Knob, goal: Goal, track: Track) -> Self {
        Self { case, knob, goal, track, seen: HashMap::new() }
    }

    /// The plan at a place; `None` where the engine makes none.
    pub fn plan(&self, place: u64) -> Option<Plan> {
        let value = self.track.value(place);
        self.case.plan_with(|settings| self.knob.set(settings, value))
    }

    /// What the engine makes of the value at `place`.
    pub fn at(&mut self, place: u64) -> Seen {
        if let Some(seen) = self.seen.get(&place) {
            return seen.clone();
        }
        let seen =
            self.plan(place).map_or(Seen { meets: false, offloaded: 0, verdict: None, regime: None }, |plan| Seen {
                meets: self.meets(place, &plan),
                offloaded: plan.offloaded,
                verdict: Some(plan.verdict),
                regime: Some(Regime::of(&plan, self.knob)),
            });
        self.seen.insert(place, seen.clone());
        seen
    }

    /// Whoever asks for so many layers wants them, and no others.
    fn meets(&self, place: u64, plan: &Plan) -> bool {
        match self.knob {
            Knob::GpuLayers => Goal::AtLeast(self.track.value(place) as usize).is_met_by(plan),
            _ => self.goal.is_met_by(plan),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_values_agree() {
        for (low, high, grain) in [(1, 100, 1), (1, 1000, 256), (0, 33, 1), (1, 100, 256), (256, 1024, 256)] {
            let track = Track::new(low, high, grain);
            assert_eq!(track.value(track.last()), high);
            for place in 0..=track.last() {
                assert_eq!(track.place(track.value(place)), place, "{track:?}");
                assert!(place == track.last() || track.value(place).is_multiple_of(grain));
            }
        }
        let track = Track::new(1, 131_072, 256);
        assert_eq!((track.value(0), track.value(track.place(5000))), (256, 4864));
        assert_eq!(track.up_to(5000).map(|track| track.value(track.last())), Some(5000));
        assert_eq!(track.up_to(200), None);
    }
}
