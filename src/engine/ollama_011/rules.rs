//! The settings in effect, by the rules that Ollama up to 0.11 applies before it plans.
//! Source: `server/routes.go`, `server/sched.go`, `llm/server.go` and `llm/memory.go`, Ollama, August 2025.

use super::super::backend;
use super::super::graph_size::OllamaRelease;
use super::super::id::{EngineError, EngineId};
use super::super::request::{self, RequestedSizes, ResolvedSettings};
use super::traits::ArchitectureTraits;
use crate::machine::{Gpu, Machine};
use crate::model::Model;
use crate::settings::{CacheType, FlashAttn, Settings};
use crate::units::{Bytes, Tokens};

const RELEASE: OllamaRelease = OllamaRelease::August2025;

/// `envconfig.ContextLength`
const DEFAULT_CONTEXT: u64 = 4096;
/// Minimum context of gpt-oss on machines with [`HIGH_VRAM`].
const GPT_OSS_CONTEXT: u64 = 8192;
/// `lowVRAMThreshold`
const HIGH_VRAM: Bytes = Bytes::gib(20);

pub(super) fn resolve_settings(
    model: &Model,
    traits: ArchitectureTraits,
    machine: &Machine,
    settings: &Settings,
) -> Result<ResolvedSettings, EngineError> {
    let mut notes: Vec<String> = RELEASE.too_old_for(&model.architecture).into_iter().collect();
    let mut wanted = RequestedSizes::of(settings, model, RELEASE, || DEFAULT_CONTEXT)?;
    if !settings.raw {
        wanted.ctx = raise_for_gpt_oss(wanted.ctx, model, machine, settings.gpu_overhead, &mut notes);
        let vision = traits.vision || settings.projector.is_some();
        wanted.ctx = request::context_in_bounds(wanted.ctx, model, RELEASE, vision, &mut notes);
        wanted.parallel = request::sequences(wanted.parallel, traits.one_sequence, traits.embedding, &mut notes);
    }
    // part of the estimate itself, so raw settings do not change it
    wanted.batch = request::batch_within(wanted.batch, wanted.ctx, &mut notes);
    let requested = request::layers_on_gpus(settings.gpu_layers, model);
    let gpus = request::considers_gpus(requested, settings, machine, &mut notes);
    let asked_cache = request::cache_type(settings, EngineId::Ollama011)?;
    let (flash_attn, cache) = if settings.raw {
        (settings.flash_attn, asked_cache.unwrap_or(CacheType::F16))
    } else {
        let flash = flash_attention(traits, &machine.gpus, settings.flash_attn, &mut notes);
        (flash, request::cache_in_effect(asked_cache, flash, &mut notes))
    };
    let settings = wanted.in_effect(cache, flash_attn, requested);
    Ok(ResolvedSettings { settings, requested, gpus, notes })
}

/// gpt-oss gets a larger context than requested if the GPUs have enough memory in total.
fn raise_for_gpt_oss(ctx: u64, model: &Model, machine: &Machine, overhead: Bytes, notes: &mut Vec<String>) -> u64 {
    let gpt_oss = matches!(model.architecture.as_str(), "gptoss" | "gpt-oss");
    if !gpt_oss || request::total_vram(machine, overhead) < HIGH_VRAM || ctx >= GPT_OSS_CONTEXT {
        return ctx;
    }
    notes.push(format!(
        "context raised to {}: Ollama does this for gpt-oss on GPUs with 20 GiB or more",
        Tokens(GPT_OSS_CONTEXT)
    ));
    GPT_OSS_CONTEXT
}

/// Off unless requested; all GPUs and the model must support it.
fn flash_attention(traits: ArchitectureTraits, gpus: &[Gpu], asked: FlashAttn, notes: &mut Vec<String>) -> FlashAttn {
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
