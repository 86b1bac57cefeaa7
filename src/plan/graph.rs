//! The memory of a plan's compute graph, and its formulas.

use schemars::JsonSchema;
use serde::Serialize;

use super::part::Peak;
use crate::units::{Bytes, Tokens};

/// The compute graph's memory.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphPlan {
    /// The size if some layers are in RAM.
    pub partial: GraphSize,
    /// The size if all layers are on GPUs.
    pub full: GraphSize,
    /// Which of the two is used.
    pub used: GraphUse,
    /// The reason, as one sentence.
    pub why: String,
    /// The letters of these formulas and of the caches' formulas.
    pub legend: Vec<Symbol>,
    /// The peak of each device's compute buffer, GPUs in order, the CPU last; none if the engine uses formulas.
    pub peaks: Vec<Peak>,
}

/// A letter of a formula, its meaning and its value in this plan.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Symbol {
    /// The symbol in formulas: `H_kv`.
    pub letter: &'static str,
    /// `KV heads, maximum over the layers`
    pub meaning: &'static str,
    /// The value in formulas: `8`.
    pub value: String,
}

impl Symbol {
    /// The value as screens show numbers: `16 384`.
    pub fn shown(&self) -> String {
        self.value.parse().map_or_else(|_| self.value.clone(), |value| Tokens(value).to_string())
    }
}

impl GraphPlan {
    /// The size that is used.
    pub fn in_force(&self) -> &GraphSize {
        match self.used {
            GraphUse::Partial => &self.partial,
            GraphUse::Full => &self.full,
        }
    }
}

/// Which graph size is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum GraphUse {
    Full,
    Partial,
}

/// A graph size and its explanation: all branches of its `max`, and the largest.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphSize {
    /// The size in effect.
    pub bytes: Bytes,
    /// The result of the architecture's formula, before the engine's fallbacks; zero without a formula.
    pub own: Bytes,
    /// The branches of the formula's `max`; one without a `max`, none without a graph.
    pub branches: Vec<Branch>,
    /// Index into `branches` of the largest.
    pub winner: usize,
}

impl GraphSize {
    /// The terms of the largest branch, largest first.
    pub fn terms(&self) -> &[Term] {
        self.branches.get(self.winner).map_or(&[], |branch| &branch.terms)
    }
}

/// One branch of a `max`.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// What it measures: `attention`, `logits`.
    pub name: String,
    /// Sum of its terms.
    pub bytes: Bytes,
    /// Largest first.
    pub terms: Vec<Term>,
}

/// A term of a formula.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Term {
    /// What it is: `attention scores`.
    pub name: String,
    /// The formula in letters: `4·B·C·H`.
    pub formula: String,
    /// The formula in numbers: `4·512·8192·32`.
    pub numbers: String,
    /// Its value.
    pub bytes: Bytes,
}

impl Term {
    /// A term of zero bytes without a formula.
    pub fn nothing(name: &str) -> Self {
        Self { name: name.to_owned(), formula: "0".to_owned(), numbers: "0".to_owned(), bytes: Bytes::ZERO }
    }
}
