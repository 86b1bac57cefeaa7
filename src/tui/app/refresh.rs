//! Makes the plan again after changes, and sends the requests that depend on it.
use std::sync::Arc;

use super::App;
use super::live::Replan;
use super::thresholds::apart_from;
use crate::answer::{Goal, KnobLimits};
use crate::engine::{EngineError, PlanRequest, PreparedModel};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::question::Stepwise;
use crate::settings::knob::{Bounds, Knob};
use crate::speed::Speeds;
use crate::tui::effect::{Effect, LimitsRequest, PlanJob};
use crate::tui::query::{Query, QueryKind};

/// The limits of the knobs, and the request for them.
#[derive(Debug, Default)]
pub struct LimitsState {
    /// The newest limits and the request that they are of, which may be older than the present one.
    found: Option<(PlanRequest, KnobLimits)>,
    /// The request that is not answered yet.
    asked: Option<PlanRequest>,
    /// Number of the request; answers to older ones are ignored.
    pub(crate) id: u64,
    /// The machine for which limits and thresholds were requested last.
    pub(crate) machine: Option<Arc<Machine>>,
    /// The knob to set to its limit as soon as that is known.
    pub(crate) pending_limit: Option<(Knob, Goal)>,
}

impl LimitsState {
    /// Drops the known limits.
    pub(crate) fn forget(&mut self) {
        self.found = None;
    }

    /// Whether none were found yet.
    pub(crate) const fn is_empty(&self) -> bool {
        self.found.is_none()
    }

    /// Sets the limits of the request that was asked last.
    pub(crate) fn learn(&mut self, limits: KnobLimits) {
        self.found = self.asked.take().map(|of| (of, limits));
    }
}

/// A plan that is being made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planning {
    /// Number of the request; answers to older ones are ignored.
    id: u64,
    /// What made it necessary.
    cause: Replan,
}

/// What is known of the limits of the present plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KnownLimits<'a> {
    /// They are being computed.
    Pending,
    /// There is no plan, or it is not that of the present settings, which the engine refuses.
    Nothing,
    /// The limits.
    Found(&'a KnobLimits),
}

impl<'a> KnownLimits<'a> {
    /// The limits, if they are known.
    pub const fn found(self) -> Option<&'a KnobLimits> {
        if let Self::Found(limits) = self { Some(limits) } else { None }
    }
}

impl App {
    /// The limits for exactly the present settings.
    pub fn known_limits(&self) -> KnownLimits<'_> {
        self.limits_where(|of, now| of == now)
    }

    /// The limits as far as they are along `knob`: they hold for any value of it.
    pub fn known_along(&self, knob: Knob) -> KnownLimits<'_> {
        self.limits_where(|of, now| of == now || apart_from(of, knob) == apart_from(now, knob))
    }

    pub(crate) fn limits_along(&self, knob: Knob) -> Option<&KnobLimits> {
        self.known_along(knob).found()
    }

    fn limits_where(&self, holds: impl Fn(&PlanRequest, &PlanRequest) -> bool) -> KnownLimits<'_> {
        if self.plan.is_none() || self.refused.is_some() {
            return KnownLimits::Nothing;
        }
        let now = self.limits_request();
        let found = self.limits.found.as_ref().filter(|(of, _)| now.as_ref().is_some_and(|now| holds(of, now)));
        found.map_or(KnownLimits::Pending, |(_, limits)| KnownLimits::Found(limits))
    }

    /// Whether a plan of the present settings is still to come.
    pub const fn is_planning(&self) -> bool {
        self.planning.is_some()
    }

    /// The request for a new plan, if anything changed.
    pub(crate) fn begin_plan(&mut self) -> Option<PlanJob> {
        let cause = std::mem::take(&mut self.replan);
        if cause == Replan::No {
            return None;
        }
        self.update_offered_knobs();
        let of = self.plan_request()?;
        let id = self.next_id();
        // an answer to what was asked before is not waited for
        let cause = self.planning.take().map_or(cause, |before| cause.max(before.cause));
        self.planning = Some(Planning { id, cause });
        Some(PlanJob { id, of })
    }

    /// Takes the answer to [`App::begin_plan`], unless something has changed since: the requests that depend on the
    /// plan, and whether the user changed it.
    pub(crate) fn take_plan(&mut self, id: u64, result: Result<Plan, EngineError>) -> Option<(Vec<Effect>, bool)> {
        let Planning { cause, .. } = self.planning.take_if(|planning| planning.id == id)?;
        if self.replan != Replan::No {
            self.replan = self.replan.max(cause);
            return None;
        }
        let model = self.model.clone()?;
        let effects = match result {
            Ok(plan) => self.accept(&model, plan, cause),
            Err(error) => {
                self.refused = Some(error);
                Vec::new()
            }
        };
        Some((effects, cause == Replan::User))
    }

    /// Plans again at once, if anything changed, where nobody waits for the screen.
    pub(crate) fn replan(&mut self) -> Vec<Effect> {
        let taken = self.begin_plan().and_then(|job| self.take_plan(job.id, job.of.plan()));
        taken.map(|(effects, _)| effects).unwrap_or_default()
    }

    fn accept(&mut self, model: &PreparedModel, plan: Plan, cause: Replan) -> Vec<Effect> {
        self.refused = None;
        self.speeds = Speeds::of(model, &self.machine, &plan, 0);
        self.bounds = Bounds {
            context_train: plan.model.context_train,
            context: plan.settings.ctx,
            layer_count: plan.layers.len() as u64,
            experts: model.hyper.experts.is_some(),
            draft: model.drafts_by(),
        };
        self.panels.cursors.layer = self.panels.cursors.layer.min(plan.layers.len().saturating_sub(1));
        self.panels.cursors.device = self.panels.cursors.device.min(plan.devices.len().saturating_sub(1));
        self.show_new_note(&plan);
        let before = self.plan.replace(Box::new(plan.clone()));
        let mut effects = Vec::new();
        // only changes by the user are highlighted
        if cause == Replan::User {
            self.change.id += 1;
            self.change.before = before;
            effects.push(Effect::Fade { id: self.change.id });
        }
        if cause == Replan::User || !self.limits.machine.as_ref().is_some_and(|of| of.is_nearly(&self.machine)) {
            effects.extend(self.request_limits(plan));
        }
        effects
    }

    /// Requests limits and thresholds. Both take far longer than a plan, so they are kept while free memory changes only a
    /// little.
    fn request_limits(&mut self, plan: Plan) -> Vec<Effect> {
        let Some(of) = self.plan_request() else { return Vec::new() };
        self.limits.id += 1;
        let thresholds = self.next_id();
        self.limits.machine = Some(Arc::clone(&self.machine));
        self.limits.asked = Some(of.clone());
        let thresholds = self.thresholds.ask(thresholds, of.clone(), &self.knobs.offered, self.knobs.focus);
        let question = LimitsRequest { id: self.limits.id, of, plan };
        std::iter::once(Effect::Limits(Box::new(question))).chain(thresholds).collect()
    }

    /// Whether the limits are of the present machine exactly.
    pub(crate) fn limits_are_current(&self) -> bool {
        self.limits.machine.as_ref().is_some_and(|of| Arc::ptr_eq(of, &self.machine))
    }

    /// The request that the known limits and thresholds are for, if it is nearly the present one.
    pub(crate) fn limits_request(&self) -> Option<PlanRequest> {
        let now = self.plan_request()?;
        let machine = self.limits.machine.as_ref().filter(|of| of.is_nearly(&now.machine)).cloned();
        Some(match machine {
            Some(machine) => PlanRequest { machine, ..now },
            None => now,
        })
    }

    /// Shows a new note in the footer if the verdict has no room for notes.
    fn show_new_note(&mut self, plan: &Plan) {
        let Some(old) = self.plan.as_ref().filter(|_| self.notes_are_hidden()) else { return };
        if let Some(note) = plan.notes.iter().find(|note| !old.notes.contains(note)) {
            self.notice = Some(note.clone());
        }
    }

    /// Whether the verdict has no room for notes.
    pub(crate) const fn notes_are_hidden(&self) -> bool {
        const ROOMY: u16 = 5;
        self.regions.verdict.height < ROOMY
    }
}

/// Whether an answer is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerState {
    /// More parts follow.
    #[default]
    Working,
    /// All parts have arrived.
    Done,
}

impl App {
    /// An id that no request had.
    pub(crate) const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Asks for the plan of each of `requests`; nothing of none.
    pub(crate) fn query_plans(&mut self, requests: Vec<PlanRequest>, id: &mut u64) -> Vec<Effect> {
        let Some(first) = requests.first().cloned() else { return Vec::new() };
        self.query_of(first, QueryKind::Plans(requests), id)
    }

    /// Asks a question about the present settings, and sets `id`, by which the answer is known.
    pub(crate) fn ask(&mut self, question: impl Stepwise, id: &mut u64) -> Vec<Effect> {
        self.plan_request().map_or_else(Vec::new, |of| self.ask_of(of, question, id))
    }

    /// Asks a question about another request.
    pub(crate) fn ask_of(&mut self, of: PlanRequest, question: impl Stepwise, id: &mut u64) -> Vec<Effect> {
        self.query_of(of, QueryKind::Question(Arc::new(question)), id)
    }

    /// Asks `about` another request.
    pub(crate) fn query_of(&mut self, of: PlanRequest, about: QueryKind, id: &mut u64) -> Vec<Effect> {
        *id = self.next_id();
        vec![Effect::Ask(Box::new(Query { id: *id, of, about }))]
    }
}
