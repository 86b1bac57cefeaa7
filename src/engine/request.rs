//! Rules common to all releases of Ollama, applied to a request before it plans.
//! Source: `server/routes.go`, `server/sched.go` and `llm/server.go`, Ollama, August 2025 and May 2026.

use std::borrow::Cow;

use super::estimator::{OllamaKeys, OllamaRelease};
use crate::engine::error::EngineError;
use crate::machine::{Machine, check_count, rpc};
use crate::model::Model;
use crate::plan::Plan;
use crate::settings::{Context, Settings};
use crate::units::{Bytes, Tokens};

/// The file that an Ollama with an estimator loads: that of its library, where what reads images is inside.
pub(super) fn loads<'m>(model: &'m Model, settings: &Settings) -> Cow<'m, Model> {
    let inside = settings.projector.as_ref().and_then(|projector| model.with_inside(projector));
    inside.map_or(Cow::Borrowed(model), Cow::Owned)
}

/// Default batch, in tokens.
pub const DEFAULT_BATCH: u64 = 512;
const MIN_CONTEXT: u64 = 4;
const MIN_CONTEXT_FOR_VISION: u64 = 2048;

/// The value of `flag`, or its default.
///
/// # Errors
/// When it is 0.
pub(super) fn at_least_one(value: Option<u64>, default: u64, flag: &str) -> Result<u64, EngineError> {
    match value.unwrap_or(default) {
        0 => Err(EngineError::Settings(format!("{flag} is 0: use 1 or more"))),
        value => Ok(value),
    }
}

/// Total memory of all GPUs, less the overhead on each; the difference wraps, as in Ollama.
pub(super) fn total_vram(machine: &Machine, overhead: Bytes) -> Bytes {
    Bytes(machine.gpus.iter().fold(0, |sum: u64, gpu| sum.wrapping_add(gpu.total.0.wrapping_sub(overhead.0))))
}

/// The default context by [`total_vram`]. Source: `server/routes.go`, `Serve`, Ollama, May and August 2026.
pub(super) fn default_context(machine: &Machine, overhead: Bytes) -> u64 {
    match total_vram(machine, overhead) {
        total if total >= Bytes::gib(47) => 262_144,
        total if total >= Bytes::gib(23) => 32_768,
        _ => 4096,
    }
}

/// Architectures that serve one sequence at a time. Source: `server/sched.go`, `load`, Ollama, May and August 2026.
pub(super) const ONE_SEQUENCE: [&str; 11] = [
    "lfm2",
    "lfm2moe",
    "mllama",
    "nemotron_h",
    "nemotron_h_moe",
    "nemotron_h_omni",
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "qwen3vl",
    "qwen3vlmoe",
];

/// The requested context in tokens, or the engine's default.
///
/// # Errors
/// When the training context is requested and missing in the header.
pub(super) fn context(
    asked: Context,
    model: &Model,
    release: OllamaRelease,
    default: impl FnOnce() -> u64,
) -> Result<u64, EngineError> {
    match asked {
        Context::Auto => Ok(default()),
        Context::Tokens(tokens) => Ok(tokens),
        Context::Max => trained_context(model, release).ok_or_else(|| {
            EngineError::Settings(format!(
                "the header has no '{}.context_length', so --ctx max is not available: use a number of tokens",
                model.architecture
            ))
        }),
    }
}

/// `tokens`, raised to Ollama's minimum and lowered to the training context.
pub(super) fn context_in_bounds(
    mut tokens: u64,
    model: &Model,
    release: OllamaRelease,
    vision: bool,
    notes: &mut Vec<String>,
) -> u64 {
    if tokens < MIN_CONTEXT {
        tokens = MIN_CONTEXT;
        notes.push(format!("context raised to {MIN_CONTEXT}, the minimum that Ollama accepts"));
    }
    if vision && tokens < MIN_CONTEXT_FOR_VISION {
        tokens = MIN_CONTEXT_FOR_VISION;
        let minimum = Tokens(MIN_CONTEXT_FOR_VISION);
        notes.push(format!("context raised to {minimum}, the minimum for a vision model"));
    }
    if let Some(trained) = trained_context(model, release).filter(|&trained| tokens > trained) {
        tokens = trained;
        notes.push(format!("context lowered to {}, the model's training context", Tokens(trained)));
    }
    tokens
}

/// The training context, if it has the type that Ollama reads.
fn trained_context(model: &Model, release: OllamaRelease) -> Option<u64> {
    Some(OllamaKeys { model, release }.number("context_length")).filter(|&tokens| tokens > 0)
}

/// Parallel sequences: some models use one, whatever is requested.
pub(super) fn sequences(asked: u64, one_at_a_time: bool, embedding: bool, notes: &mut Vec<String>) -> u64 {
    if !one_at_a_time || asked <= 1 {
        return asked;
    }
    let why = if embedding { "an embedding model" } else { "this architecture" };
    notes.push(format!("parallel lowered to 1: {why} supports only one sequence at a time"));
    1
}

/// Says in `plan` which GPUs of `machine` are those of other computers, which Ollama does not use.
pub(super) fn say_unused(plan: &mut Plan, machine: &Machine) {
    if machine.without_rpc_gpus().is_some() {
        let others = rpc::names(&machine.gpus).join(", ");
        plan.notes.push(format!("Ollama uses the GPUs of one machine only: those of {others} are not used"));
    }
}

/// The machine without GPUs of other computers, which Ollama does not use.
///
/// # Errors
/// If it has more than [`crate::machine::MAX_GPUS`].
pub(super) fn local_gpus_only(machine: &Machine) -> Result<Cow<'_, Machine>, EngineError> {
    check_count(machine.gpus.len()).map_err(EngineError::Settings)?;
    Ok(machine.without_rpc_gpus().map_or(Cow::Borrowed(machine), Cow::Owned))
}
