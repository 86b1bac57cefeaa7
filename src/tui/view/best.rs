//! The page on the best settings: a card for each objective, with what it brings and what it gives up.

use ratatui::buffer::Buffer;

use super::page;
use crate::page::answers::{cards, nothing_is_safe};
use crate::page::{Hue, Page};
use crate::tui::app::App;
use crate::tui::app::advice::{AnswerState, BestPage};

/// Draws the page.
pub fn draw(app: &App, best: &BestPage, buffer: &mut Buffer) {
    let Some(plan) = &app.plan else { return };
    let mut page = Page::default();
    let question = app.best_request();
    let safe = format!("Safe leaves {} on every GPU. Enter applies the selected card, u undoes it.", question.margin);
    page.text(&safe, Hue::Dim);
    page.text(&held(app), Hue::Dim);
    cards(&best.cards, &app.settings, &mut page);
    match best.progress {
        AnswerState::Working => {
            page.blank();
            page.text("Testing settings…", Hue::Dim);
        }
        AnswerState::Done => nothing_is_safe(&question, &best.cards, &mut page),
    }
    page.blank();
    page.text(&plan.source(), Hue::Dim);
    page::draw(app, &page, "Best settings", best.scroll, Some(best.chosen), buffer);
}

fn held(app: &App) -> String {
    let knobs: Vec<String> =
        app.knobs.locked.iter().map(|&knob| format!("{} {}", knob.title(), knob.show(app.value(knob)))).collect();
    match knobs.as_slice() {
        [] => "No knob is locked: press l on a knob to keep its value.".to_owned(),
        _ => format!("◆ locked: {}", knobs.join(", ")),
    }
}
