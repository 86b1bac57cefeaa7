//! The header: model, engine, machine.

use ratatui::buffer::Buffer;

use crate::model::ModelSummary;
use crate::tui::app::{App, Load};
use crate::tui::regions::header::HELP;
use crate::tui::theme::Hue;
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::units::parameters;

/// Draws the header.
pub fn draw(app: &App, buffer: &mut Buffer) {
    let theme = app.theme;
    let (engine, machine) = (app.engine_label(), app.machine_label());
    let area = app.regions.header;

    let mut writer = RowWriter::new(buffer, area, 0);
    writer.put(" plimsoll", theme.bold(Hue::Weights)).skip(2);
    writer.right(HELP, theme.ink(Hue::Dim)).right("  ", theme.ink(Hue::Dim));
    if app.header().shows_engine() {
        writer.right(&machine, theme.ink(Hue::Text)).right("   ", theme.ink(Hue::Dim));
        writer.right(&engine, theme.ink(Hue::Text)).right("   ", theme.ink(Hue::Dim));
    } else {
        writer.right(&machine, theme.ink(Hue::Text)).right("  ", theme.ink(Hue::Dim));
    }
    match (&app.loading.state, app.plan.as_ref().map(|plan| &plan.model)) {
        (Load::Running { name, .. }, _) => {
            writer.put(&format!("reading {name}…"), theme.bold(Hue::Cache));
            writer.put("  Esc stops", theme.ink(Hue::Dim));
        }
        (_, Some(model)) => {
            writer.put(&model.name, theme.bold(Hue::Text));
            for fact in facts(model) {
                // never truncated
                if width(&fact) <= writer.room() {
                    writer.put(&fact, theme.ink(Hue::Dim));
                }
            }
        }
        (_, None) => {
            writer.put("no model yet", theme.ink(Hue::Dim));
        }
    }
}

fn facts(model: &ModelSummary) -> impl Iterator<Item = String> {
    let size = [parameters(model.parameters), model.bytes.to_string()];
    model.file_type.iter().cloned().chain(size).map(|fact| format!(" · {fact}"))
}
