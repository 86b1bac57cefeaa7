//! The matrix page: what fits over two axes, and the selected cell in words.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::answer::sweep::PlanFigures;
use crate::page::palette::sign;
use crate::plan::Outcome;
use crate::tui::app::App;
use crate::tui::app::advice::AnswerState;
use crate::tui::app::matrix::MatrixPage;
use crate::tui::query::MatrixCell;
use crate::tui::theme::glyphs::LEFT;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, width, wrap};

/// Width of the names of the rows, and minimum and maximum width of a column.
const NAMES: u16 = 14;
const MIN_COLUMN: u16 = 8;
const MAX_COLUMN: u16 = 18;
/// Rows below the cells: a blank and the description.
const BELOW: u16 = 4;

/// Draws the page.
pub fn draw(app: &App, page: &MatrixPage, buffer: &mut Buffer) {
    let theme = app.theme;
    let Some(plan) = &app.plan else { return };
    let place = app.regions.overlay(NAMES + 6 * MAX_COLUMN + 4, u16::MAX);
    let Some((rows, columns)) = &page.axes else {
        let inner = panel::overlay(buffer, place, "What fits", &plan.source(), theme);
        RowWriter::new(buffer, inner, 0).put("planning…", theme.ink(Hue::Dim));
        return;
    };
    let (down, across) = page.size();
    // cells of two rows if there is room
    let max = place.height.saturating_sub(2 + 2 + BELOW);
    let tall = if down as u16 * 2 <= max { 2 } else { 1 };
    let height = (down as u16 * tall + 2 + 2 + BELOW).min(place.height);
    let place = app.regions.overlay(place.width, height);
    let title = format!("What fits: {} by {}", rows.title(), columns.title());
    let inner = panel::overlay(buffer, place, &title, &plan.source(), theme);

    let room = inner.width.saturating_sub(NAMES);
    let fit = usize::from(room / MIN_COLUMN).clamp(1, across.max(1));
    let first = (page.chosen.1 + 1).saturating_sub(fit).min(across.saturating_sub(fit));
    let wide = (room / fit as u16).min(MAX_COLUMN);
    let x = |column: usize| inner.x.saturating_add(NAMES).saturating_add(wide.saturating_mul((column - first) as u16));
    for (column, name) in columns.shown().iter().enumerate().skip(first).take(fit) {
        let chosen = column == page.chosen.1;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
        let place = Rect { x: x(column), width: wide.saturating_sub(1), height: 1, ..inner }.intersection(inner);
        let blank = place.width.saturating_sub(width(name)) / 2;
        RowWriter::new(buffer, place, 0).skip(blank).put(name, ink);
    }

    let rows_fit = usize::from(inner.height.saturating_sub(2 + BELOW) / tall).max(1);
    let top = (page.chosen.0 + 1).saturating_sub(rows_fit);
    for (row, name) in rows.shown().iter().enumerate().skip(top).take(rows_fit) {
        let y = inner.y.saturating_add(1).saturating_add(tall * (row - top) as u16);
        let line = Rect { y, height: tall, ..inner }.intersection(inner);
        let chosen = row == page.chosen.0;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
        let names = Rect { width: NAMES.saturating_sub(2).min(line.width), ..line };
        RowWriter::new(buffer, names, 0).right(" ", ink).right(name, ink);
        for column in first..first + fit {
            let place = Rect { x: x(column), width: wide.saturating_sub(1), ..line }.intersection(inner);
            cell(page.cell(row, column), (row, column) == page.chosen, place, theme, buffer);
        }
    }
    reading(page, inner, theme, buffer);
}

/// The sign, colour and text of a cell.
fn words(figures: &Result<PlanFigures, String>) -> (&'static str, Hue, String) {
    let Ok(figures) = figures else { return ("✗", Hue::Over, "refused".to_owned()) };
    let (mark, hue) = sign(figures.outcome);
    let text = match figures.outcome {
        // never 0 % or 100 %
        Outcome::PartsInRam | Outcome::ExpertsInRam | Outcome::LayersInRam => {
            format!("{:.0} %", share(figures) * 100.0)
        }
        other => other.short().to_owned(),
    };
    (mark, hue, text)
}

fn share(figures: &PlanFigures) -> f64 {
    match figures.outcome {
        Outcome::Vram | Outcome::Tight => 1.0,
        _ => figures.on_gpu.0.clamp(0.01, 0.99),
    }
}

fn cell(known: Option<&MatrixCell>, chosen: bool, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let Some(known) = known else {
        RowWriter::new(buffer, place, 0).skip(place.width / 2).put("·", theme.ink(Hue::Dim));
        return;
    };
    let (mark, hue, text) = words(&known.figures);
    let text = format!("{mark} {text}");
    let blank = place.width.saturating_sub(width(&text)) / 2;
    if chosen {
        buffer.set_style(place.intersection(buffer.area), theme.selected());
        let ends = Rect { x: place.x.saturating_sub(1), width: place.width + 2, height: 1, ..place };
        RowWriter::new(buffer, ends, 0).put("▸", theme.bold(Hue::Focus));
    }
    let ink = if chosen { theme.bold(hue) } else { theme.ink(hue) };
    RowWriter::new(buffer, place, 0).skip(blank).put(&text, ink);
    if place.height > 1 {
        let share = known.figures.as_ref().map_or(0.0, share);
        bar(share, hue, Rect { y: place.y + 1, height: 1, ..place }, theme, buffer);
    }
}

/// Draws the share on GPUs.
fn bar(share: f64, hue: Hue, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let eighths = (share * f64::from(place.width) * 8.0).round() as usize;
    for (at, x) in (place.left()..place.right()).enumerate() {
        let here = eighths.saturating_sub(at * 8).min(8);
        let symbol = match here {
            0 => "·",
            _ if theme.textured() => "█",
            n => LEFT[n - 1],
        };
        let ink = if here == 0 { theme.ink(Hue::Border) } else { theme.ink(hue) };
        if let Some(cell) = buffer.cell_mut((x, place.y)) {
            cell.set_symbol(symbol).set_style(ink);
        }
    }
}

/// Describes the selected cell.
fn reading(page: &MatrixPage, inner: Rect, theme: Theme, buffer: &mut Buffer) {
    let (row, column) = page.chosen;
    let Some((rows, columns)) = &page.axes else { return };
    let name = |shown: Vec<String>, at: usize| shown.into_iter().nth(at).unwrap_or_default();
    let pair = format!(
        "{} {} · {} {}: ",
        rows.title(),
        name(rows.shown(), row),
        columns.title(),
        name(columns.shown(), column)
    );
    let (headline, hue, text) = match page.cell(row, column) {
        Some(MatrixCell { figures: Ok(figures), note, .. }) => {
            let (_, hue) = sign(figures.outcome);
            let but = note.as_ref().map(|note| format!(" Note: {note}.")).unwrap_or_default();
            let speed = figures.speed.map_or_else(String::new, |speed| format!("; {speed} tok/s"));
            let text = format!(
                ", {} of {} layers on GPU; GPU {}, RAM {}{speed}.{but}",
                figures.on_gpus(),
                figures.layer_count,
                figures.totals.gpu,
                figures.totals.cpu
            );
            (figures.outcome.headline(), hue, text)
        }
        Some(MatrixCell { figures: Err(why), .. }) => ("Refused", Hue::Over, format!(": {why}")),
        None if page.progress == AnswerState::Done => ("No result", Hue::Dim, String::new()),
        None => ("planning…", Hue::Dim, String::new()),
    };
    let below = Rect {
        y: inner.bottom().saturating_sub(BELOW - 1).max(inner.y),
        height: (BELOW - 1).min(inner.height),
        ..inner
    };
    for (at, line) in wrap(&format!("{pair}{headline}{text}"), below.width).iter().enumerate() {
        let mut writer = RowWriter::new(buffer, below, at as u16);
        match line.strip_prefix(&pair).and_then(|rest| rest.strip_prefix(headline)).filter(|_| at == 0) {
            Some(rest) => {
                writer.put(&pair, theme.ink(Hue::Dim)).put(headline, theme.bold(hue)).put(rest, theme.ink(Hue::Text));
            }
            None => drop(writer.put(line, theme.ink(Hue::Text))),
        }
    }
}
