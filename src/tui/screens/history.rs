//! The changes made since the planner was opened: one line each, with what it did to outcome and speed.
//!
//! ```text
//!   before these changes                     ✓ All in VRAM         ≈ 30 tok/s
//! ▸ ctx auto → 131 072                       ▲ Layers in RAM         ≈ 7 tok/s
//!   kv-type auto → q8_0                      ✓ All in VRAM         ≈ 28 tok/s
//! ```

use crate::answer::sweep::PlanFigures;
use crate::engine::{EngineVersion, PlanRequest};
use crate::page::palette::sign;
use crate::page::{Block, Hue, Page, Span};
use crate::settings::Flag;
use crate::tui::action::{Action, Command};
use crate::tui::app::{App, HistoryEntry, StateFigures};
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::query::{Each, PlanWithSpeeds, PlannedRequest, Received};
use crate::tui::screen::{Response, Screen, moved};
use crate::tui::widget::page::{self, Overlay};
use crate::tui::widget::row_writer::shortened;
use crate::units::grouped;

/// Widths of outcome and speed.
const OUTCOME: usize = 17;
const SPEED: usize = 14;

/// The state of the page.
#[derive(Debug)]
pub struct HistoryPage {
    /// The states, the oldest first, and which is the present one.
    states: Vec<HistoryEntry>,
    now: usize,
    /// The selected state.
    chosen: usize,
    query: u64,
    /// The states whose figures are asked for.
    asked: Vec<usize>,
}

impl HistoryPage {
    /// The page, with the present state selected.
    pub fn of(app: &App) -> Self {
        let (states, now) = app.states();
        Self { states, now, chosen: now, query: 0, asked: Vec::new() }
    }
}

impl Screen for HistoryPage {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Suggestions, Scope::Page, Scope::Everywhere]
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        let states = self.states.iter().enumerate();
        let unplanned = states.filter(|(_, state)| state.figures == StateFigures::Unplanned);
        let (asked, requests): (_, Vec<_>) = unplanned.map(|(at, state)| (at, state.plan_request.clone())).unzip();
        self.asked = asked;
        app.request.ask(Each { requests, answer: PlanWithSpeeds::of }, &mut self.query)
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Response {
        if let Some(Received::Part((at, planned))) = answer.part_of::<Each<PlannedRequest>>(self.query)
            && let Some(state) = self.asked.get(at).and_then(|at| self.states.get_mut(*at))
        {
            state.figures = match planned {
                Ok(planned) => StateFigures::Planned(Box::new(PlanFigures::of(&planned.plan, planned.speeds.as_ref()))),
                Err(_) => StateFigures::Refused,
            };
        }
        Response::STAY
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        match command {
            Command::Enter => {
                app.go_to(self.chosen);
                Response::CLOSE
            }
            Command::Up | Command::Down | Command::PageUp | Command::PageDown | Command::First | Command::Last => {
                self.chosen = moved(self.chosen, self.states.len(), 8, command);
                Response::STAY
            }
            _ => Response::Ignored,
        }
    }

    fn selection(&mut self) -> Option<&mut usize> {
        Some(&mut self.chosen)
    }

    fn page(&self, app: &App) -> Option<Overlay> {
        let mut page = Page::default();
        page.text(
            "What each change gave when it was made. Enter goes back to a state, or forward again, as u and U do.",
            Hue::Dim,
        );
        page.blank();
        // beside the marker
        let words = page::columns(app).saturating_sub(2 + OUTCOME + SPEED);
        for (at, state) in self.states.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|before| self.states.get(before));
            let change = before.map_or_else(
                || "before these changes".to_owned(),
                |before| change(&before.plan_request, &state.plan_request),
            );
            let change = if at == self.now { format!("{change} · now") } else { change };
            let change = shortened(&change, words.saturating_sub(2) as u16);
            let mut spans = vec![Span::new(&format!("{change:<words$}"), Hue::Text)];
            spans.extend(outcome(&state.figures));
            page.choice(Block::Line(spans));
        }
        Some(Overlay::new(page, "History", 0).choosing(self.chosen))
    }
}

/// Outcome and speed.
fn outcome(figures: &StateFigures) -> Vec<Span> {
    match figures {
        StateFigures::Planned(figures) => {
            let (sign, hue) = sign(figures.outcome);
            let speed = figures.speed.map_or_else(String::new, |speed| format!("≈ {} tok/s", speed.short()));
            let headline = format!("{sign} {}", figures.outcome.headline());
            vec![Span::new(&format!("{headline:<OUTCOME$}"), hue), Span::new(&format!("{speed:>SPEED$}"), Hue::Dim)]
        }
        StateFigures::Refused => vec![Span::new("✗ Refused", Hue::Over)],
        StateFigures::Unplanned => vec![Span::new("…", Hue::Dim)],
    }
}

/// What differs between two states, in words of the command line.
fn change(before: &PlanRequest, after: &PlanRequest) -> String {
    let mut changes = Vec::new();
    if before.opened != after.opened {
        let with = if before.opened.name == after.opened.name { "with another part" } else { "opened" };
        changes.push(format!("{} {with}", after.opened.name));
    }
    let engines = [before, after].map(|state| EngineVersion::of(state.engine, &state.settings));
    if engines[0] != engines[1] {
        changes.push(engines[1].to_string());
    }
    let flags = Flag::ALL.iter().filter(|flag| flag.write(&before.settings) != flag.write(&after.settings));
    changes.extend(flags.map(|flag| {
        let [from, to] = [before, after].map(|state| value(*flag, state));
        format!("{} {from} → {to}", flag.name())
    }));
    if before.machine != after.machine {
        changes.push("another machine".to_owned());
    }
    if changes.is_empty() { "no change".to_owned() } else { changes.join(", ") }
}

fn value(flag: Flag, state: &PlanRequest) -> String {
    match flag.write(&state.settings) {
        None => "auto".to_owned(),
        Some(on) if on.is_empty() => "on".to_owned(),
        Some(text) => text.parse().map_or(text, |number| grouped(number, '\u{2009}')),
    }
}
