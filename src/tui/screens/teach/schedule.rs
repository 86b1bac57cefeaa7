//! The schedule page: the device of each operation after each of the scheduler's passes.
//!
//! ```text
//!  0 start  1 assign ▸2 gpu down  2 gpu up  …                                                 steps
//!  pass 2, expand gpu down                                                                    its name in the source
//!  From the first operation to the last: one without a device gets …                          what it does
//! ╭ Graph ─ 1 010 operations ─────────────────────────────╮╭ After this step ──────────────────╮
//! │           RMMRSMFMA…                        operations ││                                   │
//! │           MUUOEUL D                                    ││                                   │
//! │▸block 0   0000000R00000·····                  blocks   ││ GPU0     612 operations   counts  │
//! │ block 1   0000000R00000·····                          ││ RAM       12                      │
//! │ …                                                     ││ …                         splits  │
//! ╰───────────────────────────────────────────────────────╯╰───────────────────────────────────╯
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};
use ratatui::style::{Modifier, Style};

use super::{PageResponse, entry_at, framed, ink, mark, next, side_by_side};
use crate::engine::ggml::schedule::Pass;
use crate::engine::ggml::tensor::Op;
use crate::page::{Block, Column, Narrow, Page, Span, Table};
use crate::teach::schedule::{CopyTotals, GraphBlock, GraphSplit, SchedulePage, ScheduleStep, SplitInput};
use crate::tui::action::Command;
use crate::tui::app::App;
use crate::tui::screen::moved;
use crate::tui::theme::{Hue, Theme, device_hue};
use crate::tui::view::layers::glyph;
use crate::tui::widget::row_writer::{RowWriter, width, wrap};
use crate::tui::widget::{page, panel};
use crate::units::{Bytes, Tokens};

/// Lines per Page Up and Page Down.
const PAGE: usize = 10;
/// Minimum width for the side panel right of the graph, and its width there.
const WIDE: u16 = 100;
const SIDE_PANEL: u16 = 46;
/// Most rows of the columns' names.
const LABELS: u16 = 9;
/// Width of a block's name.
const NAMES: u16 = 11;

/// The selected step and block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    /// Index into the steps.
    step: usize,
    /// Index into the blocks.
    block: usize,
    /// The selected operation of the open block; none if no block is open.
    pub(super) open: Option<usize>,
    /// An operation that GPUs are assumed not to support.
    pub(super) without: Option<Op>,
}

impl Cursor {
    /// Goes to the step with this index.
    pub(super) fn go_to(&mut self, step: usize) {
        self.step = step;
    }

    /// Clamped to `content`.
    fn within(self, content: &SchedulePage) -> Self {
        let block = self.block.min(content.blocks.len().saturating_sub(1));
        let nodes = content.blocks.get(block).map_or(0, |block| block.nodes.len());
        Self {
            step: self.step.min(content.steps.len().saturating_sub(1)),
            block,
            open: self.open.map(|at| at.min(nodes.saturating_sub(1))),
            ..self
        }
    }

    /// The selected row and the number of rows: operations of the open block, or blocks.
    fn row(self, content: &SchedulePage) -> (usize, usize) {
        match self.open {
            Some(at) => (at, content.blocks.get(self.block).map_or(0, |block| block.nodes.len())),
            None => (self.block, content.blocks.len()),
        }
    }

    fn select(&mut self, row: usize) {
        *self.open.as_mut().unwrap_or(&mut self.block) = row;
    }

    pub(super) fn press(&mut self, content: &SchedulePage, command: Command) -> PageResponse {
        *self = self.within(content);
        match command {
            Command::Less => self.step = self.step.saturating_sub(1),
            Command::More => self.step = (self.step + 1).min(content.steps.len().saturating_sub(1)),
            Command::Enter => self.open = self.open.is_none().then_some(0),
            Command::RemoveOp => {
                let ops: Vec<Op> = content.common.iter().map(|(op, _)| *op).collect();
                self.without = next(&ops, self.without);
                return PageResponse::Request;
            }
            _ => {
                let (at, count) = self.row(content);
                self.select(moved(at, count, PAGE, command));
            }
        }
        PageResponse::Redraw
    }

    pub(super) fn point(&mut self, content: &SchedulePage, area: Rect, at: Position) {
        *self = self.within(content);
        let places = Areas::new(area, content, *self);
        let (chosen, count) = self.row(content);
        if let Some(step) = places.step_cells(content).and_then(|cells| cells.iter().position(|cell| cell.contains(at)))
        {
            self.step = step;
        } else if let Some(row) = entry_at(places.rows, places.first_row(chosen, count), count, at) {
            self.select(row);
        }
    }
}

/// The parts of the page.
struct Areas {
    steps: Rect,
    description: Rect,
    graph: Rect,
    side_panel: Rect,
    /// Inside the graph's frame: the names of the columns.
    labels: Rect,
    /// Below them: a row per block, or per operation of the open one.
    rows: Rect,
}

impl Areas {
    fn new(area: Rect, content: &SchedulePage, cursor: Cursor) -> Self {
        let lines = |text: &str| wrap(text, area.width.saturating_sub(3)).len();
        // one height for all steps, to keep the layout steady
        let step = |step: &ScheduleStep| lines(step.source_name()) + lines(step.description());
        let longest = content.steps.iter().map(step).max().unwrap_or(0);
        let remark = content.remark.as_deref().map_or(0, lines);
        let words = (remark + usize::from(content.without.is_some()) + longest) as u16;
        let words = Constraint::Length(words.min(area.height / 3));
        let rows = [Constraint::Length(1), words, Constraint::Fill(1)];
        let [steps, description, rest] = Layout::vertical(rows).areas(area);
        let beside = if area.width >= WIDE {
            Layout::horizontal([Constraint::Fill(1), Constraint::Length(SIDE_PANEL)])
        } else {
            Layout::vertical([Constraint::Fill(1), Constraint::Length((rest.height / 3).clamp(5, 9))])
        };
        let [graph, side_panel] = beside.areas(rest);
        let inner = graph.inner(Margin::new(1, 1));
        // operations are named in their rows when a block is open
        let above = if cursor.open.is_some() { 0 } else { (inner.height / 3).min(LABELS) };
        let [labels, rows] = Layout::vertical([Constraint::Length(above), Constraint::Fill(1)]).areas(inner);
        Self { steps, description, graph, side_panel, labels, rows }
    }

    /// The areas of the steps' names, if there is room for all.
    fn step_cells(&self, content: &SchedulePage) -> Option<Vec<Rect>> {
        let widths = content.steps.iter().map(|step| width(step.name()) + 2);
        let cells: Vec<Rect> = side_by_side(self.steps, widths).collect();
        (cells.len() == content.steps.len()).then_some(cells)
    }

    /// The first visible row of `count`, so that row `at` is near the middle.
    fn first_row(&self, at: usize, count: usize) -> usize {
        let rows = usize::from(self.rows.height);
        at.saturating_sub(rows / 2).min(count.saturating_sub(rows))
    }
}

/// Draws the page.
pub(super) fn draw(app: &App, cursor: Cursor, content: &SchedulePage, area: Rect, buffer: &mut Buffer) {
    let (theme, cursor) = (app.theme, cursor.within(content));
    let places = Areas::new(area, content, cursor);
    let Some(step) = content.steps.get(cursor.step) else { return };
    if let Some(cells) = places.step_cells(content) {
        for (at, (place, step)) in cells.into_iter().zip(&content.steps).enumerate() {
            let ink = ink(at == cursor.step, Hue::Dim, theme);
            RowWriter::new(buffer, place, 0).put(mark(at == cursor.step), ink).put(step.name(), ink);
        }
    } else {
        let mut writer = RowWriter::new(buffer, places.steps, 0);
        writer.right(&format!("{} of {} ", cursor.step, content.steps.len().saturating_sub(1)), theme.ink(Hue::Dim));
        writer.put("▸", theme.bold(Hue::Focus)).put(step.name(), theme.bold(Hue::Focus));
    }
    describe(content, step, places.description, theme, buffer);
    match cursor.open.and_then(|at| Some((at, content.blocks.get(cursor.block)?))) {
        Some((at, block)) => operations(app, cursor, content, (block, at), &places, buffer),
        None => blocks(app, cursor, content, &places, buffer),
    }
    side_panel(app, cursor, content, step, places.side_panel, buffer);
}

/// Draws the description of the step, with the disabled operation and a remark on the graph.
fn describe(content: &SchedulePage, step: &ScheduleStep, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let mut shown = Page::default();
    content.remark.iter().for_each(|remark| shown.text(remark, Hue::Cache));
    if let Some((op, whole)) = content.without {
        let now = content.crossed();
        let (op, cuts, bytes) = (op.name(), now.cuts, now.bytes);
        let CopyTotals { cuts: with, bytes: copied, .. } = whole;
        let sentence = format!("Without {op} on GPUs: {cuts} graph splits, {bytes} copied; with it: {with}, {copied}.");
        shown.text(&sentence, Hue::Over);
    }
    shown.text(step.source_name(), Hue::Focus);
    shown.text(step.description(), Hue::Text);
    let place = Rect { x: place.x.saturating_add(1), width: place.width.saturating_sub(3), ..place };
    page::within(&shown, 0, place, theme, buffer);
}

/// The character and colour of a device, as below the layers of the planner.
fn sign(app: &App, content: &SchedulePage, home: Option<usize>) -> (char, Hue) {
    let Some(home) = home.and_then(|home| content.homes().get(home)) else { return ('·', Hue::Dim) };
    let Some(plan) = &app.plan else { return ('?', Hue::Dim) };
    (glyph(plan, home.device), device_hue(home.device, plan.devices.len()))
}

/// Writes the device of an operation after the selected step; one that this step has changed is highlighted.
fn put_sign(writer: &mut RowWriter, app: &App, cursor: Cursor, content: &SchedulePage, node: usize) {
    let (letter, hue) = sign(app, content, content.home_of(node, cursor.step));
    let changed = content.is_highlighted(node, cursor.step);
    let lit = if changed { Modifier::REVERSED | Modifier::BOLD } else { Modifier::empty() };
    writer.put(letter.encode_utf8(&mut [0; 4]), app.theme.ink(hue).add_modifier(lit));
}

/// Draws a row per block with a character per operation.
fn blocks(app: &App, cursor: Cursor, content: &SchedulePage, places: &Areas, buffer: &mut Buffer) {
    let (theme, rows) = (app.theme, places.rows);
    let right_title = format!("{} nodes, views hidden · Enter opens block", Tokens(content.node_count() as u64));
    panel::frame(buffer, places.graph, "Graph", &right_title, true, theme);
    let shown = |block: &GraphBlock| block.nodes.clone().filter(|node| !content.is_view(*node));
    let longest = content.blocks.iter().map(|block| shown(block).count()).max().unwrap_or(0);
    let gap = u16::from(longest * 2 <= usize::from(rows.width.saturating_sub(NAMES)));
    // what comes before and after the blocks has few columns: then one from the middle stands for the others
    let chosen = content.blocks.get(cursor.block).filter(|block| block.layer.is_some());
    if let Some(block) = chosen.or(content.blocks.get(content.blocks.len() / 2)) {
        let names = shown(block).filter_map(|node| content.node(node)).map(|node| node.op);
        labels(names, gap, places.labels, theme.ink(Hue::Dim), buffer);
    }
    let first = places.first_row(cursor.block, content.blocks.len());
    for (row, (at, block)) in (0..rows.height).zip(content.blocks.iter().enumerate().skip(first)) {
        let ink = ink(at == cursor.block, Hue::Dim, theme);
        let mut writer = RowWriter::new(buffer, rows, row);
        writer.put(mark(at == cursor.block), ink).put(&block.name(), ink).to(rows.x + NAMES);
        for node in shown(block) {
            if writer.room() == 1 {
                writer.put("…", theme.ink(Hue::Dim));
                break;
            }
            put_sign(&mut writer, app, cursor, content, node);
            writer.skip(gap);
        }
    }
}

/// Writes `names` above their columns, from top to bottom.
fn labels<'a>(names: impl Iterator<Item = &'a str>, gap: u16, area: Rect, ink: Style, buffer: &mut Buffer) {
    for (name, x) in names.zip((area.x.saturating_add(NAMES)..area.right()).step_by(usize::from(1 + gap))) {
        // the last letters stand next to the columns
        let top = area.bottom().saturating_sub((name.chars().count() as u16).min(area.height));
        for (y, letter) in (top..area.bottom()).zip(name.chars()) {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.set_char(letter).set_style(ink);
            }
        }
    }
}

/// Draws the operations of an open block, of which the one at `at` is selected.
fn operations(
    app: &App,
    cursor: Cursor,
    content: &SchedulePage,
    (block, at): (&GraphBlock, usize),
    places: &Areas,
    buffer: &mut Buffer,
) {
    let (theme, rows) = (app.theme, places.rows);
    let right_title = format!("{} operations · Enter closes it", block.nodes.len());
    panel::frame(buffer, places.graph, &block.name(), &right_title, true, theme);
    let first = places.first_row(at, block.nodes.len());
    for (line, place) in rows.rows().zip(block.nodes.clone().skip(first)) {
        let Some(node) = content.node(place) else { continue };
        let chosen = place == block.nodes.start + at;
        let words = ink(chosen, if node.view { Hue::Dim } else { Hue::Text }, theme);
        if chosen {
            buffer.set_style(line, theme.selected());
        }
        let mut writer = RowWriter::new(buffer, line, 0);
        writer.put(mark(chosen), words);
        put_sign(&mut writer, app, cursor, content, place);
        let (x, room) = (writer.skip(1).x(), writer.room());
        // column widths that fit most contents
        writer.put(node.op, words).to(x + 15).skip(1).put(&node.name, words);
        if rows.width >= 72 {
            writer.to(x + 35).skip(1).put(&node.shape, theme.ink(Hue::Dim)).to(x + 55).skip(1);
            writer.put(&node.sources.join(", "), theme.ink(Hue::Dim));
        } else if chosen || room > 15 + width(&node.name) + width(&node.shape) {
            writer.skip(1).put(&node.shape, theme.ink(Hue::Dim));
        }
    }
}

/// Draws the operations per device after the step, or the copies between devices after the last one.
fn side_panel(
    app: &App,
    cursor: Cursor,
    content: &SchedulePage,
    step: &ScheduleStep,
    frame: Rect,
    buffer: &mut Buffer,
) {
    let mut shown = Page::default();
    let inner = if step.pass == Some(Pass::Split) {
        copies(app, content, cursor, &mut shown);
        pipeline(content, &mut shown);
        framed(buffer, frame, "Copies between devices", "", false, app.theme)
    } else {
        let right_title = format!("{} changed", Tokens(step.changed as u64));
        framed(buffer, frame, "After this step", &right_title, false, app.theme)
    };
    counts(app, content, step, &mut shown);
    page::within(&shown, 0, inner, app.theme, buffer);
}

/// Adds `0 GPU0   612 operations + 40` for each device.
fn counts(app: &App, content: &SchedulePage, step: &ScheduleStep, page: &mut Page) {
    let homes = content.homes();
    for (at, count) in step.counts.iter().enumerate() {
        let home = homes.get(at);
        if home.is_none() && count.operations + count.others == 0 {
            continue;
        }
        let (letter, hue) = sign(app, content, home.map(|_| at));
        let id = home.map_or("none", |home| home.id.as_str());
        page.line(vec![
            Span::new(&format!("{letter} {id:<8}"), hue),
            Span::from(format!("{:>6}", Tokens(count.operations as u64).to_string())),
            Span::new(" operations ", Hue::Dim),
            Span::new(&format!("+{:>6}", Tokens(count.others as u64).to_string()), Hue::Dim),
        ]);
    }
    page.text("+ views, weights, caches, inputs, copies", Hue::Dim);
}

/// Adds the totals, then the splits within the selected block.
fn copies(app: &App, content: &SchedulePage, cursor: Cursor, page: &mut Page) {
    let crossed = content.crossed();
    let sum = format!("{} graph splits, {} tensors, {}", crossed.cuts, crossed.tensors, crossed.bytes);
    page.line(vec![Span::new(&sum, Hue::Text.bold())]);
    let Some(block) = content.blocks.get(cursor.block) else { return };
    let begins = |cut: &&GraphSplit| block.nodes.contains(&cut.nodes.start) && !cut.crossings.is_empty();
    let cuts: Vec<&GraphSplit> = content.cuts.iter().filter(begins).collect();
    if cuts.is_empty() {
        page.text(&format!("No copies into {}.", block.name()), Hue::Dim);
    }
    for cut in cuts {
        let id = content.homes().get(cut.home).map_or("", |home| home.id.as_str());
        let bytes: Bytes = cut.crossings.iter().map(|crossing| crossing.bytes).sum();
        page.line(vec![
            Span::new(&format!("→ {id} "), sign(app, content, Some(cut.home)).1),
            Span::from(bytes.to_string()),
            Span::new(&format!(" for {} operations", cut.nodes.len()), Hue::Dim),
        ]);
        let row = |crossing: &SplitInput| {
            let (from, hue) = sign(app, content, Some(crossing.from));
            let times = if crossing.copies > 1 { format!("×{}", crossing.copies) } else { String::new() };
            let name = Span::new(&crossing.name, if crossing.weight { Hue::Weights } else { Hue::Text });
            vec![Span::new(&format!("  {from}"), hue), name, crossing.bytes.to_string().into(), times.into()]
        };
        let columns = vec![Column::left("", 3), Column::left("", 0), Column::right("", 9), Column::left("", 0)];
        let rows = cut.crossings.iter().map(row).collect();
        page.push(Block::Table(Table { columns, rows, gap: 1, narrow: Narrow::Cut(1) }));
    }
}

/// Adds whether pipeline parallelism is used, and its conditions; only with several GPUs.
fn pipeline(content: &SchedulePage, page: &mut Page) {
    let pipeline = content.trace().details.pipeline;
    if content.homes().len() < 3 {
        return;
    }
    let description =
        if pipeline.is_on() { "Pipeline parallelism: on, n_copies = 4" } else { "Pipeline parallelism: off" };
    page.line(vec![Span::new(description, Hue::Text.bold())]);
    for (condition, met) in pipeline.conditions() {
        let (mark, hue) = if met { ("✓", Hue::Fine) } else { ("✗", Hue::Over) };
        page.line(vec![Span::new(&format!("  {mark} "), hue), Span::new(condition, Hue::Dim)]);
    }
}
