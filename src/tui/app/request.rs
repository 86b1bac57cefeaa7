//! What is planned now, with its plan and what follows from that.
use std::sync::Arc;

use super::thresholds::{Thresholds, apart_from};
use crate::answer::thresholds::Threshold;
use crate::answer::{Goal, KnobLimits};
use crate::engine::{EngineError, EngineId, EngineVersion, PlanRequest, PreparedModel};
use crate::machine::Machine;
use crate::model::mixture::Quantisation;
use crate::model::quantise::QuantiseError;
use crate::plan::Plan;
use crate::question::Stepwise;
use crate::settings::Settings;
use crate::settings::knob::{Bounds, Knob};
use crate::speed::Speeds;
use crate::tui::effect::{Effect, LimitsRequest, PlanJob};
use crate::tui::query::{Query, QueryKind};

/// The last change, and the plan it is compared with while the differences are marked.
#[derive(Debug, Default)]
pub struct RecentChange {
    /// Number of the change.
    pub id: u64,
    /// The plan before it; none once the marks have faded.
    pub before: Option<Box<Plan>>,
}

/// What is planned now, and what is known of its plan.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct CurrentRequest {
    pub engine: EngineId,
    pub settings: Settings,
    /// The model as it was opened.
    pub opened: Option<Arc<PreparedModel>>,
    /// The opened model in the quantisation that is set.
    pub model: Option<Arc<PreparedModel>>,
    /// The machine that is planned for: the found one with the user's changes.
    pub machine: Arc<Machine>,
    quantised: QuantisedModels,

    /// The newest plan that the engine made.
    pub plan: Option<Box<Plan>>,
    /// Why the engine cannot plan with the present settings.
    pub refused: Option<EngineError>,
    pub bounds: Bounds,
    pub limits: LimitsState,
    /// The speed of the plan, where it can be known.
    pub speeds: Option<Speeds>,
    pub thresholds: Thresholds,
    pub change: RecentChange,
    pub(in crate::tui) replan: Replan,
    planning: Option<Planning>,
    /// The id of the newest question.
    last_id: u64,
}

impl CurrentRequest {
    /// A request without a plan yet; its model, if any, is as it was opened.
    pub(super) fn new(
        (engine, settings): (EngineId, Settings),
        model: Option<Arc<PreparedModel>>,
        machine: Arc<Machine>,
    ) -> Self {
        Self {
            engine,
            settings,
            opened: model.clone(),
            model,
            machine,
            quantised: QuantisedModels::default(),
            plan: None,
            refused: None,
            bounds: Bounds::default(),
            limits: LimitsState::default(),
            speeds: None,
            thresholds: Thresholds::default(),
            change: RecentChange::default(),
            replan: Replan::User,
            planning: None,
            last_id: 0,
        }
    }

    /// Engine, model, machine and settings as they are; none without a model.
    pub fn plan_request(&self) -> Option<PlanRequest> {
        Some(PlanRequest {
            engine: self.engine,
            opened: Arc::clone(self.opened.as_ref()?),
            model: Arc::clone(self.model.as_ref()?),
            machine: Arc::clone(&self.machine),
            settings: self.settings.clone(),
        })
    }

    /// The engine and its release.
    pub fn choice(&self) -> EngineVersion {
        EngineVersion::of(self.engine, &self.settings)
    }

    /// The opened model as the engine reads it.
    pub(super) fn fit_model(&mut self) {
        if let Ok(model) = self.in_quantisation(self.settings.quant) {
            self.model = model;
        }
    }

    /// The opened model requantised to `quant`, or unchanged; what the engine does not run as a file that it does.
    pub(crate) fn in_quantisation(
        &mut self,
        quant: Option<Quantisation>,
    ) -> Result<Option<Arc<PreparedModel>>, QuantiseError> {
        match (&self.opened, quant) {
            (Some(opened), None) if self.engine.runs(opened) => Ok(Some(Arc::clone(opened))),
            (Some(opened), to) => self.quantised.get(opened, to).map(Some),
            (None, _) => Ok(None),
        }
    }

    /// The plan before the last change, while differences from it are marked.
    pub fn before(&self) -> Option<&Plan> {
        self.change.before.as_deref()
    }

    /// The value the user chose for `knob`, or else the one in effect.
    pub fn value(&self, knob: Knob) -> u64 {
        let chosen = knob.chosen(&self.settings, &self.bounds);
        chosen.unwrap_or_else(|| self.in_effect(knob).unwrap_or_else(|| knob.stops(&self.bounds).first()))
    }

    /// The value of `knob` in effect, by the engine's rules.
    pub fn in_effect(&self, knob: Knob) -> Option<u64> {
        self.plan.as_ref().map(|plan| knob.in_effect(plan))
    }

    /// Who set the value of `knob`, where it was not the user.
    pub fn source_of(&self, knob: Knob) -> Option<String> {
        let plan = self.plan.as_ref()?;
        plan.settings.sources.get(knob.name().replace('-', "_").as_str()).cloned()
    }

    /// The largest value of `knob` with all in VRAM; for [`Knob::CpuMoe`], which puts experts into RAM, the smallest
    /// with every layer assigned to a GPU.
    pub fn limit(&self, knob: Knob) -> Option<u64> {
        if knob == Knob::CpuMoe {
            return self.assigned_limit(knob);
        }
        self.limits_along(knob).and_then(|limits| limits.vram.of(knob))
    }

    /// The largest value of `knob` with every layer assigned to a GPU, experts in RAM or not.
    pub fn assigned_limit(&self, knob: Knob) -> Option<u64> {
        self.limits_along(knob).and_then(|limits| limits.all_layers.of(knob))
    }

    /// The thresholds along `knob` for the present settings; empty as long as they are not known.
    pub fn thresholds_along(&self, knob: Knob) -> &[Threshold] {
        self.limits_request().and_then(|request| self.thresholds.of(knob, &request)).unwrap_or_default()
    }

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

    /// The request that the known limits and thresholds are for, if it is nearly the present one.
    pub(crate) fn limits_request(&self) -> Option<PlanRequest> {
        let now = self.plan_request()?;
        let machine = self.limits.machine.as_ref().filter(|of| of.is_nearly(&now.machine)).cloned();
        Some(match machine {
            Some(machine) => PlanRequest { machine, ..now },
            None => now,
        })
    }

    /// Whether the limits are of the present machine exactly.
    pub(crate) fn limits_are_current(&self) -> bool {
        self.limits.machine.as_ref().is_some_and(|of| Arc::ptr_eq(of, &self.machine))
    }

    /// Whether a plan of the present settings is still to come.
    pub const fn is_planning(&self) -> bool {
        self.planning.is_some()
    }

    /// Whether the plan is that of the present settings.
    pub(crate) fn is_current(&self) -> bool {
        self.replan == Replan::No && !self.is_planning()
    }

    /// Has it planned again, without the known limits and thresholds, for changes beyond one knob.
    pub(super) fn replan_from_scratch(&mut self) {
        self.replan = Replan::User;
        self.limits.forget();
        self.thresholds.forget();
    }

    /// The request for a new plan, which `cause` made necessary.
    pub(super) fn begin_plan(&mut self, cause: Replan) -> Option<PlanJob> {
        let of = self.plan_request()?;
        let id = self.next_id();
        // an answer to what was asked before is not waited for
        let cause = self.planning.take().map_or(cause, |before| cause.max(before.cause));
        self.planning = Some(Planning { id, cause });
        Some(PlanJob { id, of })
    }

    /// The cause of the plan that is answered by `id`, unless something has changed since.
    pub(super) fn end_plan(&mut self, id: u64) -> Option<Replan> {
        let Planning { cause, .. } = self.planning.take_if(|planning| planning.id == id)?;
        if self.replan != Replan::No {
            self.replan = self.replan.max(cause);
            return None;
        }
        Some(cause)
    }

    /// Takes a plan of `model`, and returns the one before.
    pub(super) fn accept(&mut self, model: &PreparedModel, plan: Plan) -> Option<Box<Plan>> {
        self.refused = None;
        self.speeds = Speeds::of(model, &self.machine, &plan, 0);
        self.bounds = Bounds {
            context_train: plan.model.context_train,
            context: plan.settings.ctx,
            layer_count: plan.layers.len() as u64,
            experts: model.hyper.experts.is_some(),
            draft: model.drafts_by(),
        };
        self.plan.replace(Box::new(plan))
    }

    /// Requests limits and thresholds, those of the knob in focus first. Both take far longer than a plan, so they are
    /// kept while free memory changes only a little.
    pub(super) fn request_limits(&mut self, plan: Plan, offered: &[Knob], focus: Knob) -> Vec<Effect> {
        let Some(of) = self.plan_request() else { return Vec::new() };
        self.limits.id += 1;
        let thresholds = self.next_id();
        self.limits.machine = Some(Arc::clone(&self.machine));
        self.limits.asked = Some(of.clone());
        let thresholds = self.thresholds.ask(thresholds, of.clone(), offered, focus);
        let question = LimitsRequest { id: self.limits.id, of, plan };
        std::iter::once(Effect::Limits(Box::new(question))).chain(thresholds).collect()
    }

    /// An id that no question had.
    pub(crate) const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Asks a question about the present settings, and sets `id`, by which the answer is known.
    pub(crate) fn ask(&mut self, question: impl Stepwise, id: &mut u64) -> Vec<Effect> {
        self.plan_request().map_or_else(Vec::new, |of| self.ask_of(of, question, id))
    }

    /// Asks a question about another request.
    pub(crate) fn ask_of(&mut self, of: PlanRequest, question: impl Stepwise, id: &mut u64) -> Vec<Effect> {
        *id = self.next_id();
        vec![Effect::Ask(Box::new(Query { id: *id, of, about: QueryKind::Question(Arc::new(question)) }))]
    }

    /// The settings as for any other model: without the quantisation, and without what the open one's tag gives.
    pub(crate) fn settings_without_tag(&self) -> Settings {
        let mut settings = Settings { quant: None, ..self.settings.clone() };
        settings.take_tag_back();
        settings
    }
}

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

/// Whether the plan must be made again, and what changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Replan {
    /// The plan is up to date.
    #[default]
    No,
    /// Free memory changed without user input.
    Memory,
    /// The user changed something.
    User,
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

/// The requantised variants of a model; without a type, the GGUF file that can be made of original weights, or the original of a
/// GGUF file in a mode of MLX.
#[derive(Debug, Default)]
pub(crate) struct QuantisedModels {
    of: Option<Arc<PreparedModel>>,
    models: Vec<(Option<Quantisation>, Arc<PreparedModel>)>,
}

impl QuantisedModels {
    fn get(
        &mut self,
        opened: &Arc<PreparedModel>,
        to: Option<Quantisation>,
    ) -> Result<Arc<PreparedModel>, QuantiseError> {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, opened)) {
            *self = Self { of: Some(Arc::clone(opened)), models: Vec::new() };
        }
        if let Some((_, model)) = self.models.iter().find(|(made, _)| *made == to) {
            return Ok(Arc::clone(model));
        }
        let made = match to {
            Some(to) => Some(opened.requantised(to)?),
            // why there is none, the engine says
            None if opened.mlx.is_some() => opened.converted().ok().flatten(),
            None => opened.for_mlx().ok().flatten(),
        };
        let model = made.map_or_else(|| Arc::clone(opened), Arc::new);
        self.models.push((to, Arc::clone(&model)));
        Ok(model)
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
