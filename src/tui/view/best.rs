//! The page on the best settings: what each objective gains with every layer on GPUs, and what it costs.

use ratatui::buffer::Buffer;
use ratatui::text::Span;

use super::figure;
use super::page::TextPage;
use crate::answer::best::{Objective, Suggestion};
use crate::plan::DevicePlan;
use crate::tui::app::App;
use crate::tui::app::advice::{AnswerState, BestPage};
use crate::tui::theme::Hue;
use crate::units::Bytes;

/// Draws the page.
pub fn draw(app: &App, best: &BestPage, buffer: &mut Buffer) {
    let Some(plan) = &app.plan else { return };
    let mut page = TextPage::new(app);
    page.text(
        "All suggestions keep all in VRAM; figures are the GPU memory used of what is free. Enter applies the \
         selected one, u undoes it.",
        Hue::Dim,
    );
    page.text(&held(app), Hue::Dim);
    let mut at = 0;
    for (objective, found) in &best.found {
        page.heading(objective.title());
        for one in found {
            suggestion(app, one, at == best.chosen, &mut page);
            at += 1;
        }
        if found.is_empty() {
            page.text_indented(&nothing(app, *objective), 2, Hue::Dim);
        }
    }
    if best.progress == AnswerState::Working {
        page.blank();
        page.text("Testing settings…", Hue::Dim);
    }
    page.blank();
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

fn nothing(app: &App, objective: Objective) -> String {
    if app.is_locked(objective.knob()) {
        return format!("{} is locked.", objective.knob().title());
    }
    if app.machine.gpus.is_empty() {
        return "There is no GPU.".to_owned();
    }
    "No settings were found that keep all in VRAM.".to_owned()
}

fn suggestion(app: &App, one: &Suggestion, chosen: bool, page: &mut TextPage) {
    let theme = app.theme;
    let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
    let gain = one.gain.to_string();
    let used: Bytes = one.plan.gpus().iter().map(DevicePlan::asked).sum();
    let free: Bytes = one.plan.gpus().iter().map(|gpu| gpu.free).sum();
    let figure = figure::of(used, free);
    let room = usize::from(page.columns()).saturating_sub(4 + figure.chars().count());
    page.choice(chosen, vec![Span::styled(format!("{gain:<room$}  "), ink), Span::styled(figure, theme.ink(Hue::Dim))]);
    page.text_indented(&one.cost_text(), 4, Hue::Dim);
}
