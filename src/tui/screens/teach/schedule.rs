//! The schedule page: the device of each operation after each of the scheduler's passes.
//!
//! ```text
//!  0 start  1 assign ▸2 gpu down  2 gpu up  …                                                 steps
//!  pass 2, expand gpu down                                                                    its name in the source
//!  From the first operation to the last: one without a device gets …                          what it does
//! ╭ Graph of a prompt of 512 tokens ──────────────────────╮╭ After this step ──────────────────╮
//! │ 0 RMS_NORM  0 MUL  0 MUL_MAT  R ROPE ×2 …  operations ││                                   │
//! │                                                       ││ GPU0     612 operations   counts  │
//! │▸block 0       0000000R00000·····               blocks ││ RAM       12                      │
//! │ blocks 1–31   0000000R00000·····                      ││ …                         splits  │
//! ╰───────────────────────────────────────────────────────╯╰───────────────────────────────────╯
//! ```

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};
use ratatui::style::Modifier;

use super::{PageCursor, PageResponse, entry_at, framed, index, ink, mark, next, side_by_side};
use crate::engine::ggml::schedule::Pass;
use crate::engine::ggml::tensor::Op;
use crate::page::{Block, Column, Narrow, Page, Span, Table};
use crate::teach::schedule::{CopyTotals, GraphBlock, GraphSplit, SchedulePage, ScheduleStep, SplitInput};
use crate::teach::trace::Phase;
use crate::teach::{TeachPage, Topic};
use crate::tui::action::{Command, Gesture};
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
/// Rows that are left for blocks below the operations of the selected one.
const BLOCKS: u16 = 3;
/// Width of the name of blocks.
const NAMES: u16 = 14;

/// The selected step and block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// Index into the steps.
    step: usize,
    /// Index into the blocks.
    block: usize,
    /// Whether blocks that are alike have a row each.
    unfolded: bool,
    /// The selected operation of the open block; none if no block is open.
    pub(super) open: Option<usize>,
    /// An operation that GPUs are assumed not to support.
    pub(super) without: Option<Op>,
    /// The batch whose graph is shown.
    pub(super) phase: Phase,
}

impl Cursor {
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

    /// The number of rows of blocks.
    fn blocks(self, content: &SchedulePage) -> usize {
        if self.unfolded { content.blocks.len() } else { content.alike.len() }
    }

    /// The blocks of a row.
    fn blocks_of(self, content: &SchedulePage, row: usize) -> Vec<usize> {
        if self.unfolded { vec![row] } else { content.alike.get(row).cloned().unwrap_or_default() }
    }

    /// The row of the selected block.
    fn block_row(self, content: &SchedulePage) -> usize {
        if self.unfolded {
            return self.block;
        }
        content.alike.iter().position(|blocks| blocks.contains(&self.block)).unwrap_or(0)
    }

    /// The selected row and the number of rows: operations of the open block, or blocks.
    fn row(self, content: &SchedulePage) -> (usize, usize) {
        match self.open {
            Some(at) => (at, content.blocks.get(self.block).map_or(0, |block| block.nodes.len())),
            None => (self.block_row(content), self.blocks(content)),
        }
    }

    fn select(&mut self, content: &SchedulePage, row: usize) {
        match &mut self.open {
            Some(at) => *at = row,
            None => self.block = self.blocks_of(content, row).first().copied().unwrap_or(self.block),
        }
    }
}

impl PageCursor for Cursor {
    fn topic(&self) -> Topic {
        Topic::Schedule(self.without, self.phase)
    }

    fn commands(&self) -> &'static [Command] {
        &[Command::Enter, Command::Phase, Command::Zoom, Command::RemoveOp]
    }

    fn step(&self) -> Option<u64> {
        Some(self.step as u64)
    }

    fn go_to(&mut self, step: u64) {
        self.step = index(step);
    }

    fn step_time(&self) -> Option<Duration> {
        // a pass has a few sentences to read
        Some(Duration::from_millis(2400))
    }

    fn is_as_opened(&self) -> bool {
        (self.phase, self.without) == (Phase::default(), None)
    }

    fn press_at_once(&mut self, _: &App, command: Command) -> Option<PageResponse> {
        (command == Command::Back && self.open.take().is_some()).then_some(PageResponse::Redraw)
    }

    fn press(&mut self, _: &mut App, content: &dyn TeachPage, _: Rect, command: Command) -> PageResponse {
        let Some(content) = content.as_a::<SchedulePage>() else { return PageResponse::Redraw };
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
            Command::Phase => {
                self.phase = self.phase.other();
                return PageResponse::Request;
            }
            Command::Zoom => self.unfolded = !self.unfolded,
            _ => {
                let (at, count) = self.row(content);
                self.select(content, moved(at, count, PAGE, command));
            }
        }
        PageResponse::Redraw
    }

    fn point(&mut self, _: &mut App, content: &dyn TeachPage, area: Rect, _: Gesture, at: Position) -> PageResponse {
        let Some(content) = content.as_a::<SchedulePage>() else { return PageResponse::Redraw };
        *self = self.within(content);
        let places = Areas::new(area, content, *self);
        let (chosen, count) = self.row(content);
        if let Some(step) = places.step_cells(content).and_then(|cells| cells.iter().position(|cell| cell.contains(at)))
        {
            self.step = step;
        } else if let Some(row) = entry_at(places.rows, places.first_row(chosen, count), count, at) {
            self.select(content, row);
        }
        PageResponse::Redraw
    }

    fn draw(&self, app: &App, content: &dyn TeachPage, area: Rect, buffer: &mut Buffer) {
        let Some(content) = content.as_a::<SchedulePage>() else { return };
        let (theme, cursor) = (app.theme, self.within(content));
        let places = Areas::new(area, content, cursor);
        let Some(step) = content.steps.get(cursor.step) else { return };
        if let Some(cells) = places.step_cells(content) {
            for (at, (place, step)) in cells.into_iter().zip(&content.steps).enumerate() {
                let ink = ink(at == cursor.step, Hue::Dim, theme);
                RowWriter::new(buffer, place, 0).put(mark(at == cursor.step), ink).put(step.name(), ink);
            }
        } else {
            let mut writer = RowWriter::new(buffer, places.steps, 0);
            writer
                .right(&format!("{} of {} ", cursor.step, content.steps.len().saturating_sub(1)), theme.ink(Hue::Dim));
            writer.put("▸", theme.bold(Hue::Focus)).put(step.name(), theme.bold(Hue::Focus));
        }
        describe(content, step, places.description, theme, buffer);
        match cursor.open.and_then(|at| Some((at, content.blocks.get(cursor.block)?))) {
            Some((at, block)) => operations(app, cursor, content, (block, at), &places, buffer),
            None => blocks(app, cursor, content, &places, buffer),
        }
        side_panel(app, cursor, content, step, places.side_panel, buffer);
    }
}

/// The parts of the page.
struct Areas {
    steps: Rect,
    description: Rect,
    graph: Rect,
    side_panel: Rect,
    /// Inside the graph's frame: the operations of the selected block.
    operations: Rect,
    /// Below them: a row per kind of block or per block, or per operation of the open one.
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
            Layout::vertical([Constraint::Fill(1), Constraint::Length((rest.height / 3).clamp(4, 9))])
        };
        let [graph, side_panel] = beside.areas(rest);
        let inner = graph.inner(Margin::new(1, 1));
        // operations are named in their rows when a block is open
        let tallest = if cursor.open.is_some() { 0 } else { tallest(content, inner.width) };
        // with a row between both, if there is room
        let between = u16::from(tallest > 0 && tallest + 1 + BLOCKS <= inner.height);
        let above = tallest.min(inner.height.saturating_sub(BLOCKS));
        let rows = [above, between].map(Constraint::Length);
        let [operations, _, rows] = Layout::vertical([rows[0], rows[1], Constraint::Fill(1)]).areas(inner);
        Self { steps, description, graph, side_panel, operations, rows }
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
fn sign(app: &App, content: &SchedulePage, backend: Option<usize>) -> (char, Hue) {
    let Some(backend) = backend.and_then(|backend| content.backends().get(backend)) else { return ('·', Hue::Dim) };
    let Some(plan) = &app.request.plan else { return ('?', Hue::Dim) };
    (glyph(plan, backend.device), device_hue(backend.device, plan.devices.len()))
}

/// Writes the device of an operation after the selected step; one that this step has changed is highlighted.
fn put_sign(writer: &mut RowWriter, app: &App, cursor: Cursor, content: &SchedulePage, node: usize) {
    let (letter, hue) = sign(app, content, content.backend_of(node, cursor.step));
    let changed = content.is_highlighted(node, cursor.step);
    let lit = if changed { Modifier::REVERSED | Modifier::BOLD } else { Modifier::empty() };
    writer.put(letter.encode_utf8(&mut [0; 4]), app.theme.ink(hue).add_modifier(lit));
}

/// Consecutive operations of a name and of one device in every step.
struct OperationRun {
    op: &'static str,
    /// The first of them, as an index into the graph's nodes.
    node: usize,
    count: usize,
}

impl OperationRun {
    /// Those of a block; views are left out.
    fn of(content: &SchedulePage, block: &GraphBlock) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        let alike = |one: usize, other: usize| {
            let same = |step: usize| {
                content.backend_of(one, step) == content.backend_of(other, step)
                    && content.is_highlighted(one, step) == content.is_highlighted(other, step)
            };
            (0..content.steps.len()).all(same)
        };
        for node in block.nodes.clone().filter(|node| !content.is_view(*node)) {
            let Some(op) = content.op(node) else { continue };
            match runs.last_mut().filter(|run| run.op == op && alike(run.node, node)) {
                Some(run) => run.count += 1,
                None => runs.push(Self { op, node, count: 1 }),
            }
        }
        runs
    }

    fn text(&self) -> String {
        if self.count == 1 { self.op.to_owned() } else { format!("{} ×{}", self.op, self.count) }
    }

    /// Where each of `runs` stands in lines of `cells` cells: its line and its column.
    fn placed(runs: &[Self], cells: u16) -> Vec<(u16, u16)> {
        let (mut line, mut x) = (0u16, 0u16);
        let place = |run: &Self| {
            // after the sign of its device
            let cells_of = 2 + width(&run.text());
            if x > 0 && x.saturating_add(cells_of) > cells {
                (line, x) = (line.saturating_add(1), 0);
            }
            let at = (line, x);
            x = x.saturating_add(cells_of + 2);
            at
        };
        runs.iter().map(place).collect()
    }
}

/// Lines of the operations of the longest block; one height for all, to keep the layout steady.
fn tallest(content: &SchedulePage, cells: u16) -> u16 {
    let first = |blocks: &Vec<usize>| content.blocks.get(*blocks.first()?);
    let blocks = content.alike.iter().filter_map(first);
    let lines = blocks.map(|block| OperationRun::placed(&OperationRun::of(content, block), cells.saturating_sub(1)));
    lines.filter_map(|places| places.last().map(|(line, _)| line + 1)).max().unwrap_or(0)
}

/// Draws a row per kind of block, or per block, with a character per operation; above them the operations of the
/// selected one.
fn blocks(app: &App, cursor: Cursor, content: &SchedulePage, places: &Areas, buffer: &mut Buffer) {
    let (theme, rows) = (app.theme, places.rows);
    let title = format!("Graph of {}", content.trace().batch());
    let nodes = Tokens(content.node_count() as u64);
    let right_titles = [format!("{nodes} nodes, views hidden · Enter opens block"), format!("{nodes} nodes")];
    let right_title = panel::fitting(places.graph, &title, right_titles.iter().map(String::as_str));
    panel::frame(buffer, places.graph, &title, right_title, true, theme);
    let shown = |block: &GraphBlock| block.nodes.clone().filter(|node| !content.is_view(*node));
    let longest = content.blocks.iter().map(|block| shown(block).count()).max().unwrap_or(0);
    let gap = u16::from(longest * 2 <= usize::from(rows.width.saturating_sub(NAMES)));
    if let Some(block) = content.blocks.get(cursor.block) {
        operations_of(app, cursor, content, block, places.operations, buffer);
    }
    let (chosen, count) = (cursor.block_row(content), cursor.blocks(content));
    let first = places.first_row(chosen, count);
    for (line, row) in (0..rows.height).zip(first..count) {
        let alike = cursor.blocks_of(content, row);
        let Some(block) = alike.first().and_then(|at| content.blocks.get(*at)) else { continue };
        let ink = ink(row == chosen, Hue::Dim, theme);
        let mut writer = RowWriter::new(buffer, rows, line);
        writer.put(mark(row == chosen), ink).put(&content.blocks_title(&alike), ink).to(rows.x + NAMES);
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

/// Draws the operations of a block in order, each after the sign of its device.
fn operations_of(
    app: &App,
    cursor: Cursor,
    content: &SchedulePage,
    block: &GraphBlock,
    area: Rect,
    buffer: &mut Buffer,
) {
    let area = Rect { x: area.x.saturating_add(1), width: area.width.saturating_sub(1), ..area };
    let runs = OperationRun::of(content, block);
    for (run, (line, x)) in runs.iter().zip(OperationRun::placed(&runs, area.width)) {
        if line >= area.height {
            let last = area.height.saturating_sub(1);
            RowWriter::new(buffer, area, last).right(" …", app.theme.ink(Hue::Dim));
            break;
        }
        let mut writer = RowWriter::new(buffer, area, line);
        writer.skip(x);
        put_sign(&mut writer, app, cursor, content, run.node);
        writer.skip(1).put(&run.text(), app.theme.ink(Hue::Text));
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
    let alike = cursor.blocks_of(content, cursor.block_row(content));
    if let Some(listed) = content.blocks_listed(&alike) {
        shown.text(&format!("{}: {listed}", content.blocks_title(&alike)), Hue::Dim);
    }
    page::within(&shown, 0, inner, app.theme, buffer);
}

/// Adds `0 GPU0   612 operations + 40` for each device.
fn counts(app: &App, content: &SchedulePage, step: &ScheduleStep, page: &mut Page) {
    let backends = content.backends();
    for (at, count) in step.counts.iter().enumerate() {
        let backend = backends.get(at);
        if backend.is_none() && count.operations + count.others == 0 {
            continue;
        }
        let (letter, hue) = sign(app, content, backend.map(|_| at));
        let id = backend.map_or("none", |backend| backend.id.as_str());
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
    page.text(&crossed.sentence(), Hue::Text.bold());
    let trace = content.trace();
    if let Some(other) = content.other_phase.filter(|_| content.without.is_none()) {
        let batch = trace.phase.other().batch(&trace.measured);
        page.text(&format!("For {batch}: {}.", other.sentence()), Hue::Dim);
    }
    let Some(block) = content.blocks.get(cursor.block) else { return };
    let alike = cursor.blocks_of(content, cursor.block_row(content));
    let name = content.blocks_title(&alike);
    let cuts: Vec<&GraphSplit> = content.cuts_into(block).collect();
    if cuts.is_empty() {
        page.text(&format!("No copies into {name}."), Hue::Dim);
    } else if alike.len() > 1 {
        page.text(&format!("Into each of {name}, of which {} is shown:", block.name()), Hue::Dim);
    }
    for cut in cuts {
        let id = content.backends().get(cut.backend).map_or("", |backend| backend.id.as_str());
        let bytes: Bytes = cut.crossings.iter().map(|crossing| crossing.bytes).sum();
        page.line(vec![
            Span::new(&format!("→ {id} "), sign(app, content, Some(cut.backend)).1),
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
        page.push(Block::Table(Table { columns, rows, gap: 1, head: true, narrow: Narrow::Cut(1) }));
    }
}

/// Adds whether pipeline parallelism is used, and its conditions; only with several GPUs.
fn pipeline(content: &SchedulePage, page: &mut Page) {
    let pipeline = content.trace().details.pipeline;
    if content.backends().len() < 3 {
        return;
    }
    let description =
        if pipeline.is_on() { "Pipeline parallelism: on, n_copies = 4" } else { "Pipeline parallelism: off" };
    page.line(vec![Span::new(description, Hue::Text.bold())]);
    if let Some(overlap) = content.overlap() {
        overlap.onto(page);
    }
    for (condition, met) in pipeline.conditions() {
        let (mark, hue) = if met { ("✓", Hue::Fine) } else { ("✗", Hue::Over) };
        page.line(vec![Span::new(&format!("  {mark} "), hue), Span::new(condition, Hue::Dim)]);
    }
}
