//! The compute graph: its partial and full sizes, which is used and why, and the formulas term by term.

use super::super::style::{BarGlyphs, Hue, Style};
use super::devices::cell;
use super::{amount, no_break};
use crate::plan::{Branch, GraphPlan, GraphSize, GraphUse, Plan, Symbol, Term};
use crate::units::Bytes;

/// Widths of a term's name and of the bar of its share.
const NAME: usize = 32;
const GAUGE: usize = 8;
/// Minimum width for the bars.
const MIN_WIDTH_FOR_GAUGE: usize = 96;

/// The graph in use, and the other one too if `both`.
pub(super) fn section(plan: &Plan, both: bool, style: &Style) -> String {
    let graph = &plan.graph;
    let shown = sizes(graph, both);
    let mut out = format!("{}\n", style.strong("Compute graph"));
    for &(name, size, when) in &shown {
        let why = if when == graph.used { format!("used: {}", graph.why) } else { String::new() };
        let line = style.wrap(&format!("  {name:<8}{:>10}   ", amount(size.bytes)), &why);
        out += &format!("{}\n", line.trim_end());
    }
    let (used, other): (Vec<_>, Vec<_>) = shown.into_iter().partition(|(_, _, when)| *when == graph.used);
    for (name, size, _) in used.into_iter().chain(other) {
        out += &breakdown(name, size, style);
    }
    out + &letters(graph, both, style)
}

/// The meaning of the letters in the formulas.
fn letters(graph: &GraphPlan, both: bool, style: &Style) -> String {
    let winners = sizes(graph, both).into_iter().flat_map(|(_, size, _)| size.terms());
    let formulas: Vec<_> = winners.map(|term| term.formula.as_str()).collect();
    let occurs_in = |formula: &&str, letter: &str| {
        let mut words = formula.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        words.any(|word| word == letter) || letter.contains(',') && formula.contains(letter)
    };
    let used = graph.legend.iter().filter(|symbol| formulas.iter().any(|formula| occurs_in(formula, symbol.letter)));
    let line =
        |symbol: &Symbol| style.wrap(&format!("    {:<8}{:>10}   ", symbol.letter, symbol.value), symbol.meaning);
    let lines: String = used.map(line).collect();
    if lines.is_empty() { lines } else { format!("  where\n{lines}") }
}

fn sizes(graph: &GraphPlan, both: bool) -> Vec<(&'static str, &GraphSize, GraphUse)> {
    let sizes = [("partial", &graph.partial, GraphUse::Partial), ("full", &graph.full, GraphUse::Full)];
    sizes.into_iter().filter(|(_, _, when)| both || *when == graph.used).collect()
}

/// The largest branch with its terms, and the sizes of all branches.
fn breakdown(name: &str, size: &GraphSize, style: &Style) -> String {
    let Some(winner) = size.branches.get(size.winner) else { return String::new() };
    let title = match size.branches.len() {
        1 => format!("{name}: {}", winner.name),
        _ => format!("{name}: {}, the largest of {}", winner.name, branches(size)),
    };
    let mut out = style.wrap("  ", &title);
    out.extend(winner.terms.iter().map(|term| row(term, winner, style)));
    out
}

fn branches(size: &GraphSize) -> String {
    let names = size.branches.iter().map(|branch| no_break(&format!("{} {}", branch.name, amount(branch.bytes))));
    names.collect::<Vec<_>>().join(", ")
}

fn row(term: &Term, branch: &Branch, style: &Style) -> String {
    let share = term.bytes.share_of(branch.bytes);
    let amounts = format!("{:>10}{:>7}", amount(term.bytes), share.to_string());
    if style.is_narrow() {
        let name = style.lines.saturating_sub(4 + 1 + 17).clamp(8, NAME);
        let mut out = format!("    {:<name$} {amounts}\n", cell(&term.name, name));
        out += &style.wrap("        ", &term.formula);
        if term.numbers != term.formula && term.bytes > Bytes::ZERO {
            out += &style.paint(Hue::Dim, style.wrap("      = ", &term.numbers).trim_end_matches('\n'));
            out.push('\n');
        }
        return out;
    }
    let with_gauge = style.bars != BarGlyphs::None && style.width >= MIN_WIDTH_FOR_GAUGE;
    let gauge = if with_gauge { gauge(share.0, style) } else { String::new() };
    let space = style.width.saturating_sub(4 + NAME + 1 + 17 + if with_gauge { 1 + GAUGE } else { 0 });
    let name = format!("    {:<NAME$} ", cell(&term.name, NAME));
    let mut out = if term.formula.chars().count() <= space {
        format!("{name}{:<space$}{amounts}{gauge}\n", term.formula)
    } else {
        format!("{name}{:space$}{amounts}{gauge}\n{}", "", style.wrap("        ", &term.formula))
    };
    if term.numbers != term.formula && term.bytes > Bytes::ZERO {
        let indent = " ".repeat(4 + NAME + 1);
        let numbers = style.wrap(&format!("{indent}= "), &term.numbers);
        out += &style.paint(Hue::Dim, numbers.trim_end_matches('\n'));
        out.push('\n');
    }
    out
}

/// A share as a short bar.
fn gauge(share: f64, style: &Style) -> String {
    let glyph = if style.bars == BarGlyphs::Ascii { "#" } else { "█" };
    let cells = ((share * GAUGE as f64).round() as usize).min(GAUGE);
    if cells == 0 { String::new() } else { format!(" {}", style.paint(Hue::Graph, &glyph.repeat(cells))) }
}
