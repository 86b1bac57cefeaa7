//! The graph panel: full and partial size, and the terms of the largest branch.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{figure, peaks};
use crate::plan::{Branch, GraphPlan, GraphSize, GraphUse, Plan, Symbol, Term};
use crate::tui::app::App;
use crate::tui::regions::Panel;
use crate::tui::regions::graph::{GraphLine, places};
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
    let (theme, area) = (app.theme, app.regions.graph);
    let focused = app.panels.focus == Panel::Graph;
    let Some(plan) = &app.plan else {
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
    let longest = |text: fn(&Symbol) -> &str| symbols.iter().map(|symbol| width(text(symbol))).max().unwrap_or(0);
    let (letter, value) = (longest(|symbol| symbol.letter), longest(|symbol| &symbol.value));
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
        writer.put(" = ", theme.ink(Hue::Dim)).put(&symbol.value, theme.ink(Hue::Text));
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
            let was = app.before().map(|before| size(&before.graph, which).bytes);
            let in_force = which == graph.used;
            let sign = if in_force { "● " } else { "○ " };
            let ink = if in_force || chosen { ink } else { theme.ink(Hue::Dim) };
            let max = graph.full.bytes.max(graph.partial.bytes);
            let row = TermRow { name: use_name(which), sign, bytes, was, max, ink };
            row.draw(place, if in_force { BarPart::Graph } else { BarPart::InUse }, theme, buffer);
        }
        GraphLine::Term(index) => {
            let Some(term) = used.terms().get(index) else { return };
            let was = app.before().and_then(|before| term_before(before, term));
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
