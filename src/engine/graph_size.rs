//! The size of the compute graph by Ollama's own estimator, up to 0.11 and up to 0.24: one formula per architecture
//! family, each in its own file, as data that is both evaluated and printed. Formulas on which the two releases agree
//! are shared; [`OllamaRelease`] distinguishes them.
//!
//! The formulas use the letters of [`letters`].

mod cache;
mod chatglm;
mod command_r;
mod deepseek2;
mod expr;
mod fallback;
pub mod formulas;
mod gemma;
mod gptoss;
mod keys;
mod known_architectures;
mod letters;
mod llama;
mod mllama;
mod model_facts;
mod phi2;
mod qwen2;
mod release;
mod rule;
mod shared;
mod stablelm;
mod vision;

use std::sync::Arc;

use super::id::EngineError;
use crate::gguf::Tensor;
use crate::model::{Model, TensorGroup};
use crate::plan::{GraphPlan, GraphSize, GraphUse, Symbol, Term};
use crate::settings::{CacheType, FlashAttn, InEffect};
use crate::units::Bytes;
use cache::BlockCaches;
use expr::DivisionByZero;
use rule::GraphRule;

pub(super) use keys::OllamaKeys;
pub use letters::{Letter, LetterValues};
pub(super) use model_facts::ModelFacts;
pub(super) use release::OllamaRelease;
pub(super) use vision::Vision;

/// The settings used by the formulas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FormulaInputs {
    /// Tokens of context per sequence.
    pub ctx: u64,
    /// Tokens.
    pub batch: u64,
    /// Sequences.
    pub parallel: u64,
    /// Bytes per element of the KV cache.
    pub bytes_per_element: f64,
    /// Flash attention is on.
    pub flash: bool,
}

impl FormulaInputs {
    /// From the settings in effect; the bytes per cache element are release-specific.
    pub fn of(effect: &InEffect, bytes_per_element: fn(CacheType) -> f64) -> Self {
        Self {
            ctx: effect.ctx,
            batch: effect.batch,
            parallel: effect.parallel,
            bytes_per_element: bytes_per_element(effect.cache_type_k),
            flash: effect.flash_attn == FlashAttn::On,
        }
    }
}

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
    pub partial_because: Option<&'static str>,
    /// The same for `full`.
    pub full_because: Option<&'static str>,
    /// The letters of all formulas.
    pub legend: Vec<Symbol>,
}

/// Sizes of `model` with `knobs`, before the GPUs are chosen.
///
/// # Errors
/// Where Ollama fails: a formula divides by zero, or a tensor has too few dimensions.
pub(super) fn sizes(model: &Model, facts: &ModelFacts, knobs: FormulaInputs) -> Result<Sizes, EngineError> {
    let zero = |zero| division(zero, model, facts);
    let (mut values, caches) = letters_of(model, facts, knobs).map_err(zero)?;
    let case = ArchitectureRules::of(model, facts.release, knobs.flash, &mut values)?;
    let size = |rule: Option<&GraphRule>| rule.map_or(Ok(NOTHING), |rule| rule.size(&values)).map_err(zero);
    let (mut partial, mut full) = (size(case.partial)?, size(case.full)?);
    let (mut partial_because, mut full_because) = (None, None);

    let mut letters = caches.letters.clone();
    let mut note = |rule: &GraphRule| rule.letters(&mut |letter| letters.push(letter));
    case.partial.into_iter().chain(case.full).for_each(&mut note);
    if partial.bytes == Bytes::ZERO {
        partial = GraphSize { own: partial.own, ..fallback::PARTIAL.size(&values).map_err(zero)? };
        partial_because = Some("there is no formula for this architecture, so a share of the cache is used");
        note(&fallback::PARTIAL);
    }
    if full.bytes == Bytes::ZERO {
        full = GraphSize { own: full.own, ..partial.clone() };
        full_because = Some("there is no full size for this architecture, so the partial one is used");
    }
    let legend = Letter::ALL.iter().filter(|letter| letters.contains(letter)).map(|&letter| match letter {
        Letter::HkvLayer => per_layer(letter, &facts.kv_heads),
        _ => values.symbol(letter),
    });
    let legend = legend.collect();
    Ok(Sizes { legend, caches: caches.layers, partial, full, partial_because, full_because })
}

/// The caches, and all letters except those that are a tensor's size.
fn letters_of(
    model: &Model,
    facts: &ModelFacts,
    knobs: FormulaInputs,
) -> Result<(LetterValues, BlockCaches), DivisionByZero> {
    let mut values = facts
        .values
        .clone()
        .with(Letter::B, knobs.batch)
        .with(Letter::C, knobs.ctx.wrapping_mul(knobs.parallel))
        .with(Letter::Np, knobs.parallel)
        .with_bytes_per_element(knobs.bytes_per_element);
    let caches = BlockCaches::of(model, facts, &values)?;
    values.set(Letter::KvUnwindowed, caches.generic_total);
    values.set(Letter::Kv, caches.total());
    Ok((values, caches))
}

impl Sizes {
    /// Adjusts the sizes if the first GPU is Metal.
    pub fn on_metal(&mut self) {
        self.partial = GraphSize { own: self.partial.own, ..self.full.clone() };
        self.partial_because =
            Some("on Metal a split costs nothing extra, so the full size is also used as the partial one");
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

    /// Adjusts the sizes for several GPUs, as the older release does.
    pub fn on_several_gpus(&mut self) {
        self.full = GraphSize { own: self.full.own, ..self.partial.clone() };
        self.full_because = Some("with several GPUs the partial size is also used as the full one");
    }
}

/// The error of a division by zero; formulas only divide by the number of heads.
fn division(_: DivisionByZero, model: &Model, facts: &ModelFacts) -> EngineError {
    EngineError::Model(format!(
        "key '{}.attention.head_count' is 0, and {} divides by it for this architecture",
        model.architecture,
        facts.release.engine()
    ))
}

/// A letter with one value per layer.
fn per_layer(letter: Letter, layers: &[u64]) -> Symbol {
    let (min, max) = (layers.iter().min().unwrap_or(&0), layers.iter().max().unwrap_or(&0));
    let value = if min == max { max.to_string() } else { format!("{min} to {max}") };
    Symbol { letter: letter.symbol(), meaning: letter.meaning(), value }
}

const NOTHING: GraphSize = GraphSize { bytes: Bytes::ZERO, own: Bytes::ZERO, branches: Vec::new(), winner: 0 };

/// The two formulas of an architecture.
struct ArchitectureRules {
    partial: Option<&'static GraphRule>,
    full: Option<&'static GraphRule>,
}

impl ArchitectureRules {
    /// The formulas for `model`'s architecture and tensors; sets the letters that are a tensor's size.
    fn of(model: &Model, release: OllamaRelease, flash: bool, values: &mut LetterValues) -> Result<Self, EngineError> {
        let first_block = |name: &str| model.tensors(TensorGroup::Block(0)).find(|tensor| &*tensor.name == name);
        let (partial, full) = match model.architecture.as_str() {
            "llama" | "llama4" => {
                if let Some(gate) = first_block("blk.0.ffn_gate_exps.weight") {
                    values.set(Letter::Wgate, release.tensor_bytes(gate));
                    (&llama::STACKED_EXPERTS_PARTIAL, &llama::FULL)
                } else if let Some(gate) = first_block("blk.0.ffn_gate.0.weight") {
                    values.set(Letter::Wdim, dimension(gate, 1, release)?);
                    (&llama::SINGLE_EXPERTS_PARTIAL, &llama::SINGLE_EXPERTS_FULL)
                } else {
                    (&llama::PARTIAL, &llama::FULL)
                }
            }
            "mllama" => {
                values.set(Letter::Rfreq, model.tensor("rope_freqs.weights").map_or(0, release::elements));
                (&mllama::PARTIAL, &mllama::FULL)
            }
            "gemma" | "gemma2" | "gemma3" => (&gemma::PARTIAL, &gemma::FULL),
            "gemma3n" => (&gemma::GEMMA3N_PARTIAL, &gemma::GEMMA3N_FULL),
            "command-r" => (&command_r::PARTIAL, &command_r::FULL),
            "qwen2" => (&qwen2::PARTIAL, &qwen2::FULL),
            "phi2" => (&phi2::PARTIAL, &phi2::FULL),
            "stablelm" => (&stablelm::PARTIAL, &stablelm::FULL),
            "deepseek2" => (&deepseek2::PARTIAL, &deepseek2::FULL),
            "chatglm" => {
                if let Some(bias) = first_block("blk.0.attn_qkv.bias") {
                    values.set(Letter::Sbias, dimension(bias, 0, release)?);
                    (&chatglm::BIASED_PARTIAL, &chatglm::BIASED_FULL)
                } else {
                    (&chatglm::PARTIAL, &chatglm::FULL)
                }
            }
            "gptoss" | "gpt-oss" => {
                let linear = flash && release != OllamaRelease::August2025;
                let partial = if linear { &gptoss::FLASH_PARTIAL } else { &gptoss::PARTIAL };
                return Ok(Self { partial: Some(partial), full: None });
            }
            _ => return Ok(Self { partial: None, full: None }),
        };
        Ok(Self { partial: Some(partial), full: Some(full) })
    }
}

fn dimension(tensor: &Tensor, index: usize, release: OllamaRelease) -> Result<u64, EngineError> {
    tensor.dims.get(index).copied().ok_or_else(|| {
        EngineError::Model(format!(
            "tensor '{}' has {} dimensions, and {} needs the size of number {}",
            tensor.name,
            tensor.dims.len(),
            release.engine(),
            index + 1
        ))
    })
}
