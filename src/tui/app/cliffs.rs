//! The cliffs along each knob, and stepping from one to the next.

use super::App;
use crate::answer::cliffs::Cliff;
use crate::engine::PlanRequest;
use crate::settings::knob::Knob;
use crate::tui::effect::Effect;
use crate::tui::query::{Query, QueryKind};

/// The known cliffs, and the last request for them.
#[derive(Debug, Default)]
pub struct Cliffs {
    id: u64,
    asked: Option<PlanRequest>,
    known: Vec<KnobCliffs>,
}

#[derive(Debug)]
struct KnobCliffs {
    knob: Knob,
    /// The request with this knob reset: its cliffs do not depend on its own value.
    others: PlanRequest,
    cliffs: Vec<Cliff>,
}

impl Cliffs {
    /// Knobs whose value can move layers between devices.
    const ASKED: [Knob; 6] = [Knob::Context, Knob::Parallel, Knob::Batch, Knob::Ubatch, Knob::GpuLayers, Knob::CpuMoe];

    /// The cliffs along `knob` for `plan_request`; none if they are not known.
    pub fn of(&self, knob: Knob, plan_request: &PlanRequest) -> Option<&[Cliff]> {
        let known = self.known.iter().find(|known| known.knob == knob)?;
        (known.others == apart_from(plan_request, knob)).then_some(&known.cliffs)
    }

    /// Drops all known cliffs.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    pub(crate) fn learn(&mut self, id: u64, knob: Knob, cliffs: Vec<Cliff>) {
        let Some(asked) = self.asked.as_ref().filter(|_| id == self.id) else { return };
        let others = apart_from(asked, knob);
        self.known.retain(|known| known.knob != knob);
        self.known.push(KnobCliffs { knob, others, cliffs });
    }

    /// Asks for the unknown cliffs of `plan_request` along the offered knobs, `first` before the others; `id` is that of
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
        Some(Effect::Ask(Box::new(Query { id: self.id, of: plan_request, about: QueryKind::Cliffs(knobs) })))
    }
}

/// `plan_request` with `knob` reset: what is found along a knob does not depend on its own value.
pub(crate) fn apart_from(plan_request: &PlanRequest, knob: Knob) -> PlanRequest {
    let mut settings = plan_request.settings.clone();
    knob.reset(&mut settings);
    plan_request.with(settings)
}

/// The value to stop at: the last before layers are lost, or the first after layers are gained.
pub fn edge(cliff: &Cliff) -> u64 {
    if cliff.is_gain() { cliff.first } else { cliff.last }
}

/// The nearest cliff above or below `value`.
pub fn next(cliffs: &[Cliff], value: u64, up: bool) -> Option<&Cliff> {
    if up {
        cliffs.iter().filter(|cliff| edge(cliff) > value).min_by_key(|cliff| edge(cliff))
    } else {
        cliffs.iter().filter(|cliff| edge(cliff) < value).max_by_key(|cliff| edge(cliff))
    }
}

impl App {
    /// The cliffs along `knob` for the present settings; empty as long as they are not known.
    pub fn cliffs_along(&self, knob: Knob) -> &[Cliff] {
        self.limits_request().and_then(|request| self.cliffs.of(knob, &request)).unwrap_or_default()
    }

    /// Sets the knob to the next cliff, and shows what changes there.
    pub(crate) fn step_to_cliff(&mut self, up: bool) {
        let (knob, value) = (self.knobs.focus, self.value(self.knobs.focus));
        if !Cliffs::ASKED.contains(&knob) {
            self.notice = Some(format!("{} has no thresholds: change it with ← and →.", knob.title()));
            return;
        }
        if self.machine.gpus.is_empty() {
            self.notice = Some("There are no thresholds without a GPU.".to_owned());
            return;
        }
        let Some(plan_request) = self.limits_request() else { return };
        let Some(cliffs) = self.cliffs.of(knob, &plan_request) else {
            self.notice = Some("Still computing the thresholds; press again in a moment.".to_owned());
            return;
        };
        let Some(cliff) = next(cliffs, value, up) else {
            let way = if up { "up" } else { "down" };
            self.notice = Some(format!("No threshold further {way}."));
            return;
        };
        let (target, text) = (edge(cliff), format!("{}.", cliff.description(knob)));
        self.set_knob(knob, target);
        self.notice = Some(text);
    }
}
