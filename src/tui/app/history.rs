//! Undo, and applying plan requests.

use std::sync::Arc;

use super::live::Stale;
use super::{App, Cursors, Knob};
use crate::engine::PlanRequest;
use crate::machine::Machine;
use crate::machine::what_if::{NamedMachine, WhatIf};
use crate::settings::{Settings, StashedKnobs};
use crate::tui::widget::row_writer::capitalised;

/// Maximum number of undo steps.
const MAX_UNDO: usize = 200;

/// A state that undo restores.
#[derive(Debug)]
pub(super) struct UndoStep {
    plan_request: PlanRequest,
    /// The offered knobs, and the stashed values of the others.
    knobs: Vec<Knob>,
    stashed: StashedKnobs,
    what_if: WhatIf,
}

/// A drag of a slider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drag {
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

    /// Records the present state for undo.
    pub(crate) fn push_undo(&mut self) {
        let Some(plan_request) = self.plan_request() else { return };
        if self.undo_steps.len() == MAX_UNDO {
            self.undo_steps.remove(0);
        }
        let (knobs, stashed, what_if) = (self.knobs.offered.clone(), self.knobs.stashed.clone(), self.what_if.clone());
        self.undo_steps.push(UndoStep { plan_request, knobs, stashed, what_if });
    }

    pub(crate) fn undo(&mut self) {
        match self.undo_steps.pop() {
            Some(UndoStep { plan_request, knobs, stashed, what_if }) => {
                (self.knobs.stashed, self.what_if) = (stashed, what_if);
                self.restore_request(plan_request, knobs);
            }
            None => self.notice = Some("Nothing to undo.".to_owned()),
        }
    }

    /// Replaces the machine by what is known better now, also in the undo steps that refer to it.
    pub(super) fn set_machine(&mut self, machine: Arc<Machine>) {
        let old = std::mem::replace(&mut self.machine, machine);
        let affected = self.undo_steps.iter_mut().filter(|step| Arc::ptr_eq(&step.plan_request.machine, &old));
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

    fn restore_request(&mut self, plan_request: PlanRequest, knobs: Vec<Knob>) {
        let PlanRequest { engine, opened, model, machine, settings } = plan_request;
        let same_model = self.model.as_ref().is_some_and(|now| Arc::ptr_eq(now, &model));
        let same_machine = Arc::ptr_eq(&self.machine, &machine);
        let unchanged = same_model && same_machine && engine == self.engine;
        if !same_model {
            (self.plan, self.panels.cursors) = (None, Cursors::default());
        }
        (self.engine, self.settings, self.stale) = (engine, settings, Stale::User);
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
        self.stale = Stale::User;
    }

    /// Ends a drag; one that returned to its start is no undo step.
    pub(crate) fn end_drag(&mut self) {
        let moved = self.knobs.drag.take().is_some_and(|drag| drag.moved);
        if moved && self.undo_steps.last().is_some_and(|step| step.plan_request.settings == self.settings) {
            self.undo_steps.pop();
        }
    }
}
