//! The list of saved machines, and the field for a machine's name.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tui_input::Input;

use super::shown;
use crate::tui::app::App;
use crate::tui::app::machine::saved::SavedPage;
use crate::tui::theme::Hue;
use crate::tui::widget::page;
use crate::tui::widget::row_writer::{RowWriter, sentence, shortened, width};
use crate::tui::widget::{field, panel};

/// Draws the list; `wrong` is why the last command was rejected.
pub fn draw(app: &App, saved: &SavedPage, wrong: Option<&str>, buffer: &mut Buffer) {
    let theme = app.theme;
    let entries = saved.entries.as_deref().unwrap_or_default();
    let rows = u16::try_from(entries.len()).unwrap_or(u16::MAX).saturating_add(7);
    let place =
        app.regions.overlay(page::WIDTH.min(78), rows.clamp(9, app.regions.screen.height.saturating_sub(4).max(9)));
    let inner = panel::overlay(buffer, place, "Saved machines", "Enter opens, j joins, Esc back", theme);
    let list = Rect { height: inner.height.saturating_sub(2), ..inner };
    for (row, at) in shown(saved.at, entries.len() + 1, list.height) {
        let chosen = at == saved.at;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
        if chosen {
            let row = Rect { y: list.y + row, height: 1, ..list };
            buffer.set_style(row.intersection(buffer.area), theme.selected());
        }
        let mut writer = RowWriter::new(buffer, list, row);
        writer.put(if chosen { "▸ " } else { "  " }, ink);
        writer.put(if saved.marked.contains(&at) { "● " } else { "  " }, ink);
        match at.checked_sub(1).and_then(|at| entries.get(at)) {
            None => {
                let here = app.found_machine.machine.to_string();
                let long = "machine at start";
                let short = width(long) + 2 + width(&here) > writer.room();
                writer.put(if short { "at start" } else { long }, ink).skip(2);
                let here = shortened(&here, writer.room());
                writer.put(&here, theme.ink(Hue::Dim));
            }
            Some((name, Ok(machine))) => {
                writer.put(name, ink).skip(2).put(&machine.to_string(), theme.ink(Hue::Dim));
            }
            Some((name, Err(why))) => {
                writer.put(name, ink).put("  ✗ ", theme.ink(Hue::Over)).put(why, theme.ink(Hue::Over));
            }
        }
    }
    let note_area = Rect { y: list.bottom(), height: inner.height - list.height, ..inner };
    let (hue, text) = match (wrong, &saved.entries) {
        (Some(wrong), _) => (Hue::Over, wrong),
        (None, None) => (Hue::Dim, "Reading…"),
        (None, Some(entries)) if entries.is_empty() => {
            (Hue::Dim, "No saved machines: press s on the machine screen to save the current one.")
        }
        (None, Some(_)) => (Hue::Dim, "On the command line: --machine NAME plans for one, --join NAME adds its GPUs."),
    };
    sentence(text, note_area, theme.ink(hue), buffer);
}

/// Draws the field for a name.
pub fn draw_name(app: &App, input: &Input, wrong: Option<&str>, buffer: &mut Buffer) {
    let theme = app.theme;
    let place = app.regions.overlay(60, 7);
    let inner = panel::overlay(buffer, place, "Save this machine", "Enter saves, Esc back", theme);
    field::draw(input, "a name, for --machine NAME", Rect { height: 1, ..inner }, theme, buffer);
    let note_area = Rect { y: inner.y + 2, height: inner.height.saturating_sub(2), ..inner };
    let machine = app.machine.to_string();
    let (hue, text) = wrong.map_or((Hue::Dim, machine.as_str()), |wrong| (Hue::Over, wrong));
    sentence(text, note_area, theme.ink(hue), buffer);
}
