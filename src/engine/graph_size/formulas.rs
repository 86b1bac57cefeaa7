//! The formulas behind a plan of Ollama's estimators as data, for display and evaluation with other letters.

use std::sync::Arc;

use super::{ArchitectureRules, FormulaInputs, ModelFacts, division, fallback, letters_of};
use crate::engine::id::EngineError;
use crate::model::Model;
use crate::plan::{GraphSize, Plan};
use crate::settings::CacheType;

pub use crate::engine::request::DEFAULT_BATCH;

pub use super::expr::{DivisionByZero, Expr};
pub use super::letters::{Letter, LetterValues};
pub use super::rule::{BranchRule, GraphRule, TermRule};

/// The formulas behind a plan.
#[derive(Clone, Debug)]
pub struct PlanFormulas {
    /// Every letter's value.
    pub values: LetterValues,
    /// The graph size if some layers are in RAM; none if no formula gives it.
    pub partial: Option<&'static GraphRule>,
    /// The same if all layers are on GPUs.
    pub full: Option<&'static GraphRule>,
    /// The formulas of the blocks' caches.
    pub caches: Vec<CacheFormula>,
    /// Traits of the model.
    pub traits: ModelTraits,
}

/// How an engine classifies a model, independent of the settings.
#[derive(Clone, Copy, Debug)]
pub struct ModelTraits {
    /// An embedding model without text generation.
    pub embedding: bool,
    /// It has a built-in vision part, not a separate projector.
    pub vision: bool,
    /// It serves one sequence at a time, whatever is requested.
    pub one_sequence: bool,
}

/// The cache formula of some blocks.
#[derive(Clone, Debug)]
pub struct CacheFormula {
    /// What is cached.
    pub name: &'static str,
    /// Bytes of one block's cache.
    pub bytes: &'static Expr,
    /// KV heads of these blocks: the value of [`Letter::HkvLayer`].
    pub kv_heads: u64,
    /// The blocks.
    pub blocks: Vec<usize>,
}

impl PlanFormulas {
    /// The formulas of `plan`, which is a plan of `model`.
    ///
    /// # Errors
    /// As for the plan itself.
    pub(in crate::engine) fn of(
        facts: &ModelFacts,
        traits: ModelTraits,
        bytes_per_element: fn(CacheType) -> f64,
        model: &Model,
        plan: &Plan,
    ) -> Result<Self, EngineError> {
        let knobs = FormulaInputs::of(&plan.settings, bytes_per_element);
        let (mut values, caches) = letters_of(model, facts, knobs).map_err(|zero| division(zero, model, facts))?;
        let case = ArchitectureRules::of(model, facts.release, knobs.flash, &mut values)?;
        let rules = [case.partial, case.full, Some(&fallback::PARTIAL)];
        // partial may equal full, as on Metal; find the formula that the plan used
        let used = |size: &GraphSize| {
            let gives_size =
                |rule: &&'static GraphRule| rule.size(&values).is_ok_and(|made| made.branches == size.branches);
            rules.into_iter().flatten().find(gives_size)
        };
        let (partial, full) = (used(&plan.graph.partial), used(&plan.graph.full));
        let caches = caches.made.iter().map(|made| CacheFormula {
            name: made.rule.0,
            bytes: &made.rule.1,
            kv_heads: made.kv_heads,
            blocks: (0..)
                .zip(&caches.layers)
                .filter(|(_, term)| Arc::ptr_eq(term, &made.term))
                .map(|(i, _)| i)
                .collect(),
        });
        let caches = caches.filter(|formula| !formula.blocks.is_empty()).collect();
        Ok(Self { values, partial, full, caches, traits })
    }
}
