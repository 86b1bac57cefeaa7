//! All notes on the plan.

use crate::page::{Hue, Page};
use crate::plan::{OllamaPs, Plan};
use crate::tui::action::Command;
use crate::tui::app::App;
use crate::tui::screen::{NO_PLAN, Response, Screen};
use crate::tui::view::verdict;
use crate::tui::widget::page::Overlay;

/// Width of names.
const NAMES: usize = 12;

/// The state of the page.
#[derive(Debug, Default)]
pub struct NotesPage {
    scroll: u16,
}

impl Screen for NotesPage {
    fn missing(&self, _: &App) -> Option<&'static str> {
        None
    }

    fn press(&mut self, _: &mut App, command: Command) -> Response {
        if command == Command::Enter { Response::CLOSE } else { Response::Ignored }
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn page(&self, app: &App) -> Option<Overlay> {
        let mut page = Page::default();
        match &app.request.plan {
            Some(plan) => on_plan(app, plan, &mut page),
            None => page.text(NO_PLAN, Hue::Text),
        }
        Some(Overlay::new(page, "Engine notes", self.scroll))
    }
}

fn on_plan(app: &App, plan: &Plan, page: &mut Page) {
    page.pair("engine", NAMES, &app.request.choice().to_string(), Hue::Text);
    page.heading("Verdict");
    verdict::add(app, page);
    if let Some(refusal) = &plan.refusal {
        page.pair("refused", NAMES, refusal, Hue::Over);
    }
    if let Some(ollama_ps) = plan.ollama_ps {
        on_listing(ollama_ps, page);
    }
    if !plan.decided.is_empty() {
        page.heading("Chosen by the engine");
        plan.decided.iter().for_each(|note| item(note, page));
    }
    let others: Vec<&String> = plan.notes.iter().filter(|note| !plan.decided.contains(note)).collect();
    if !others.is_empty() {
        page.heading("Other notes");
        for note in others {
            item(note, page);
        }
    }
    if plan.notes.is_empty() {
        page.blank();
        page.text("No notes: the engine uses the knobs as they are.", Hue::Text);
    }
    if !app.found_machine.reports.is_empty() {
        page.heading("This machine");
        app.found_machine.reports.iter().for_each(|note| item(note, page));
    }
}

/// Shows what `ollama ps` would print.
fn on_listing(ollama_ps: OllamaPs, page: &mut Page) {
    page.heading("Output of ollama ps");
    page.pair("SIZE", NAMES, "PROCESSOR", Hue::Dim);
    page.pair(&ollama_ps.size_column(), NAMES, &ollama_ps.processor_column(), Hue::Text.bold());
}

fn item(note: &str, page: &mut Page) {
    page.pair("·", 1, note, Hue::Text);
}
