//! The knobs in effect: what Ollama up to 0.24 makes of a request before it plans.
//! Source: `server/routes.go`, `server/sched.go` and `llm/server.go`, Ollama, May 2026.

use super::super::graph_size::Release;
use super::super::{EngineError, EngineId, backend, request};
use super::traits::Traits;
use crate::machine::{Backend, Gpu, Machine};
use crate::model::Model;
use crate::plan::InEffect;
use crate::settings::{CacheType, FlashAttn, Settings};
use crate::units::Tokens;

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
    let mut wanted = Wanted::of(model, machine, settings)?;
    if !settings.raw {
        wanted.adjust(model, traits, &mut notes);
    }
    if traits.embedding && wanted.batch < wanted.ctx {
        wanted.batch = wanted.ctx;
        notes.push(format!("batch raised to {}: an embedding model reads a whole context at once", Tokens(wanted.ctx)));
    }
    let requested = request::layers_on_gpus(settings.gpu_layers, model);
    let gpus = settings.raw || requested != Some(0);
    if !gpus && !machine.gpus.is_empty() {
        notes.push("no GPU is considered: no layer was asked onto one".to_owned());
    }
    let considered = if gpus { machine.gpus.as_slice() } else { &[] };
    let asked_cache = request::cache_type(settings, EngineId::Ollama024)?;
    let (flash_attn, cache) = if settings.raw {
        (settings.flash_attn, asked_cache.unwrap_or(CacheType::F16))
    } else {
        let flash = flash_attention(model, traits, considered, settings.flash_attn, &mut notes);
        (flash, request::cache_in_effect(asked_cache, flash, &mut notes))
    };
    let settings = InEffect {
        ctx: wanted.ctx,
        ctx_per_sequence: wanted.ctx,
        ctx_total: wanted.ctx.wrapping_mul(wanted.parallel),
        parallel: wanted.parallel,
        batch: wanted.batch,
        // one and the same here
        ubatch: wanted.batch,
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

/// Context, parallelism and batch.
struct Wanted {
    ctx: u64,
    parallel: u64,
    batch: u64,
}

impl Wanted {
    fn of(model: &Model, machine: &Machine, settings: &Settings) -> Result<Self, EngineError> {
        let default = || request::default_context(machine, settings.gpu_overhead);
        Ok(Self {
            ctx: request::context(settings.ctx, model, Release::May2026, default)?,
            parallel: request::at_least_one(settings.parallel, 1, "--parallel")?,
            batch: request::at_least_one(settings.batch, request::DEFAULT_BATCH, "--batch")?,
        })
    }

    fn adjust(&mut self, model: &Model, traits: Traits, notes: &mut Vec<String>) {
        self.ctx = request::context_in_bounds(self.ctx, model, Release::May2026, traits.vision, notes);
        self.batch = request::batch_within(self.batch, self.ctx, notes);
        self.parallel = request::sequences(self.parallel, traits.one_sequence, traits.embedding, notes);
    }
}

/// Flash attention as the engine sets it. Its own engine knows on and off; the other also leaves it open.
fn flash_attention(
    model: &Model,
    traits: Traits,
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
