//! The model browser: input, list, and a preview of the selected model.
//!
//! ```text
//! ╭▸Models ─ 31 of 152 ────────────────────────── Ollama ≥ 0.30 · RTX 3090 ╮
//! │ › qwen 8b                                                        field │
//! │ ^F ○ fits  ^X ○ experts  ^N context: 16k  ^L ○ local  …      filters │
//! │ name            where      params  quant    size  verdict   fits  head │
//! │ ▸ qwen3:8b      Ollama      8.2 B  Q4_K_M 4.7 GiB ✓ GPU      72k  list │
//! │   qwen3-32b     catalogue  32.8 B  Q4_K_M 18 GiB  ▲ 92 %     (9k)      │
//! │─ Qwen3 8B ─────────────────────────────────────────────────────────────│
//! │ ████████████████████████████████████████████████████████ █     preview │
//! ╰────────────────────────────────────────────────────────────────────────╯
//! ```

mod preview;
mod row;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::tui::app::App;
use crate::tui::app::browse::{BrowseLine, Filter, ModelBrowser};
use crate::tui::app::library::Gathering;
use crate::tui::regions::models::{self as page, ModelsRegions};
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::row_writer::{RowWriter, sentence, width};
use crate::tui::widget::{field, panel};

/// Draws the page.
pub fn draw(app: &App, browse: &ModelBrowser, buffer: &mut Buffer) {
    let theme = app.theme;
    let page = ModelsRegions::of(&app.regions);
    panel::overlay(buffer, page.frame, "Models", &right_title(app, browse), theme);
    let hints = ["type or paste a name, a path, hf://owner/repo or a URL", "type a name, a path or a URL"];
    let hint = hints.into_iter().find(|hint| width(hint) + 3 < page.field.width).unwrap_or_default();
    field::draw(&browse.input, hint, page.field, theme, buffer);
    draw_filters(browse, page.filters, theme, buffer);
    row::head(browse, &page, theme, buffer);
    let messages = browse.messages(&app.library, page.list);
    let ink = if browse.wrong.is_some() { theme.bold(Hue::Over) } else { theme.ink(Hue::Cache) };
    for (row, line) in (0..).zip(&messages) {
        RowWriter::new(buffer, page.list, row).put(line, ink);
    }
    let page = page.below(messages.len());
    let list = page.list;
    if browse.lines.is_empty() {
        draw_empty(app, browse, list, buffer);
    }
    let first = page.first(browse.at, browse.lines.len());
    for (y, at) in (list.top()..list.bottom()).zip(first..browse.lines.len()) {
        let Some(&line) = browse.lines.get(at) else { continue };
        let chosen = at == browse.at;
        let place = Rect { y, height: 1, ..list };
        if chosen {
            buffer.set_style(place.intersection(buffer.area), theme.selected());
        }
        match line {
            BrowseLine::Model(index) => {
                if let Some(row) = app.library.rows.get(index) {
                    let state = (app.library.is_old(row), browse.need);
                    row::draw(row, state, &page, place, chosen, theme, buffer);
                }
            }
            BrowseLine::Path(index) => {
                let path = browse.paths.get(index).map(String::as_str).unwrap_or_default();
                draw_text(place, chosen, path, "", theme, buffer);
            }
            BrowseLine::Typed => {
                let hint = "open: locally, else from a server";
                draw_text(place, chosen, browse.input.value().trim(), hint, theme, buffer);
            }
        }
    }
    preview::draw(app, browse, page.preview, buffer);
}

/// How many models are listed, how many there are, and what is pending.
fn right_title(app: &App, browse: &ModelBrowser) -> String {
    let models = browse.lines.iter().filter(|line| matches!(line, BrowseLine::Model(_))).count();
    let count = format!("{models} of {}", app.library.rows.len());
    match (&app.library.gathered, app.library.open()) {
        (Gathering::Nothing, _) => "searching…".to_owned(),
        (_, open @ 1..) => format!("{count}, planning {open}"),
        _ if app.library.is_judged_by_earlier(&app.machine) => format!("{count}, by earlier free memory (F5)"),
        (Gathering::Here, 0) => format!("{count}, asking Ollama"),
        (_, 0) => count,
    }
}

/// Draws the filters with their keys; active ones have a sign and are highlighted.
fn draw_filters(browse: &ModelBrowser, row: Rect, theme: Theme, buffer: &mut Buffer) {
    let filters = browse.filters();
    let places = page::filters(row, filters.iter().map(Filter::cells));
    for (Filter { key, word, on, .. }, &place) in filters.iter().zip(&places) {
        let ink = if *on == Some(true) { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
        let sign = on.map_or("", |on| if on { "● " } else { "○ " });
        RowWriter::new(buffer, place, 0).put(key, theme.ink(Hue::Text)).skip(1).put(sign, ink).put(word, ink);
    }
    let end = places.last().map_or(row.x, |last| last.right().saturating_add(2));
    let rest = Rect { x: end, width: row.right().saturating_sub(end), ..row };
    if browse.hidden > 0 {
        RowWriter::new(buffer, rest, 0).right(&format!("{} hidden", browse.hidden), theme.ink(Hue::Cache));
        return;
    }
    let description = ["context: max on GPU, (max with layers in RAM)", "(in brackets: with RAM)"];
    if let Some(description) = description.into_iter().find(|description| width(description) <= rest.width) {
        RowWriter::new(buffer, rest, 0).right(description, theme.ink(Hue::Dim));
    }
}

fn draw_text(place: Rect, chosen: bool, text: &str, hint: &str, theme: Theme, buffer: &mut Buffer) {
    let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
    let mut writer = RowWriter::new(buffer, place, 0);
    writer.put(if chosen { "▸ " } else { "  " }, ink);
    // the hint goes before any of the text does
    let hint = if width(text) + width(hint) + 5 > writer.room() { "" } else { hint };
    writer.put_path(text, ink);
    if !hint.is_empty() {
        writer.put("  ↵ ", theme.ink(Hue::Text)).put(hint, theme.ink(Hue::Dim));
    }
}

/// Draws why nothing is listed.
fn draw_empty(app: &App, browse: &ModelBrowser, list: Rect, buffer: &mut Buffer) {
    let text = match (&app.library.gathered, browse.hidden) {
        (Gathering::Nothing, _) => "Searching the folders of Ollama, Hugging Face, LM Studio and llama.cpp…",
        (_, 1..) => "All models are hidden by the filters: ^F, ^X, ^L, ^P and ^G switch them off.",
        _ => "No models: type a name, a path or a URL.",
    };
    sentence(text, list, app.theme.ink(Hue::Dim), buffer);
}
