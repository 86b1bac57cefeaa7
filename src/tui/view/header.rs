//! The first line: the model, the engine, the machine.

use ratatui::buffer::Buffer;

use super::figure::parameters;
use crate::machine::{Origin, short_name};
use crate::plan::{Confidence, ModelSummary};
use crate::tui::action::Command;
use crate::tui::app::{App, Known, Live, Load};
use crate::tui::theme::Hue;
use crate::tui::widget::pen::{Pen, width};

/// What stands at its right end.
const HELP: &str = "? help ";

/// Whether it has room for the engine beside the model and the machine.
pub(super) fn names_engine(app: &App) -> bool {
    let aside = width(&machine(app)) + width(&engine(app)) + width(HELP) + 8;
    app.regions.header.width > aside + 40
}

/// What a press at column `x` of it asks for: whatever is named there.
pub fn asked_at(app: &App, x: u16) -> Option<Command> {
    let mut right = app.regions.header.right();
    let (engine, gap) = if names_engine(app) { (width(&engine(app)), 3) } else { (0, 2) };
    // as they are drawn, from the right edge on
    let parts = [
        (width(HELP), 2, Command::Help),
        (width(&machine(app)), gap, Command::Machine),
        (engine, gap, Command::Engine),
    ];
    for (cells, gap, command) in parts {
        let left = right.saturating_sub(cells);
        if (left..right).contains(&x) {
            return Some(command);
        }
        right = left.saturating_sub(gap);
    }
    (x < right).then_some(Command::Models)
}

/// Draws it.
pub fn draw(app: &App, buffer: &mut Buffer) {
    let theme = app.theme;
    let machine = machine(app);
    let engine = engine(app);
    let area = app.regions.header;

    let mut pen = Pen::new(buffer, area, 0);
    pen.put(" plimsoll", theme.bold(Hue::Weights)).skip(2);
    pen.right(HELP, theme.ink(Hue::Dim)).right("  ", theme.ink(Hue::Dim));
    if names_engine(app) {
        pen.right(&machine, theme.ink(Hue::Text)).right("   ", theme.ink(Hue::Dim));
        pen.right(&engine, theme.ink(Hue::Text)).right("   ", theme.ink(Hue::Dim));
    } else {
        pen.right(&machine, theme.ink(Hue::Text)).right("  ", theme.ink(Hue::Dim));
    }
    match (&app.load, app.plan.as_ref().map(|plan| &plan.model)) {
        (Load::Running { name, .. }, _) => {
            pen.put(&format!("reading {name}…"), theme.bold(Hue::Cache));
            pen.put("  Esc stops", theme.ink(Hue::Dim));
        }
        (_, Some(model)) => {
            pen.put(&model.name, theme.bold(Hue::Text));
            for fact in facts(model) {
                // whole or not at all
                if width(&fact) <= pen.room() {
                    pen.put(&fact, theme.ink(Hue::Dim));
                }
            }
        }
        (_, None) => {
            pen.put("no model yet", theme.ink(Hue::Dim));
        }
    }
}

fn facts(model: &ModelSummary) -> impl Iterator<Item = String> {
    let size = [parameters(model.parameters), model.bytes.to_string()];
    model.file_type.iter().cloned().chain(size).map(|fact| format!(" · {fact}"))
}

/// The engine, its release, and how sure the plan is.
pub(super) fn engine(app: &App) -> String {
    let sure = match app.plan.as_ref().map(|plan| plan.confidence) {
        Some(Confidence::Exact) => " · exact",
        Some(Confidence::Modelled) => " · modelled",
        Some(Confidence::Assumed) => " · assumed",
        None => "",
    };
    format!("{}{sure}", app.choice())
}

/// The GPUs in a few words, the RAM, and whether this is the machine in front of us.
fn machine(app: &App) -> String {
    let gpus = &app.machine.gpus;
    let cards = match gpus.as_slice() {
        _ if app.known == Known::Asking && app.what_if.instead.is_none() => "detecting GPUs…".to_owned(),
        [] => "no GPU".to_owned(),
        [one] => short_name(&one.name).to_owned(),
        [first, rest @ ..] if rest.iter().all(|gpu| gpu.name == first.name) => {
            format!("{} × {}", gpus.len(), short_name(&first.name))
        }
        _ => format!("{} GPUs", gpus.len()),
    };
    let simulated = if app.machine.origin == Origin::Described { " · simulated" } else { "" };
    let live = match app.live {
        Live::Off => "",
        // another one stands in its place
        _ if app.what_if.instead.is_some() => "",
        // as wide as what it changes to
        Live::On => " · live  ",
        Live::Frozen => " · frozen",
    };
    let ram = if app.regions.screen.width < 80 { String::new() } else { format!(" · {}", app.machine.ram.total) };
    format!("{cards}{ram}{simulated}{live}")
}
