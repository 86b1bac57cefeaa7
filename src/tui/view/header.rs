//! The header: model, engine, machine.
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::machine::{Origin, short_name};
use crate::model::ModelSummary;
use crate::plan::Confidence;
use crate::tui::action::Command;
use crate::tui::app::{App, Detection, LiveMemory, Load};
use crate::tui::theme::Hue;
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::units::parameters;

/// Draws the header.
pub fn draw(app: &App, buffer: &mut Buffer) {
    let theme = app.theme;
    let (engine, machine) = (engine_label(app), machine_label(app));
    let area = app.panels.regions.header;

    let mut writer = RowWriter::new(buffer, area, 0);
    writer.put(" plimsoll", theme.bold(Hue::Weights)).skip(2);
    writer.right(HELP, theme.ink(Hue::Dim)).right("  ", theme.ink(Hue::Dim));
    if of(app).shows_engine() {
        writer.right(&machine, theme.ink(Hue::Text)).right("   ", theme.ink(Hue::Dim));
        writer.right(&engine, theme.ink(Hue::Text)).right("   ", theme.ink(Hue::Dim));
    } else {
        writer.right(&machine, theme.ink(Hue::Text)).right("  ", theme.ink(Hue::Dim));
    }
    match (&app.library.loading.state, app.request.plan.as_ref().map(|plan| &plan.model)) {
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

/// Its right end.
pub const HELP: &str = "? help ";

/// The header: the model on the left; engine, machine and help on the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    area: Rect,
    engine: u16,
    machine: u16,
}

impl Header {
    /// The header in `area` with the labels `engine` and `machine`.
    pub fn new(area: Rect, engine: &str, machine: &str) -> Self {
        Self { area, engine: width(engine), machine: width(machine) }
    }

    /// Whether there is room for the engine.
    pub fn shows_engine(&self) -> bool {
        self.area.width > self.machine + self.engine + width(HELP) + 8 + 40
    }

    /// The command for a press at column `x`.
    pub fn command_at(&self, x: u16) -> Option<Command> {
        let mut right = self.area.right();
        let (engine, gap) = if self.shows_engine() { (self.engine, 3) } else { (0, 2) };
        // in drawing order, from the right
        let parts =
            [(width(HELP), 2, Command::Help), (self.machine, gap, Command::Machine), (engine, gap, Command::Engine)];
        for (cells, gap, command) in parts {
            let left = right.saturating_sub(cells);
            if (left..right).contains(&x) {
                return Some(command);
            }
            right = left.saturating_sub(gap);
        }
        (x < right).then_some(Command::Models)
    }
}

/// The layout of the header.
pub fn of(app: &App) -> Header {
    Header::new(app.panels.regions.header, &engine_label(app), &machine_label(app))
}

/// The engine, its release, and the confidence of the plan.
pub fn engine_label(app: &App) -> String {
    let confidence = match app.request.plan.as_ref().map(|plan| plan.confidence) {
        Some(Confidence::Exact) => " · exact",
        Some(Confidence::Modelled) => " · modelled",
        Some(Confidence::Assumed) => " · assumed",
        None => "",
    };
    format!("{}{confidence}", app.request.choice())
}

/// The GPUs in short, the RAM, and whether the machine is simulated or live.
pub fn machine_label(app: &App) -> String {
    let gpus = &app.request.machine.gpus;
    let cards = match gpus.as_slice() {
        _ if app.found_machine.detection == Detection::Running && app.found_machine.what_if.replacement.is_none() => {
            "detecting GPUs…".to_owned()
        }
        [] => "no GPU".to_owned(),
        [one] => short_name(&one.name).to_owned(),
        [first, rest @ ..] if rest.iter().all(|gpu| gpu.name == first.name) => {
            format!("{} × {}", gpus.len(), short_name(&first.name))
        }
        _ => format!("{} GPUs", gpus.len()),
    };
    let simulated = if app.request.machine.origin == Origin::Described { " · simulated" } else { "" };
    let live = match app.found_machine.live {
        LiveMemory::Off => "",
        // memory of another machine is not live
        _ if app.found_machine.what_if.replacement.is_some() => "",
        // as wide as "frozen"
        LiveMemory::On => " · live  ",
        LiveMemory::Frozen => " · frozen",
    };
    let ram = if app.panels.regions.screen.width < 80 {
        String::new()
    } else {
        format!(" · {}", app.request.machine.ram.total)
    };
    format!("{cards}{ram}{simulated}{live}")
}
