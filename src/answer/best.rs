//! The best settings for an objective while some knobs are held.

mod suggestion;

use super::change::width;
use super::largest::Largest;
use super::{Change, Goal};
use crate::engine::PlanRequest;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::settings::knob::Knob;
use crate::settings::{CacheType, Context, FlashAttn, Settings};

use suggestion::costs;
pub use suggestion::{Cost, Gain, Suggestion};

/// What to maximise while every layer stays on GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// The largest context.
    Context,
    /// The most parallel sequences.
    Parallel,
    /// The KV cache with the most bits per element.
    CacheType,
}

/// At most this many suggestions are returned.
const MAX_SUGGESTIONS: usize = 3;

impl PlanRequest {
    /// Up to three ways to maximise `objective` with every layer on GPUs. The first changes the fewest other knobs;
    /// each further one changes more and gains more. The knobs in `held` stay as they are. `plan` is this request's
    /// plan.
    pub fn best(&self, plan: &Plan, objective: Objective, held: &[Knob]) -> Vec<Suggestion> {
        // suggestions set K and V to one type, so holding either holds both
        let one_of_two = held.iter().any(|knob| matches!(knob, Knob::CacheTypeK | Knob::CacheTypeV));
        let held: Vec<Knob> = held.iter().copied().chain(one_of_two.then_some(Knob::CacheType)).collect();
        let held = held.as_slice();
        if held.contains(&objective.knob()) || self.machine.gpus.is_empty() {
            return Vec::new();
        }
        let mut found: Vec<Suggestion> = Vec::new();
        for changes in Self::combinations(plan, objective, held) {
            let mut settings = self.settings.clone();
            let mut machine = Machine::clone(&self.machine);
            for change in &changes {
                change.apply(&mut settings, &mut machine);
            }
            found.extend(self.maximise(plan, objective, held, settings));
        }
        // fewest costs first, then the largest gain
        found.sort_by_key(|one| (one.costs.len(), std::cmp::Reverse(one.gain.worth())));
        let mut best: Vec<Suggestion> = Vec::new();
        for one in found {
            if best.last().is_none_or(|last| last.gain.worth() < one.gain.worth()) {
                best.push(one);
            }
        }
        // keep the cheapest two and the one with the largest gain
        if best.len() > MAX_SUGGESTIONS {
            best.drain(MAX_SUGGESTIONS - 1..best.len() - 1);
        }
        best
    }

    /// Combinations of changes to the knobs that are neither the objective's nor held.
    fn combinations(plan: &Plan, objective: Objective, held: &[Knob]) -> Vec<Vec<Change>> {
        let effect = &plan.settings;
        let free = |knob: Knob| knob != objective.knob() && !held.contains(&knob);
        let mut axes: Vec<Vec<Option<Change>>> = Vec::new();
        let mut axis =
            |changes: Vec<Change>| axes.push(std::iter::once(None).chain(changes.into_iter().map(Some)).collect());
        let flash = free(Knob::FlashAttn) && effect.flash_attn != FlashAttn::On;
        if free(Knob::CacheType) {
            let narrower =
                [CacheType::Q8_0, CacheType::Q4_0].into_iter().filter(|&ty| width(ty) < width(effect.cache_type_k));
            let mut changes: Vec<_> =
                narrower.map(if flash { Change::CacheWithFlash } else { Change::Cache }).collect();
            changes.extend(flash.then_some(Change::FlashAttn));
            axis(changes);
        } else if flash {
            axis(vec![Change::FlashAttn]);
        }
        if free(Knob::Parallel) && effect.parallel > 1 {
            axis(vec![Change::Parallel(1)]);
        }
        if free(Knob::Batch) && effect.batch > 128 {
            axis(vec![Change::Batch(128)]);
        }
        if free(Knob::Context) && objective == Objective::Parallel {
            let shorter = [2, 4, 8].map(|part| effect.ctx / part);
            axis(shorter.into_iter().filter(|&tokens| tokens >= 1024).map(Change::Context).collect());
        }
        axes.iter().fold(vec![Vec::new()], |sets, axis| {
            let with = |set: &Vec<Change>, one: &Option<Change>| set.iter().copied().chain(*one).collect();
            sets.iter().flat_map(|set| axis.iter().map(move |one| with(set, one))).collect()
        })
    }

    /// The largest gain with these settings.
    fn maximise(&self, now: &Plan, objective: Objective, held: &[Knob], mut settings: Settings) -> Option<Suggestion> {
        let request = self.with(settings.clone());
        let (gain, shorter, plan) = match objective {
            Objective::Context | Objective::Parallel => {
                let Largest { value, plan, .. } = request.largest(objective.knob(), Goal::Vram)?;
                (if objective == Objective::Context { Gain::Context(value) } else { Gain::Parallel(value) }, None, plan)
            }
            Objective::CacheType => request.widest_cache(held)?,
        };
        match gain {
            Gain::Context(tokens) => settings.ctx = Context::Tokens(tokens),
            Gain::Parallel(sequences) => settings.parallel = Some(sequences),
            Gain::CacheType(ty) => (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty)),
        }
        settings.ctx = shorter.map_or(settings.ctx, Context::Tokens);
        Some(Suggestion { gain, costs: costs(now, &plan, objective), settings, plan })
    }

    /// The widest cache type that keeps every layer on GPUs; the context may shrink for it unless it is held.
    fn widest_cache(&self, held: &[Knob]) -> Option<(Gain, Option<u64>, Plan)> {
        [CacheType::F16, CacheType::Q8_0, CacheType::Q4_0].into_iter().find_map(|ty| {
            let request =
                self.changed(|settings| (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty)));
            let plan = request.plan().ok().filter(|plan| plan.settings.cache_type_k == ty)?;
            if Goal::Vram.is_met_by(&plan) {
                return Some((Gain::CacheType(ty), None, plan));
            }
            if held.contains(&Knob::Context) {
                return None;
            }
            let shorter = request.largest_below(Knob::Context, Goal::Vram, plan.settings.ctx)?;
            Some((Gain::CacheType(ty), Some(shorter.value), shorter.plan))
        })
    }
}

impl Objective {
    /// All objectives.
    pub const ALL: [Self; 3] = [Self::Context, Self::Parallel, Self::CacheType];

    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Context => "Largest context",
            Self::Parallel => "Most parallel sequences",
            Self::CacheType => "Most precise KV cache",
        }
    }

    /// The knob to maximise.
    pub const fn knob(self) -> Knob {
        match self {
            Self::Context => Knob::Context,
            Self::Parallel => Knob::Parallel,
            Self::CacheType => Knob::CacheType,
        }
    }
}
