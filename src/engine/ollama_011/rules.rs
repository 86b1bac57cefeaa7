//! The knobs in effect: what Ollama up to 0.11 makes of a request before it plans.
//! Source: `server/routes.go`, `server/sched.go`, `llm/server.go` and `llm/memory.go`, Ollama, August 2025.

use super::super::graph_size::Release;
use super::super::{EngineError, EngineId, backend, request};
use super::traits::Traits;
use crate::machine::{Gpu, Machine};
use crate::model::Model;
use crate::plan::InEffect;
use crate::settings::{CacheType, FlashAttn, Settings};
use crate::units::{Bytes, Tokens};

const RELEASE: Release = Release::August2025;

/// `envconfig.ContextLength`
const DEFAULT_CONTEXT: u64 = 4096;
/// The least context of gpt-oss, on machines with [`MUCH_VRAM`].
const GPT_OSS_CONTEXT: u64 = 8192;
/// `lowVRAMThreshold`
const MUCH_VRAM: Bytes = Bytes::gib(20);

/// The knobs in effect and what was adjusted on the way.
pub(super) struct Effect {
    pub settings: InEffect,
    /// Layers asked onto GPUs; none where the engine chooses.
    pub requested: Option<usize>,
    /// Whether the GPUs are looked at.
    pub gpus: bool,
    pub notes: Vec<String>,
}

pub(super) fn effect(
    model: &Model,
    traits: Traits,
    machine: &Machine,
    settings: &Settings,
) -> Result<Effect, EngineError> {
    let mut notes = Vec::new();
    let mut ctx = request::context(settings.ctx, model, RELEASE, || DEFAULT_CONTEXT)?;
    let mut parallel = request::at_least_one(settings.parallel, 1, "--parallel")?;
    let batch = request::at_least_one(settings.batch, request::DEFAULT_BATCH, "--batch")?;
    if !settings.raw {
        ctx = more_for_gpt_oss(ctx, model, machine, settings.gpu_overhead, &mut notes);
        let vision = traits.vision || settings.projector > Bytes::ZERO;
        ctx = request::context_in_bounds(ctx, model, RELEASE, vision, &mut notes);
        parallel = request::sequences(parallel, traits.one_sequence, traits.embedding, &mut notes);
    }
    // the estimate itself does this, so raw settings do not change it
    let batch = request::batch_within(batch, ctx, &mut notes);
    let requested = request::layers_on_gpus(settings.gpu_layers, model);
    let gpus = settings.raw || requested != Some(0);
    if !gpus && !machine.gpus.is_empty() {
        notes.push("no GPU is considered: no layer was asked onto one".to_owned());
    }
    let asked_cache = request::cache_type(settings, EngineId::Ollama011)?;
    let (flash_attn, cache) = if settings.raw {
        (settings.flash_attn, asked_cache.unwrap_or(CacheType::F16))
    } else {
        let flash = flash_attention(traits, &machine.gpus, settings.flash_attn, &mut notes);
        (flash, request::cache_in_effect(asked_cache, flash, &mut notes))
    };
    let settings = InEffect {
        ctx,
        ctx_per_sequence: ctx,
        ctx_total: ctx.wrapping_mul(parallel),
        parallel,
        batch,
        // one and the same here
        ubatch: batch,
        cache_type_k: cache,
        cache_type_v: cache,
        flash_attn,
        gpu_layers: requested.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX)),
        kv_unified: None,
        outputs: None,
        n_cpu_moe: None,
        release: None,
    };
    Ok(Effect { settings, requested, gpus, notes })
}

/// gpt-oss gets a larger context than was asked for where all GPUs together have much memory, less the overhead on
/// each; the difference wraps, as the real one does.
fn more_for_gpt_oss(ctx: u64, model: &Model, machine: &Machine, overhead: Bytes, notes: &mut Vec<String>) -> u64 {
    let total = machine.gpus.iter().fold(0u64, |sum, gpu| sum.wrapping_add(gpu.total.0.wrapping_sub(overhead.0)));
    let gpt_oss = matches!(model.architecture.as_str(), "gptoss" | "gpt-oss");
    if !gpt_oss || Bytes(total) < MUCH_VRAM || ctx >= GPT_OSS_CONTEXT {
        return ctx;
    }
    notes.push(format!("context raised to {}: gpt-oss gets that on GPUs with 20 GiB or more", Tokens(GPT_OSS_CONTEXT)));
    GPT_OSS_CONTEXT
}

/// Off unless asked for; every GPU of the machine and the model must support it.
fn flash_attention(traits: Traits, gpus: &[Gpu], asked: FlashAttn, notes: &mut Vec<String>) -> FlashAttn {
    if asked != FlashAttn::On {
        return FlashAttn::Off;
    }
    let obstacle = if let Some(gpu) = gpus.iter().find(|gpu| !supports_flash(gpu)) {
        format!("{} does not support it", gpu.name)
    } else if !traits.supports_flash {
        "the model does not support it".to_owned()
    } else {
        return FlashAttn::On;
    };
    notes.push(format!("flash attention is off: {obstacle}"));
    FlashAttn::Off
}

fn supports_flash(gpu: &Gpu) -> bool {
    backend::of(gpu.backend).flash_ollama_011.supports(gpu)
}

#[cfg(test)]
mod tests;
