//! The page on the best settings: a card for each objective, with what it brings and what it gives up.

use ratatui::buffer::Buffer;
use ratatui::text::Span;

use super::page::TextPage;
use crate::answer::best::{BestRequest, Card, Objective};
use crate::tui::app::App;
use crate::tui::app::advice::{AnswerState, BestPage};
use crate::tui::theme::Hue;

/// Draws the page.
pub fn draw(app: &App, best: &BestPage, buffer: &mut Buffer) {
    let Some(plan) = &app.plan else { return };
    let mut page = TextPage::new(app);
    let question = app.best_request();
    let safe = format!("Safe leaves {} on every GPU. Enter applies the selected card, u undoes it.", question.margin);
    page.text(&safe, Hue::Dim);
    page.text(&held(app), Hue::Dim);
    for (at, card) in best.cards.iter().enumerate() {
        page.blank();
        draw_card(app, card, at == best.chosen, &mut page);
    }
    page.blank();
    match best.progress {
        AnswerState::Working => page.text("Testing settings…", Hue::Dim),
        AnswerState::Done => missing(&question, best, &mut page),
    }
    page.text(&plan.source(), Hue::Dim);
    page.draw(app, "Best settings", best.scroll, buffer);
}

fn held(app: &App) -> String {
    let knobs: Vec<String> =
        app.knobs.locked.iter().map(|&knob| format!("{} {}", knob.title(), knob.show(app.value(knob)))).collect();
    match knobs.as_slice() {
        [] => "No knob is locked: press l on a knob to keep its value.".to_owned(),
        _ => format!("◆ locked: {}", knobs.join(", ")),
    }
}

fn missing(question: &BestRequest, best: &BestPage, page: &mut TextPage) {
    if !best.cards.iter().any(|card| card.objectives.contains(&Objective::Safe)) {
        page.text(&question.nothing_is_safe(), Hue::Dim);
        page.blank();
    }
}

fn draw_card(app: &App, card: &Card, chosen: bool, page: &mut TextPage) {
    let theme = app.theme;
    let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
    page.choice(chosen, vec![Span::styled(card.title(), ink)]);
    page.text_indented(&card.headline(), 4, Hue::Text);
    page.text_indented(&card.room_and_speed(), 4, Hue::Dim);
    page.text_indented(&card.gives_up_text(), 4, Hue::Dim);
}
