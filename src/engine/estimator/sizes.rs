//! The sizes of caches and graphs by the formulas of the [table](super::table).

use std::sync::Arc;

use super::formulas::{DivisionByZero, Expr, GraphRule, Letter, LetterValues, TermRule};
use super::header::{ModelFacts, ModelTraits, OllamaKeys, OllamaRelease};
use super::table::{self, GRAPHS, GraphRow, OTHERS, PARTIAL_OF_OTHERS, VISION};
use crate::engine::backend;
use crate::engine::error::EngineError;
use crate::machine::Backend;
use crate::model::{Model, TensorGroup};
use crate::plan::{GraphPlan, GraphSize, GraphUse, Plan, Symbol, Term};
use crate::settings::{FlashAttn, InEffect};
use crate::units::Bytes;

/// Sizes of caches and graphs.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    /// Each block's cache with its formula.
    pub caches: Vec<Arc<Term>>,
    /// The graph if some layers are in RAM.
    pub partial: GraphSize,
    /// The graph if all layers are on GPUs.
    pub full: GraphSize,
    /// Why `partial` differs from the result of the architecture's formula, if it does.
    partial_because: Option<&'static str>,
    /// The same for `full`.
    full_because: Option<&'static str>,
    /// The letters of all formulas.
    legend: Vec<Symbol>,
}

impl Sizes {
    /// Sizes of `model` with the settings in effect, before the GPUs are chosen.
    ///
    /// # Errors
    /// Where Ollama fails: a formula divides by zero, or a tensor has too few dimensions.
    pub fn of(model: &Model, facts: &ModelFacts, effect: &InEffect) -> Result<Self, EngineError> {
        let Applied { values, caches, blocks, row } = Applied::of(model, facts, effect)?;
        let size = |rule: &GraphRule| rule.size(&values).map_err(|zero| division(zero, model, facts));
        let (mut partial, mut full) = (size(&row.partial)?, size(&row.full)?);
        let (mut partial_because, mut full_because) = (None, None);
        let mut letters = row.letters();
        for cache in &caches {
            cache.bytes.letters(&mut |letter| letters.push(letter));
        }
        if partial.bytes == Bytes::ZERO {
            partial = GraphSize { own: partial.own, ..size(&PARTIAL_OF_OTHERS)? };
            partial_because = Some("there is no formula for this architecture, so a share of the cache is used");
            letters.extend(PARTIAL_OF_OTHERS.letters());
        }
        if full.bytes == Bytes::ZERO {
            full = GraphSize { own: full.own, ..partial.clone() };
            full_because = Some("there is no full size for this architecture, so the partial one is used");
        }
        let mut legend = legend(&letters, &values);
        let (min, max) = (facts.kv_heads.iter().min().unwrap_or(&0), facts.kv_heads.iter().max().unwrap_or(&0));
        for symbol in legend.iter_mut().filter(|symbol| symbol.letter == Letter::HkvLayer.symbol()) {
            symbol.value = if min == max { max.to_string() } else { format!("{min} to {max}") };
        }
        Ok(Self { caches: blocks, partial, full, partial_because, full_because, legend })
    }

    /// Adjusts the sizes to the GPUs: the library of the first, and whether there are several of a release that makes
    /// a difference of it.
    pub fn on_gpus(&mut self, first: Option<Backend>, several: bool) {
        if first.is_some_and(|library| backend::of(library).partial_is_full) {
            self.partial = GraphSize { own: self.partial.own, ..self.full.clone() };
            self.partial_because =
                Some("on Metal a split costs nothing extra, so the full size is also used as the partial one");
        } else if several {
            self.full = GraphSize { own: self.full.own, ..self.partial.clone() };
            self.full_because = Some("with several GPUs the partial size is also used as the full one");
        }
    }

    /// The graph of a plan that uses the size `used` for the reason `why`.
    pub fn graph(&self, used: GraphUse, why: &str) -> GraphPlan {
        let because = match used {
            GraphUse::Full => self.full_because,
            GraphUse::Partial => self.partial_because,
        };
        GraphPlan {
            partial: self.partial.clone(),
            full: self.full.clone(),
            used,
            why: because.map_or_else(|| why.to_owned(), |because| format!("{why}; {because}")),
            legend: self.legend.clone(),
            peaks: Vec::new(),
        }
    }
}

/// The letters of formulas, in order.
fn legend(used: &[Letter], values: &LetterValues) -> Vec<Symbol> {
    let letters = Letter::ALL.iter().filter(|letter| used.contains(letter));
    letters.map(|&letter| values.symbol(letter)).collect()
}

/// The error of a division by zero; formulas only divide by the number of heads.
fn division(_: DivisionByZero, model: &Model, facts: &ModelFacts) -> EngineError {
    EngineError::Model(format!(
        "key '{}.attention.head_count' is 0, and {} divides by it for this architecture",
        model.architecture,
        facts.release.engine()
    ))
}

/// The formulas that apply to a model with the settings in effect.
struct Applied {
    values: LetterValues,
    /// All rules of caches, also the generic one where the architecture's own replaces it.
    caches: Vec<CacheFormula>,
    /// The cache of each block.
    blocks: Vec<Arc<Term>>,
    row: &'static GraphRow,
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
    term: Arc<Term>,
}

impl Applied {
    fn of(model: &Model, facts: &ModelFacts, effect: &InEffect) -> Result<Self, EngineError> {
        let mut values = facts
            .values
            .clone()
            .with(Letter::B, effect.batch)
            .with(Letter::C, effect.ctx.wrapping_mul(effect.parallel))
            .with(Letter::Np, effect.parallel)
            .with_bytes_per_element(facts.release.bytes_per_element(effect.cache_type_k));
        let (caches, blocks) = caches(model, facts, &mut values).map_err(|zero| division(zero, model, facts))?;
        let flash = effect.flash_attn == FlashAttn::On && facts.release != OllamaRelease::August2025;
        for row in GRAPHS.iter().filter(|row| row.architectures.contains(&model.architecture.as_str())) {
            if (flash || !row.flash) && facts.measure(&row.letters(), model, &mut values)? {
                return Ok(Self { values, caches, blocks, row });
            }
        }
        Ok(Self { values, caches, blocks, row: &OTHERS })
    }
}

/// The rules of caches, and the cache of each block; blocks of one kind share an explanation. Sets the letters that are
/// their sums.
fn caches(
    model: &Model,
    facts: &ModelFacts,
    values: &mut LetterValues,
) -> Result<(Vec<CacheFormula>, Vec<Arc<Term>>), DivisionByZero> {
    let cross = OllamaKeys { model, release: facts.release }.signed("attention.cross_attention_layers");
    let convolution = values.get(Letter::Dconv) > 0;
    let mut found: Vec<CacheFormula> = Vec::new();
    let mut of = |rule: &'static TermRule, kv_heads: u64, block: Option<usize>| {
        let is_same =
            |cache: &CacheFormula| std::ptr::eq(cache.bytes, &raw const rule.bytes) && cache.kv_heads == kv_heads;
        let index = if let Some(index) = found.iter().position(is_same) {
            index
        } else {
            let term = Arc::new(rule.term(1, &values.clone().with(Letter::HkvLayer, kv_heads))?);
            found.push(CacheFormula { name: rule.name, bytes: &rule.bytes, kv_heads, blocks: Vec::new(), term });
            found.len() - 1
        };
        found[index].blocks.extend(block);
        Ok(Arc::clone(&found[index].term))
    };
    let mut blocks = Vec::with_capacity(facts.heads.len());
    let (mut all, mut unwindowed) = (0u64, 0u64);
    for (block, (&heads, &kv_heads)) in facts.heads.iter().zip(&facts.kv_heads).enumerate() {
        let generic = table::generic_cache(facts.release, heads > 0 && kv_heads > 0, convolution);
        unwindowed = unwindowed.wrapping_add(of(generic, kv_heads, None)?.bytes.0);
        let rule = table::cache(&model.architecture, block, cross).unwrap_or(generic);
        let cache = of(rule, kv_heads, Some(block))?;
        all = all.wrapping_add(cache.bytes.0);
        blocks.push(cache);
    }
    values.set(Letter::KvUnwindowed, unwindowed);
    values.set(Letter::Kv, all);
    Ok((found, blocks))
}

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

impl PlanFormulas {
    /// The formulas of `plan`, which is a plan of `model`.
    ///
    /// # Errors
    /// As for the plan itself.
    pub(super) fn of(facts: &ModelFacts, model: &Model, plan: &Plan) -> Result<Self, EngineError> {
        let Applied { values, mut caches, row, .. } = Applied::of(model, facts, &plan.settings)?;
        // partial may equal full, as on Metal; find the formula that the plan used
        let used = |size: &GraphSize| {
            let gives = |rule: &&'static GraphRule| rule.size(&values).is_ok_and(|made| made.branches == size.branches);
            [&row.partial, &row.full, &PARTIAL_OF_OTHERS].into_iter().find(gives)
        };
        let (partial, full) = (used(&plan.graph.partial), used(&plan.graph.full));
        caches.retain(|cache| !cache.blocks.is_empty());
        Ok(Self { partial, full, caches, traits: facts.traits, values })
    }
}

/// Pixels of qwen25vl's largest image if missing in the header: 1280 patches of 28 by 28.
const DEFAULT_PIXELS: u64 = 28 * 28 * 1280;

/// The vision part of a model, which the older release counts in addition to the text layers.
#[derive(Clone, Debug, Default)]
pub(super) struct Vision {
    /// Bytes of its weights.
    pub weights: Bytes,
    /// Bytes of its compute graph.
    pub graph: Bytes,
    /// The terms of that graph, largest first; empty if none is counted.
    pub terms: Vec<Term>,
    /// The letters of the graph's formula.
    pub legend: Vec<Symbol>,
    /// The header has no patch size, so no graph is counted.
    pub unknown_patch: bool,
}

impl Vision {
    /// The vision part of `model`, if it has one. Source: `fs/ggml/ggml.go`, `VisionGraphSize`, Ollama, August 2025.
    ///
    /// # Errors
    /// If a formula divides by zero, as for the text part.
    pub fn of(model: &Model, facts: &ModelFacts) -> Result<Self, EngineError> {
        let keys = OllamaKeys { model, release: facts.release };
        if keys.number("vision.block_count") == 0 {
            return Ok(Self::default());
        }
        let is_own = |name: &str| name == "v" || name.starts_with("v.");
        let own = model.tensors(TensorGroup::Projector).filter(|tensor| is_own(&tensor.name));
        let weights = own.map(|tensor| Bytes(facts.release.tensor_bytes(tensor))).sum();
        let patch = facts.values.get(Letter::Patch);
        let found = VISION.iter().find(|(architectures, _)| architectures.contains(&model.architecture.as_str()));
        let Some((_, rule)) = found.filter(|_| patch > 0) else {
            return Ok(Self { weights, unknown_patch: patch == 0, ..Self::default() });
        };
        let pixels = keys.number_or("vision.max_pixels", DEFAULT_PIXELS);
        let patches = if model.architecture == "qwen25vl" {
            pixels.checked_div(patch.wrapping_mul(patch)).unwrap_or(0)
        } else {
            let per_side = facts.values.get(Letter::Image) / patch;
            per_side.wrapping_mul(per_side).wrapping_add(u64::from(model.tensor("v.class_embd").is_some()))
        };
        // a multiple of 8 also gets 8 more, as in Ollama
        let padded = patches.wrapping_add(8 - patches % 8);
        let values = facts.values.clone().with(Letter::Pixels, pixels);
        let values = values.with(Letter::Patches, patches).with(Letter::Padded, padded);
        let graph = rule.size(&values).map_err(|zero| division(zero, model, facts))?;
        let (legend, terms) = (legend(&rule.letters(), &values), graph.terms().to_vec());
        Ok(Self { weights, graph: graph.bytes, terms, legend, unknown_patch: false })
    }
}
