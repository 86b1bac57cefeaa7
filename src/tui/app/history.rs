//! Undo and redo, and applying plan requests.

use std::sync::Arc;

use super::live::Replan;
use super::{App, Cursors, Knob};
use crate::answer::sweep::PlanFigures;
use crate::engine::PlanRequest;
use crate::machine::Machine;
use crate::machine::what_if::{NamedMachine, WhatIf};
use crate::settings::{Settings, StashedKnobs};
use crate::tui::query::PlannedRequest;
use crate::tui::regions::ScreenLayout;
use crate::tui::widget::row_writer::capitalised;

/// Maximum number of undo steps.
const MAX_UNDO: usize = 200;

/// A state of the planner that undo and redo restore.
#[derive(Clone, Debug)]
struct Step {
    plan_request: PlanRequest,
    /// The offered knobs, and the stashed values of the others.
    knobs: Vec<Knob>,
    stashed: StashedKnobs,
    what_if: WhatIf,
    figures: StateFigures,
}

/// What a state gave.
#[derive(Clone, Debug, PartialEq)]
pub enum StateFigures {
    /// It was left before it was planned.
    Unplanned,
    /// The engine refused it.
    Refused,
    /// The figures of its plan, with the memory that was free then.
    Planned(Box<PlanFigures>),
}

/// A state of the planner as the history lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEntry {
    /// What was asked.
    pub plan_request: PlanRequest,
    /// What it gave.
    pub figures: StateFigures,
}

/// The states before the present one, and those that undo has left; the nearest last.
#[derive(Debug, Default)]
pub(crate) struct History {
    past: Vec<Step>,
    future: Vec<Step>,
    /// What was planned when the planner opened.
    opened: Option<(PlanRequest, WhatIf)>,
}

/// A pinned plan.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Pin {
    /// `A` to `D`; it does not change when others are unpinned.
    pub letter: char,
    /// The request that it was planned for.
    pub plan_request: PlanRequest,
    /// Its plan; none until that is made.
    pub planned: Option<PlannedRequest>,
}

/// A drag of a slider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drag {
    /// The slider's knob.
    pub knob: Knob,
    /// Whether it has changed the value; the rest of the drag belongs to the same undo step.
    pub moved: bool,
}

impl App {
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

    /// Pins `plan_request`, whose model is opened by this reference, unless no letter is left.
    pub(crate) fn pin(&mut self, plan_request: PlanRequest, reference: Option<String>) {
        let Some(letter) = self.free_letter() else { return };
        self.locations.learn(&plan_request.opened, None, reference);
        self.pins.push(Pin { letter, plan_request, planned: None });
    }

    /// The letter of the next pin.
    pub(crate) fn free_letter(&self) -> Option<char> {
        ('A'..='D').find(|letter| self.pins.iter().all(|pin| pin.letter != *letter))
    }

    /// The present plan counts as unchanged.
    pub fn mark_unchanged(&mut self) {
        self.history.opened = self.plan_request().map(|request| (request, self.what_if.clone()));
    }

    /// Whether the plan, or what is pinned beside it, is other than at the start; what is free does not count.
    pub fn is_changed(&self) -> bool {
        let Some(now) = self.plan_request() else { return false };
        let is_same = |(opened, what_if): &(PlanRequest, WhatIf)| {
            let there = opened.on_machine(Arc::clone(&now.machine));
            there == now && *what_if == self.what_if
        };
        !self.pins.is_empty() || !self.history.opened.as_ref().is_none_or(is_same)
    }

    /// Whether a changed plan is not left yet: asks once.
    pub(crate) fn asks_to_quit(&mut self) -> bool {
        let asks = self.is_changed() && !self.preferences.quits_at_once && !self.asked_to_quit;
        let asks = asks && self.regions.shape != ScreenLayout::TooSmall;
        self.asked_to_quit |= asks;
        asks
    }

    /// What the footer says: the question whether to quit until a key answers it, or else the notice.
    pub(crate) fn message(&self) -> Option<&str> {
        const QUESTION: &str = "The plan has changed: q again quits, and 'plimsoll --last' reopens it.";
        if self.asked_to_quit { Some(QUESTION) } else { self.notice.as_deref() }
    }

    /// Records the present state for undo; states that undo had left are dropped.
    pub(crate) fn push_undo(&mut self) {
        let Some(step) = self.step() else { return };
        if self.history.past.len() == MAX_UNDO {
            self.history.past.remove(0);
        }
        self.history.past.push(step);
        self.history.future.clear();
    }

    fn step(&self) -> Option<Step> {
        Some(Step {
            plan_request: self.plan_request()?,
            knobs: self.knobs.offered.clone(),
            stashed: self.knobs.stashed.clone(),
            what_if: self.what_if.clone(),
            figures: self.figures(),
        })
    }

    /// Whether the plan is that of the present settings.
    pub(crate) fn is_current(&self) -> bool {
        self.replan == Replan::No && !self.is_planning()
    }

    /// What the present state gives.
    fn figures(&self) -> StateFigures {
        match &self.plan {
            _ if !self.is_current() => StateFigures::Unplanned,
            Some(plan) if self.refused.is_none() => {
                StateFigures::Planned(Box::new(PlanFigures::of(plan, self.speeds.as_ref())))
            }
            _ => StateFigures::Refused,
        }
    }

    pub(crate) fn undo(&mut self) {
        match self.history.past.len().checked_sub(1) {
            Some(before) => self.go_to(before),
            None => self.notice = Some("Nothing to undo.".to_owned()),
        }
    }

    pub(crate) fn redo(&mut self) {
        if self.history.future.is_empty() {
            self.notice = Some("Nothing to redo.".to_owned());
        } else {
            self.go_to(self.history.past.len() + 1);
        }
    }

    /// The states since the planner was opened, the oldest first, and which of them is the present one.
    pub fn states(&self) -> (Vec<HistoryEntry>, usize) {
        let History { past, future, .. } = &self.history;
        let now = self.step();
        let steps = past.iter().chain(&now).chain(future.iter().rev());
        let known =
            |step: &Step| HistoryEntry { plan_request: step.plan_request.clone(), figures: step.figures.clone() };
        (steps.map(known).collect(), past.len())
    }

    /// Goes to the state with this index, as undo or redo do step by step.
    pub(crate) fn go_to(&mut self, state: usize) {
        let Some(now) = self.step() else { return };
        let History { past, future, .. } = &mut self.history;
        let here = past.len();
        let mut steps: Vec<Step> = past.drain(..).chain([now]).chain(future.drain(..).rev()).collect();
        let state = state.min(steps.len() - 1);
        future.extend(steps.drain(state + 1..).rev());
        let step = steps.pop();
        *past = steps;
        if let Some(step) = step.filter(|_| state != here) {
            self.restore_step(step);
        }
    }

    /// Replaces the machine by what is known better now, also in the undo steps that refer to it.
    pub(crate) fn set_machine(&mut self, machine: Arc<Machine>) {
        let old = std::mem::replace(&mut self.machine, machine);
        let steps = self.history.past.iter_mut().chain(&mut self.history.future);
        let affected = steps.filter(|step| Arc::ptr_eq(&step.plan_request.machine, &old));
        affected.for_each(|step| step.plan_request.machine = Arc::clone(&self.machine));
    }

    /// Makes `plan_request` the present one, as one undo step.
    pub(crate) fn apply_request(&mut self, plan_request: PlanRequest) {
        self.apply_request_as(plan_request, "pinned machine");
    }

    /// The same, with a name for its machine if that differs from the present one.
    pub(crate) fn apply_request_as(&mut self, plan_request: PlanRequest, machine: &str) {
        if self.plan_request().as_ref() != Some(&plan_request) {
            self.push_undo();
            // its settings are for its own knobs: nothing to stash or restore
            let knobs = plan_request.knobs();
            if plan_request.machine != self.machine {
                let named = NamedMachine { name: machine.to_owned(), machine: Arc::clone(&plan_request.machine) };
                self.what_if = WhatIf::replacement(Some(named));
            }
            self.restore_request(plan_request, knobs);
        }
    }

    fn restore_step(&mut self, step: Step) {
        (self.knobs.stashed, self.what_if) = (step.stashed, step.what_if);
        self.restore_request(step.plan_request, step.knobs);
    }

    fn restore_request(&mut self, plan_request: PlanRequest, knobs: Vec<Knob>) {
        let PlanRequest { engine, opened, model, machine, settings } = plan_request;
        let same_model = self.model.as_ref().is_some_and(|now| Arc::ptr_eq(now, &model));
        let same_machine = Arc::ptr_eq(&self.machine, &machine);
        let unchanged = same_model && same_machine && engine == self.engine;
        if !same_model {
            (self.plan, self.panels.cursors) = (None, Cursors::default());
        }
        (self.engine, self.settings, self.replan) = (engine, settings, Replan::User);
        (self.opened, self.model, self.machine) = (Some(opened), Some(model), machine);
        self.set_offered_knobs(knobs);
        if !same_machine {
            self.library.renew();
        }
        if !unchanged {
            self.replan_from_scratch();
        }
    }

    pub(crate) fn change_settings(&mut self, settings: Settings) {
        if settings == self.settings {
            return;
        }
        let model = match self.in_quantisation(settings.quant) {
            Ok(model) => model,
            Err(why) => {
                self.notice = Some(capitalised(&format!("{why}.")));
                return;
            }
        };
        // a drag is one undo step
        if !self.knobs.drag.is_some_and(|drag| drag.moved) {
            self.push_undo();
        }
        if let Some(drag) = &mut self.knobs.drag {
            drag.moved = true;
        }
        (self.model, self.settings) = (model, settings);
        self.replan = Replan::User;
    }

    /// Ends a drag; one that returned to its start is no undo step.
    pub(crate) fn end_drag(&mut self) {
        let moved = self.knobs.drag.take().is_some_and(|drag| drag.moved);
        if moved && self.history.past.last().is_some_and(|step| step.plan_request.settings == self.settings) {
            self.history.past.pop();
        }
    }
}
