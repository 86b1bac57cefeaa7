//! mlx-lm, and LM Studio's engine of the same classes: one pool of memory, the whole model or nothing, the first GPU alone.
//!
//! Nothing is reserved: caches grow with the tokens, so a plan's context is the tokens in use. Weights and caches are exact,
//! as the classes make them (`model::mlx`, `caches`); the peak of a prompt is exact terms and a bound (`peak`).
//! Source: mlx-lm 0.32.2, MLX of August 2026, mlx-engine of August 2026.
//!
//! To add a family: a section in `assets/mlx-families.txt`, whose head says how.

mod build;
pub mod caches;
pub mod context_fit;
mod device;
mod peak;

use super::admission::Admission;
use super::contract::Engine;
use super::error::EngineError;
use super::goal::FitGoal;
use super::llama_cpp::PreparedModel;
use super::plan_request::RequestParts;
use crate::model::mlx::{Basis, MlxModel, Mode};
use crate::plan::Plan;
use crate::settings::{CacheType, Context, EngineId, InEffect, Settings};
use crate::units::{Bytes, Tokens};

pub(super) use build::{MlxCase, gib};
pub(super) use caches::{CHUNK, Feed};
pub use context_fit::ContextFit;
pub(super) use device::MlxDevice;

/// mlx-lm, and LM Studio's engine.
#[derive(Debug)]
pub struct Mlx;

/// Tokens in use where none are asked for: those of a long chat.
const LONG_CHAT: u64 = 32_768;

impl Engine for Mlx {
    fn place(&self, request: RequestParts<'_>, _: FitGoal) -> Result<Option<Plan>, EngineError> {
        let RequestParts { model, machine, settings } = request;
        let own = as_mlx(model)?;
        let model = own.as_ref().unwrap_or(model);
        let mlx = of(model)?;
        let (weights, basis) = mlx.in_mlx_lm().map_err(|error| EngineError::Model(error.to_string()))?;
        let mut notes = model.header.notes.clone();
        notes.extend(
            EngineId::Mlx
                .ignored(settings)
                .into_iter()
                .map(|option| format!("{option} is ignored: MLX has no such option")),
        );
        let tokens = tokens(settings.ctx, model, LONG_CHAT.min(trained(model)), &mut notes)?;
        let (kv_bits, cache) = kv_bits(settings)?;
        let chunk = settings.batch.or(settings.ubatch).unwrap_or(CHUNK);
        if chunk == 0 {
            return Err(EngineError::Settings("--batch is 0: use 1 or more".to_owned()));
        }
        let sequences = settings.parallel.unwrap_or(1);
        if sequences == 0 {
            return Err(EngineError::Settings("--parallel is 0: use 1 or more".to_owned()));
        }
        let feed = Feed { chunk: Some(chunk), kv_bits, ..Feed::prompt(tokens) };
        let settings = in_effect(tokens, sequences, chunk, cache.unwrap_or_else(|| activations(weights.activations)));
        let case = MlxCase { engine: EngineId::Mlx, model, mlx, machine, basis, feed, sequences, draft_caches: 0 };
        let mut plan = case.plan(&weights, settings, notes)?;
        say(&mut plan, ContextFit::of(mlx, weights.activations).as_ref());
        Ok(Some(plan))
    }

    fn admit(&self, request: RequestParts<'_>) -> Result<Admission, EngineError> {
        self.plan(request).map(Admission::load)
    }
}

/// What mlx-lm itself says of a model this large, and what LM Studio does.
fn say(plan: &mut Plan, fit: Option<&ContextFit>) {
    let Some(gpu) = plan.gpus().first() else { return };
    let (needed, most) = (gpu.weights, gpu.total);
    let whole_mib = |bytes: Bytes| bytes.0 >> 20;
    if needed.0 > most.0 / 10 * 9 {
        plan.notes.push(format!(
                "mlx-lm warns: \"Generating with a model that requires {} MB which is close to the maximum recommended size \
                 of {} MB\"",
                whole_mib(needed),
                whole_mib(most)
            ));
    }
    plan.decided.push(match fit {
        None => "LM Studio leaves the context of a model with such caches as it is".to_owned(),
        Some(fit) => {
            let at = |step: u64| format!("{} with chunks of {}", Tokens(fit.tokens_at(step, most, needed)), Tokens(step));
            format!(
                "LM Studio takes a context of {} tokens here, whatever length is asked for: its bound of a prompt's peak allows {}",
                Tokens(fit.tokens(most, needed)),
                context_fit::STEPS.map(at).join(", ")
            )
        }
    });
}

/// The model that MLX would run instead of a GGUF file whose type is also a mode of MLX; none of one that is MLX's.
fn as_mlx(model: &PreparedModel) -> Result<Option<PreparedModel>, EngineError> {
    if model.mlx.is_some() {
        return Ok(None);
    }
    let mode = model.file_type.filter(|name| name.parse::<Mode>().is_ok());
    let made = mode.map(|mode| model.as_original(mode)).transpose();
    made.map(|made| made.map(PreparedModel::from)).map_err(|error| EngineError::Model(error.to_string()))
}

/// The model as MLX runs it.
///
/// # Errors
/// If it is a GGUF file.
pub(super) fn of(model: &PreparedModel) -> Result<&MlxModel, EngineError> {
    model.mlx.as_deref().ok_or_else(|| {
        EngineError::Settings(format!(
            "MLX runs safetensors, and '{}' is described by a GGUF header: plan what MLX would run with --quant 4bit (or \
             8bit, mxfp4, nvfp4, bf16), name the folder with its config.json, or use another --engine",
            model.name
        ))
    })
}

/// The tokens that the model was trained for; no end where that is not known.
pub(super) fn trained(model: &PreparedModel) -> u64 {
    model.hyper.context_train.unwrap_or(u64::MAX)
}

/// The tokens in use.
///
/// # Errors
/// If the trained context is asked for and not known.
pub(super) fn tokens(
    asked: Context,
    model: &PreparedModel,
    default: u64,
    notes: &mut Vec<String>,
) -> Result<u64, EngineError> {
    let tokens = match asked {
        Context::Auto => default,
        Context::Tokens(tokens) => tokens.max(1),
        Context::Max => model.hyper.context_train.ok_or_else(|| {
            EngineError::Settings(
                "config.json has no 'max_position_embeddings', so --ctx max is not available: use a number of tokens"
                    .to_owned(),
            )
        })?,
    };
    if tokens > trained(model) {
        notes.push(format!(
            "{} tokens are more than the {} that the model was trained for",
            Tokens(tokens),
            Tokens(trained(model))
        ));
    }
    // beyond this a cache's bytes are no number
    Ok(tokens.min(1 << 32))
}

/// `--kv-bits`, and the cache type that stands for it.
fn kv_bits(settings: &Settings) -> Result<(Option<u64>, Option<CacheType>), EngineError> {
    let asked = match (settings.cache_type_k, settings.cache_type_v) {
        (Some(k), Some(v)) if k != v => {
            return Err(EngineError::Settings(format!(
                "MLX uses one type for K and V: use {k} or {v} for both with --kv-type"
            )));
        }
        (k, v) => k.or(v),
    };
    match asked {
        Some(CacheType::Q8_0) => Ok((Some(8), asked)),
        Some(CacheType::Q4_0) => Ok((Some(4), asked)),
        None | Some(CacheType::F16 | CacheType::Bf16 | CacheType::F32) => Ok((None, None)),
        Some(other) => Err(EngineError::Settings(format!(
            "mlx-lm's --kv-bits has nothing like {other}: use q8_0 for 8 bits or q4_0 for 4, in groups of 64"
        ))),
    }
}

/// The cache type of these activations.
pub(super) fn activations(dtype: crate::safetensors::Dtype) -> CacheType {
    match dtype {
        crate::safetensors::Dtype::F16 => CacheType::F16,
        crate::safetensors::Dtype::F32 => CacheType::F32,
        _ => CacheType::Bf16,
    }
}

/// The knobs as they are.
pub(super) fn in_effect(tokens: u64, sequences: u64, chunk: u64, cache: CacheType) -> InEffect {
    InEffect {
        ctx: tokens,
        ctx_per_sequence: tokens,
        ctx_total: tokens.saturating_mul(sequences),
        parallel: sequences,
        batch: chunk,
        ubatch: chunk,
        cache_type_k: cache,
        cache_type_v: cache,
        gpu_layers: -1,
        ..InEffect::default()
    }
}

/// How sure weights are that are known so.
pub(super) const fn basis_note(basis: Basis) -> Option<&'static str> {
    match basis {
        Basis::Headers => None,
        Basis::Shapes => Some("the weights follow from the shapes in config.json and mlx-lm's own rules for this mode"),
        Basis::ImporterOfClass => Some(
            "the weights are those that 'ollama create --quantize' would make of the original's language model; what its files have \
             besides, such as vision, is not counted",
        ),
        Basis::Importer => Some("the weights are those that 'ollama create --quantize' would make of these files"),
    }
}
