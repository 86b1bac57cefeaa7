//! Where plans change along a knob.

use schemars::JsonSchema;
use serde::Serialize;

use super::search::{KnobRange, KnobSearch, Planned, RulesInEffect, Search};
use crate::engine::PlanRequest;
use crate::plan::Outcome;
use crate::settings::knob::Knob;

/// Two neighbouring values of a knob with different outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// The last value before the change.
    pub last: u64,
    /// The first value after the change.
    pub first: u64,
    /// The outcome at `last`.
    pub before: ThresholdSide,
    /// The outcome at `first`.
    pub after: ThresholdSide,
    /// Other knobs that the engine changed: `batch 512 → 1024`.
    pub jumps: Vec<String>,
}

/// The outcome on one side of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ThresholdSide {
    /// Layers on GPUs.
    pub offloaded: usize,
    /// GPUs in use.
    pub gpus: usize,
    /// Where what a token needs is; none if the engine returns an error.
    pub outcome: Option<Outcome>,
}

impl Threshold {
    /// Whether `last` is the last value with all in VRAM.
    pub fn is_vram_limit(&self) -> bool {
        self.before.outcome == Some(Outcome::Vram) && self.after.outcome != Some(Outcome::Vram)
    }

    /// Whether more layers are on GPUs after it, or as many and now they fit.
    pub fn is_gain(&self) -> bool {
        let (before, after) = (self.before, self.after);
        let fits = |side: ThresholdSide| side.outcome.is_some_and(|outcome| outcome != Outcome::DoesNotFit);
        after.offloaded > before.offloaded || (fits(after) && !fits(before) && after.offloaded == before.offloaded)
    }

    /// What changes: `24 576 → 24 577: 33 → 32 layers on GPU`.
    pub fn description(&self, knob: Knob) -> String {
        let (before, after) = (self.before, self.after);
        let mut parts = Vec::new();
        if before.offloaded != after.offloaded {
            parts.push(format!("{} → {} layers on GPU", before.offloaded, after.offloaded));
        }
        if before.gpus != after.gpus {
            parts.push(format!("{} → {} GPUs in use", before.gpus, after.gpus));
        }
        if before.outcome != after.outcome {
            let word = |outcome: Option<Outcome>| outcome.map_or("refused", Outcome::headline);
            parts.push(format!("{} → {}", word(before.outcome), word(after.outcome)));
        }
        parts.extend(self.jumps.iter().cloned());
        format!("{} → {}: {}", knob.show(self.last), knob.show(self.first), parts.join(", "))
    }
}

impl PlanRequest {
    /// The changes along `knob` while the other knobs stay, in ascending order. [`Knob::GpuLayers`] is expected to move
    /// layers, so there only a new verdict or a request that is not met counts.
    pub fn thresholds(&self, knob: Knob) -> Vec<Threshold> {
        self.thresholds_by_segment(knob).flatten().collect()
    }

    /// [`PlanRequest::thresholds`] by segment of the knob's range, each computed when the iterator reaches it.
    pub fn thresholds_by_segment(&self, knob: Knob) -> impl Iterator<Item = Vec<Threshold>> + use<> {
        let bounds = self.bounds();
        // from the first stop on: nobody runs with fewer, and a batch of 28 because of a context of 28 is no threshold
        let stops = knob.stops(&bounds);
        let range = KnobRange::new(stops.first().max(knob.least()), stops.last());
        let mut search = KnobSearch::for_everything(self.clone(), knob, range);
        let samples = range.samples(self, knob, &bounds);
        (1..samples.len()).map(move |next| {
            let mut thresholds = Vec::new();
            if let Some(&[low, high]) = samples.get(next - 1..=next) {
                search.thresholds(knob, low, high, &mut thresholds);
            }
            thresholds
        })
    }
}

impl KnobSearch {
    fn thresholds(&mut self, knob: Knob, low: u64, high: u64, found: &mut Vec<Threshold>) {
        self.look_ahead(&[low, high]);
        let (before, after) = (self.at(low).clone(), self.at(high).clone());
        let (last, first) = (self.range.value(low), self.range.value(high));
        if outcome(knob, last, &before) == outcome(knob, first, &after) {
            return;
        }
        if high - low > 1 {
            let middle = low + (high - low) / 2;
            self.thresholds(knob, low, middle, found);
            self.thresholds(knob, middle, high, found);
            return;
        }
        let jumps = jumps(knob, &before, &after);
        // a knob that merely follows the moved one does not count as a change
        if side(&before) != side(&after) || !jumps.is_empty() {
            found.push(Threshold { last, first, before: side(&before), after: side(&after), jumps });
        }
    }
}

/// Other knobs whose value in effect differs between `low` and `high`.
fn jumps(knob: Knob, low: &Planned, high: &Planned) -> Vec<String> {
    let (Some(from), Some(to)) = (&low.settings, &high.settings) else { return Vec::new() };
    let mut jumps = Vec::new();
    let mut note = |name: &str, from: String, to: String| {
        if from != to {
            jumps.push(format!("{name} {from} → {to}"));
        }
    };
    let follows = from.batch == from.ctx && to.batch == to.ctx;
    if knob != Knob::Batch && !follows {
        note("batch", from.batch.to_string(), to.batch.to_string());
    }
    if knob != Knob::Parallel {
        note("parallel", from.parallel.to_string(), to.parallel.to_string());
    }
    if !matches!(knob, Knob::CacheType | Knob::CacheTypeK) {
        note("K cache", from.cache_type_k.to_string(), to.cache_type_k.to_string());
    }
    if !matches!(knob, Knob::CacheType | Knob::CacheTypeV) {
        note("V cache", from.cache_type_v.to_string(), to.cache_type_v.to_string());
    }
    if knob != Knob::FlashAttn {
        note("flash attention", from.flash_attn.to_string(), to.flash_attn.to_string());
    }
    jumps
}

fn outcome(knob: Knob, value: u64, planned: &Planned) -> (u64, Option<Outcome>, Option<RulesInEffect>) {
    let layers = match knob {
        Knob::GpuLayers => value.saturating_sub(planned.offloaded as u64),
        _ => planned.offloaded as u64,
    };
    (layers, planned.outcome, planned.rules.clone())
}

fn side(planned: &Planned) -> ThresholdSide {
    ThresholdSide { offloaded: planned.offloaded, gpus: planned.gpus_in_use(), outcome: planned.outcome }
}
