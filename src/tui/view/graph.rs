//! The graph panel: full and partial size, and the terms of the largest branch.
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{figure, peaks};
use crate::plan::{Branch, GraphPlan, GraphSize, GraphUse, Plan, Symbol, Term};
use crate::tui::app::App;
use crate::tui::regions::{Cursors, Panel, inside};
use crate::tui::theme::glyphs::LOWER;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::bar::{self, BarPart};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, sentence, width, wrap};
use crate::units::Bytes;

/// The size selected by `which`.
pub const fn size(graph: &GraphPlan, which: GraphUse) -> &GraphSize {
    match which {
        GraphUse::Full => &graph.full,
        GraphUse::Partial => &graph.partial,
    }
}

/// Draws the panel.
pub fn draw(app: &App, buffer: &mut Buffer) {
    let (theme, area) = (app.theme, app.panels.regions.graph);
    let focused = app.panels.focus == Panel::Graph;
    let Some(plan) = &app.request.plan else {
        panel::frame(buffer, area, Panel::Graph.title(), "", focused, theme);
        return;
    };
    if !plan.graph.peaks.is_empty() {
        peaks::draw(app, plan, buffer);
        return;
    }
    let graph = &plan.graph;
    let right_title = format!("{}, {}", graph.in_force().bytes, use_name(graph.used));
    panel::frame(buffer, area, Panel::Graph.title(), &right_title, focused, theme);
    let places = places(area, plan, app.panels.cursors.term);
    for (index, line, place) in &places.rows {
        let chosen = focused && *index == app.panels.cursors.term;
        if chosen {
            let row = Rect { height: 1, ..*place };
            buffer.set_style(row.intersection(buffer.area), theme.selected());
        }
        draw_line(app, plan, *line, *place, chosen, places.roomy, buffer);
    }
    if let Some(why) = places.why {
        sentence(&graph.why, why, theme.ink(Hue::Dim), buffer);
    }
    draw_letters(plan, places.letters, theme, buffer);
}

/// Draws the meaning of the letters, if there is room for all that are used.
fn draw_letters(plan: &Plan, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let terms = plan.graph.in_force().terms();
    let formulas: Vec<&str> = terms.iter().map(|term| term.formula.as_str()).collect();
    let symbols = letters(plan, &formulas);
    let longest = |text: fn(&Symbol) -> String| symbols.iter().map(|symbol| width(&text(symbol))).max().unwrap_or(0);
    let (letter, value) = (longest(|symbol| symbol.letter.to_owned()), longest(Symbol::shown));
    let meanings = place.width.saturating_sub(letter + value + 8);
    let lines: Vec<_> = symbols.iter().map(|symbol| (symbol, wrap(symbol.meaning, meanings))).collect();
    let rows: usize = lines.iter().map(|(_, lines)| lines.len()).sum();
    if symbols.is_empty() || usize::from(place.height) < rows + 1 {
        return;
    }
    RowWriter::new(buffer, place, 0).skip(2).put("where", theme.ink(Hue::Dim));
    let mut row = 1;
    for (symbol, lines) in lines {
        let mut writer = RowWriter::new(buffer, place, row);
        writer.skip(4).put(symbol.letter, theme.ink(Hue::Text)).to(place.x + 4 + letter);
        writer.put(" = ", theme.ink(Hue::Dim)).put(&symbol.shown(), theme.ink(Hue::Text));
        for line in lines {
            let start = place.x + 4 + letter + 3 + value + 1;
            RowWriter::new(buffer, place, row).to(start).put(&line, theme.ink(Hue::Dim));
            row += 1;
        }
    }
}

/// The letters in `formulas`, in the order of the legend.
pub fn letters<'a>(plan: &'a Plan, formulas: &[&'a str]) -> Vec<&'a Symbol> {
    let words = |formula: &'a str| formula.split(|c: char| !c.is_alphanumeric() && c != '_');
    let occurs = |letter: &str| formulas.iter().copied().flat_map(words).any(|word| word == letter);
    plan.graph.legend.iter().filter(|symbol| occurs(symbol.letter)).collect()
}

const fn use_name(which: GraphUse) -> &'static str {
    match which {
        GraphUse::Full => "full",
        GraphUse::Partial => "partial",
    }
}

fn draw_line(app: &App, plan: &Plan, line: GraphLine, place: Rect, chosen: bool, roomy: bool, buffer: &mut Buffer) {
    let theme = app.theme;
    let graph = &plan.graph;
    let used = graph.in_force();
    let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
    match line {
        GraphLine::Size(which) => {
            let bytes = size(graph, which).bytes;
            let was = app.request.before().map(|before| size(&before.graph, which).bytes);
            let in_force = which == graph.used;
            let sign = if in_force { "● " } else { "○ " };
            let ink = if in_force || chosen { ink } else { theme.ink(Hue::Dim) };
            let max = graph.full.bytes.max(graph.partial.bytes);
            let row = TermRow { name: use_name(which), sign, bytes, was, max, ink };
            row.draw(place, if in_force { BarPart::Graph } else { BarPart::InUse }, theme, buffer);
        }
        GraphLine::Term(index) => {
            let Some(term) = used.terms().get(index) else { return };
            let was = app.request.before().and_then(|before| term_before(before, term));
            let max = used.terms().first().map_or(Bytes::ZERO, |term| term.bytes);
            let row = TermRow { name: &term.name, sign: "  ", bytes: term.bytes, was, max, ink };
            row.draw(place, BarPart::Graph, theme, buffer);
            if roomy {
                let room = place.width.saturating_sub(4);
                let whole = format!("{} = {}", term.formula, term.numbers);
                let text = if width(&whole) <= room { whole } else { term.formula.clone() };
                RowWriter::new(buffer, place, 1).skip(4).put(&text, theme.ink(Hue::Dim));
            }
        }
        GraphLine::Branch(index) => {
            let Some(Branch { name, bytes, .. }) = used.branches.get(index) else { return };
            let ink = if chosen { ink } else { theme.ink(Hue::Dim) };
            let max = used.branches.iter().map(|branch| branch.bytes).max().unwrap_or_default();
            let row = TermRow { name, sign: "○ ", bytes: *bytes, was: None, max, ink };
            row.draw(place, BarPart::InUse, theme, buffer);
        }
    }
}

fn term_before(before: &Plan, term: &Term) -> Option<Bytes> {
    before.graph.in_force().terms().iter().find(|old| old.name == term.name).map(|old| old.bytes)
}

/// Width of the longest name, `attention mask or activations`, with sign, size, mark and gap.
const NAMED: u16 = 42;
/// Minimum width of a bar; without that room, a vertical bar replaces the sign before the name.
const MIN_BAR: u16 = 3;

/// A name, its bytes, and a bar.
pub(super) struct TermRow<'a> {
    pub name: &'a str,
    pub sign: &'a str,
    pub bytes: Bytes,
    pub was: Option<Bytes>,
    pub max: Bytes,
    pub ink: ratatui::style::Style,
}

impl TermRow<'_> {
    /// `attention scores      512 MiB  ████████`
    pub(super) fn draw(&self, place: Rect, part: BarPart, theme: Theme, buffer: &mut Buffer) {
        let beside_names = place.width.saturating_sub(NAMED);
        let bar_width = if beside_names < MIN_BAR { 0 } else { (place.width / 5).min(beside_names).min(20) };
        let bar_place = Rect { x: place.right().saturating_sub(bar_width), width: bar_width, height: 1, ..place };
        bar::plain(buffer, bar_place, self.max, part, self.bytes, theme);
        let gap = u16::from(bar_width > 0);
        let text = Rect { width: place.width.saturating_sub(bar_width + gap), ..place };
        let style = figure::style(&self.bytes, self.was.as_ref(), theme, Hue::Text);
        let mut writer = RowWriter::new(buffer, text, 0);
        writer.right(figure::mark(&self.bytes, self.was.as_ref()), style).right(&self.bytes.to_string(), style);
        writer.right(" ", self.ink).put(self.sign, self.ink).put(self.name, self.ink);
        if bar_width == 0 && self.sign.trim().is_empty() {
            let eighths = (self.bytes.share_of(self.max).0 * 8.0).ceil() as usize;
            let outcome = eighths.checked_sub(1).and_then(|eighths| LOWER.get(eighths.min(LOWER.len() - 1)));
            RowWriter::new(buffer, place, 0).put(outcome.copied().unwrap_or(" "), theme.ink(Hue::Graph));
        }
    }
}

/// A selectable line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphLine {
    /// The full or the partial size.
    Size(GraphUse),
    /// A term of the largest branch of the size in force.
    Term(usize),
    /// Another branch of the size in force.
    Branch(usize),
}

/// The lines for `plan`, from the top.
pub fn lines(plan: &Plan) -> Vec<GraphLine> {
    let used = plan.graph.in_force();
    let losing = (0..used.branches.len()).filter(|&branch| branch != used.winner);
    let sizes = [GraphLine::Size(GraphUse::Full), GraphLine::Size(GraphUse::Partial)];
    sizes.into_iter().chain((0..used.terms().len()).map(GraphLine::Term)).chain(losing.map(GraphLine::Branch)).collect()
}

/// The bytes of the line at the cursor.
pub fn bytes_at(plan: &Plan, cursors: &Cursors) -> Option<Bytes> {
    if !plan.graph.peaks.is_empty() {
        let peak = plan.graph.peaks.get(peaks::shown(plan, cursors))?;
        return Some(match peaks::lines(plan, cursors).get(cursors.term)? {
            peaks::PeakLine::Device(at) => plan.graph.peaks.get(*at)?.bytes,
            peaks::PeakLine::Alive(at) => peak.alive.get(*at)?.bytes,
        });
    }
    let used = plan.graph.in_force();
    Some(match *lines(plan).get(cursors.term)? {
        GraphLine::Size(which) => size(&plan.graph, which).bytes,
        GraphLine::Term(at) => used.terms().get(at)?.bytes,
        GraphLine::Branch(at) => used.branches.get(at)?.bytes,
    })
}

/// The number of lines for `plan`.
pub fn line_count(plan: &Plan, cursors: &Cursors) -> usize {
    if !plan.graph.peaks.is_empty() {
        return peaks::lines(plan, cursors).len();
    }
    let used = plan.graph.in_force();
    2 + used.terms().len() + used.branches.len().saturating_sub(1)
}

/// The areas of the visible lines; the first row of each holds the name.
#[derive(Clone, Debug)]
pub struct PanelAreas {
    /// Lines with their indices.
    pub rows: Vec<(usize, GraphLine, Rect)>,
    /// Whether terms have a second row with the formula.
    pub roomy: bool,
    /// The area of the explanation, if there is room.
    pub why: Option<Rect>,
    /// The rest, for the letters.
    pub letters: Rect,
}

/// The layout of `panel`, scrolled so that line `cursor` is visible.
pub fn places(panel: Rect, plan: &Plan, cursor: usize) -> PanelAreas {
    let inner = inside(panel);
    let area = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let lines = lines(plan);
    let terms = lines.iter().filter(|line| matches!(line, GraphLine::Term(_))).count();
    let rows = usize::from(area.height);
    let roomy = lines.len() + terms + 2 <= rows;
    let needed = lines.len() + if roomy { terms } else { 0 };
    let sentence = wrap(&plan.graph.why, area.width).len().min(3);
    let why_rows = if needed + sentence < rows { sentence as u16 + 1 } else { 0 };
    let gap = usize::from(roomy);
    let first = if lines.len() <= rows { 0 } else { (cursor + 1).saturating_sub(rows) };
    let (mut y, mut placed, mut why) = (area.y, Vec::with_capacity(lines.len()), None);
    let mut last_was_size = false;
    for (index, line) in lines.into_iter().enumerate().skip(first) {
        let is_size = matches!(line, GraphLine::Size(_));
        if last_was_size && !is_size {
            if why_rows > 0 {
                why = Some(Rect { y, height: why_rows - 1, ..area });
                y += why_rows;
            } else {
                y += gap as u16;
            }
        }
        last_was_size = is_size;
        let height = if roomy && matches!(line, GraphLine::Term(_)) { 2 } else { 1 };
        if y + height > area.bottom() {
            break;
        }
        placed.push((index, line, Rect { y, height, ..area }));
        y += height;
    }
    let letters = Rect { y: (y + 1).min(area.bottom()), height: area.bottom().saturating_sub(y + 1), ..area };
    PanelAreas { rows: placed, roomy, why, letters }
}

/// The line at row `y` of the screen.
pub fn line_at(panel: Rect, plan: &Plan, cursors: &Cursors, y: u16) -> Option<usize> {
    if !plan.graph.peaks.is_empty() {
        return peaks::line_at(panel, plan, cursors, y);
    }
    let places = places(panel, plan, cursors.term);
    places.rows.iter().find(|(_, _, place)| (place.top()..place.bottom()).contains(&y)).map(|(index, ..)| *index)
}
