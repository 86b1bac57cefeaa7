//! All notes on the plan.

use ratatui::buffer::Buffer;

use super::page::TextPage;
use super::verdict;
use crate::plan::{OllamaPs, Plan};
use crate::tui::app::App;
use crate::tui::theme::Hue;

/// Width of names.
const NAMES: u16 = 12;

/// Draws the page.
pub fn draw(app: &App, scroll: u16, buffer: &mut Buffer) {
    let mut page = TextPage::new(app);
    match &app.plan {
        Some(plan) => on_plan(app, plan, &mut page),
        None => page.text("There is no plan yet: open a model with o.", Hue::Text),
    }
    page.draw(app, "Engine notes", scroll, buffer);
}

fn on_plan(app: &App, plan: &Plan, page: &mut TextPage) {
    page.pair("engine", NAMES, &app.choice().to_string(), app.theme.ink(Hue::Text));
    let (headline, hue, text) = verdict::words(app);
    page.pair("verdict", NAMES, &format!("{headline} {text}"), app.theme.ink(hue));
    if let Some(refusal) = &plan.refusal {
        page.pair("refused", NAMES, refusal, app.theme.ink(Hue::Over));
    }
    if let Some(ollama_ps) = plan.ollama_ps {
        on_listing(app, ollama_ps, page);
    }
    if !plan.decided.is_empty() {
        page.heading("Chosen by the engine");
        plan.decided.iter().for_each(|note| item(note, app, page));
    }
    let others: Vec<&String> = plan.notes.iter().filter(|note| !plan.decided.contains(note)).collect();
    if !others.is_empty() {
        page.heading("Other notes");
        for note in others {
            item(note, app, page);
        }
    }
    if plan.notes.is_empty() {
        page.blank();
        page.text("No notes: the engine uses the knobs as they are.", Hue::Text);
    }
    if !app.found_machine.reports.is_empty() {
        page.heading("This machine");
        app.found_machine.reports.iter().for_each(|note| item(note, app, page));
    }
}

/// Shows what `ollama ps` would print.
fn on_listing(app: &App, ollama_ps: OllamaPs, page: &mut TextPage) {
    page.heading("Output of ollama ps");
    page.pair("SIZE", NAMES, "PROCESSOR", app.theme.ink(Hue::Dim));
    page.pair(&ollama_ps.size_column(), NAMES, &ollama_ps.processor_column(), app.theme.bold(Hue::Text));
}

fn item(note: &str, app: &App, page: &mut TextPage) {
    page.pair("·", 1, note, app.theme.ink(Hue::Text));
}
