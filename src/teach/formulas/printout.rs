//! The formulas as JSON and as a page.

use serde_json::{Value, json};

use super::{
    Amount, Crossover, FormulaNode, FormulasDifference, FormulasPage, KnobCurve, NodeRole, Sample, SideLine, more,
};
use crate::page::chart::{Curves, Series, legend};
use crate::page::{Block, Column, Hue, Narrow, Page, Span, Table, width};
use crate::plan::Symbol;
use crate::units::{Bytes, grouped};

/// Depth of the list: from the total down to the terms of a branch.
const MAX_DEPTH: usize = 5;

impl FormulasPage {
    /// `{"legend":[…],"whole":{"name","formula","numbers","amount","role","parts"},"contests":[…]}`.
    pub fn json(&self) -> Value {
        let mut page =
            json!({ "page": "formulas", "legend": self.legend, "whole": self.whole, "contests": self.contests });
        match &self.versus {
            Some(Ok(versus)) => page["versus"] = json!(versus),
            Some(Err(why)) => page["versus"] = json!({ "refused": why }),
            None => {}
        }
        page
    }

    /// The legend, the formulas as a nested list, the crossovers, and the formulas beside another engine's, in `cells`
    /// cells.
    pub fn page(&self, cells: usize) -> Page {
        let mut page = Page::default();
        page.heading("The formulas and their values");
        self.letters_onto(&mut page);
        page.blank();
        item(&self.whole, self.whole.bytes(), 0, &mut page);
        for contest in &self.contests {
            page.heading(&format!("Larger branch: {}", contest.name));
            for along in &contest.along {
                contest.onto(along, cells, PLOT, &mut page);
                page.blank();
            }
        }
        match &self.versus {
            Some(Ok(versus)) => versus.onto(&mut page),
            Some(Err(why)) => page.text(&format!("The other engine makes no plan: {why}."), Hue::Over),
            None => {}
        }
        page
    }
}

impl FormulasPage {
    /// Adds the letters with their values and meaning.
    pub fn letters_onto(&self, page: &mut Page) {
        let widest = |of: fn(&Symbol) -> &str| self.legend.iter().map(|symbol| width(of(symbol))).max().unwrap_or(0);
        let (letters, values) = (widest(|symbol| symbol.letter), widest(|symbol| &symbol.value));
        for symbol in &self.legend {
            let letter = symbol.letter;
            let blank = " ".repeat(letters - width(letter) + values - width(&symbol.value));
            let first = Span::new(&format!("{letter} {blank}{}  ", symbol.value), Hue::Graph);
            page.push(Block::Text { first, spans: vec![Span::new(symbol.meaning, Hue::Dim)] });
        }
    }
}

/// Rows of a plot.
const PLOT: usize = 8;

fn item(node: &FormulaNode, whole: Bytes, depth: usize, page: &mut Page) {
    let indent = "  ".repeat(depth);
    let share = node.share_of(whole).map(|share| format!(", {share}")).unwrap_or_default();
    let role = match node.role {
        NodeRole::Part | NodeRole::Wins => "",
        NodeRole::Loses => " (not counted)",
    };
    let rest = format!(": {}{share}{role}", node.amount);
    page.spans(&format!("{indent}- "), vec![Span::new(&node.name, Hue::Text.bold()), rest.into()]);
    if depth > 0 && node.formula != node.name {
        page.spans(
            &format!("{indent}  - "),
            vec![Span::new(&format!("{} = {}", node.formula, node.numbers), Hue::Dim)],
        );
    }
    if depth + 1 < MAX_DEPTH {
        let memory = node.parts.iter().filter(|part| matches!(part.amount, Amount::Bytes(_)));
        memory.for_each(|part| item(part, whole, depth + 1, page));
    }
}

impl FormulasDifference {
    /// Adds a table per kind of memory with the formulas of both engines.
    pub fn onto(&self, page: &mut Page) {
        let [one, two] = &self.engines;
        page.heading(&format!("{one} beside {two}"));
        for part in &self.parts {
            let [here, there] = part.bytes;
            let name = Span::new(&part.name, Hue::Text.bold());
            if part.is_same() {
                page.spans("", vec![name, format!(": {here}, by the same formulas").into()]);
                continue;
            }
            page.spans("", vec![name, format!(": {here} and {there}, {}", more(part.bytes)).into()]);
            let [left, right] = &part.sides;
            let cells = |line: Option<&SideLine>| match line {
                Some(line) => {
                    let formula = if line.formula == line.name { String::new() } else { format!(" {}", line.formula) };
                    let counted = if line.counted { "" } else { " (not counted)" };
                    [format!("{}{}{formula}{counted}", "· ".repeat(line.depth), line.name), line.amount.to_string()]
                }
                None => [const { String::new() }; 2],
            };
            let row =
                |at: usize| [left.get(at), right.get(at)].map(cells).concat().into_iter().map(Span::from).collect();
            let rows = (0..left.len().max(right.len())).map(row).collect();
            let columns = vec![Column::left(one, 0), Column::right("", 0), Column::left(two, 0), Column::right("", 0)];
            page.push(Block::Table(Table { columns, rows, gap: 2, narrow: Narrow::Below(2) }));
        }
    }
}

impl Crossover {
    /// Adds its sides along a knob in words and as curves, in `cells` cells and `rows` rows of the curves.
    pub fn onto(&self, along: &KnobCurve, cells: usize, rows: usize, page: &mut Page) {
        const SIGNS: [(&str, Hue); 2] = [("●", Hue::Graph), ("×", Hue::Cache)];
        page.text(&sentence(along, self), Hue::Text);
        let size = |size: u64| Bytes(size).to_string();
        let names: Vec<String> = self.sides.iter().map(|side| format!("{} {}", side.name, size(side.size))).collect();
        let series: Vec<Series> =
            names.iter().zip(SIGNS).map(|(name, (sign, hue))| Series { name, sign, hue }).collect();
        legend(series.iter().copied(), page);
        if cells < 20 || rows < 2 {
            return;
        }
        let end = |sample: Option<&Sample>| sample.map_or(1, |sample| sample.at).max(1);
        let (from, to) = (end(along.samples.first()), end(along.samples.last()));
        let number = |n: u64| grouped(n, '\u{2009}');
        let curves = Curves {
            series,
            range: (from as f64, to as f64),
            at: &|value| (0..self.sides.len()).filter_map(|side| along.size_at(side, value)).collect(),
            now: (along.now as f64, number(along.now)),
            crossings: along.crossings.iter().map(|crossing| (crossing.at as f64, crossing.size as f64)).collect(),
            ends: [number(from), number(to)],
            name: &size,
        };
        curves.onto(page, cells, rows);
    }
}

impl KnobCurve {
    /// The size of `side` at `value`, interpolated between the two nearest samples.
    fn size_at(&self, side: usize, value: f64) -> Option<f64> {
        let after =
            self.samples.partition_point(|sample| (sample.at as f64) < value).min(self.samples.len().checked_sub(1)?);
        let (low, high) = (self.samples.get(after.saturating_sub(1))?, self.samples.get(after)?);
        let (a, b) = (*low.sizes.get(side)? as f64, *high.sizes.get(side)? as f64);
        let span = high.at as f64 - low.at as f64;
        let between = if span > 0.0 { ((value - low.at as f64) / span).clamp(0.0, 1.0) } else { 1.0 };
        Some(a + (b - a) * between)
    }
}

/// A sentence on where another side becomes the larger along a knob.
pub(super) fn sentence(along: &KnobCurve, contest: &Crossover) -> String {
    let number = |n: u64| grouped(n, '\u{2009}');
    let end = |sample: Option<&Sample>| number(sample.map_or(0, |sample| sample.at));
    let (from, to) = (end(along.samples.first()), end(along.samples.last()));
    let (word, now) = (along.knob.title(), number(along.now));
    let name = |side: usize| contest.sides.get(side).map_or("", |side| side.name.as_str());
    if along.crossings.is_empty() {
        let winner = name(contest.winner);
        return format!("For any {word}, {winner} is larger (now {now}, range {from} to {to}).");
    }
    let turns: Vec<String> = along
        .crossings
        .iter()
        .map(|crossing| format!("from a {word} of {} up, {} is larger", number(crossing.at), name(crossing.winner)))
        .collect();
    let turns = turns.join("; ");
    let (first, rest) = turns.split_at(turns.len().min(1));
    format!("{}{rest} (now {now}, range {from} to {to}).", first.to_uppercase())
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Number(number) => f.pad(&grouped(*number, '\u{2009}')),
            Self::Fraction(number) => write!(f, "{number}"),
        }
    }
}
