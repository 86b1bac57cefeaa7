//! The page on the best settings: a card for each objective, with what it brings and what it gives up.

use crate::answer::best::{BestRequest, Card, DEFAULT_MARGIN};
use crate::page::{Hue, Page};
use crate::question::best::{Best, card, nothing_is_safe, nothing_runs, table};
use crate::tui::action::{Action, Command};
use crate::tui::app::{AnswerState, App};
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::query::Received;
use crate::tui::screen::{Response, Screen, moved};
use crate::tui::widget::page::Overlay;

/// The state of the page.
#[derive(Clone, Debug, Default)]
pub struct BestPage {
    /// A card for each objective, or for several.
    pub cards: Vec<Card>,
    /// Whether these are all.
    pub progress: AnswerState,
    /// The selected card.
    pub chosen: usize,
    scroll: u16,
    query: u64,
}

impl App {
    /// The question that the page answers.
    pub fn best_request(&self) -> BestRequest {
        BestRequest {
            held: self.panels.knobs.held.clone(),
            margin: self.preferences.margin.unwrap_or(DEFAULT_MARGIN),
            minimums: self.preferences.minimums,
            prefers_published: false,
        }
    }
}

impl Screen for BestPage {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Suggestions, Scope::Page, Scope::Everywhere]
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        *self = Self::default();
        app.request.ask(Best { search: app.best_request(), only: None }, &mut self.query)
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Response {
        match answer.part_of::<Best>(self.query) {
            Some(Received::Part(cards)) => self.cards = cards,
            Some(Received::End) => self.progress = AnswerState::Done,
            None => {}
        }
        Response::STAY
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        match command {
            Command::Enter => match self.cards.get(self.chosen) {
                Some(card) => {
                    app.apply_request(card.request.clone());
                    Response::CLOSE
                }
                None => Response::STAY,
            },
            Command::Up | Command::Down => {
                self.chosen = moved(self.chosen, self.cards.len(), 1, command);
                Response::STAY
            }
            _ => Response::Ignored,
        }
    }

    fn selection(&mut self) -> Option<&mut usize> {
        Some(&mut self.chosen)
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn page(&self, app: &App) -> Option<Overlay> {
        let source = app.request.plan.as_ref()?.source();
        Some(Overlay::new(page(app, &source, self), "Best settings", self.scroll).choosing(self.chosen).wide())
    }
}

fn page(app: &App, source: &str, best: &BestPage) -> Page {
    let mut page = Page::default();
    let question = app.best_request();
    page.text(
        "Each was planned; bold is what differs from now. Enter applies the selected row, u undoes it.",
        Hue::Dim,
    );
    page.text(&held(app), Hue::Dim);
    if let Some(plan) = app.request.plan.as_deref().filter(|_| !best.cards.is_empty()) {
        page.blank();
        table((plan, app.request.speeds.as_ref()), &best.cards, &mut page);
    }
    best.cards.get(best.chosen).iter().for_each(|chosen| card(chosen, &app.request.settings, &mut page));
    match best.progress {
        AnswerState::Working => {
            page.blank();
            page.text("Testing settings…", Hue::Dim);
        }
        AnswerState::Done => match app.request.plan.as_ref().filter(|_| best.cards.is_empty()) {
            Some(plan) => nothing_runs(plan, &mut page),
            None => nothing_is_safe(&question, &best.cards, &mut page),
        },
    }
    page.blank();
    page.text(source, Hue::Dim);
    page
}

fn held(app: &App) -> String {
    let knobs: Vec<String> = app
        .panels
        .knobs
        .held
        .iter()
        .map(|&knob| format!("{} {}", knob.title(), knob.show(app.request.value(knob))))
        .collect();
    match knobs.as_slice() {
        [] => "No knob is locked: press l on a knob to keep its value.".to_owned(),
        _ => format!("◆ locked: {}", knobs.join(", ")),
    }
}
