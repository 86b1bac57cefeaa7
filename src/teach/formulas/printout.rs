//! The formulas as JSON and as Markdown.
#![allow(clippy::format_push_string, reason = "written once; readability wins")]

use serde_json::{Value, json};

use super::{Amount, Crossover, FormulaNode, FormulasDifference, FormulasPage, KnobCurve, NodeRole, more};
use crate::units::{Bytes, grouped};

/// Depth of the Markdown list: from the total down to the terms of a branch.
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

    /// The legend, the formulas as a nested list, the crossovers, and the formulas beside another engine's.
    pub fn markdown(&self) -> String {
        let mut out = "# The formulas and their values\n".to_owned();
        if !self.legend.is_empty() {
            out += "\n| letter | value | meaning |\n| --- | ---: | --- |\n";
            for symbol in &self.legend {
                out += &format!("| `{}` | {} | {} |\n", symbol.letter, symbol.value, symbol.meaning);
            }
        }
        out += "\n";
        item(&self.whole, self.whole.bytes(), 0, &mut out);
        for contest in &self.contests {
            out += &section(contest);
        }
        match &self.versus {
            Some(Ok(versus)) => out += &side_by_side(versus),
            Some(Err(why)) => out += &format!("\nThe other engine makes no plan: {why}.\n"),
            None => {}
        }
        out
    }
}

fn item(node: &FormulaNode, whole: Bytes, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let share = node.share_of(whole).map(|share| format!(", {share}")).unwrap_or_default();
    let role = match node.role {
        NodeRole::Part | NodeRole::Wins => "",
        NodeRole::Loses => " (not counted)",
    };
    out.push_str(&format!("{indent}- **{}**: {}{share}{role}\n", node.name, node.amount));
    if depth > 0 && node.formula != node.name {
        out.push_str(&format!("{indent}  `{}` = `{}`\n", node.formula, node.numbers));
    }
    if depth + 1 < MAX_DEPTH {
        let memory = node.parts.iter().filter(|part| matches!(part.amount, Amount::Bytes(_)));
        memory.for_each(|part| item(part, whole, depth + 1, out));
    }
}

/// A table per kind of memory with the formulas of both engines.
fn side_by_side(versus: &FormulasDifference) -> String {
    let [one, two] = &versus.engines;
    let mut out = format!("\n## {one} beside {two}\n");
    for part in &versus.parts {
        let [here, there] = part.bytes;
        if part.is_same() {
            out += &format!("\n**{}**: {here}, by the same formulas\n", part.name);
            continue;
        }
        out += &format!("\n**{}**: {here} and {there}, {}\n\n| {one} | | {two} | |\n", part.name, more(part.bytes));
        out += "| --- | ---: | --- | ---: |\n";
        let [left, right] = &part.sides;
        for at in 0..left.len().max(right.len()) {
            let cells = [left.get(at), right.get(at)].map(|line| match line {
                Some(line) => {
                    let formula =
                        if line.formula == line.name { String::new() } else { format!(" `{}`", line.formula) };
                    let counted = if line.counted { "" } else { " (not counted)" };
                    format!("{}{}{formula}{counted} | {}", "· ".repeat(line.depth), line.name, line.amount)
                }
                None => " | ".to_owned(),
            });
            out += &format!("| {} |\n", cells.join(" | "));
        }
    }
    out
}

fn section(contest: &Crossover) -> String {
    let mut out = format!("\n## Which branch is larger: {}\n\n", contest.name);
    for (at, side) in contest.sides.iter().enumerate() {
        let mark = if at == contest.winner { " (the larger)" } else { "" };
        out += &format!("- {}: {}{mark}\n", side.name, grouped(side.size, '\u{2009}'));
    }
    out += "\n";
    for along in &contest.along {
        out += &format!("{}\n\n", sentence(along, contest));
    }
    out
}

/// A sentence on where another side becomes the larger along a knob.
pub(super) fn sentence(along: &KnobCurve, contest: &Crossover) -> String {
    let number = |n: u64| grouped(n, '\u{2009}');
    let end = |sample: Option<&super::Sample>| number(sample.map_or(0, |sample| sample.at));
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
