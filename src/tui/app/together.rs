//! Whether the pinned plans and the present one can be loaded together on the present machine.

use super::update::scrolled;
use super::{App, Mode};
use crate::answer::together::LoadedModels;
use crate::engine::PlanRequest;
use crate::tui::action::Command;
use crate::tui::effect::Effect;

/// The state of the page.
#[derive(Clone, Debug, Default)]
pub struct TogetherPage {
    /// The models, in the order of loading.
    pub models: Vec<PinnedModel>,
    /// The outcome, or why a model has no plan; none while it is computed.
    pub answer: Option<Result<Box<LoadedModels>, String>>,
    /// Scrolled lines.
    pub scroll: u16,
}

/// A model that is loaded with others.
#[derive(Clone, Debug)]
pub struct PinnedModel {
    /// Its label: the letter of its pin, or "this".
    pub label: String,
    /// Its model and settings; machine and engine of the request are ignored.
    pub plan_request: PlanRequest,
}

impl App {
    /// Opens the page.
    pub(super) fn open_together(&mut self) -> Vec<Effect> {
        if self.plan_request().is_none() {
            self.notice = Some("There is no plan yet: open a model with o.".to_owned());
            return Vec::new();
        }
        self.mode = Mode::Together(Box::default());
        self.ask_for_page()
    }

    /// The pinned models in order, then the present one unless it is among them.
    pub(super) fn loaded_models(&self) -> TogetherPage {
        let pinned = |plan_request: &PlanRequest| {
            self.pins.iter().any(|pin| {
                std::sync::Arc::ptr_eq(&pin.plan_request.model, &plan_request.model)
                    && pin.plan_request.settings == plan_request.settings
            })
        };
        let pins = self.pins.iter().map(|pin| (pin.letter.to_string(), pin.plan_request.clone()));
        let now = self.plan_request().filter(|now| !pinned(now)).map(|now| ("this".to_owned(), now));
        let models = pins.chain(now).map(|(label, plan_request)| PinnedModel { label, plan_request }).collect();
        TogetherPage { models, ..TogetherPage::default() }
    }

    pub(super) fn press_on_together(&mut self, mut page: Box<TogetherPage>, command: Command) {
        match command {
            Command::Back | Command::Enter => {}
            Command::Help => self.mode = Mode::Help(0),
            _ => {
                page.scroll = scrolled(page.scroll, command);
                self.mode = Mode::Together(page);
            }
        }
    }
}
