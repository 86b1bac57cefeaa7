//! The matrix page: what fits over two axes, and the selected cell in words.

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};

use crate::answer::sweep::{Axis, AxisKind, PlanFigures};
use crate::page::palette::sign;
use crate::plan::{Outcome, Plan};
use crate::question::matrix::{MatrixCell, MatrixPart, MatrixRequest, Side};
use crate::settings::knob::Knob;
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::app::{AnswerState, App};
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::query::Received;
use crate::tui::screen::{Response, Screen};
use crate::tui::theme::glyphs::LEFT;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, width, wrap};

/// Width of the names of the rows, and minimum and maximum width of a column.
const NAMES: u16 = 14;
const MIN_COLUMN: u16 = 8;
const MAX_COLUMN: u16 = 18;
/// Rows below the cells: a blank and the description.
const BELOW: u16 = 4;

impl AxisKind {
    /// The axis after this one among the `offered` knobs and the quantisation, other than `other`.
    fn next(self, other: Self, offered: &[Knob]) -> Self {
        // the quantisation is an axis of its own, with the usual file types only
        let knobs = offered.iter().filter(|&&knob| knob != Knob::Quant).map(|&knob| Self::Knob(knob));
        let sides: Vec<Self> = knobs.chain([Self::Quantisation]).collect();
        let at = sides.iter().position(|&side| side == self).unwrap_or(0);
        let after = sides.iter().cycle().skip(at + 1).take(sides.len()).find(|&&side| side != other);
        after.copied().unwrap_or(self)
    }
}

/// Usual pairs of axes: rows and columns.
const USUAL_PAIRS: [(AxisKind, AxisKind); 3] = [
    (AxisKind::Knob(Knob::Context), AxisKind::Knob(Knob::CacheType)),
    (AxisKind::Knob(Knob::Context), AxisKind::Knob(Knob::Parallel)),
    (AxisKind::Knob(Knob::Context), AxisKind::Quantisation),
];

/// The state of the page.
#[derive(Clone, Debug)]
pub struct MatrixPage {
    /// The axes of rows and columns.
    pub sides: (AxisKind, AxisKind),
    /// Their values, once known.
    pub axes: Option<(Axis, Axis)>,
    /// The cells planned so far, row by row.
    pub cells: Vec<MatrixCell>,
    /// Whether these are all.
    pub progress: AnswerState,
    /// The selected row and column.
    pub chosen: (usize, usize),
    query: u64,
}

impl Default for MatrixPage {
    fn default() -> Self {
        Self::on(USUAL_PAIRS[0])
    }
}

impl MatrixPage {
    const fn on(sides: (AxisKind, AxisKind)) -> Self {
        Self { sides, axes: None, cells: Vec::new(), progress: AnswerState::Working, chosen: (0, 0), query: 0 }
    }

    /// The number of rows and columns.
    pub fn size(&self) -> (usize, usize) {
        self.axes.as_ref().map_or((0, 0), |(rows, columns)| (rows.len(), columns.len()))
    }

    /// The cell at this row and column, once planned.
    pub fn cell(&self, row: usize, column: usize) -> Option<&MatrixCell> {
        let (_, columns) = self.size();
        if column < columns { self.cells.get(row * columns + column) } else { None }
    }

    /// Sets the values of the axes, and selects the cell nearest to the present settings.
    fn set_axes(&mut self, app: &App, rows: Axis, columns: Axis) {
        let place = |axis: &Axis| match axis {
            Axis::Knob(knob, values) => {
                let now = app.request.value(*knob);
                (0..values.len()).min_by_key(|&at| values.get(at).map(|value| value.abs_diff(now))).unwrap_or(0)
            }
            Axis::Quantisation(to) => {
                let now = app.request.plan.as_ref().and_then(|plan| plan.model.file_type.as_deref());
                to.iter().position(|to| Some(to.name()) == now).unwrap_or(0)
            }
        };
        self.chosen = (place(&rows), place(&columns));
        self.axes = Some((rows, columns));
    }
}

impl Screen for MatrixPage {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Matrix, Scope::Everywhere]
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        *self = Self::on(self.sides);
        let (rows, columns) = (Side::Spread(self.sides.0), Side::Spread(self.sides.1));
        app.request.ask(MatrixRequest { rows, columns }, &mut self.query)
    }

    fn answer(&mut self, app: &mut App, answer: Action) -> Response {
        match answer.part_of::<MatrixRequest>(self.query) {
            Some(Received::Part(MatrixPart::Axes(rows, columns))) => self.set_axes(app, rows, columns),
            Some(Received::Part(MatrixPart::Cell(cell))) => self.cells.push(*cell),
            Some(Received::End) => self.progress = AnswerState::Done,
            None => {}
        }
        Response::STAY
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        let (rows, columns) = self.size();
        let (row, column) = self.chosen;
        let (down, across) = self.sides;
        self.chosen = match command {
            Command::NextPanel | Command::Rows | Command::Columns => {
                self.sides = match command {
                    Command::Rows => (down.next(across, &app.panels.knobs.offered), across),
                    Command::Columns => (down, across.next(down, &app.panels.knobs.offered)),
                    _ => {
                        let at = USUAL_PAIRS.iter().position(|&pair| pair == self.sides);
                        USUAL_PAIRS[at.map_or(0, |at| (at + 1) % USUAL_PAIRS.len())]
                    }
                };
                return Response::Stay(self.ask(app));
            }
            Command::Enter => {
                if let Some(then) = self.cell(row, column).and_then(|cell| cell.then.clone()) {
                    app.apply_request(then);
                    return Response::CLOSE;
                }
                app.notice = Some("This cell is not planned yet.".to_owned());
                (row, column)
            }
            Command::Up => (row.saturating_sub(1), column),
            Command::Down => ((row + 1).min(rows.saturating_sub(1)), column),
            Command::Less => (row, column.saturating_sub(1)),
            Command::More => (row, (column + 1).min(columns.saturating_sub(1))),
            Command::PageUp | Command::First => (0, column),
            Command::PageDown | Command::Last => (rows.saturating_sub(1), column),
            _ => return Response::Ignored,
        };
        Response::STAY
    }

    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        match Grid::of(app, self).cell_at(at).filter(|_| gesture == Gesture::Down) {
            Some(cell) if cell == self.chosen => self.press(app, Command::Enter),
            Some(cell) => {
                self.chosen = cell;
                Response::STAY
            }
            None => Response::Ignored,
        }
    }

    fn area(&self, app: &App) -> Rect {
        Grid::of(app, self).frame
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        if let Some(plan) = &app.request.plan {
            draw(app, self, plan, buffer);
        }
    }
}

/// Where the cells are.
struct Grid {
    frame: Rect,
    inner: Rect,
    /// The first visible row and column.
    first: (usize, usize),
    /// How many of each are visible.
    fit: (usize, usize),
    /// Rows and columns of the screen that a cell takes.
    tall: u16,
    wide: u16,
}

impl Grid {
    fn of(app: &App, page: &MatrixPage) -> Self {
        let (down, across) = page.size();
        let whole = app.panels.regions.overlay(NAMES + 6 * MAX_COLUMN + 4, u16::MAX);
        // cells of two rows if there is room
        let max = whole.height.saturating_sub(2 + 2 + BELOW);
        let tall = if down as u16 * 2 <= max { 2 } else { 1 };
        let height =
            if page.axes.is_some() { (down as u16 * tall + 2 + 2 + BELOW).min(whole.height) } else { u16::MAX };
        let frame = app.panels.regions.overlay(whole.width, height);
        let inner = frame.inner(Margin::new(2, 1));
        let room = inner.width.saturating_sub(NAMES);
        let columns = usize::from(room / MIN_COLUMN).clamp(1, across.max(1));
        let rows = usize::from(inner.height.saturating_sub(2 + BELOW) / tall).max(1);
        let first_column = (page.chosen.1 + 1).saturating_sub(columns).min(across.saturating_sub(columns));
        let first = ((page.chosen.0 + 1).saturating_sub(rows), first_column);
        let wide = (room / columns as u16).min(MAX_COLUMN);
        Self { frame, inner, first, fit: (rows, columns), tall, wide }
    }

    /// The names of a row and its cells.
    fn row(&self, row: usize) -> Rect {
        let y = self.inner.y.saturating_add(1).saturating_add(self.tall * (row - self.first.0) as u16);
        Rect { y, height: self.tall, ..self.inner }.intersection(self.inner)
    }

    /// A column within `row`, without the gap after it.
    fn column(&self, column: usize, row: Rect) -> Rect {
        let x = self.inner.x + NAMES + self.wide.saturating_mul((column - self.first.1) as u16);
        Rect { x, width: self.wide.saturating_sub(1), ..row }.intersection(self.inner)
    }

    fn cell_at(&self, at: Position) -> Option<(usize, usize)> {
        let rows = self.first.0..self.first.0 + self.fit.0;
        let row = rows.into_iter().find(|&row| self.row(row).contains(at))?;
        let mut columns = self.first.1..self.first.1 + self.fit.1;
        columns.find(|&column| self.column(column, self.row(row)).contains(at)).map(|column| (row, column))
    }
}

fn draw(app: &App, page: &MatrixPage, plan: &Plan, buffer: &mut Buffer) {
    let (theme, grid) = (app.theme, Grid::of(app, page));
    let Some((rows, columns)) = &page.axes else {
        let inner = panel::overlay(buffer, grid.frame, "What fits", &plan.source(), theme);
        RowWriter::new(buffer, inner, 0).put("planning…", theme.ink(Hue::Dim));
        return;
    };
    let what = if app.request.speeds.is_some() { "≈ tok/s with the context full" } else { "What fits" };
    let title = format!("{what}: {} by {}", rows.title(), columns.title());
    panel::overlay(buffer, grid.frame, &title, &plan.source(), theme);
    let inner = grid.inner.intersection(buffer.area);
    for (column, name) in columns.shown().iter().enumerate().skip(grid.first.1).take(grid.fit.1) {
        let chosen = column == page.chosen.1;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
        let place = grid.column(column, Rect { height: 1, ..inner });
        let blank = place.width.saturating_sub(width(name)) / 2;
        RowWriter::new(buffer, place, 0).skip(blank).put(name, ink);
    }
    for (row, name) in rows.shown().iter().enumerate().skip(grid.first.0).take(grid.fit.0) {
        let line = grid.row(row);
        let chosen = row == page.chosen.0;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
        let names = Rect { width: NAMES.saturating_sub(2).min(line.width), ..line };
        RowWriter::new(buffer, names, 0).right(" ", ink).right(name, ink);
        for column in grid.first.1..grid.first.1 + grid.fit.1 {
            let place = grid.column(column, line);
            cell(page.cell(row, column), (row, column) == page.chosen, place, theme, buffer);
        }
    }
    reading(page, inner, theme, buffer);
}

/// The sign, colour and text of a cell.
fn words(figures: &Result<PlanFigures, String>) -> (&'static str, Hue, String) {
    let Ok(figures) = figures else { return ("✗", Hue::Over, "refused".to_owned()) };
    let (mark, hue) = sign(figures.outcome);
    (mark, hue, figures.cell())
}

fn share(figures: &PlanFigures) -> f64 {
    match figures.outcome {
        Outcome::Vram | Outcome::Tight => 1.0,
        _ => figures.on_gpu.0.clamp(0.01, 0.99),
    }
}

fn cell(known: Option<&MatrixCell>, chosen: bool, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let Some(known) = known else {
        RowWriter::new(buffer, place, 0).skip(place.width / 2).put("·", theme.ink(Hue::Dim));
        return;
    };
    let (mark, hue, text) = words(&known.figures);
    let text = format!("{mark} {text}");
    let blank = place.width.saturating_sub(width(&text)) / 2;
    if chosen {
        buffer.set_style(place.intersection(buffer.area), theme.selected());
        let ends = Rect { x: place.x.saturating_sub(1), width: place.width + 2, height: 1, ..place };
        RowWriter::new(buffer, ends, 0).put("▸", theme.bold(Hue::Focus));
    }
    let ink = if chosen { theme.bold(hue) } else { theme.ink(hue) };
    RowWriter::new(buffer, place, 0).skip(blank).put(&text, ink);
    if place.height > 1 {
        let share = known.figures.as_ref().map_or(0.0, share);
        bar(share, hue, Rect { y: place.y + 1, height: 1, ..place }, theme, buffer);
    }
}

/// Draws the share on GPUs.
fn bar(share: f64, hue: Hue, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let eighths = (share * f64::from(place.width) * 8.0).round() as usize;
    for (at, x) in (place.left()..place.right()).enumerate() {
        let here = eighths.saturating_sub(at * 8).min(8);
        let symbol = match here {
            0 => "·",
            _ if theme.textured() => "█",
            n => LEFT[n - 1],
        };
        let ink = if here == 0 { theme.ink(Hue::Border) } else { theme.ink(hue) };
        if let Some(cell) = buffer.cell_mut((x, place.y)) {
            cell.set_symbol(symbol).set_style(ink);
        }
    }
}

/// Describes the selected cell.
fn reading(page: &MatrixPage, inner: Rect, theme: Theme, buffer: &mut Buffer) {
    let (row, column) = page.chosen;
    let Some((rows, columns)) = &page.axes else { return };
    let name = |shown: Vec<String>, at: usize| shown.into_iter().nth(at).unwrap_or_default();
    let pair = format!(
        "{} {} · {} {}: ",
        rows.title(),
        name(rows.shown(), row),
        columns.title(),
        name(columns.shown(), column)
    );
    let (headline, hue, text) = match page.cell(row, column) {
        Some(MatrixCell { figures: Ok(figures), note, .. }) => {
            let (_, hue) = sign(figures.outcome);
            let but = note.as_ref().map(|note| format!(" Note: {note}.")).unwrap_or_default();
            let full = figures.speed_at_full_context.map(|full| format!(", {} when full", full.short()));
            let speed =
                figures.speed.map_or_else(String::new, |speed| format!("; {speed}{}", full.unwrap_or_default()));
            let text = format!(
                ", {} of {} layers on GPU; GPU {}, RAM {}{speed}.{but}",
                figures.on_gpus(),
                figures.layer_count,
                figures.totals.gpu,
                figures.totals.cpu
            );
            (figures.outcome.headline(), hue, text)
        }
        Some(MatrixCell { figures: Err(why), .. }) => ("Refused", Hue::Over, format!(": {why}")),
        None if page.progress == AnswerState::Done => ("No result", Hue::Dim, String::new()),
        None => ("planning…", Hue::Dim, String::new()),
    };
    let below = Rect {
        y: inner.bottom().saturating_sub(BELOW - 1).max(inner.y),
        height: (BELOW - 1).min(inner.height),
        ..inner
    };
    for (at, line) in wrap(&format!("{pair}{headline}{text}"), below.width).iter().enumerate() {
        let mut writer = RowWriter::new(buffer, below, at as u16);
        match line.strip_prefix(&pair).and_then(|rest| rest.strip_prefix(headline)).filter(|_| at == 0) {
            Some(rest) => {
                writer.put(&pair, theme.ink(Hue::Dim)).put(headline, theme.bold(hue)).put(rest, theme.ink(Hue::Text));
            }
            None => drop(writer.put(line, theme.ink(Hue::Text))),
        }
    }
}
