//! Undo and redo, and changes of the request that they take back.

use std::sync::Arc;

use super::App;
use super::request::Replan;
use crate::answer::sweep::PlanFigures;
use crate::answer::verdict::capitalised;
use crate::engine::{EngineVersion, PlanRequest};
use crate::machine::Machine;
use crate::machine::what_if::{NamedMachine, WhatIf};
use crate::model::mixture::Quantisation;
use crate::settings::knob::Knob;
use crate::settings::{Settings, StashedKnobs};
use crate::tui::query::PlannedRequest;
use crate::tui::regions::{Cursors, ScreenLayout};

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

impl History {
    /// Whether `now`, with the user's changes to the machine, is what was planned at first; what is free does not count.
    fn is_first(&self, now: &PlanRequest, changes: &WhatIf) -> bool {
        self.opened
            .as_ref()
            .is_none_or(|(opened, what_if)| opened.on_machine(Arc::clone(&now.machine)) == *now && what_if == changes)
    }

    /// Adds the state before a change; states that undo had left are dropped.
    fn push(&mut self, step: Step) {
        if self.past.len() == MAX_UNDO {
            self.past.remove(0);
        }
        self.past.push(step);
        self.future.clear();
    }

    /// All states with `now`, the present one, the oldest first, and its place.
    fn states(&self, now: Option<&Step>) -> (Vec<HistoryEntry>, usize) {
        let steps = self.past.iter().chain(now).chain(self.future.iter().rev());
        let known =
            |step: &Step| HistoryEntry { plan_request: step.plan_request.clone(), figures: step.figures.clone() };
        (steps.map(known).collect(), self.past.len())
    }

    /// Goes to the state with this index, or the last; returns it unless it is `now`, the present one.
    fn go_to(&mut self, state: usize, now: Step) -> Option<Step> {
        let Self { past, future, .. } = self;
        let here = past.len();
        let mut steps: Vec<Step> = past.drain(..).chain([now]).chain(future.drain(..).rev()).collect();
        let state = state.min(steps.len() - 1);
        future.extend(steps.drain(state + 1..).rev());
        let step = steps.pop();
        *past = steps;
        step.filter(|_| state != here)
    }

    /// Replaces the machine of the states on `old`.
    fn replace_machine(&mut self, old: &Arc<Machine>, new: &Arc<Machine>) {
        let steps = self.past.iter_mut().chain(&mut self.future);
        let affected = steps.filter(|step| Arc::ptr_eq(&step.plan_request.machine, old));
        affected.for_each(|step| step.plan_request.machine = Arc::clone(new));
    }

    /// Drops the last state if it has these settings.
    fn drop_last_with(&mut self, settings: &Settings) {
        self.past.pop_if(|step| step.plan_request.settings == *settings);
    }
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
    /// Pins `plan_request`, whose model is opened by this reference, unless no letter is left.
    pub(crate) fn pin(&mut self, plan_request: PlanRequest, reference: Option<String>) {
        let Some(letter) = self.free_letter() else { return };
        self.library.locations.learn(&plan_request.opened, None, reference);
        self.pins.push(Pin { letter, plan_request, planned: None });
    }

    /// The letter of the next pin.
    pub(crate) fn free_letter(&self) -> Option<char> {
        ('A'..='D').find(|letter| self.pins.iter().all(|pin| pin.letter != *letter))
    }

    /// The present plan counts as unchanged.
    pub fn mark_unchanged(&mut self) {
        self.history.opened = self.request.plan_request().map(|request| (request, self.found_machine.what_if.clone()));
    }

    /// Whether the plan, or what is pinned beside it, is other than at the start; what is free does not count.
    pub fn is_changed(&self) -> bool {
        let Some(now) = self.request.plan_request() else { return false };
        !self.pins.is_empty() || !self.history.is_first(&now, &self.found_machine.what_if)
    }

    /// Whether a changed plan is not left yet: asks once.
    pub(crate) fn asks_to_quit(&mut self) -> bool {
        let asks = self.is_changed() && !self.preferences.quits_at_once && !self.asked_to_quit;
        let asks = asks && self.panels.regions.shape != ScreenLayout::TooSmall;
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
        if let Some(step) = self.step() {
            self.history.push(step);
        }
    }

    fn step(&self) -> Option<Step> {
        Some(Step {
            plan_request: self.request.plan_request()?,
            knobs: self.panels.knobs.offered.clone(),
            stashed: self.panels.knobs.stashed.clone(),
            what_if: self.found_machine.what_if.clone(),
            figures: self.figures(),
        })
    }

    /// What the present state gives.
    fn figures(&self) -> StateFigures {
        match &self.request.plan {
            _ if !self.request.is_current() => StateFigures::Unplanned,
            Some(plan) if self.request.refused.is_none() => {
                StateFigures::Planned(Box::new(PlanFigures::of(plan, self.request.speeds.as_ref())))
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
        self.history.states(self.step().as_ref())
    }

    /// Goes to the state with this index, as undo or redo do step by step.
    pub(crate) fn go_to(&mut self, state: usize) {
        if let Some(step) = self.step().and_then(|now| self.history.go_to(state, now)) {
            self.restore_step(step);
        }
    }

    /// Replaces the machine by what is known better now, also in the undo steps that refer to it.
    pub(crate) fn set_machine(&mut self, machine: Arc<Machine>) {
        let old = std::mem::replace(&mut self.request.machine, machine);
        self.history.replace_machine(&old, &self.request.machine);
    }

    /// Makes `plan_request` the present one, as one undo step.
    pub(crate) fn apply_request(&mut self, plan_request: PlanRequest) {
        self.apply_request_as(plan_request, "pinned machine");
    }

    /// The same, with a name for its machine if that differs from the present one.
    pub(crate) fn apply_request_as(&mut self, plan_request: PlanRequest, machine: &str) {
        if self.request.plan_request().as_ref() != Some(&plan_request) {
            self.push_undo();
            // its settings are for its own knobs: nothing to stash or restore
            let knobs = plan_request.knobs();
            if plan_request.machine != self.request.machine {
                let named = NamedMachine { name: machine.to_owned(), machine: Arc::clone(&plan_request.machine) };
                self.found_machine.what_if = WhatIf::replacement(Some(named));
            }
            self.restore_request(plan_request, knobs);
        }
    }

    fn restore_step(&mut self, step: Step) {
        (self.panels.knobs.stashed, self.found_machine.what_if) = (step.stashed, step.what_if);
        self.restore_request(step.plan_request, step.knobs);
    }

    fn restore_request(&mut self, plan_request: PlanRequest, knobs: Vec<Knob>) {
        let PlanRequest { engine, opened, model, machine, settings } = plan_request;
        let same_model = self.request.model.as_ref().is_some_and(|now| Arc::ptr_eq(now, &model));
        let same_machine = Arc::ptr_eq(&self.request.machine, &machine);
        let unchanged = same_model && same_machine && engine == self.request.engine;
        if !same_model {
            (self.request.plan, self.panels.cursors) = (None, Cursors::default());
        }
        (self.request.engine, self.request.settings, self.request.replan) = (engine, settings, Replan::User);
        (self.request.opened, self.request.model, self.request.machine) = (Some(opened), Some(model), machine);
        self.panels.set_offered_knobs(knobs);
        if !same_machine {
            self.library.renew();
        }
        if !unchanged {
            self.replan_from_scratch();
        }
    }

    /// Gives K and V a cache type each, or one type again: that of K, if both can have it.
    pub(crate) fn split_cache(&mut self) {
        if self.request.engine.facts().has_one_cache_type() {
            self.notice = Some(format!("{} has one type for K and V.", self.request.engine.title()));
            return;
        }
        let two = self.panels.knobs.offered.contains(&Knob::CacheTypeK);
        self.panels.knobs.two_cache_types = !two;
        let mut settings = self.request.settings.clone();
        if two && settings.has_two_cache_types() {
            settings.use_one_cache_type();
        }
        self.change_settings(settings);
        self.update_offered_knobs();
    }

    /// Switches to another engine or release, as one undo step.
    pub(crate) fn choose(&mut self, choice: EngineVersion) {
        if choice == self.request.choice() {
            return;
        }
        self.push_undo();
        self.request.engine = choice.engine;
        choice.apply(&mut self.request.settings);
        self.request.fit_model();
        self.replan_from_scratch();
    }

    /// Sets `knob` as one undo step.
    pub(crate) fn set_knob(&mut self, knob: Knob, value: u64) {
        let mut settings = self.request.settings.clone();
        if let (Knob::TensorSplit, true, Some(plan)) = (knob, settings.tensor_split.is_empty(), &self.request.plan) {
            // the other GPUs keep their present proportions
            settings.tensor_split = plan.shares();
        }
        knob.set(&mut settings, value);
        self.change_settings(settings);
    }

    pub(crate) fn set_from_text(&mut self, text: &str) -> Result<(), String> {
        let mut settings = self.request.settings.clone();
        self.panels.knobs.focus.read(text, &mut settings, &self.request.bounds)?;
        self.change_settings(settings);
        Ok(())
    }

    /// Sets the quantisation as one undo step, unless it is none.
    pub fn set_quantisation(&mut self, quant: Option<Quantisation>) {
        if quant.is_some() {
            self.change_settings(Settings { quant, ..self.request.settings.clone() });
        }
    }

    /// Makes `settings` the present ones; they are one undo step, or part of that of a drag.
    pub(crate) fn change_settings(&mut self, settings: Settings) {
        if settings == self.request.settings {
            return;
        }
        let model = match self.request.in_quantisation(settings.quant) {
            Ok(model) => model,
            Err(why) => {
                self.notice = Some(capitalised(&format!("{why}.")));
                return;
            }
        };
        // a drag is one undo step
        if !self.panels.knobs.drag.is_some_and(|drag| drag.moved) {
            self.push_undo();
        }
        if let Some(drag) = &mut self.panels.knobs.drag {
            drag.moved = true;
        }
        (self.request.model, self.request.settings) = (model, settings);
        self.request.replan = Replan::User;
    }

    /// Ends a drag; one that returned to its start is no undo step.
    pub(crate) fn end_drag(&mut self) {
        if self.panels.knobs.drag.take().is_some_and(|drag| drag.moved) {
            self.history.drop_last_with(&self.request.settings);
        }
    }
}
