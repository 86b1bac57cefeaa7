//! A log beside its plan: two bars per device, what differs, and why.
//!
//! ```text
//! ▸ ✗ Differs: 3 of 5 figures are the same. Enter takes over its settings and machine.
//!   Gemma 4 26B (from the file that the log names) in llama.cpp b9849, planned for llama.cpp, release 2026-08
//!
//! Vulkan0
//!   planned  ████████████████████████████████▓▓▓▒                14943.43 MiB
//!   observed ████████████████████████████████▓▓▓▒                14943.43 MiB
//!   weights            13755.36   13755.36      exact
//! ```

use ratatui::buffer::Buffer;

use super::page;
use crate::answer::check::{Check, CheckedTerm, Compared};
use crate::export::check::part_title;
use crate::library::verify::Verified;
use crate::observed::Mib;
use crate::page::{Bar, Block, Hue, Page, Span};
use crate::tui::app::App;
use crate::tui::app::verify::{VerifyPage, VerifyState};
use crate::tui::widget::bar::BarPart;
use crate::tui::widget::row_writer::capitalised;

/// Widths of a bar's name, of a row's name, and of a figure.
const NAME: usize = 9;
const PART: usize = 20;
const FIGURE: usize = 11;

/// A figure of one side of a row.
type Side = fn(&Compared) -> Option<Mib>;

/// Draws the page.
pub fn draw(app: &App, verify: &VerifyPage, buffer: &mut Buffer) {
    let mut page = Page::default();
    match &verify.state {
        VerifyState::Asking(entry) => {
            page.text(
                "Paste the log of llama-server or Ollama here, or type the name of a file that has one. Enter without a \
                 name takes what runs on this computer; example is a log that comes with this program.",
                Hue::Text,
            );
            page.blank();
            page.line(vec![
                Span::new("log file ", Hue::Dim),
                Span::new(entry.input.value(), Hue::Focus.bold()),
                Span::new("▏", Hue::Focus),
            ]);
            if let Some(why) = &entry.wrong {
                page.blank();
                page.text(&capitalised(&format!("{}.", why.trim_end_matches('.'))), Hue::Over);
            }
        }
        VerifyState::Reading => page.text("Reading the log, and planning what it shows…", Hue::Dim),
        VerifyState::Ready(verified) => comparison(verify, verified, &mut page),
    }
    page::draw(app, &page, "Planned and observed", 0, Some(verify.at), buffer);
}

fn comparison(verify: &VerifyPage, verified: &Verified, page: &mut Page) {
    let check = &verified.check;
    let (sign, hue, word) = match (check.compared(), check.agrees()) {
        (0, _) => ("·", Hue::Dim, "Nothing to compare"),
        (_, true) => ("✓", Hue::Fine, "Agrees"),
        _ => ("✗", Hue::Over, "Differs"),
    };
    let counted = format!(": {} of {} figures are the same", check.same(), check.compared());
    page.choice(Block::Line(vec![Span::new(&format!("{sign} {word}"), hue.bold()), Span::new(&counted, Hue::Text)]));
    if verify.at == 0 {
        page.text_indented("Enter makes its settings and machine the plan's own.", 2, Hue::Focus);
    }
    page.text_indented(&format!("{}.", verified.about), 2, Hue::Dim);
    if verified.load.1 > 1 {
        page.text_indented(&format!("Load {} of {} in the log.", verified.load.0, verified.load.1), 2, Hue::Dim);
    }
    if let Some(split) = &check.split {
        let planned = match split.planned {
            Some(planned) if planned == split.observed => ", as planned".to_owned(),
            Some(planned) => format!("; {planned} by the rules known here"),
            None => String::new(),
        };
        page.text_indented(&format!("Layers on GPU: {} of {}{planned}.", split.observed, split.of), 2, Hue::Text);
    }
    let most = devices(check).into_iter().map(|device| held(check, device).into_iter().fold(0.0, f64::max));
    let most = most.fold(0.0, f64::max);
    for device in devices(check) {
        page.blank();
        page.text(place(device), Hue::Text);
        bars(check, device, most, page);
        for (at, row) in check.rows.iter().enumerate().filter(|(_, row)| row.device == device) {
            figures(row, page);
            if verify.explained == Some(at) {
                let reason = row.reason.as_ref().map(ToString::to_string);
                let reason = reason.unwrap_or_else(|| "the same, as far as the log tells".to_owned());
                page.text_indented(&capitalised(&format!("{reason}.")), 4, Hue::Text);
            }
        }
    }
}

/// The devices of the rows, in order.
fn devices(check: &Check) -> Vec<&str> {
    let mut devices: Vec<&str> = check.rows.iter().map(|row| row.device.as_str()).collect();
    devices.dedup();
    devices
}

/// The device's name on the screen.
const fn place(device: &str) -> &str {
    if device.is_empty() {
        return "not said where";
    }
    match device.as_bytes() {
        b"CPU" => "RAM",
        _ => device,
    }
}

/// Planned and observed sums of a device, in MiB.
fn held(check: &Check, device: &str) -> [f64; 2] {
    let rows = || check.rows.iter().filter(|row| row.device == device && is_buffer(row.term));
    let sum = |mib: fn(&Compared) -> Option<Mib>| rows().filter_map(mib).map(|mib| mib.0).sum();
    [sum(|row| row.planned), sum(|row| row.observed)]
}

/// Whether a term is memory of its own: the terms of an estimate overlap.
fn is_buffer(term: CheckedTerm) -> bool {
    CheckedTerm::BUFFERS.contains(&term)
}

/// The part of a bar that shows a term.
const fn part(term: CheckedTerm) -> BarPart {
    match term {
        CheckedTerm::Model | CheckedTerm::Repacked | CheckedTerm::Lora => BarPart::Weights,
        CheckedTerm::Kv | CheckedTerm::Rs | CheckedTerm::Context | CheckedTerm::State => BarPart::Cache,
        _ => BarPart::Graph,
    }
}

/// Two bars under one another, in the same scale; `most` MiB fill one.
fn bars(check: &Check, device: &str, most: f64, page: &mut Page) {
    let sums = held(check, device);
    if sums == [0.0, 0.0] {
        return;
    }
    let differs = check.rows.iter().any(|row| row.device == device && !row.agrees());
    let sides: [(&str, Side); 2] = [("planned", |row| row.planned), ("observed", |row| row.observed)];
    let bar = |((name, mib), sum): ((&str, Side), f64)| {
        let part = |wanted: BarPart| {
            let rows = check.rows.iter().filter(|row| row.device == device && is_buffer(row.term));
            let of_part = rows.filter(|row| part(row.term) == wanted).filter_map(mib).map(|mib| mib.0);
            (of_part.sum::<f64>() / most, wanted.texture().to_owned(), wanted.hue())
        };
        let parts = [BarPart::Weights, BarPart::Cache, BarPart::Graph].map(part).to_vec();
        let free = (1.0, " ".to_owned(), Hue::Text);
        let ink = if differs { Hue::Over.bold() } else { Hue::Text.into() };
        Bar {
            label: Span::new(&format!("  {name:<NAME$}"), Hue::Dim),
            parts: parts.into_iter().chain([free]).collect(),
            value: Span::new(&format!("{sum:>FIGURE$.2} MiB"), ink),
        }
    };
    page.push(Block::Bars(sides.into_iter().zip(sums).map(bar).collect(), usize::MAX));
}

/// A row of figures; what differs is lit.
fn figures(row: &Compared, page: &mut Page) {
    let figure = |mib: Option<Mib>| mib.map_or_else(|| "–".to_owned(), |mib| format!("{:.2}", mib.0));
    let (planned, observed) = (figure(row.planned), figure(row.observed));
    let hue = match (row.is_same(), row.agrees()) {
        (true, _) => Hue::Fine,
        (_, true) => Hue::Dim,
        _ => Hue::Over,
    };
    let difference = row.difference_text();
    page.choice(Block::Line(vec![
        Span::new(&format!("{:<PART$}", part_title(row)), Hue::Dim),
        Span::new(&format!("{planned:>FIGURE$}{observed:>FIGURE$}"), Hue::Text),
        Span::new(&format!("{difference:>FIGURE$}"), hue.bold()),
    ]));
}
