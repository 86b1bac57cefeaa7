//! Applying the plan: what is started, loaded and unloaded, one question, progress; then what came of it, beside the plan.

use std::sync::Arc;
use std::time::Duration;

use crate::answer::verdict::capitalised;
use crate::export::ModelLocation;
use crate::page::{Hue, Page};
use crate::running::apply::{Failure, Target};
use crate::tui::action::{Action, Command};
use crate::tui::app::App;
use crate::tui::effect::{ApplyPreview, ApplyRequest, Effect};
use crate::tui::screen::{Response, Screen};
use crate::tui::screens::check::CheckPage;
use crate::tui::widget::page::Overlay;

/// The state of the page.
#[derive(Debug, Default)]
pub struct ApplyPage {
    state: ApplyState,
    /// Id of the request.
    id: u64,
    target: Option<Target>,
    scroll: u16,
}

/// How far it is.
#[derive(Debug, Default)]
enum ApplyState {
    /// It is found out what would happen.
    #[default]
    Preparing,
    /// The question.
    Asking(ApplyPreview),
    /// It cannot be applied here.
    Impossible(String),
    /// It is under way.
    Running(Duration, String),
    /// It is being stopped.
    Stopping,
    /// It did not load.
    Failed(Failure),
}

impl ApplyPage {
    fn target(app: &App) -> Option<Target> {
        let request = app.request.plan_request()?;
        let location = match request.settings.quant {
            // as far as is known here, no such file exists
            Some(quant) if !Arc::ptr_eq(&request.model, &request.opened) => {
                ModelLocation::Unknown(format!("{} as {quant}", request.model.name))
            }
            _ => app.library.locations.of(&request.opened),
        };
        let (plan, server) = (app.request.plan.as_deref()?.clone(), app.preferences.server.clone());
        Some(Target { request, plan, location, server, stays: false })
    }

    fn request(&self) -> Option<Box<ApplyRequest>> {
        Some(Box::new(ApplyRequest { id: self.id, target: self.target.clone()? }))
    }
}

impl Screen for ApplyPage {
    fn missing(&self, app: &App) -> Option<&'static str> {
        (app.request.plan.is_none() || app.request.refused.is_some()).then_some("There is no plan to apply.")
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        // what was asked about stays, whatever changes meanwhile
        if self.target.is_some() {
            return Vec::new();
        }
        (self.target, self.id) = (Self::target(app), app.request.next_id());
        self.request().map_or_else(Vec::new, |request| vec![Effect::PrepareApply(request)])
    }

    fn press(&mut self, _: &mut App, command: Command) -> Response {
        match (&self.state, command) {
            (ApplyState::Asking(_), Command::Enter) => {
                let Some(request) = self.request() else { return Response::CLOSE };
                self.state = ApplyState::Running(Duration::ZERO, String::new());
                Response::Stay(vec![Effect::Apply(request)])
            }
            (ApplyState::Running(..), Command::Back) => {
                self.state = ApplyState::Stopping;
                Response::Stay(vec![Effect::CancelApply])
            }
            (ApplyState::Running(..) | ApplyState::Stopping, Command::Help) => Response::STAY,
            (ApplyState::Impossible(_) | ApplyState::Failed(_), Command::Enter) => Response::CLOSE,
            _ => Response::Ignored,
        }
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Response {
        match (answer, &self.state) {
            (Action::ApplyPrepared { id, result }, ApplyState::Preparing) if id == self.id => {
                self.state = result.map_or_else(ApplyState::Impossible, ApplyState::Asking);
            }
            (Action::ApplyProgress { id, took, what }, ApplyState::Running(..)) if id == self.id => {
                self.state = ApplyState::Running(took, what);
            }
            (Action::Applied { id, result }, _) if id == self.id => match result {
                Ok(checked) => return Response::open(CheckPage::of(checked)),
                Err(failure) => self.state = ApplyState::Failed(failure),
            },
            _ => {}
        }
        Response::STAY
    }

    fn page(&self, _: &App) -> Option<Overlay> {
        let mut page = Page::default();
        match &self.state {
            ApplyState::Preparing => page.text("Looking at what runs…", Hue::Dim),
            ApplyState::Asking(ApplyPreview { what, unloads, notes }) => {
                for (sentence, hue) in std::iter::once((what, Hue::Text))
                    .chain(unloads.iter().map(|sentence| (sentence, Hue::Part)))
                    .chain(notes.iter().map(|sentence| (sentence, Hue::Dim)))
                {
                    page.text(&sentence_of(sentence), hue);
                }
                page.blank();
                page.text("Enter goes on; Esc leaves everything as it is.", Hue::Focus);
            }
            ApplyState::Impossible(why) => page.text(&sentence_of(why), Hue::Over),
            ApplyState::Running(took, what) => {
                page.text(&format!("Loading for {} s; Esc stops.", took.as_secs()), Hue::Text);
                page.verbatim(what, Hue::Dim);
            }
            ApplyState::Stopping => page.text("Stopping…", Hue::Dim),
            ApplyState::Failed(Failure { sentence, advice }) => {
                page.text(&sentence_of(sentence), Hue::Over);
                for advice in advice {
                    page.item(&sentence_of(advice));
                }
            }
        }
        Some(Overlay::new(page, "Apply this plan", self.scroll))
    }
}

fn sentence_of(text: &str) -> String {
    capitalised(&format!("{}.", text.trim_end_matches('.')))
}
