//! The page on what runs a model of the browser: the known cards and systems.

use crate::answer::need::{BESIDE_CARDS, NeedRequest, NeededContext, NeededMachine};
use crate::engine::PlanRequest;
use crate::page::{Hue, Page};
use crate::question::need;
use crate::speed::USABLE;
use crate::tui::action::{Action, Command};
use crate::tui::app::App;
use crate::tui::query::Received;
use crate::tui::screen::{Response, Screen};
use crate::tui::widget::page::Overlay;

/// What is asked of every machine.
const QUESTION: NeedRequest = NeedRequest { ram: BESIDE_CARDS, speed: USABLE };

/// The state of the page.
#[derive(Debug)]
pub struct NeedPage {
    /// The model, and its type.
    title: String,
    /// The context that machines are judged by.
    context: NeededContext,
    /// The machines; none while they are planned.
    found: Option<Vec<NeededMachine>>,
    query: u64,
    scroll: u16,
}

impl NeedPage {
    /// Opens the page on the model of `of`.
    pub fn over(app: &mut App, of: PlanRequest) -> Response {
        let file_type = of.model.file_type.map(|name| format!(" · {name}")).unwrap_or_default();
        let title = format!("What runs {}{file_type}", of.model.name);
        let mut page = Self { title, context: of.needed_context(), found: None, query: 0, scroll: 0 };
        let effects = app.request.ask_of(of, QUESTION, &mut page.query);
        Response::Over(Box::new(page), effects)
    }
}

impl Screen for NeedPage {
    fn missing(&self, _: &App) -> Option<&'static str> {
        None
    }

    fn press(&mut self, _: &mut App, command: Command) -> Response {
        match command {
            Command::Back | Command::Enter => Response::CLOSE,
            _ => Response::Ignored,
        }
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Response {
        if let Some(Received::Part(found)) = answer.part_of::<NeedRequest>(self.query) {
            self.found = Some(found);
        }
        Response::STAY
    }

    fn page(&self, _: &App) -> Option<Overlay> {
        let mut page = Page::default();
        match &self.found {
            Some(found) => page = need::page(&QUESTION, self.context, found),
            None => page.text("Planning for every known card and system…", Hue::Dim),
        }
        Some(Overlay::new(page, &self.title, self.scroll))
    }
}
