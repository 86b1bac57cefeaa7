//! Choosing a model: a path with what could follow it, or the models on this computer.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use crate::tui::action::Listing;
use crate::tui::app::App;
use crate::tui::app::open::{Found, Open};
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::panel;
use crate::tui::widget::pen::{Pen, wrap};

/// Draws the page.
pub fn draw(app: &App, open: &Open, buffer: &mut Buffer) {
    let theme = app.theme;
    let screen = app.regions.screen;
    let place = app.regions.overlay(super::page::WIDTH, screen.height.saturating_sub(4).clamp(16, 30));
    let inner = panel::overlay(buffer, place, "Open a model", "Enter opens, Tab completes, Esc back", theme);
    draw_field(open, Rect { height: 1, ..inner }, theme, buffer);
    let list = Rect { y: inner.y.saturating_add(2), height: inner.height.saturating_sub(2), ..inner };
    if let Some(wrong) = &open.wrong {
        for (row, line) in wrap(wrong, list.width).iter().enumerate() {
            Pen::new(buffer, list, row as u16).put(line, theme.bold(Hue::Over));
        }
        return;
    }
    if open.is_path() {
        draw_paths(open, list, theme, buffer);
    } else {
        draw_models(open, list, theme, buffer);
    }
}

fn draw_field(open: &Open, row: Rect, theme: Theme, buffer: &mut Buffer) {
    let mut pen = Pen::new(buffer, row, 0);
    pen.put("› ", theme.bold(Hue::Focus));
    let (start, room) = (pen.x(), pen.room().saturating_sub(1));
    if open.input.value().is_empty() {
        pen.skip(1).put("a path, or part of a name", theme.ink(Hue::Dim));
    }
    let scroll = open.input.visual_scroll(usize::from(room));
    let shown: String = open.input.value().chars().skip(scroll).collect();
    let mut pen = Pen::new(buffer, Rect { x: start, width: room, ..row }, 0);
    pen.put(&shown, theme.ink(Hue::Text));
    let cursor = start + (open.input.visual_cursor().saturating_sub(scroll) as u16).min(room);
    if let Some(cell) = buffer.cell_mut((cursor, row.y)) {
        cell.modifier.insert(Modifier::REVERSED);
    }
}

fn draw_paths(open: &Open, list: Rect, theme: Theme, buffer: &mut Buffer) {
    if open.paths.is_empty() {
        Pen::new(buffer, list, 0).put("Tab shows what could follow; Enter opens the path.", theme.ink(Hue::Dim));
    }
    for (row, at) in shown(open.at, open.paths.len(), list.height) {
        let Some(path) = open.paths.get(at) else { continue };
        let chosen = at == open.at;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
        highlight(buffer, list, row, chosen, theme);
        Pen::new(buffer, list, row).put(if chosen { "▸ " } else { "  " }, ink).put(path, ink);
    }
}

fn draw_models(open: &Open, list: Rect, theme: Theme, buffer: &mut Buffer) {
    let matching = open.matching();
    let empty = match &open.found {
        Found::Looking => Some("Looking through the folders of Ollama, Hugging Face, LM Studio and llama.cpp…"),
        Found::Models(all) if all.is_empty() => Some(
            "No model was found in the folders of Ollama (OLLAMA_MODELS), Hugging Face, LM Studio and llama.cpp. \
             Type the path of a .gguf file, for example ~/models/llama.gguf.",
        ),
        Found::Models(_) if matching.is_empty() => {
            Some("No model here has that in its name. A path begins with / or ~ or ./")
        }
        Found::Models(_) => None,
    };
    if let Some(text) = empty {
        for (row, line) in wrap(text, list.width).iter().enumerate() {
            Pen::new(buffer, list, row as u16).put(line, theme.ink(Hue::Dim));
        }
        return;
    }
    for (row, at) in shown(open.at, matching.len(), list.height) {
        if let Some(listing) = matching.get(at) {
            draw_model(listing, at == open.at, list, row, theme, buffer);
        }
    }
}

fn draw_model(listing: &Listing, chosen: bool, list: Rect, row: u16, theme: Theme, buffer: &mut Buffer) {
    let ink = match (chosen, &listing.file) {
        (true, _) => theme.bold(Hue::Focus),
        (false, Ok(_)) => theme.ink(Hue::Text),
        (false, Err(_)) => theme.ink(Hue::Dim),
    };
    highlight(buffer, list, row, chosen, theme);
    let store = list.x + list.width.saturating_sub(26);
    let name = Rect { width: list.width.saturating_sub(27), ..list };
    match &listing.file {
        Ok((_, size)) => {
            Pen::new(buffer, name, row).put(if chosen { "▸ " } else { "  " }, ink).put(&listing.name, ink);
            let mut pen = Pen::new(buffer, list, row);
            pen.to(store).right(&size.to_string(), ink).put(&listing.store, theme.ink(Hue::Dim));
        }
        Err(why) => {
            let mut pen = Pen::new(buffer, list, row);
            pen.put(if chosen { "▸ " } else { "  " }, ink).put(&listing.name, ink);
            pen.put("  ✗ ", theme.ink(Hue::Over)).put(why, theme.ink(Hue::Over));
        }
    }
}

fn highlight(buffer: &mut Buffer, list: Rect, row: u16, chosen: bool, theme: Theme) {
    if chosen {
        let row = Rect { y: list.y.saturating_add(row), height: 1, ..list };
        buffer.set_style(row.intersection(buffer.area), theme.selected());
    }
}

/// Rows and the places in a list of `count` that stand there, so that `at` is seen.
fn shown(at: usize, count: usize, rows: u16) -> impl Iterator<Item = (u16, usize)> {
    let first = (at + 1).saturating_sub(usize::from(rows));
    (0..rows).zip(first..count)
}
