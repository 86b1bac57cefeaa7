//! The page on what runs a model of the browser: the known cards and systems.

use ratatui::buffer::Buffer;

use crate::answer::need::{BESIDE_CARDS, NeedRequest, NeededMachine};
use crate::engine::PlanRequest;
use crate::page::answers;
use crate::page::{Hue, Page};
use crate::speed::USABLE;
use crate::tui::action::{Action, Command};
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::query::{QueryKind, QueryPart};
use crate::tui::screen::{Behind, Cover, Response, Screen};
use crate::tui::widget::page::Overlay;

/// What is asked of every machine.
const QUESTION: NeedRequest = NeedRequest { ram: BESIDE_CARDS, speed: USABLE };

/// The state of the page.
#[derive(Debug)]
pub struct NeedPage {
    /// The model, and its type.
    title: String,
    /// The machines; none while they are planned.
    found: Option<Vec<NeededMachine>>,
    query: u64,
    scroll: u16,
    behind: Behind,
}

impl NeedPage {
    /// The page on the model of `of` over `screen`.
    pub fn over(screen: Box<dyn Screen>, app: &mut App, of: PlanRequest) -> Response {
        let file_type = of.model.file_type.map(|name| format!(" · {name}")).unwrap_or_default();
        let title = format!("What runs {}{file_type}", of.model.name);
        let mut page = Self { title, found: None, query: 0, scroll: 0, behind: Behind::new(screen) };
        let effects = app.query_of(of, QueryKind::Need(QUESTION), &mut page.query);
        Response::Open(Box::new(page), effects)
    }

    fn overlay(&self) -> Overlay {
        let mut page = Page::default();
        match &self.found {
            Some(found) => page = answers::need(&QUESTION, found),
            None => page.text("Planning for every known card and system…", Hue::Dim),
        }
        Overlay::new(page, &self.title, self.scroll)
    }
}

impl Screen for NeedPage {
    fn cover(&self) -> Cover {
        self.behind.cover()
    }

    fn missing(&self, _: &App) -> Option<&'static str> {
        None
    }

    fn planned(&mut self, app: &mut App, by_user: bool) -> Vec<Effect> {
        self.behind.planned(app, by_user)
    }

    fn refresh(&mut self, app: &mut App) -> Vec<Effect> {
        self.behind.refresh(app)
    }

    fn press(&mut self, _: &mut App, command: Command) -> Response {
        match command {
            Command::Back | Command::Enter => self.behind.shown(),
            _ => Response::Ignored,
        }
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn answer(&mut self, app: &mut App, answer: Action) -> Response {
        match answer {
            Action::QueryAnswered { id, part } if id == self.query => {
                if let QueryPart::Need(found) = part {
                    self.found = Some(found);
                }
                Response::STAY
            }
            other => self.behind.answer(app, other),
        }
    }

    fn page(&self, _: &App) -> Option<Overlay> {
        Some(self.overlay())
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        self.behind.draw(self, app, buffer);
        self.overlay().draw(app, buffer);
    }
}
