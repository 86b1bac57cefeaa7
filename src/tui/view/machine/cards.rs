//! The card picker.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::shown;
use crate::tui::app::App;
use crate::tui::app::machine::cards::{CardChoice, CardPicker};
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::page;
use crate::tui::widget::row_writer::{RowWriter, sentence, width};
use crate::tui::widget::{field, panel};

/// Draws the list; `wrong` is why the last choice was rejected.
pub fn draw(app: &App, cards: &CardPicker, wrong: Option<&str>, buffer: &mut Buffer) {
    let theme = app.theme;
    let place = app.regions.overlay(page::WIDTH.min(78), app.regions.screen.height.saturating_sub(4).clamp(14, 30));
    let title = if cards.slot.is_some() { "Replace this card" } else { "Add a GPU" };
    let inner = panel::overlay(buffer, place, title, "Enter applies, Esc back", theme);
    let hints = ["a name, a size such as 24GiB, or total=24GiB,free=22GiB,…", "a name, or a size such as 24GiB"];
    // plus the prompt sign and the cursor
    let hint = hints.into_iter().find(|hint| width(hint) + 3 <= inner.width).unwrap_or_default();
    field::draw(&cards.input, hint, Rect { height: 1, ..inner }, theme, buffer);
    let list = Rect { y: inner.y + 2, height: inner.height.saturating_sub(2), ..inner };
    let choices = cards.choices();
    let message = match wrong {
        Some(wrong) => Some((Hue::Over, wrong)),
        None if choices.is_empty() => {
            Some((Hue::Dim, "No known card matches. Enter uses the typed text as --gpu does."))
        }
        None => None,
    };
    if let Some((hue, text)) = message {
        sentence(text, list, theme.ink(hue), buffer);
        return;
    }
    for (row, at) in shown(cards.at, choices.len(), list.height) {
        if let Some(&choice) = choices.get(at) {
            draw_choice(choice, at == cards.at, list, row, theme, buffer);
        }
    }
}

fn draw_choice(choice: CardChoice, chosen: bool, list: Rect, row: u16, theme: Theme, buffer: &mut Buffer) {
    let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
    if chosen {
        let row = Rect { y: list.y + row, height: 1, ..list };
        buffer.set_style(row.intersection(buffer.area), theme.selected());
    }
    let mark = if chosen { "▸ " } else { "  " };
    match choice {
        CardChoice::Size(size) => {
            let mut writer = RowWriter::new(buffer, list, row);
            writer.put(mark, ink).put(&format!("a GPU of {size}"), ink).put("  CUDA, all free", theme.ink(Hue::Dim));
        }
        CardChoice::Card(preset) => {
            let mut writer = RowWriter::new(buffer, list, row);
            let speed = format!("{:>6} GB/s", preset.gbps);
            writer
                .right(&speed, theme.ink(Hue::Dim))
                .right(&format!("{:>8}", preset.backend.name()), theme.ink(Hue::Dim));
            writer.right(&format!("{:>11}", preset.total().to_string()), ink);
            writer.put(mark, ink).put(&preset.name, ink);
            if preset.integrated {
                writer.put("  shares RAM", theme.ink(Hue::Dim));
            }
        }
    }
}
