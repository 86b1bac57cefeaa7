//! Making the plan anew, and asking about it, once what it rests on has changed.

use std::sync::Arc;

use super::live::Stale;
use super::{App, Mode};
use crate::answer::KnobLimits;
use crate::engine;
use crate::engine::PlanRequest;
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::Plan;
use crate::settings::knob::{Bounds, Knob};
use crate::tui::effect::{Effect, LimitsRequest, SurveyJob};

/// How far the knobs can go.
#[derive(Debug, Default)]
pub struct LimitsState {
    /// The newest answer; none as long as there is none for the present situation.
    pub found: Option<KnobLimits>,
    /// Counts questions: an answer to an older one is of no interest.
    pub(super) id: u64,
    /// The machine whose limits and cliffs were asked for last.
    pub(super) machine: Option<Arc<Machine>>,
    /// The knob that is to go to its limit as soon as that is known.
    pub(super) pending_limit: Option<Knob>,
}

impl App {
    /// Makes the plan anew if anything that it rests on changed. Called once before a drawing, however many actions came.
    pub fn refresh(&mut self) -> Vec<Effect> {
        let mut effects = self.replan();
        effects.extend(self.survey());
        effects
    }

    /// On the page of models: the list made anew, and what is to be found out of it.
    fn survey(&mut self) -> Option<Effect> {
        let Mode::Browse(browse) = &mut self.mode else { return None };
        if !browse.arrange(&self.library) {
            return None;
        }
        let id = self.library.ask(crate::library::SurveyRequest {
            engine: self.engine,
            machine: self.library.machine(&self.machine),
            settings: self.tag.tag_defaults.without(&self.settings),
            held: self.tag.held,
            quant: None,
        });
        let items = self.library.wanted(&browse.lines, browse.at)?;
        Some(Effect::Survey(Box::new(SurveyJob { id, items, question: self.library.question()? })))
    }

    fn replan(&mut self) -> Vec<Effect> {
        let cause = std::mem::take(&mut self.stale);
        if cause == Stale::No {
            return Vec::new();
        }
        self.offer();
        let Some(model) = self.model.clone() else { return Vec::new() };
        let effects = match engine::plan(self.engine, &model, &self.machine, &self.settings) {
            Ok(plan) => self.accept(&model, plan, cause),
            Err(error) => {
                self.refused = Some(error);
                Vec::new()
            }
        };
        self.renew_engine_compare();
        effects
    }

    fn accept(&mut self, model: &Model, plan: Plan, cause: Stale) -> Vec<Effect> {
        self.refused = None;
        self.bounds = Bounds {
            context_train: plan.model.context_train,
            layer_count: plan.layers.len() as u64,
            experts: model.hyper.experts.is_some(),
        };
        self.panels.cursors.layer = self.panels.cursors.layer.min(plan.layers.len().saturating_sub(1));
        self.panels.cursors.device = self.panels.cursors.device.min(plan.devices.len().saturating_sub(1));
        self.say_what_is_new(&plan);
        let before = self.plan.replace(Box::new(plan.clone()));
        let mut effects = Vec::new();
        // what moves by itself is not marked: nobody pressed a key
        if cause == Stale::ByHand {
            self.change.id += 1;
            self.change.before = before;
            effects.push(Effect::Fade { id: self.change.id });
        }
        if cause == Stale::ByHand || !self.limits.machine.as_ref().is_some_and(|of| of.is_nearly(&self.machine)) {
            effects.extend(self.request_limits(plan));
        }
        if cause == Stale::ByHand {
            // what a page in front says was about the plan before
            effects.extend(self.ask_for_page());
        }
        effects.extend(self.ask_to_teach());
        effects
    }

    /// Asks how far the knobs can go, and where things change along them. Both take far longer than a plan: where memory
    /// moves a little by itself, what was found before serves on.
    fn request_limits(&mut self, plan: Plan) -> Vec<Effect> {
        let Some(of) = self.plan_request() else { return Vec::new() };
        self.limits.id += 1;
        self.limits.machine = Some(Arc::clone(&self.machine));
        let cliffs = self.cliffs.ask(of.clone(), &self.knobs.offered, self.knobs.focus);
        let question = LimitsRequest { id: self.limits.id, of, plan };
        std::iter::once(Effect::Limits(Box::new(question))).chain(cliffs).collect()
    }

    /// The limits were found on the very machine that is planned for.
    pub(super) fn limits_are_current(&self) -> bool {
        self.limits.machine.as_ref().is_some_and(|of| Arc::ptr_eq(of, &self.machine))
    }

    /// The situation in which the limits and the cliffs were asked for last, where it is nearly the present one.
    pub(super) fn limits_request(&self) -> Option<PlanRequest> {
        let now = self.plan_request()?;
        let machine = self.limits.machine.as_ref().filter(|of| of.is_nearly(&now.machine)).cloned();
        Some(match machine {
            Some(machine) => PlanRequest { machine, ..now },
            None => now,
        })
    }

    /// Where the verdict has no room for notes, the footer says the one that the last key brought.
    fn say_what_is_new(&mut self, plan: &Plan) {
        let Some(old) = self.plan.as_ref().filter(|_| self.notes_are_hidden()) else { return };
        if let Some(note) = plan.notes.iter().find(|note| !old.notes.contains(note)) {
            self.notice = Some(note.clone());
        }
    }

    /// The verdict has no room for notes.
    pub(super) const fn notes_are_hidden(&self) -> bool {
        const ROOMY: u16 = 5;
        self.regions.verdict.height < ROOMY
    }
}
