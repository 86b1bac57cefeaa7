//! The formulas of two engines for one model on one machine with the same tokens, side by side.

use super::{Amount, FormulaNode, FormulasPage, NodeRole};
use crate::engine::{EngineError, EngineVersion, PlanRequest};
use crate::page::{Column, Hue, Narrow, Page, Span};
use crate::plan::Plan;
use crate::settings::{Context, Settings};
use crate::units::Bytes;
use serde::Serialize;

/// Depth of the lines below weights, caches and graphs.
const MAX_DEPTH: usize = 3;

/// Two engines' formulas.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FormulasDifference {
    /// The engines with their releases: that of the plan first.
    pub engines: [String; 2],
    /// All allocated memory by each.
    pub whole: [Bytes; 2],
    /// Weights, caches and graphs.
    pub parts: Vec<PartDifference>,
}

/// A kind of memory by two engines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartDifference {
    /// `caches`.
    pub name: String,
    /// Its bytes by each.
    pub bytes: [Bytes; 2],
    /// The formulas of each, from the whole to the terms.
    pub sides: [Vec<SideLine>; 2],
}

/// A formula of one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideLine {
    /// Its depth below the part.
    pub depth: usize,
    /// Its name.
    pub name: String,
    /// In letters.
    pub formula: String,
    /// Its result.
    pub amount: Amount,
    /// Whether it is counted, or the smaller side of a `max`.
    pub counted: bool,
}

impl PartDifference {
    /// Whether both engines have the same formulas with the same results.
    pub fn is_same(&self) -> bool {
        let [here, there] = &self.sides;
        here == there
    }
}

/// How much more the second engine counts, or less.
pub fn more(bytes: [Bytes; 2]) -> String {
    match bytes {
        [one, two] if one == two => "the same".to_owned(),
        [one, two] if two > one => format!("{} more", two - one),
        [one, two] => format!("{} less", one - two),
    }
}

impl FormulasDifference {
    /// Lines of the longer sides, each of which may have a formula below it.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| 2 * part.sides.each_ref().map(Vec::len).into_iter().max().unwrap_or(0)).sum()
    }

    /// `page`, the formulas of `plan`, beside those of engine `other` for the same model, machine and tokens.
    ///
    /// # Errors
    /// If the other engine refuses the model or the settings.
    pub fn of(
        page: &FormulasPage,
        request: &PlanRequest,
        plan: &Plan,
        other: EngineVersion,
    ) -> Result<Self, EngineError> {
        let effect = &plan.settings;
        // the same tokens, however the other engine counts them
        let total = other.engine.facts().ctx_is_total;
        let each = effect.ctx_total.div_ceil(effect.parallel.max(1));
        let ctx = Context::Tokens(if total { effect.ctx_total } else { each });
        let mut settings = Settings { ctx, parallel: Some(effect.parallel), ..request.settings.clone() };
        other.apply(&mut settings);
        let request = PlanRequest { engine: other.engine, settings, ..request.clone() };
        let there = request.plan()?;
        let that = FormulasPage::of(&request, &there, None)?;
        let parts = page.whole.parts.iter().zip(&that.whole.parts).map(|(one, two)| PartDifference {
            name: one.name.clone(),
            bytes: [one.bytes(), two.bytes()],
            sides: [lines(one), lines(two)],
        });
        Ok(Self {
            engines: [plan.engine_title(), there.engine_title()],
            whole: [page.whole.bytes(), that.whole.bytes()],
            parts: parts.collect(),
        })
    }

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
            page.table(columns, rows, Narrow::Below(2));
        }
    }
}

fn lines(node: &FormulaNode) -> Vec<SideLine> {
    let mut lines = Vec::new();
    add(node, 0, true, &mut lines);
    lines
}

fn add(node: &FormulaNode, depth: usize, counted: bool, lines: &mut Vec<SideLine>) {
    let counted = counted && node.role != NodeRole::Loses;
    lines.push(SideLine {
        depth,
        name: node.name.clone(),
        formula: node.formula.clone(),
        amount: node.amount,
        counted,
    });
    if depth < MAX_DEPTH {
        let memory = node.parts.iter().filter(|part| matches!(part.amount, Amount::Bytes(_)));
        memory.for_each(|part| add(part, depth + 1, counted, lines));
    }
}
