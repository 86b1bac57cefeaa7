//! What an engine makes of the values on a knob's track, asked as seldom as possible.

use std::collections::HashMap;
use std::sync::Arc;

use super::ground::Ground;
use super::track::Track;
use super::{Case, Goal};
use crate::engine::{Aim, Courses, Extent, Outlook, Sketch};
use crate::plan::{Plan, Verdict};
use crate::settings::knob::Knob;
use crate::settings::{FlashAttn, InEffect};

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
    /// Whether they take over work on weights in RAM, where there are any: for a batch, and for a trial.
    taken_over: [bool; 2],
}

impl Regime {
    fn new(mut effect: InEffect, gpus: Vec<bool>, knob: Knob) -> Self {
        let taken_over = Extent::of(&effect).taken_over();
        // caches are rounded up to multiples of 256 tokens for each sequence, batches are not
        let rounded = effect.ctx_total.saturating_sub(effect.batch) < effect.parallel.max(1).saturating_mul(256);
        if rounded || effect.batch == effect.ctx {
            // fewer tokens than sequences have as many outputs
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
            Knob::FlashAttn => effect.flash_attn = FlashAttn::Auto,
            Knob::Context
            | Knob::Quant
            | Knob::CacheType
            | Knob::CacheTypeK
            | Knob::CacheTypeV
            | Knob::KvUnified
            | Knob::TensorSplit => {}
        }
        Self { effect, gpus, taken_over }
    }
}

/// What is certain beforehand.
#[derive(Clone, Debug)]
pub(super) struct Prospect {
    /// Nothing speaks against the goal.
    pub hopeful: bool,
    /// How large things are.
    pub extent: Extent,
    /// Under which of its rules the engine plans.
    pub regime: Regime,
}

/// One knob's track, looked at place by place; no place is planned twice, nor two that the engine plans alike.
pub(super) struct Survey<'a> {
    pub asked: Asked<'a>,
    seen: Noted<Seen>,
    met: Noted<(bool, Option<Regime>)>,
}

impl<'a> Survey<'a> {
    pub fn new(case: Case<'a>, knob: Knob, goal: Goal, track: Track) -> Self {
        let courses = Arc::default();
        Self { asked: Asked { case, knob, goal, track, courses }, seen: Noted::default(), met: Noted::default() }
    }

    /// What the engine makes of the value at `place`.
    pub fn at(&mut self, place: u64) -> Seen {
        let Self { asked, seen, .. } = self;
        seen.at(place, || asked.outlook(place), |_| asked.see(place))
    }

    /// Whether the goal is met at `place`, and under which of its rules the engine plans there. What the engine knows
    /// beforehand saves most plans.
    fn met(&mut self, place: u64) -> (bool, Option<Regime>) {
        let Self { asked, met, .. } = self;
        let by_plan = || {
            let Seen { meets, regime, .. } = asked.see(place);
            (meets, regime)
        };
        met.at(
            place,
            || asked.outlook(place),
            |outlook| outlook.map_or_else(by_plan, |outlook| asked.meets(place, outlook)),
        )
    }
}

impl Ground for Survey<'_> {
    type Rules = Option<Regime>;

    fn rules(&mut self, place: u64) -> Option<Regime> {
        self.asked.prospect(place).map(|prospect| prospect.regime).or_else(|| self.met(place).1)
    }

    fn meets(&mut self, place: u64) -> bool {
        self.met(place).0
    }
}

/// What was found out at each place, and for each outlook.
struct Noted<T> {
    places: HashMap<u64, T>,
    alike: Vec<(Outlook, T)>,
}

impl<T> Default for Noted<T> {
    fn default() -> Self {
        Self { places: HashMap::new(), alike: Vec::new() }
    }
}

impl<T: Clone> Noted<T> {
    /// What holds at `place`: as it was noted there or where the outlook is the same, else what `find` finds out.
    fn at(
        &mut self,
        place: u64,
        outlook: impl FnOnce() -> Option<Outlook>,
        find: impl FnOnce(Option<&Outlook>) -> T,
    ) -> T {
        if let Some(found) = self.places.get(&place) {
            return found.clone();
        }
        let outlook = outlook();
        let before =
            self.alike.iter().find(|(other, _)| outlook.as_ref().is_some_and(|outlook| outlook.is_like(other)));
        let found = if let Some((_, found)) = before {
            found.clone()
        } else {
            let found = find(outlook.as_ref());
            self.alike.extend(outlook.map(|outlook| (outlook, found.clone())));
            found
        };
        self.places.insert(place, found.clone());
        found
    }
}

/// What is asked: a goal for every value on a track.
pub(super) struct Asked<'a> {
    case: Case<'a>,
    knob: Knob,
    goal: Goal,
    pub track: Track,
    /// What is known of the model's graphs anywhere on it.
    pub courses: Arc<Courses>,
}

impl Asked<'_> {
    /// The plan at a place; `None` where the engine makes none.
    pub fn plan(&self, place: u64) -> Option<Plan> {
        self.with(place, |case| case.plan().ok())
    }

    fn see(&self, place: u64) -> Seen {
        let Some(gist) = self.with(place, |case| case.gist(Aim::Most).ok()) else {
            return Seen { meets: false, offloaded: 0, verdict: None, regime: None };
        };
        let meets = self.goal_at(place).is_met_in(&gist);
        let gpus = gist.gpus().map(|gpu| gpu.asked().0 > 0).collect();
        let regime = Some(Regime::new(gist.settings, gpus, self.knob));
        Seen { meets, offloaded: gist.offloaded, verdict: Some(gist.verdict), regime }
    }

    fn meets(&self, place: u64, outlook: &Outlook) -> (bool, Option<Regime>) {
        let goal = self.goal_at(place);
        let meets = outlook.hope >= goal.least_hope() && self.with(place, |case| case.meets(goal));
        (meets, Some(Regime::new(outlook.settings.clone(), outlook.gpus.clone(), self.knob)))
    }

    /// The plan at `place`, by graphs that were measured there.
    pub fn sketched(&self, place: u64, sketch: &Sketch<'_>) -> Option<Plan> {
        self.with(place, |case| case.plan_by(sketch)).filter(|plan| self.goal_at(place).is_met_by(plan))
    }

    /// Whether the goal is probably met at `place`.
    pub fn sketch(&self, place: u64, sketch: &Sketch<'_>) -> bool {
        let goal = self.goal_at(place);
        self.with(place, |case| case.sketch(goal.aim(), sketch).is_some_and(|gist| goal.is_met_in(&gist)))
    }

    /// What is certain of `place` beforehand.
    pub fn prospect(&self, place: u64) -> Option<Prospect> {
        let Outlook { settings, gpus, hope } = self.outlook(place)?;
        Some(Prospect {
            hopeful: hope >= self.goal_at(place).least_hope(),
            extent: Extent::of(&settings),
            regime: Regime::new(settings, gpus, self.knob),
        })
    }

    /// What is certain beforehand.
    fn outlook(&self, place: u64) -> Option<Outlook> {
        // two values of these may have one outlook, and yet be planned in two ways
        if matches!(self.knob, Knob::TensorSplit | Knob::FlashAttn) {
            return None;
        }
        self.with(place, |case| case.outlook(&self.courses).ok().flatten())
    }

    fn with<T>(&self, place: u64, look: impl FnOnce(&Case<'_>) -> T) -> T {
        let mut settings = self.case.settings.clone();
        self.knob.set(&mut settings, self.track.value(place));
        look(&Case { settings: &settings, ..self.case })
    }

    /// Whoever asks for so many layers wants them, and no others.
    pub fn goal_at(&self, place: u64) -> Goal {
        match self.knob {
            Knob::GpuLayers => Goal::AtLeast(self.track.value(place) as usize),
            _ => self.goal,
        }
    }
}
