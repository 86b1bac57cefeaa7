//! The page of the formulas.

use std::fmt;

use serde_json::{Value, json};

use super::super::page::{Paper, Tab, TeachPage};
use super::{Amount, FormulaNode, FormulasPage, NodeRole};
use crate::page::{Block, Hue, Page, Span, width};
use crate::plan::Symbol;
use crate::units::{Bytes, grouped};

/// Depth of the list: from the total down to the terms of a branch.
pub(super) const MAX_DEPTH: usize = 5;

impl TeachPage for FormulasPage {
    fn tab(&self) -> Tab {
        Tab::Formulas
    }

    /// `{"legend":[…],"whole":{"name","formula","numbers","amount","role","parts"},"contests":[…]}`.
    fn json(&self) -> Value {
        let versus = self.versus.as_ref().map(|versus| match versus {
            Ok(versus) => json!(versus),
            Err(why) => json!({ "refused": why }),
        });
        json!({ "legend": self.legend, "whole": self.whole, "contests": self.contests, "versus": versus })
    }

    fn printed(&self, paper: Paper) -> Page {
        self.page(paper.cells)
    }
}

impl FormulasPage {
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

    /// Adds the letters with their values and meaning.
    pub fn letters_onto(&self, page: &mut Page) {
        let widest = |of: fn(&Symbol) -> String| self.legend.iter().map(|symbol| width(&of(symbol))).max().unwrap_or(0);
        let (letters, values) = (widest(|symbol| symbol.letter.to_owned()), widest(Symbol::shown));
        for symbol in &self.legend {
            let (letter, value) = (symbol.letter, symbol.shown());
            let blank = " ".repeat(letters - width(letter) + values - width(&value));
            let first = Span::new(&format!("{letter} {blank}{value}  "), Hue::Graph);
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
        // what is counted and not computed has no numbers of its own
        let same = node.formula == node.numbers;
        let written = if same { node.formula.clone() } else { format!("{} = {}", node.formula, node.numbers) };
        page.spans(&format!("{indent}  - "), vec![Span::new(&written, Hue::Dim)]);
    }
    if depth + 1 < MAX_DEPTH {
        let memory = node.parts.iter().filter(|part| matches!(part.amount, Amount::Bytes(_)));
        memory.for_each(|part| item(part, whole, depth + 1, page));
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Number(number) => f.pad(&grouped(*number, '\u{2009}')),
            Self::Fraction(number) => write!(f, "{number}"),
        }
    }
}
