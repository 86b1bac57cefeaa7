//! Does it fit? One sentence, always in the same place.

mod loading;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::header;
use crate::answer::verdict;
use crate::plan::Verdict;
use crate::tui::app::{App, Known, Load};
use crate::tui::theme::Hue;
use crate::tui::widget::panel;
use crate::tui::widget::pen::{Pen, wrap};

/// Draws it.
pub fn draw(app: &App, buffer: &mut Buffer) {
    draw_in(app, app.regions.verdict, buffer);
}

/// Draws it elsewhere.
pub fn draw_in(app: &App, area: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let inner = if area.height > 3 {
        // whose plan it is, where the first line has no room for that
        let engine = if header::names_engine(app) { String::new() } else { header::engine(app) };
        panel::frame(buffer, area, "Verdict", &engine, false, theme)
    } else {
        Rect { x: area.x, width: area.width, ..area }
    };
    let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    if let Load::Running { name, now, took } = &app.load {
        loading::draw(name, *now, *took, inner, theme, buffer);
        return;
    }
    let (headline, hue, text) = words(app);
    let notes = app.plan.as_ref().map(|plan| plan.notes.as_slice()).unwrap_or_default();
    let notes = app.reports.iter().chain(notes);

    let lines = wrap(&format!("{headline} {text}"), inner.width);
    let mut row = 0;
    for (at, line) in lines.iter().enumerate().take(usize::from(inner.height)) {
        let mut pen = Pen::new(buffer, inner, row);
        match line.strip_prefix(&headline).filter(|_| at == 0) {
            Some(rest) => drop(pen.put(&headline, theme.bold(hue)).put(rest, theme.ink(Hue::Text))),
            None => drop(pen.put(line, theme.ink(Hue::Text))),
        }
        row += 1;
    }
    // what nobody asked for comes first
    let surprise = app.plan.as_ref().and_then(|plan| plan.decided.first()).filter(|_| app.refused.is_none());
    let notes = notes.filter(|note| surprise != Some(note)).map(|note| (note, Hue::Dim));
    for (note, hue) in surprise.map(|note| (note, Hue::Cache)).into_iter().chain(notes) {
        let lines = wrap(note, inner.width.saturating_sub(2));
        for (at, line) in lines.iter().enumerate() {
            // the last row says that there is more
            let cut = row + 1 == inner.height && at + 1 < lines.len();
            let line = if cut { &lines[at..].join(" ") } else { line };
            Pen::new(buffer, inner, row).put("  ", theme.ink(hue)).put(line, theme.ink(hue));
            row += 1;
        }
    }
}

/// The headline with its sign, its colour, and what comes after it.
fn words(app: &App) -> (String, Hue, String) {
    if let Load::Failed { name, why } = &app.load {
        return (
            format!("✗ {name} was not opened:"),
            Hue::Over,
            format!("{}. The plan is as it was; Esc puts this away.", why.trim_end_matches('.')),
        );
    }
    if let Some(error) = &app.refused {
        return (
            "✗ No plan:".to_owned(),
            Hue::Over,
            format!("{error}. What is shown is the plan before; u goes back."),
        );
    }
    let Some(plan) = &app.plan else {
        return (
            "·".to_owned(),
            Hue::Dim,
            "Press b to choose a model: one of this computer, of a server, or of the catalogue.".to_owned(),
        );
    };
    let headline = verdict::headline(plan.verdict);
    if app.known == Known::Asking {
        let text = "GPUs are still being looked for; until they are known, everything counts as RAM.";
        return (format!("… {headline}:"), Hue::Cache, text.to_owned());
    }
    let (sign, hue) = sign(plan.verdict);
    (format!("{sign} {headline}:"), hue, verdict::sentence(plan, app.limits.as_ref()))
}

/// The sign and the colour of a verdict.
pub const fn sign(verdict: Verdict) -> (&'static str, Hue) {
    match verdict {
        Verdict::Gpu => ("✓", Hue::Fine),
        Verdict::Split | Verdict::Cpu => ("▲", Hue::Cache),
        Verdict::DoesNotFit => ("✗", Hue::Over),
    }
}
