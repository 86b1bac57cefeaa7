//! The formulas behind a plan of Ollama's estimators, handed out as data: for those who want to open them, or to evaluate
//! them with other letters.

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

/// The formulas that a plan was made by.
#[derive(Clone, Debug)]
pub struct PlanFormulas {
    /// Every letter's value.
    pub values: LetterValues,
    /// The graph's size when some layer is in RAM; none where no formula gives it.
    pub partial: Option<&'static GraphRule>,
    /// The same when every layer is on GPUs.
    pub full: Option<&'static GraphRule>,
    /// The formulas of the blocks' caches.
    pub caches: Vec<CacheFormula>,
    /// What the engine's rules make of the model.
    pub traits: ModelTraits,
}

/// What an engine's rules make of a model, whatever the knobs.
#[derive(Clone, Copy, Debug)]
pub struct ModelTraits {
    /// It turns text into embeddings and completes nothing.
    pub embedding: bool,
    /// It sees images by itself, without a separate projector.
    pub vision: bool,
    /// It serves one sequence at a time, whatever is asked.
    pub one_sequence: bool,
}

/// A formula of some blocks' caches.
#[derive(Clone, Debug)]
pub struct CacheFormula {
    /// What it keeps.
    pub name: &'static str,
    /// Bytes of one block's cache.
    pub bytes: &'static Expr,
    /// KV heads of these blocks, which [`Letter::HkvLayer`] stands for.
    pub kv_heads: u64,
    /// The blocks.
    pub blocks: Vec<usize>,
}

impl PlanFormulas {
    /// The formulas of `plan`, which is one of `model`.
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
        // one may stand for the other, as on Metal; what counts is what the plan was made by
        let behind = |size: &GraphSize| {
            let made_it =
                |rule: &&'static GraphRule| rule.size(&values).is_ok_and(|made| made.branches == size.branches);
            rules.into_iter().flatten().find(made_it)
        };
        let (partial, full) = (behind(&plan.graph.partial), behind(&plan.graph.full));
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
