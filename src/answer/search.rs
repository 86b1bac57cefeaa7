//! Search for the last value of a range that meets a goal: samples from the top down, then bisection between the lowest
//! sample that fails and the highest that meets the goal.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::answer::Goal;
use crate::engine;
use crate::engine::{FitGoal, PlanRequest, Preflight};
use crate::plan::Outcome;
use crate::settings::knob::{Bounds, Knob};
use crate::settings::{FlashAttn, InEffect};

/// A range of places, counted from 0, some of which meet a goal.
pub(super) trait Search {
    /// The engine's rules at a place. Where they stay the same, a place that fails is assumed to make all later ones
    /// fail.
    type Rules: PartialEq;

    /// The rules in effect at `place`, often known without a plan.
    fn rules(&mut self, place: u64) -> Self::Rules;

    /// Whether `place` meets the goal.
    fn meets(&mut self, place: u64) -> bool;

    /// `places` may be requested next, so a search may plan them in parallel.
    fn look_ahead(&mut self, _places: &[u64]) {}

    /// The last place that meets the goal. `samples` is ascending and includes both ends.
    fn last_met(&mut self, samples: &[u64]) -> Option<u64> {
        let (&last, others) = samples.split_last()?;
        if self.meets(last) {
            return Some(last);
        }
        let mut high = last;
        for (at, &low) in others.iter().enumerate().rev() {
            self.look_ahead(&others[at.saturating_sub(1)..=at]);
            if let Some(found) = self.last_met_between(low, high) {
                return Some(found);
            }
            high = low;
        }
        None
    }

    /// The last place from `low` up to below `high` that meets the goal; `high` does not.
    fn last_met_between(&mut self, mut low: u64, mut high: u64) -> Option<u64> {
        while low < high {
            if !self.meets(low) {
                low = self.next_rules(low, high)?;
            } else if high - low == 1 {
                return Some(low);
            } else {
                let middle = low + (high - low) / 2;
                self.look_ahead(&[middle, middle + (high - middle) / 2]);
                // if `middle` meets the goal, the answer is there or above
                let above = self.last_met_between(middle, high);
                if above.is_some() {
                    return above;
                }
                high = middle;
            }
        }
        None
    }

    /// A place above `low` where the rules change, if those at `high` differ.
    fn next_rules(&mut self, mut low: u64, mut high: u64) -> Option<u64> {
        let rules = self.rules(low);
        if rules == self.rules(high) {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.rules(middle) == rules {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(high)
    }
}

/// A search in reverse order: place 0 is the inner search's `last`.
pub(super) struct Reversed<'s, S> {
    pub search: &'s mut S,
    pub last: u64,
}

impl<S: Search> Search for Reversed<'_, S> {
    type Rules = S::Rules;

    fn rules(&mut self, place: u64) -> S::Rules {
        self.search.rules(self.last - place)
    }

    fn meets(&mut self, place: u64) -> bool {
        self.search.meets(self.last - place)
    }

    fn look_ahead(&mut self, places: &[u64]) {
        let places: Vec<u64> = places.iter().map(|place| self.last - place).collect();
        self.search.look_ahead(&places);
    }
}

/// The outcome of one value.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::answer) struct Planned {
    /// Whether the goal is met.
    pub meets: bool,
    /// Layers on GPUs.
    pub offloaded: usize,
    /// `None` if there is no plan.
    pub outcome: Option<Outcome>,
    /// The knobs in effect.
    pub settings: Option<InEffect>,
    /// The engine's rules for this value.
    pub rules: Option<RulesInEffect>,
}

/// What the engine made of the held knobs, and which GPUs it uses. While this stays the same, a larger value of the
/// moved knob is assumed never to need less memory.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::answer) struct RulesInEffect {
    /// The knobs in effect; those that merely follow the moved one are cleared.
    effect: InEffect,
    /// Whether each GPU is in use.
    pub gpus: Vec<bool>,
    /// Whether operations on weights in RAM are offloaded to GPUs: for a whole ubatch, and for one token per sequence,
    /// with which llama.cpp probes flash attention.
    offloads_ops: [bool; 2],
}

/// The batch from which GPUs run operations whose weights are in RAM (`GGML_OP_OFFLOAD_MIN_BATCH`, 0.1.161).
const OFFLOAD_BATCH: u64 = 32;

impl RulesInEffect {
    fn new(mut effect: InEffect, gpus: Vec<bool>, knob: Knob) -> Self {
        let sequences = effect.parallel.max(1);
        // an ubatch has the same number of tokens for every sequence
        let tokens = effect.ubatch.min(effect.ctx_total).div_ceil(sequences).saturating_mul(sequences);
        let offloads_ops = [tokens, sequences].map(|tokens| tokens >= OFFLOAD_BATCH);
        // the cache is padded to a multiple of 256 tokens per sequence, the batch is not
        let rounded = effect.ctx_total.saturating_sub(effect.batch) < sequences.saturating_mul(256);
        if rounded || effect.batch == effect.ctx {
            // with fewer tokens than sequences, outputs follow the ubatch
            effect.outputs = effect.outputs.filter(|outputs| *outputs < effect.ubatch);
            (effect.batch, effect.ubatch) = (0, 0);
        }
        (effect.ctx, effect.ctx_total, effect.ctx_per_sequence) = (0, 0, 0);
        // words on who chose a value are no rule
        effect.sources.clear();
        match knob {
            Knob::Parallel => (effect.parallel, effect.outputs) = (0, None),
            Knob::Batch => (effect.batch, effect.ubatch, effect.outputs) = (0, 0, None),
            Knob::Ubatch => (effect.ubatch, effect.outputs) = (0, None),
            Knob::Outputs => effect.outputs = None,
            Knob::GpuLayers => effect.gpu_layers = 0,
            Knob::CpuMoe => effect.n_cpu_moe = None,
            Knob::ImageTokens => effect.image_max_tokens = None,
            Knob::Draft => (effect.spec_type, effect.spec_draft_n_max, effect.outputs) = (None, None, None),
            Knob::DraftMax => (effect.spec_draft_n_max, effect.outputs) = (None, None),
            Knob::FlashAttn => effect.flash_attn = FlashAttn::Auto,
            Knob::LoadMode => effect.load_mode = None,
            Knob::CacheRam => effect.cache_ram = None,
            Knob::PromptTokens | Knob::AnswerTokens | Knob::Cached => effect.turn = None,
            Knob::Context
            | Knob::Quant
            | Knob::CacheType
            | Knob::CacheTypeK
            | Knob::CacheTypeV
            | Knob::KvUnified
            | Knob::MmprojDevice
            | Knob::TensorSplit => {}
        }
        Self { effect, gpus, offloads_ops }
    }
}

/// The search. No place is planned twice, nor are two places with equal preflights.
pub(in crate::answer) struct KnobSearch {
    request: PlanRequest,
    knob: Knob,
    goal: Goal,
    pub range: KnobRange,
    /// How much of the fit is needed; `None` if the goal decides.
    fit_goal: Option<FitGoal>,
    preflights: HashMap<u64, Option<Preflight>>,
    planned: HashMap<u64, Planned>,
    /// Preflights and the outcomes planned for them.
    alike: Vec<(Preflight, Planned)>,
    /// Plans of places that may be asked for next are made beside, for other cores are idle.
    looks_ahead: bool,
}

impl KnobSearch {
    /// Only whether places meet `goal` is exact: where it is not met, the number of layers may be unknown.
    pub fn for_goal(request: PlanRequest, knob: Knob, goal: Goal, range: KnobRange) -> Self {
        let (preflights, planned, alike) = Default::default();
        Self { request, knob, goal, range, fit_goal: None, preflights, planned, alike, looks_ahead: true }
    }

    /// The same where every core has work.
    pub fn without_look_ahead(self) -> Self {
        Self { looks_ahead: false, ..self }
    }

    /// The full outcome at each place.
    pub fn for_everything(request: PlanRequest, knob: Knob, range: KnobRange) -> Self {
        Self { fit_goal: Some(FitGoal::Most), ..Self::for_goal(request, knob, Goal::Vram, range) }
    }

    /// The outcome at `place`.
    pub fn at(&mut self, place: u64) -> &Planned {
        self.plan_all(&[place]);
        &self.planned[&place]
    }

    /// Whether the engine has no preflight, because its plans are as cheap.
    pub fn has_no_preflight(&mut self) -> bool {
        self.preflight(0).is_none()
    }

    /// Plans the places that are not planned yet, in parallel.
    fn plan_all(&mut self, places: &[u64]) {
        let mut open = Vec::new();
        for &place in places {
            if self.planned.contains_key(&place) {
                continue;
            }
            let preflight = self.preflight(place).cloned();
            let is_like = |other: &Preflight| preflight.as_ref().is_some_and(|preflight| preflight.is_like(other));
            if let Some((_, planned)) = self.alike.iter().find(|(other, _)| is_like(other)) {
                self.planned.insert(place, planned.clone());
            } else if !open.iter().any(|(_, other): &(u64, Option<Preflight>)| other.as_ref().is_some_and(is_like)) {
                open.push((place, preflight));
            }
        }
        let planned: Vec<Planned> = match open.as_slice() {
            [(place, preflight)] => vec![self.plan(*place, preflight.as_ref())],
            _ => open
                .par_iter()
                .with_max_len(1)
                .map(|(place, preflight)| self.plan(*place, preflight.as_ref()))
                .collect(),
        };
        for ((place, preflight), planned) in open.into_iter().zip(planned) {
            self.alike.extend(preflight.map(|preflight| (preflight, planned.clone())));
            self.planned.insert(place, planned);
        }
    }

    fn plan(&self, place: u64, preflight: Option<&Preflight>) -> Planned {
        let goal = self.goal_at(place);
        if let (None, Some(Preflight { settings, gpus, upper_bound, .. })) = (self.fit_goal, preflight)
            && *upper_bound < goal.required_bound()
        {
            let rules = Some(RulesInEffect::new(settings.clone(), gpus.clone(), self.knob));
            return Planned { meets: false, offloaded: 0, outcome: None, settings: Some(settings.clone()), rules };
        }
        let fit_goal = self.fit_goal.unwrap_or(goal.fit_goal());
        let Some(summary) = self.with(place, |request| request.summary(fit_goal).ok().flatten()) else {
            let known = preflight.filter(|_| self.fit_goal.is_none());
            let rules = known.map(|known| RulesInEffect::new(known.settings.clone(), known.gpus.clone(), self.knob));
            return Planned { meets: false, offloaded: 0, outcome: None, settings: None, rules };
        };
        let rules = match preflight {
            Some(known) if self.fit_goal.is_none() => (known.settings.clone(), known.gpus.clone()),
            _ => (summary.settings.clone(), summary.gpus().map(|gpu| gpu.asked().0 > 0).collect()),
        };
        Planned {
            meets: goal.is_met_in(&summary),
            offloaded: summary.offloaded,
            outcome: Some(summary.outcome()),
            settings: Some(summary.settings),
            rules: Some(RulesInEffect::new(rules.0, rules.1, self.knob)),
        }
    }

    fn preflight(&mut self, place: u64) -> Option<&Preflight> {
        if !self.preflights.contains_key(&place) {
            let preflight = self.find_preflight(place);
            self.preflights.insert(place, preflight);
        }
        self.preflights[&place].as_ref()
    }

    fn find_preflight(&self, place: u64) -> Option<Preflight> {
        // the preflight does not depend on these, but the plan does
        if matches!(self.knob, Knob::TensorSplit | Knob::FlashAttn) {
            return None;
        }
        self.with(place, |request| request.preflight().ok().flatten())
    }

    fn with<T>(&self, place: u64, ask: impl FnOnce(&PlanRequest) -> T) -> T {
        ask(&self.request.changed(|settings| self.knob.set(settings, self.range.value(place))))
    }

    /// For [`Knob::GpuLayers`], that the requested number of layers is offloaded.
    fn goal_at(&self, place: u64) -> Goal {
        match self.knob {
            Knob::GpuLayers => Goal::AtLeast(self.range.value(place) as usize),
            _ => self.goal,
        }
    }
}

impl Search for KnobSearch {
    type Rules = Option<RulesInEffect>;

    fn rules(&mut self, place: u64) -> Option<RulesInEffect> {
        let knob = self.knob;
        if let Some(Preflight { settings, gpus, .. }) = self.preflight(place) {
            return Some(RulesInEffect::new(settings.clone(), gpus.clone(), knob));
        }
        self.at(place).rules.clone()
    }

    fn meets(&mut self, place: u64) -> bool {
        self.at(place).meets
    }

    fn look_ahead(&mut self, places: &[u64]) {
        // without a preflight, plans are as cheap as waking threads
        if self.looks_ahead && !self.has_no_preflight() {
            self.plan_all(places);
        }
    }
}

impl Planned {
    /// Number of GPUs in use.
    pub fn gpus_in_use(&self) -> usize {
        self.rules.as_ref().map_or(0, |rules| rules.gpus.iter().filter(|used| **used).count())
    }
}

/// Even steps of a range that are planned first. A value that fits between two of them may be missed.
const STEPS: u64 = 48;

/// The values of a knob in ascending order, by place counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::answer) struct KnobRange {
    /// The first value.
    low: u64,
    /// The last value.
    high: u64,
}

impl KnobRange {
    /// From the knob's smallest meaningful value to the end of its range.
    pub fn of(knob: Knob, bounds: &Bounds) -> Self {
        Self::new(knob.least(), knob.stops(bounds).last())
    }

    /// From `low` to `high`.
    pub fn new(low: u64, high: u64) -> Self {
        Self { low: low.min(high), high }
    }

    /// The range up to `high`, which may exceed the knob's range; `None` if it is empty.
    pub fn up_to(self, high: u64) -> Option<Self> {
        (high >= self.low).then_some(Self { high, ..self })
    }

    /// The place of the last value.
    pub fn last(&self) -> u64 {
        self.high - self.low
    }

    /// The value at a place.
    pub fn value(&self, place: u64) -> u64 {
        self.low.saturating_add(place).min(self.high)
    }

    /// The place of `value`, or of the last one below it.
    pub fn place(&self, value: u64) -> u64 {
        value.min(self.high).saturating_sub(self.low)
    }

    /// Places to plan first, ascending: both ends, the knob's stops, and both sides of every value after which the
    /// engine's rules change; over several GPUs also even steps.
    pub fn samples(&self, request: &PlanRequest, knob: Knob, bounds: &Bounds) -> Vec<u64> {
        let stops = knob.stops(bounds);
        let mut places: Vec<u64> = stops.as_slice().iter().map(|&stop| self.place(stop)).collect();
        for edge in engine::of(request.engine).rule_edges(knob, &request.settings) {
            places.extend([self.place(edge), self.place(edge) + 1]);
        }
        let last = self.last();
        // over several GPUs a fit may fail at some values and place everything at larger ones again
        if request.machine.gpus.len() > 1 {
            let steps: fn(u64, u64) -> u64 = match knob {
                Knob::Context => |last, step| last / STEPS * step,
                _ => |last, step| last / STEPS * step + last % STEPS * step / STEPS,
            };
            places.extend((1..STEPS).map(|step| steps(last, step)));
        }
        places.extend([0, last.saturating_sub(1), last]);
        places.retain(|&place| place <= last);
        places.sort_unstable();
        places.dedup();
        places
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use proptest::prelude::*;

    /// A search over a known need and known rules.
    struct KnownNeeds<N, R> {
        need: N,
        rules: R,
        room: u64,
        planned: HashSet<u64>,
    }

    fn known<R>(
        need: impl Fn(u64) -> u64,
        rules: impl Fn(u64) -> R,
        room: u64,
    ) -> KnownNeeds<impl Fn(u64) -> u64, impl Fn(u64) -> R> {
        KnownNeeds { need, rules, room, planned: HashSet::new() }
    }

    impl<N: Fn(u64) -> u64, T: PartialEq, R: Fn(u64) -> T> Search for KnownNeeds<N, R> {
        type Rules = T;

        fn rules(&mut self, place: u64) -> T {
            (self.rules)(place)
        }

        fn meets(&mut self, place: u64) -> bool {
            self.planned.insert(place);
            (self.need)(place) <= self.room
        }
    }

    /// Segments of a range, each under one of three rules that need `base + slope · place`.
    fn engine() -> impl Strategy<Value = (Vec<u64>, Vec<usize>, Vec<(u64, u64)>)> {
        let edges = proptest::collection::btree_set(1..5000u64, 0..6);
        let rules = proptest::collection::vec((0..20_000u64, 0..8u64), 3);
        (edges, proptest::collection::vec(0..3usize, 7), rules)
            .prop_map(|(edges, order, rules)| (edges.into_iter().collect(), order, rules))
    }

    proptest! {
        #[test]
        fn last_met_agrees_with_brute_force((edges, order, rules) in engine(), room in 0..30_000u64) {
            let rule = |place: u64| order[edges.iter().filter(|&&edge| place > edge).count()];
            let need = |place: u64| {
                let (base, slope) = rules[rule(place)];
                base + slope * place
            };
            let mut samples: Vec<u64> = edges.iter().flat_map(|&edge| [edge, edge + 1]).chain([0, 5000]).collect();
            samples.sort_unstable();
            samples.dedup();
            let mut search = known(need, rule, room);
            let found = search.last_met(&samples);
            prop_assert_eq!(found, (0..=5000).rev().find(|&place| need(place) <= room));
            prop_assert!(search.planned.len() <= samples.len() + 13, "{} places were planned", search.planned.len());
        }

        #[test]
        fn rule_change_is_found_without_planning(edge in 1..5000u64, base in 0..5000u64, room in 0..5000u64) {
            // too much below the edge, from there on `base` and more
            let need = |place: u64| if place < edge { 10_000 } else { base + place - edge };
            let mut search = known(need, |place| place < edge, room);
            let found = search.last_met(&[0, 5000]);
            prop_assert_eq!(found, (0..=5000).rev().find(|&place| need(place) <= room));
            prop_assert!(base <= room || search.planned.len() <= 3, "{} places were planned", search.planned.len());
        }
    }

    #[test]
    fn rules_that_change_everywhere_need_no_stack() {
        let mut search = known(|_| 2, |place| place, 1);
        assert_eq!(search.last_met(&[0, 50_000]), None);
    }

    #[test]
    fn finds_values_beyond_a_range_with_a_larger_batch() {
        // batch 512 up to 4096, 1024 up to 6000, then 512 again
        let batch = |context: u64| if (4097..6000).contains(&context) { 1024 } else { 512 };
        let mut search = known(|context| context + 8 * batch(context), batch, 11_000);
        assert_eq!(search.last_met(&[1, 4096, 4097, 8192]), Some(11_000 - 8 * 512));
    }
}

#[cfg(test)]
mod track_tests {
    use super::*;

    #[test]
    fn places_and_values_agree() {
        for (low, high) in [(1, 100), (0, 33), (256, 1024), (7, 7), (9, 5)] {
            let range = KnobRange::new(low, high);
            assert_eq!(range.value(range.last()), high);
            for place in 0..=range.last() {
                assert_eq!(range.place(range.value(place)), place, "{range:?}");
            }
        }
        let range = KnobRange::new(256, 131_072);
        assert_eq!((range.value(0), range.value(range.place(5000))), (256, 5000));
        assert_eq!(range.up_to(5000).map(|range| range.value(range.last())), Some(5000));
        assert_eq!(range.up_to(200_000).map(|range| range.value(range.last())), Some(200_000));
        assert_eq!(range.up_to(200), None);
    }
}
