//! The formulas page: a tree of the plan's formulas, the selected one written out, and a crossover.
//!
//! ```text
//! ╭ Formulas ────────────────────────────────────────╮╭ attention scores ──────────────────────────╮
//! │ ▾ all that is allocated        9.1 GiB 100 % ███ ││ 4·B·C·H = 4·512·8192·32         written    │
//! │   ▸ weights                    4.6 GiB  51 % █▌  │╰────────────────────────────────────────────╯
//! │   ▾ graphs                     0.6 GiB           │╭ Which side wins ───────────────────────────╮
//! │     ▾ graph, some layers …     0.6 GiB           ││        ◆····                     contest   │
//! ╰──────────────────────────────────────────── tree ╯╰────────────────────────────────────────────╯
//! ```

use std::collections::BTreeSet;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};
use ratatui::style::Style;

use super::{PageCursor, PageResponse, entry_at, first_visible, framed, ink, next, upright};
use crate::engine::EngineVersion;
use crate::page::Page;
use crate::teach::formulas::{Amount, Crossover, FormulaNode, FormulasDifference, FormulasPage, KnobCurve, NodeRole};
use crate::teach::{TeachPage, Topic};
use crate::tui::action::{Command, Gesture};
use crate::tui::app::App;
use crate::tui::screen::moved;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::row_writer::{RowWriter, width, wrap};
use crate::tui::widget::{page, panel};
use crate::units::{Bytes, grouped};

/// Lines per Page Up and Page Down.
const PAGE: usize = 8;
/// Minimum width for a column right of the tree.
const WIDE: u16 = 76;
/// Rows of the written formula.
const WRITTEN: u16 = 9;
/// Width of the bar of a share.
const GAUGE: u16 = 6;
/// Width of an amount.
const AMOUNT: u16 = 10;
/// Width of a share in percent.
const SHARE: u16 = 6;
/// Minimum width of a tree with bars and an indent of two cells.
const ROOMY: u16 = 48;

/// The selected line, the toggled nodes, and the selected crossover.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    line: usize,
    /// Paths of nodes that differ from their initial state, open or closed.
    toggled: BTreeSet<Vec<usize>>,
    /// Counts selections of a crossover; used modulo their number.
    crossover: usize,
    /// The engine whose formulas are beside those of the plan.
    pub(super) versus: Option<EngineVersion>,
    /// Rows scrolled there.
    scroll: usize,
}

/// A line of the tree.
struct TreeLine<'s> {
    node: &'s FormulaNode,
    /// Whether its parts are shown below.
    open: bool,
    /// The place among the parts of each node above it, from the root down.
    path: Vec<usize>,
}

impl Cursor {
    /// Puts the formulas of the next engine beside those of `now`; after the last, none.
    pub(super) fn next_versus(&mut self, now: EngineVersion) {
        let others: Vec<EngineVersion> = EngineVersion::all().into_iter().filter(|&other| other != now).collect();
        (self.versus, self.scroll) = (next(&others, self.versus), 0);
    }

    /// The visible lines of the tree, and which one is selected.
    fn lines<'s>(&self, content: &'s FormulasPage) -> (Vec<TreeLine<'s>>, usize) {
        let mut lines = Vec::new();
        self.add(&content.whole, &[], &mut lines);
        let at = self.line.min(lines.len().saturating_sub(1));
        (lines, at)
    }

    fn add<'s>(&self, node: &'s FormulaNode, path: &[usize], lines: &mut Vec<TreeLine<'s>>) {
        // initially the tree is open down to the graph size in force
        let at_first = matches!(path, [] | [2] | [2, 0]);
        let open = !node.parts.is_empty() && at_first != self.toggled.contains(path);
        lines.push(TreeLine { node, open, path: path.to_vec() });
        if open {
            for (at, part) in node.parts.iter().enumerate() {
                self.add(part, &[path, &[at]].concat(), lines);
            }
        }
    }

    /// The selected crossover and its curve over a knob.
    fn crossover<'s>(&self, content: &'s FormulasPage) -> Option<(&'s Crossover, &'s KnobCurve)> {
        let all: Vec<_> = content.contests.iter().flat_map(|c| c.along.iter().map(move |along| (c, along))).collect();
        all.get(self.crossover.checked_rem(all.len())?).copied()
    }

    fn toggle(&mut self, line: &TreeLine<'_>) {
        if !line.node.parts.is_empty() && !self.toggled.remove(&line.path) {
            self.toggled.insert(line.path.clone());
        }
    }
}

impl PageCursor for Cursor {
    fn topic(&self) -> Topic {
        Topic::Formulas(self.versus)
    }

    fn commands(&self) -> &'static [Command] {
        &[Command::Enter, Command::Compare, Command::CompareEngines]
    }

    fn is_as_opened(&self) -> bool {
        self.versus.is_none()
    }

    fn press_at_once(&mut self, app: &App, command: Command) -> Option<PageResponse> {
        match command {
            Command::Back => drop(self.versus.take()?),
            Command::CompareEngines => self.next_versus(app.request.choice()),
            _ => return None,
        }
        Some(PageResponse::Request)
    }

    fn press(&mut self, _: &mut App, content: &dyn TeachPage, _: Rect, command: Command) -> PageResponse {
        let Some(content) = content.as_a::<FormulasPage>() else { return PageResponse::Redraw };
        if let Some(versus) = &content.versus {
            let rows = versus.as_ref().map_or(0, FormulasDifference::rows);
            // no more rows than there are
            self.scroll = moved(self.scroll, rows + 1, PAGE, upright(command));
            return PageResponse::Redraw;
        }
        let (lines, at) = self.lines(content);
        let Some(line) = lines.get(at) else { return PageResponse::Redraw };
        let depth = line.path.len();
        match command {
            Command::Enter => self.toggle(line),
            Command::More if !line.open && !line.node.parts.is_empty() => self.toggle(line),
            Command::More => self.line = moved(at, lines.len(), PAGE, Command::Down),
            Command::Less if line.open => self.toggle(line),
            Command::Less => self.line = lines[..at].iter().rposition(|up| up.path.len() < depth).unwrap_or(at),
            Command::Compare => self.crossover = self.crossover.wrapping_add(1),
            _ => self.line = moved(at, lines.len(), PAGE, command),
        }
        PageResponse::Redraw
    }

    /// Selects the line at this position; opens or closes it if it is selected already.
    fn point(
        &mut self,
        _: &mut App,
        content: &dyn TeachPage,
        area: Rect,
        gesture: Gesture,
        at: Position,
    ) -> PageResponse {
        let Some(content) = content.as_a::<FormulasPage>() else { return PageResponse::Redraw };
        if content.versus.is_some() || gesture != Gesture::Down {
            return PageResponse::Redraw;
        }
        let (lines, chosen) = self.lines(content);
        let rows = Areas::new(area, content).tree.inner(Margin::new(1, 1));
        let first = first_visible(chosen, lines.len(), rows.height);
        let Some(pressed) = entry_at(rows, first, lines.len(), at) else { return PageResponse::Redraw };
        if pressed == chosen {
            self.toggle(&lines[pressed]);
        }
        self.line = pressed;
        PageResponse::Redraw
    }

    fn draw(&self, app: &App, content: &dyn TeachPage, area: Rect, buffer: &mut Buffer) {
        let Some(content) = content.as_a::<FormulasPage>() else { return };
        let theme = app.theme;
        if let Some(versus) = &content.versus {
            let inner = framed(buffer, area, "Formulas side by side", "", true, theme);
            let mut shown = Page::default();
            match versus {
                Ok(versus) => versus.onto(&mut shown),
                Err(why) => shown.text(&format!("That engine makes no plan of this model here: {why}."), Hue::Over),
            }
            page::within(&shown, self.scroll as u16, inner, theme, buffer);
            return;
        }
        let (places, whole) = (Areas::new(area, content), content.whole.bytes());
        let (lines, at) = self.lines(content);
        tree(&lines, at, whole, places.tree, theme, buffer);
        if let Some(line) = lines.get(at) {
            written(line.node, whole, places.written, theme, buffer);
        }
        if let Some((crossing, along)) = self.crossover(content).filter(|_| places.crossover.height > 2) {
            crossover(crossing, along, places.crossover, theme, buffer);
        }
        if places.legend.height > 2 {
            legend(content, places.legend, theme, buffer);
        }
    }
}

/// The parts of the page.
struct Areas {
    tree: Rect,
    written: Rect,
    crossover: Rect,
    legend: Rect,
}

impl Areas {
    fn new(area: Rect, content: &FormulasPage) -> Self {
        if area.width < WIDE {
            let written = Constraint::Length(WRITTEN.min(area.height / 2));
            let [tree, written] = Layout::vertical([Constraint::Fill(1), written]).areas(area);
            return Self { tree, written, crossover: Rect::ZERO, legend: Rect::ZERO };
        }
        let wide = Constraint::Length(area.width * 11 / 20);
        let [tree, side] = Layout::horizontal([wide, Constraint::Fill(1)]).areas(area);
        let written = WRITTEN.min(side.height);
        let rest = side.height - written;
        // the chart takes precedence over the legend, whose letters the tree shows too
        let lines = content.legend.len() as u16 + 2;
        let chart = if content.contests.is_empty() { 0 } else { rest.saturating_sub(lines).max(10).min(rest) };
        let rows = [Constraint::Length(written), Constraint::Length(chart), Constraint::Fill(1)];
        let [written, crossover, legend] = Layout::vertical(rows).areas(side);
        Self { tree, written, crossover, legend }
    }
}

fn tree(lines: &[TreeLine<'_>], at: usize, whole: Bytes, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, area, "Formulas", "→ opens", false, theme);
    let first = first_visible(at, lines.len(), inner.height);
    let (gauge, step) = if inner.width < ROOMY { (0, 1) } else { (1 + GAUGE, 2) };
    let columns = [Constraint::Fill(1), Constraint::Length(AMOUNT + 1 + SHARE + gauge)];
    let [names, beside] = Layout::horizontal(columns).areas(inner);
    let shown = lines.iter().enumerate().skip(first);
    for ((name, beside), (index, TreeLine { node, open, path })) in names.rows().zip(beside.rows()).zip(shown) {
        let chosen = index == at;
        let text = ink(chosen, if node.role == NodeRole::Loses { Hue::Dim } else { Hue::Text }, theme);
        if chosen {
            buffer.set_style(name.union(beside), theme.selected());
        }
        let sign = match (node.parts.is_empty(), open) {
            (true, _) => "·",
            (false, true) => "▼",
            (false, false) => "▶",
        };
        let mut writer = RowWriter::new(buffer, name, 0);
        writer.skip((path.len() as u16 * step).min(name.width / 2)).put(sign, theme.ink(Hue::Dim)).skip(1);
        if node.role == NodeRole::Loses {
            writer.put("○ ", text);
        }
        let name = match node.amount {
            // letters and parts of terms have no name: show the formula
            Amount::Number(_) | Amount::Fraction(_) => &node.formula,
            Amount::Bytes(_) => &node.name,
        };
        writer.put(name, text);
        figures(node, whole, beside, theme, text, buffer);
    }
}

fn figures(node: &FormulaNode, whole: Bytes, place: Rect, theme: Theme, ink: Style, buffer: &mut Buffer) {
    let mut writer = RowWriter::new(buffer, place, 0);
    let amount = node.amount.to_string();
    writer.skip((AMOUNT + 1).saturating_sub(width(&amount))).put(&amount, ink);
    let Some(share) = node.share_of(whole) else { return };
    let text = share.to_string();
    writer.skip(SHARE.saturating_sub(width(&text))).put(&text, ink);
    if writer.room() >= GAUGE {
        let cells = (share.0 * f64::from(GAUGE)).round().clamp(0.0, f64::from(GAUGE)) as usize;
        writer.to(place.right() - GAUGE).put(&"▄".repeat(cells), theme.ink(Hue::Graph));
    }
}

/// Draws the formula at the cursor, written out.
fn written(node: &FormulaNode, whole: Bytes, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = framed(buffer, area, &node.name, "", true, theme);
    let lines = |texts: &[String], hue: Hue| -> Vec<(String, Hue)> {
        texts.iter().flat_map(|text| wrap(text, inner.width)).map(|line| (line, hue)).collect()
    };
    let mut above = lines(std::slice::from_ref(&node.formula), Hue::Text);
    if node.numbers != node.formula {
        above.extend(lines(&[format!("= {}", node.numbers)], Hue::Dim));
    }
    let result = match node.amount {
        Amount::Bytes(bytes) => format!("= {} bytes, {bytes}", grouped(bytes.0, '\u{2009}')),
        amount => format!("= {amount}"),
    };
    let share = node.share_of(whole).map(|share| format!("{share} of the allocated memory"));
    let counts =
        (node.role == NodeRole::Loses).then(|| "Not counted: the other branch is larger or in use.".to_owned());
    let last: Vec<String> = [Some(result), share, counts].into_iter().flatten().collect();
    // the result stays visible below a long formula
    let tail = lines(&last, Hue::Graph);
    let room = usize::from(inner.height).saturating_sub(tail.len());
    if above.len() > room {
        above.truncate(room);
        if let Some((last, _)) = above.last_mut() {
            last.push('…');
        }
    }
    for (row, (line, hue)) in inner.rows().zip(above.iter().chain(&tail)) {
        RowWriter::new(buffer, row, 0).put(line, theme.ink(*hue));
    }
}

/// Draws the branches of a `max` over a knob's range, as lines on logarithmic axes.
fn crossover(crossover: &Crossover, along: &KnobCurve, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = framed(buffer, area, "Larger branch", "c: next", false, theme);
    let (cells, height) = (usize::from(inner.width), usize::from(inner.height));
    // the curves take what the words leave, with a row for their axis
    let with = |rows: usize| {
        let mut shown = Page::default();
        crossover.onto(along, cells, rows, &mut shown);
        shown
    };
    let words = with(0).lines(cells).len();
    page::within(&with(height.saturating_sub(words + 1)), 0, inner, theme, buffer);
}

/// Draws the meaning of the letters.
fn legend(content: &FormulasPage, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = framed(buffer, area, "Variables", "", false, theme);
    let mut shown = Page::default();
    if content.legend.is_empty() {
        let text = "Compute buffers have no formula: the Allocation page shows which tensors are live in them, and \
                    when.";
        shown.text(text, Hue::Dim);
    }
    content.letters_onto(&mut shown);
    page::within(&shown, 0, inner, theme, buffer);
}
