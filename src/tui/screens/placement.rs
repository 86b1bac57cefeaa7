//! The placement screen: which tensors of which blocks are where. They are moved from device to device, as llama.cpp's
//! `--override-tensor` does, and the plan follows.
//!
//! ```text
//! ◐ Experts in RAM: …
//! GPU0 11.2 of 12.0 GiB · RAM 9.1 of 64.0 GiB
//!               attention        experts up       experts down
//! embeddings    RAM 0.6 GiB
//! blocks 0–3    GPU0 0.3 GiB   ▸ RAM* 1.1 GiB     GPU0 1.1 GiB
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};

use crate::answer::tensors::{BlockPart, TensorCell, TensorRow, TensorTable};
use crate::answer::verdict::capitalised;
use crate::engine;
use crate::plan::Plan;
use crate::settings::{Flag, SplitMode};
use crate::tui::action::{Command, Gesture};
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::regions::Panel;
use crate::tui::screen::{NO_PLAN, Response, Screen, moved};
use crate::tui::theme::{Hue, Theme};
use crate::tui::view::{figure, memory, verdict};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, sentence, width, wrap};

/// Widths of a row's name and of a column, where device and bytes are below one another and where they are side by side.
const NARROW: (u16, u16) = (11, 9);
const WIDE: (u16, u16) = (15, 16);
/// Maximum width of a column.
const MAX_COLUMN: u16 = 18;
/// Rows of the screen from which on devices have bars, besides those.
const ROOMY: u16 = 28;
/// Maximum rows of the verdict, and of the overrides.
const VERDICT: usize = 2;
const OVERRIDES: usize = 3;

/// What the screen is opened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementSubject {
    /// A layer, by its index in the plan.
    Layer(usize),
    /// A device, by its index in the plan.
    Device(usize),
}

/// The state of the screen.
#[derive(Debug)]
pub struct PlacementScreen {
    /// The newest table; none if the engine refuses these settings.
    pub table: Option<TensorTable>,
    /// The selected row, which keeps its first block when rows are folded anew.
    row: TensorRow,
    /// The selected column, of rows that have it.
    column: usize,
    /// A row stands for a range of equal blocks.
    pub folded: bool,
}

impl PlacementScreen {
    /// The screen on the focused layer or device.
    pub fn of(app: &App) -> Self {
        let cursors = &app.panels.cursors;
        match app.panels.focus {
            Panel::Memory => Self::on(app, PlacementSubject::Device(cursors.device)),
            Panel::Layers => Self::on(app, PlacementSubject::Layer(cursors.layer)),
            Panel::Knobs | Panel::Graph => Self::on(app, PlacementSubject::Layer(0)),
        }
    }

    fn on(app: &App, subject: PlacementSubject) -> Self {
        let blocks = app.request.plan.as_ref().map_or(0, |plan| plan.layers.len().saturating_sub(1));
        let row = match subject {
            PlacementSubject::Layer(layer) if layer >= blocks => TensorRow::Output,
            PlacementSubject::Layer(layer) => TensorRow::Blocks(layer..=layer),
            PlacementSubject::Device(_) => TensorRow::Embeddings,
        };
        let mut screen = Self { table: None, row, column: 0, folded: true };
        if screen.missing(app).is_none() {
            screen.learn(app);
        }
        let on_device = match (subject, &screen.table) {
            (PlacementSubject::Device(device), Some(table)) => table.first_on(device),
            _ => None,
        };
        if let Some((row, column)) = on_device {
            screen.select(row, column);
        }
        screen
    }

    /// Opens it in place of another screen, or says what is missing for it.
    pub fn open(app: &mut App, subject: PlacementSubject) -> Response {
        let screen = Self::on(app, subject);
        match screen.missing(app) {
            Some(missing) => {
                app.notice = Some(missing.to_owned());
                Response::STAY
            }
            None => Response::open(screen),
        }
    }

    /// Makes the table of the present settings.
    fn learn(&mut self, app: &App) {
        let Some(request) = app.request.plan_request() else { return };
        self.table = match (TensorTable::of(&request, self.folded), self.table.take()) {
            (Ok(table), _) => table,
            (Err(_), before) => before.map(|before| before.refused(request)),
        };
    }

    /// The selected row and column.
    pub fn chosen(&self) -> (usize, usize) {
        let Some(table) = &self.table else { return (0, 0) };
        let row = table.find(&self.row).unwrap_or(0);
        (row, table.only_column(row).unwrap_or(self.column).min(table.parts.len().saturating_sub(1)))
    }

    fn select(&mut self, row: usize, column: usize) {
        if let Some(at) = self.table.as_ref().and_then(|table| table.rows.get(row)) {
            (self.row, self.column) = (at.clone(), column);
        }
    }

    /// Moves the selected tensors, or takes back what places them.
    fn place(&mut self, app: &mut App, in_all_blocks: bool, take_back: bool) {
        let Some(table) = &self.table else { return };
        let (row, column) = self.chosen();
        if table.cell(row, column).is_none() {
            app.notice = Some("These blocks have no such tensors.".to_owned());
            return;
        }
        let to = if take_back { None } else { table.next_device(row, column) };
        match table.moved(row, column, in_all_blocks, to) {
            Err(why) => app.notice = Some(capitalised(&format!("{why}."))),
            Ok(then) if then.settings == app.request.settings => {
                app.notice = Some(if take_back {
                    "Nothing places these tensors by their names.".to_owned()
                } else {
                    "There is no other device.".to_owned()
                });
            }
            Ok(then) => {
                if table.is_fitted {
                    let what = "What the fit decided is set now, as it places nothing beside --override-tensor.";
                    app.notice = Some(what.to_owned());
                }
                app.change_settings(then.settings);
            }
        }
    }
}

impl Screen for PlacementScreen {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Placement, Scope::Everywhere]
    }

    fn missing(&self, app: &App) -> Option<&'static str> {
        if app.request.plan.is_none() {
            Some(NO_PLAN)
        } else if app.request.refused.is_some() {
            Some("The engine refuses these settings: nothing is placed.")
        } else if engine::estimating(app.request.engine).is_some() {
            Some("This engine places whole layers: it has no option for single tensors.")
        } else if app.request.settings.split_mode == SplitMode::Tensor {
            Some("A model that is split by tensors is on all GPUs at once.")
        } else {
            None
        }
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        self.learn(app);
        Vec::new()
    }

    fn planned(&mut self, app: &mut App, _: bool) -> Vec<Effect> {
        self.ask(app)
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        let (row, column) = self.chosen();
        let (count, columns) = self.table.as_ref().map_or((0, 0), |table| (table.rows.len(), table.parts.len()));
        match command {
            Command::Less => self.select(row, column.saturating_sub(1)),
            Command::More => self.select(row, (column + 1).min(columns.saturating_sub(1))),
            Command::Up | Command::Down | Command::PageUp | Command::PageDown | Command::First | Command::Last => {
                self.select(moved(row, count, 8, command), self.column);
            }
            Command::Toggle => self.place(app, false, false),
            Command::MoveInAllBlocks => self.place(app, true, false),
            Command::Remove => self.place(app, false, true),
            Command::Enter => {
                self.folded = !self.folded;
                if let Some(table) = &mut self.table {
                    table.lay_out(self.folded);
                }
            }
            Command::Undo => app.undo(),
            Command::Redo => app.redo(),
            Command::Theme => app.theme = app.theme.next_tone(),
            _ => return Response::Ignored,
        }
        Response::STAY
    }

    /// A press on a cell selects it, another one moves its tensors.
    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        let Some(table) = self.table.as_ref().filter(|_| gesture == Gesture::Down) else { return Response::Ignored };
        match Grid::of(app, self, table).cell_at(table, at) {
            Some(cell) if cell == self.chosen() => self.press(app, Command::Toggle),
            Some((row, column)) => {
                self.select(row, column);
                Response::STAY
            }
            None => Response::Ignored,
        }
    }

    fn area(&self, app: &App) -> Rect {
        self.table.as_ref().map_or(app.panels.regions.screen, |table| Grid::of(app, self, table).frame)
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        let missing = self.missing(app).filter(|_| app.request.refused.is_none());
        match (&app.request.plan, &self.table, missing) {
            (Some(plan), Some(table), None) => draw(app, self, plan, table, buffer),
            // after an undo of an engine
            (_, _, missing) => {
                let place = app.panels.regions.overlay(WIDE.0 + 4 * MAX_COLUMN, 4);
                let inner = panel::overlay(buffer, place, "Placement", "Esc back", app.theme);
                sentence(missing.unwrap_or(NO_PLAN), inner, app.theme.ink(Hue::Text), buffer);
            }
        }
    }
}

/// Where the cells are.
struct Grid {
    frame: Rect,
    inner: Rect,
    /// Lines above the cells: the verdict, and the devices unless they have bars; then the names of the columns.
    head: Vec<HeadLine>,
    bars: Rect,
    /// Lines below them.
    foot: Vec<(String, Hue)>,
    /// The cells.
    cells: Rect,
    /// The first visible row and column, and how many are visible.
    first: (usize, usize),
    fit: (usize, usize),
    /// Width of the names of rows, and of columns.
    names: u16,
    wide: u16,
    /// Rows of the screen that a row takes.
    tall: u16,
}

/// A line above the cells: words in their colours.
type HeadLine = Vec<(String, Hue)>;

impl Grid {
    fn of(app: &App, screen: &PlacementScreen, table: &TensorTable) -> Self {
        let count = table.parts.len().max(1);
        let chosen = screen.chosen();
        let whole = app.panels.regions.overlay(WIDE.0 + count as u16 * MAX_COLUMN + 4, u16::MAX);
        let room = whole.width.saturating_sub(4);
        let is_wide = room >= WIDE.0 + count as u16 * WIDE.1;
        let ((names, least), tall) = if is_wide { (WIDE, 1) } else { (NARROW, 2) };
        let inner = whole.inner(Margin::new(2, 1));
        let devices = app.request.plan.as_ref().map_or(0, |plan| plan.devices.len() as u16);
        let bars = if inner.height >= ROOMY + devices { devices } else { 0 };
        let (head, foot) = (head(app, room, bars == 0), foot(app, table, chosen, room));
        let bars = Rect { y: inner.y.saturating_add(head.len() as u16), height: bars, ..inner }.intersection(inner);
        // a row for the names of the columns, and a blank one on either side
        let above = head.len() as u16 + bars.height + 2;
        let height = inner.height.saturating_sub(above + 1 + foot.len() as u16);
        let y = inner.y.saturating_add(above);
        let cells = Rect { y, height, ..inner }.intersection(inner);
        let columns = usize::from(room.saturating_sub(names) / least).clamp(1, count);
        let rows = usize::from(height / tall).max(1);
        let first = ((chosen.0 + 1).saturating_sub(rows), (chosen.1 + 1).saturating_sub(columns));
        let wide = (room.saturating_sub(names) / columns as u16).min(MAX_COLUMN);
        Self { frame: whole, inner, head, bars, foot, cells, first, fit: (rows, columns), names, wide, tall }
    }

    fn row(&self, row: usize) -> Rect {
        let y = self.cells.y.saturating_add(self.tall * (row - self.first.0) as u16);
        Rect { y, height: self.tall, ..self.cells }.intersection(self.cells)
    }

    /// A column within `row`, without the gap after it.
    fn column(&self, column: usize, row: Rect) -> Rect {
        let x = self.inner.x + self.names + self.wide.saturating_mul((column - self.first.1) as u16);
        Rect { x, width: self.wide.saturating_sub(1), ..row }.intersection(self.inner)
    }

    /// The visible rows.
    fn rows(&self, table: &TensorTable) -> std::ops::Range<usize> {
        self.first.0..(self.first.0 + self.fit.0).min(table.rows.len())
    }

    /// The visible columns of `row`.
    fn columns(&self, table: &TensorTable, row: usize) -> std::ops::Range<usize> {
        let visible = self.first.1..(self.first.1 + self.fit.1).min(table.parts.len());
        match table.only_column(row) {
            Some(only) if visible.contains(&only) => only..only + 1,
            Some(_) => 0..0,
            None => visible,
        }
    }

    fn cell_at(&self, table: &TensorTable, at: Position) -> Option<(usize, usize)> {
        let row = self.rows(table).find(|row| self.row(*row).contains(at))?;
        let column = self.columns(table, row).find(|column| self.column(*column, self.row(row)).contains(at))?;
        Some((row, column))
    }
}

/// The verdict, and what every device holds.
fn head(app: &App, room: u16, with_devices: bool) -> Vec<HeadLine> {
    let (headline, hue, text) = verdict::short_words(app);
    let lines = cut(&format!("{headline} {text}"), room, VERDICT).into_iter().enumerate();
    let mut head: Vec<HeadLine> = lines
        .map(|(at, line)| match line.strip_prefix(&headline).filter(|_| at == 0) {
            Some(rest) => vec![(headline.clone(), hue), (rest.to_owned(), Hue::Text)],
            None => vec![(line, Hue::Text)],
        })
        .collect();
    let Some(plan) = app.request.plan.as_ref().filter(|_| with_devices) else { return head };
    let mut line: HeadLine = Vec::new();
    for (at, device) in plan.devices.iter().enumerate() {
        let taken = device.taken() + plan.lent_to_gpus(at);
        let text = format!("{} {}", plan.device_name(at), figure::of(taken, device.total));
        let is_full = line.iter().map(|(text, _)| width(text)).sum::<u16>() + width(&text) > room.saturating_sub(3);
        if is_full && !line.is_empty() {
            head.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push((" · ".to_owned(), Hue::Dim));
        }
        line.push((text, if plan.is_over(at) { Hue::Over } else { Hue::Text }));
    }
    head.push(line);
    head
}

/// `text` in at most `most` lines of `room` cells.
fn cut(text: &str, room: u16, most: usize) -> Vec<String> {
    let mut lines = wrap(text, room);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            let kept: String = last.chars().take(usize::from(room).saturating_sub(1)).collect();
            *last = format!("{}…", kept.trim_end());
        }
    }
    lines
}

/// The selected cell in words, the overrides, and what is to know about them.
fn foot(app: &App, table: &TensorTable, (row, column): (usize, usize), room: u16) -> Vec<(String, Hue)> {
    let mut lines: Vec<(String, Hue)> = Vec::new();
    let mut add = |text: &str, hue: Hue, most: usize| {
        lines.extend(cut(text, room, most).into_iter().map(|line| (line, hue)));
    };
    if let Some(plan) = &app.request.plan {
        add(&described(plan, table, row, column), Hue::Text, 2);
    }
    let is_of_ollama = app.request.engine.facts().starts_llama_server;
    let variable = Flag::OverrideTensor.row().variables.first().map_or("", |variable| variable.name);
    match &table.written {
        Some(written) => {
            let option = if is_of_ollama { format!("{variable}=") } else { "-ot ".to_owned() };
            add(&format!("{option}{written}"), Hue::Focus, OVERRIDES);
            add("With it, llama-server's fit places nothing.", Hue::Dim, 1);
        }
        None => add("No tensors are placed by their names.", Hue::Dim, 1),
    }
    if is_of_ollama {
        let passed = format!("Ollama has no option for it: llama-server reads {variable} of the server's environment.");
        add(&passed, Hue::Dim, 2);
    }
    lines
}

/// `Blocks 3–47, experts up: 12.4 GiB in RAM, 45 tensors, placed by name.`
fn described(plan: &Plan, table: &TensorTable, row: usize, column: usize) -> String {
    let Some(of_row) = table.rows.get(row) else { return String::new() };
    let part = match (of_row, table.parts.get(column)) {
        (TensorRow::Blocks(_), Some(part)) => format!(", {part}"),
        _ => String::new(),
    };
    let name = capitalised(&format!("{}{part}", of_row.name()));
    let Some(cell) = table.cell(row, column) else { return format!("{name}: no such tensors.") };
    let held = cell.devices.iter().map(|(device, bytes)| match plan.device_name(*device) {
        "RAM" => format!("{bytes} in RAM"),
        gpu => format!("{bytes} on {gpu}"),
    });
    let held = held.collect::<Vec<_>>().join(" and ");
    let tensors = if cell.count == 1 { "1 tensor".to_owned() } else { format!("{} tensors", cell.count) };
    let by_name = if cell.is_asked { ", placed by name (*)" } else { "" };
    let tied = if cell.is_tied { "; the output matrix is that of the embeddings, and moves with it" } else { "" };
    format!("{name}: {held}, {tensors}{by_name}{tied}.")
}

fn draw(app: &App, screen: &PlacementScreen, plan: &Plan, table: &TensorTable, buffer: &mut Buffer) {
    let (theme, grid) = (app.theme, Grid::of(app, screen, table));
    panel::overlay(buffer, grid.frame, "Placement", &plan.source(), theme);
    let inner = grid.inner.intersection(buffer.area);
    for (at, line) in grid.head.iter().enumerate() {
        let mut writer = RowWriter::new(buffer, inner, at as u16);
        for (text, hue) in line {
            writer.put(text, theme.ink(*hue));
        }
    }
    memory::bars(plan, grid.bars, theme, buffer);
    let chosen = screen.chosen();
    let titles = Rect { y: grid.cells.y.saturating_sub(1), height: 1, ..inner };
    for (column, part) in table.parts.iter().enumerate().skip(grid.first.1).take(grid.fit.1) {
        let ink = if column == chosen.1 { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
        RowWriter::new(buffer, grid.column(column, titles.intersection(inner)), 0).put(title(*part, grid.tall), ink);
    }
    for row in grid.rows(table) {
        let line = grid.row(row);
        let ink = if row == chosen.0 { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
        let names = Rect { width: grid.names.saturating_sub(1).min(line.width), ..line };
        let name = table.rows.get(row).map(TensorRow::name).unwrap_or_default();
        let name = if grid.tall > 1 { name.replace("blocks ", "") } else { name };
        RowWriter::new(buffer, names, 0).put(&name, ink);
        for column in grid.columns(table, row) {
            let place = grid.column(column, line);
            cell(table.cell(row, column), (row, column) == chosen, place, plan, theme, buffer);
        }
    }
    let below = Rect {
        y: inner.bottom().saturating_sub(grid.foot.len() as u16).max(inner.y),
        height: (grid.foot.len() as u16).min(inner.height),
        ..inner
    };
    for (at, (text, hue)) in grid.foot.iter().enumerate() {
        RowWriter::new(buffer, below, at as u16).put(text, theme.ink(*hue));
    }
}

const fn title(part: BlockPart, tall: u16) -> &'static str {
    if tall > 1 { part.short() } else { part.name() }
}

/// Draws a cell: its device and its bytes.
fn cell(known: Option<&TensorCell>, chosen: bool, place: Rect, plan: &Plan, theme: Theme, buffer: &mut Buffer) {
    if chosen {
        buffer.set_style(place.intersection(buffer.area), theme.selected());
        let ends = Rect { x: place.x.saturating_sub(1), width: place.width + 1, height: place.height.min(1), ..place };
        RowWriter::new(buffer, ends, 0).put("▸", theme.bold(Hue::Focus));
    }
    let Some(known) = known else {
        RowWriter::new(buffer, place, 0).put("·", theme.ink(Hue::Dim));
        return;
    };
    let names: Vec<&str> = known.devices.keys().map(|device| plan.device_name(*device)).collect();
    let (device, ink) = match (names.as_slice(), known.devices.keys().next()) {
        ([name], Some(device)) => ((*name).to_owned(), theme.device(*device, plan.devices.len())),
        ([_, _], _) => (names.join("+"), theme.ink(Hue::Text)),
        _ => (format!("{} devices", names.len()), theme.ink(Hue::Text)),
    };
    let device = if known.is_asked { format!("{device}*") } else { device };
    let ink = if chosen { theme.bold(Hue::Focus) } else { ink };
    let bytes = known.bytes().to_string();
    let mut writer = RowWriter::new(buffer, place, 0);
    writer.put(&device, ink);
    if place.height > 1 {
        RowWriter::new(buffer, place, 1).put(&bytes, theme.ink(Hue::Text));
    } else {
        writer.skip(1).put(&bytes, theme.ink(Hue::Text));
    }
}
