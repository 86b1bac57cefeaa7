//! The thresholds along each knob, and stepping from one to the next.

use crate::answer::thresholds::Threshold;
use crate::engine::PlanRequest;
use crate::settings::knob::Knob;
use crate::tui::effect::Effect;
use crate::tui::query::{Query, QueryKind};

/// The known thresholds, and the last request for them.
#[derive(Debug, Default)]
pub struct Thresholds {
    id: u64,
    asked: Option<PlanRequest>,
    known: Vec<KnobThresholds>,
}

#[derive(Debug)]
struct KnobThresholds {
    knob: Knob,
    /// The request with this knob reset: its thresholds do not depend on its own value.
    others: PlanRequest,
    thresholds: Vec<Threshold>,
}

impl Thresholds {
    /// Knobs whose value can move layers between devices.
    pub(crate) const ASKED: [Knob; 6] =
        [Knob::Context, Knob::Parallel, Knob::Batch, Knob::Ubatch, Knob::GpuLayers, Knob::CpuMoe];

    /// The thresholds along `knob` for `plan_request`; none if they are not known.
    pub fn of(&self, knob: Knob, plan_request: &PlanRequest) -> Option<&[Threshold]> {
        let known = self.known.iter().find(|known| known.knob == knob)?;
        (known.others == apart_from(plan_request, knob)).then_some(&known.thresholds)
    }

    /// Drops all known thresholds.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    pub(crate) fn learn(&mut self, id: u64, knob: Knob, thresholds: Vec<Threshold>) {
        let Some(asked) = self.asked.as_ref().filter(|_| id == self.id) else { return };
        let others = apart_from(asked, knob);
        self.known.retain(|known| known.knob != knob);
        self.known.push(KnobThresholds { knob, others, thresholds });
    }

    /// Asks for the unknown thresholds of `plan_request` along the offered knobs, `first` before the others; `id` is that of
    /// the query.
    pub(crate) fn ask(&mut self, id: u64, plan_request: PlanRequest, offered: &[Knob], first: Knob) -> Option<Effect> {
        let is_unknown = |knob: &Knob| offered.contains(knob) && self.of(*knob, &plan_request).is_none();
        let mut knobs: Vec<Knob> = Self::ASKED.into_iter().filter(is_unknown).collect();
        knobs.sort_by_key(|&knob| knob != first);
        self.id = id;
        if knobs.is_empty() || plan_request.machine.gpus.is_empty() {
            return None;
        }
        self.asked = Some(plan_request.clone());
        Some(Effect::Ask(Box::new(Query { id: self.id, of: plan_request, about: QueryKind::Thresholds(knobs) })))
    }
}

/// `plan_request` with `knob` reset: what is found along a knob does not depend on its own value.
pub(crate) fn apart_from(plan_request: &PlanRequest, knob: Knob) -> PlanRequest {
    let mut settings = plan_request.settings.clone();
    knob.reset(&mut settings);
    plan_request.with(settings)
}

/// The value to stop at: the last before layers are lost, or the first after layers are gained.
pub fn edge(threshold: &Threshold) -> u64 {
    if threshold.is_gain() { threshold.first } else { threshold.last }
}

/// The nearest threshold above or below `value`.
pub fn next(thresholds: &[Threshold], value: u64, up: bool) -> Option<&Threshold> {
    if up {
        thresholds.iter().filter(|threshold| edge(threshold) > value).min_by_key(|threshold| edge(threshold))
    } else {
        thresholds.iter().filter(|threshold| edge(threshold) < value).max_by_key(|threshold| edge(threshold))
    }
}
