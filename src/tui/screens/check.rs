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

use std::sync::Arc;

use crate::answer::check::{Check, CheckedTerm, Compared};
use crate::answer::verdict::capitalised;
use crate::export::check::part_title;
use crate::library::check::Checked;
use crate::observed::Mib;
use crate::page::{Bar, Block, Hue, Page, Span};
use crate::tui::action::{Action, Command};
use crate::tui::app::App;
use crate::tui::effect::{CheckRequest, Effect, LogSource};
use crate::tui::keymap::Scope;
use crate::tui::screen::{Response, Screen, scrolled};
use crate::tui::widget::bar::BarPart;
use crate::tui::widget::field::{Text, TextEntry};
use crate::tui::widget::page::Overlay;

/// Figures that a page key passes.
const ROWS_OF_A_PAGE: u16 = 10;

/// Widths of a bar's name, of a row's name, and of a figure.
const NAME: usize = 9;
const PART: usize = 20;
const FIGURE: usize = 11;

/// A figure of one side of a row.
type Side = fn(&Compared) -> Option<Mib>;

/// The state of the page.
#[derive(Debug)]
pub struct CheckPage {
    state: VerifyState,
    /// Selected line: 0 is the header, then the rows of the comparison.
    at: usize,
    /// The row whose reason is shown.
    explained: Option<usize>,
}

/// What the page shows.
#[derive(Debug)]
enum VerifyState {
    /// A field for a file's name; a log may be pasted.
    Asking(TextEntry),
    /// A log is being read, by the request of this id.
    Reading(u64),
    /// The comparison.
    Ready(Box<Checked>),
}

impl Default for CheckPage {
    fn default() -> Self {
        Self { state: VerifyState::Asking(TextEntry::default()), at: 0, explained: None }
    }
}

impl CheckPage {
    /// Reads `log` and compares it with its plan.
    pub fn read(&mut self, app: &mut App, log: LogSource) -> Vec<Effect> {
        let id = app.request.next_id();
        *self = Self { state: VerifyState::Reading(id), at: 0, explained: None };
        vec![Effect::Check(Box::new(CheckRequest { id, log, open: app.request.opened.clone() }))]
    }

    /// Shows what came of a plan that was applied.
    pub fn of(checked: Box<Checked>) -> Self {
        let (at, explained) = first_difference(&checked);
        Self { state: VerifyState::Ready(checked), at, explained }
    }

    /// The rows of the comparison.
    fn rows(&self) -> &[Compared] {
        match &self.state {
            VerifyState::Ready(checked) => &checked.check.rows,
            _ => &[],
        }
    }
}

impl Screen for CheckPage {
    fn scopes(&self) -> &'static [Scope] {
        if self.accepts_text() { &[Scope::Field, Scope::Everywhere] } else { &[Scope::Verify, Scope::Everywhere] }
    }

    fn missing(&self, _: &App) -> Option<&'static str> {
        None
    }

    fn handles(&self, command: Command) -> bool {
        let has_server = matches!(&self.state, VerifyState::Ready(checked) if checked.server.is_some());
        command != Command::Save || has_server
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        match (&self.state, command) {
            (_, Command::Back) | (VerifyState::Ready(_), Command::Help) => return Response::Ignored,
            (VerifyState::Asking(entry), Command::Enter) => {
                let path = entry.input.value().trim().to_owned();
                let log = if path.is_empty() { LogSource::Running } else { LogSource::File(path) };
                return Response::Stay(self.read(app, log));
            }
            (VerifyState::Ready(checked), Command::Save) if checked.server.is_some() => {
                app.notice = Some("The server goes on running when the planner ends.".to_owned());
                return Response::Stay(vec![Effect::KeepServer]);
            }
            (VerifyState::Ready(_), Command::Open) => *self = Self::default(),
            (VerifyState::Ready(checked), Command::Enter) if self.at == 0 => {
                app.apply_request_as(checked.check.request.clone(), "observed machine");
                app.notice = Some("Took over the settings and the machine of the log; u undoes it.".to_owned());
                return Response::CLOSE;
            }
            (VerifyState::Ready(_), Command::Enter) => {
                let row = self.at - 1;
                self.explained = (self.explained != Some(row)).then_some(row);
            }
            (VerifyState::Ready(_), _) => {
                let at = scrolled(u16::try_from(self.at).unwrap_or(u16::MAX), ROWS_OF_A_PAGE, command);
                self.at = usize::from(at).min(self.rows().len());
            }
            _ => {}
        }
        Response::STAY
    }

    fn accepts_text(&self) -> bool {
        matches!(self.state, VerifyState::Asking(_))
    }

    fn text(&mut self, app: &mut App, text: Text<'_>) -> Response {
        match (text, &mut self.state) {
            (Text::Pasted(pasted), _) if pasted.has_lines() => {
                Response::Stay(self.read(app, LogSource::Text(Arc::clone(&pasted.text))))
            }
            (_, VerifyState::Asking(entry)) => {
                entry.edit(text);
                Response::STAY
            }
            _ => Response::Ignored,
        }
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Response {
        if let Action::Checked { id, result } = answer
            && matches!(self.state, VerifyState::Reading(asked) if asked == id)
        {
            match result {
                Ok(checked) => {
                    *self = Self::of(checked);
                }
                Err(why) => {
                    self.state = VerifyState::Asking(TextEntry { wrong: Some(why), ..TextEntry::default() });
                }
            }
        }
        Response::STAY
    }

    fn selection(&mut self) -> Option<&mut usize> {
        Some(&mut self.at)
    }

    fn page(&self, _: &App) -> Option<Overlay> {
        Some(Overlay::new(page(self), "Planned and observed", 0).choosing(self.at))
    }
}

/// The line to begin with, and the row that is explained: what differs, if anything does.
fn first_difference(checked: &Checked) -> (usize, Option<usize>) {
    let first = checked.check.rows.iter().position(|row| !row.agrees());
    (first.map_or(0, |row| row + 1), first)
}

fn page(verify: &CheckPage) -> Page {
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
        VerifyState::Reading(_) => page.text("Reading the log, and planning what it shows…", Hue::Dim),
        VerifyState::Ready(checked) => comparison(verify, checked, &mut page),
    }
    page
}

fn comparison(verify: &CheckPage, checked: &Checked, page: &mut Page) {
    let check = &checked.check;
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
    page.text_indented(&format!("{}.", checked.about), 2, Hue::Dim);
    for sentence in &checked.also {
        page.text_indented(&capitalised(&format!("{}.", sentence.trim_end_matches('.'))), 2, Hue::Text);
    }
    if let Some(server) = &checked.server {
        page.text_indented(&format!("{server}. It ends with the planner; s leaves it running."), 2, Hue::Text);
    }
    if checked.load.1 > 1 {
        page.text_indented(&format!("Load {} of {} in the log.", checked.load.0, checked.load.1), 2, Hue::Dim);
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
