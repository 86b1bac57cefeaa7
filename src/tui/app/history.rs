//! What the plan rests on as one value: remembered before every change, and taken up again by undo or by choice.

use std::sync::Arc;

use super::live::Stale;
use super::tag::capital;
use super::{App, Cursors, Knob};
use crate::engine::PlanRequest;
use crate::machine::Machine;
use crate::machine::what_if::{Named, WhatIf};
use crate::settings::{Aside, Settings};

/// Situations that can be gone back to.
const REMEMBERED: usize = 200;

/// What undo goes back to.
#[derive(Debug)]
pub(super) struct Step {
    situation: PlanRequest,
    /// The knobs that were offered, and what was laid aside of the others.
    knobs: Vec<Knob>,
    aside: Aside,
    what_if: WhatIf,
}

/// A slider that is being dragged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drag {
    pub knob: Knob,
    /// It has moved something already: the rest of the drag belongs to that step.
    pub moved: bool,
}

impl App {
    /// Engine, model, machine and knobs as they are; none without a model.
    pub fn situation(&self) -> Option<PlanRequest> {
        Some(PlanRequest {
            engine: self.engine,
            opened: Arc::clone(self.opened.as_ref()?),
            model: Arc::clone(self.model.as_ref()?),
            machine: Arc::clone(&self.machine),
            settings: self.settings.clone(),
        })
    }

    /// What is so now can be gone back to.
    pub(super) fn remember(&mut self) {
        let Some(situation) = self.situation() else { return };
        if self.past.len() == REMEMBERED {
            self.past.remove(0);
        }
        let (knobs, aside, what_if) = (self.knobs.offered.clone(), self.knobs.aside.clone(), self.what_if.clone());
        self.past.push(Step { situation, knobs, aside, what_if });
    }

    pub(super) fn undo(&mut self) {
        match self.past.pop() {
            Some(Step { situation, knobs, aside, what_if }) => {
                (self.knobs.aside, self.what_if) = (aside, what_if);
                self.become_of(situation, knobs);
            }
            None => self.notice = Some("Nothing to undo.".to_owned()),
        }
    }

    /// The machine is known better now: what was remembered of the one that was in front of us means it too.
    pub(super) fn know_machine(&mut self, machine: Arc<Machine>) {
        let old = std::mem::replace(&mut self.machine, machine);
        let same = self.past.iter_mut().filter(|step| Arc::ptr_eq(&step.situation.machine, &old));
        same.for_each(|step| step.situation.machine = Arc::clone(&self.machine));
    }

    /// Makes `situation` the present one, as one step that can be undone.
    pub(super) fn take(&mut self, situation: PlanRequest) {
        self.take_with(situation, "pinned machine");
    }

    /// The same where its machine, if it is another than the present one, is called `machine`.
    pub(super) fn take_with(&mut self, situation: PlanRequest, machine: &str) {
        if self.situation().as_ref() != Some(&situation) {
            self.remember();
            // its settings were made for its own knobs: there is nothing to lay aside or to bring back
            let knobs = situation.knobs();
            if situation.machine != self.machine {
                let named = Named { name: machine.to_owned(), machine: Arc::clone(&situation.machine) };
                self.what_if = WhatIf::instead(Some(named));
            }
            self.become_of(situation, knobs);
        }
    }

    fn become_of(&mut self, situation: PlanRequest, knobs: Vec<Knob>) {
        let PlanRequest { engine, opened, model, machine, settings } = situation;
        let same_model = self.model.as_ref().is_some_and(|now| Arc::ptr_eq(now, &model));
        let same_machine = Arc::ptr_eq(&self.machine, &machine);
        let same = same_model && same_machine && engine == self.engine;
        if !same_model {
            (self.plan, self.panels.cursors) = (None, Cursors::default());
        }
        (self.engine, self.settings, self.stale) = (engine, settings, Stale::ByHand);
        (self.opened, self.model, self.machine) = (Some(opened), Some(model), machine);
        self.take_knobs(knobs);
        if !same {
            self.replan_from_scratch();
        }
    }

    pub(super) fn change_settings(&mut self, settings: Settings) {
        if settings == self.settings {
            return;
        }
        let model = match self.in_quantisation(settings.quant) {
            Ok(model) => model,
            Err(why) => {
                self.notice = Some(capital(&format!("{why}.")));
                return;
            }
        };
        // a drag is one step, however far it goes
        if !self.knobs.drag.is_some_and(|drag| drag.moved) {
            self.remember();
        }
        if let Some(drag) = &mut self.knobs.drag {
            drag.moved = true;
        }
        (self.model, self.settings) = (model, settings);
        self.stale = Stale::ByHand;
    }

    /// Ends a drag; one that came back to where it began was no step.
    pub(super) fn let_go(&mut self) {
        let moved = self.knobs.drag.take().is_some_and(|drag| drag.moved);
        if moved && self.past.last().is_some_and(|step| step.situation.settings == self.settings) {
            self.past.pop();
        }
    }
}
