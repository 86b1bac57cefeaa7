//! Search along one knob's range with as few plans as possible.

use std::collections::HashMap;

use rayon::prelude::*;

use super::{KnobRange, Search};
use crate::answer::Goal;
use crate::engine::PlanRequest;
use crate::engine::{FitGoal, Preflight};
use crate::plan::Outcome;
use crate::settings::knob::Knob;
use crate::settings::{FlashAttn, InEffect};

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
}

impl KnobSearch {
    /// Only whether places meet `goal` is exact: where it is not met, the number of layers may be unknown.
    pub fn for_goal(request: PlanRequest, knob: Knob, goal: Goal, range: KnobRange) -> Self {
        let (preflights, planned, alike) = Default::default();
        Self { request, knob, goal, range, fit_goal: None, preflights, planned, alike }
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
        if let (None, Some(Preflight { settings, gpus, upper_bound })) = (self.fit_goal, preflight)
            && *upper_bound < goal.required_bound()
        {
            let rules = Some(RulesInEffect::new(settings.clone(), gpus.clone(), self.knob));
            return Planned { meets: false, offloaded: 0, outcome: None, settings: Some(settings.clone()), rules };
        }
        let fit_goal = self.fit_goal.unwrap_or(goal.fit_goal());
        let Some(summary) = self.with(place, |request| request.summary(fit_goal).ok()) else {
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
        if !self.has_no_preflight() {
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
