//! The settings in effect, by the rules that Ollama up to 0.24 applies before it plans.
//! Source: `server/routes.go`, `server/sched.go` and `llm/server.go`, Ollama, May 2026.

use super::super::backend;
use super::super::graph_size::OllamaRelease;
use super::super::id::{EngineError, EngineId};
use super::super::request::{self, RequestedSizes, ResolvedSettings};
use super::traits::ArchitectureTraits;
use crate::machine::{Backend, Gpu, Machine};
use crate::model::Model;
use crate::settings::{CacheType, FlashAttn, Settings};
use crate::units::Tokens;

pub(super) fn resolve_settings(
    model: &Model,
    traits: ArchitectureTraits,
    machine: &Machine,
    settings: &Settings,
) -> Result<ResolvedSettings, EngineError> {
    let mut notes: Vec<String> = OllamaRelease::May2026.too_old_for(&model.architecture).into_iter().collect();
    let default_context = || request::default_context(machine, settings.gpu_overhead);
    let mut wanted = RequestedSizes::of(settings, model, OllamaRelease::May2026, default_context)?;
    if !settings.raw {
        wanted.ctx = request::context_in_bounds(wanted.ctx, model, OllamaRelease::May2026, traits.vision, &mut notes);
        wanted.batch = request::batch_within(wanted.batch, wanted.ctx, &mut notes);
        wanted.parallel = request::sequences(wanted.parallel, traits.one_sequence, traits.embedding, &mut notes);
    }
    if traits.embedding && wanted.batch < wanted.ctx {
        wanted.batch = wanted.ctx;
        notes.push(format!(
            "batch raised to {}: an embedding model processes the whole context at once",
            Tokens(wanted.ctx)
        ));
    }
    let requested = request::layers_on_gpus(settings.gpu_layers, model);
    let gpus = request::considers_gpus(requested, settings, machine, &mut notes);
    let considered = if gpus { machine.gpus.as_slice() } else { &[] };
    let asked_cache = request::cache_type(settings, EngineId::Ollama024)?;
    let (flash_attn, cache) = if settings.raw {
        (settings.flash_attn, asked_cache.unwrap_or(CacheType::F16))
    } else {
        let flash = flash_attention(model, traits, considered, settings.flash_attn, &mut notes);
        (flash, request::cache_in_effect(asked_cache, flash, &mut notes))
    };
    let settings = wanted.in_effect(cache, flash_attn, requested);
    Ok(ResolvedSettings { settings, requested, gpus, notes })
}

/// Flash attention as Ollama sets it. Its own engine has on and off; the llama.cpp runner also has auto.
fn flash_attention(
    model: &Model,
    traits: ArchitectureTraits,
    gpus: &[Gpu],
    asked: FlashAttn,
    notes: &mut Vec<String>,
) -> FlashAttn {
    let wanted = match asked {
        FlashAttn::On => true,
        FlashAttn::Off => false,
        FlashAttn::Auto => traits.flash_by_default,
    };
    let mut obstacle = None;
    if wanted {
        if let Some(gpu) = gpus.iter().find(|gpu| !supports_flash(gpu)) {
            obstacle = Some(format!("{} does not support it", gpu.name));
        } else if !traits.supports_flash {
            obstacle = Some("the model does not support it".to_owned());
        } else if model.architecture == "gemma4" {
            let too_old =
                |gpu: &&Gpu| gpu.backend == Backend::Cuda && gpu.compute.is_some_and(|compute| compute < (7, 5));
            obstacle = gpus
                .iter()
                .find(too_old)
                .map(|gpu| format!("gemma4 needs compute capability 7.5, and {} is older", gpu.name));
        }
    }
    if let Some(obstacle) = &obstacle {
        notes.push(format!("flash attention is off: {obstacle}"));
    }
    let on = wanted && obstacle.is_none();
    match (traits.own_engine, asked, on) {
        (false, FlashAttn::Auto, _) => FlashAttn::Auto,
        (_, _, true) => FlashAttn::On,
        (_, _, false) => FlashAttn::Off,
    }
}

pub(in crate::engine) fn supports_flash(gpu: &Gpu) -> bool {
    backend::of(gpu.backend).flash_ollama_024.supports(gpu)
}

#[cfg(test)]
mod tests;
