//! Ollama's second engine: models stored as safetensors are run by its MLX runner, which decides otherwise than for
//! llama-server. Source: `x/mlxrunner` and `server/sched.go`, Ollama fb30760 (August 2026).

use crate::engine::error::EngineError;
use crate::engine::mlx::{self, Feed, MlxCase, MlxDevice, gib};
use crate::engine::plan_request::RequestParts;
use crate::engine::request;
use crate::machine::Backend;
use crate::model::mlx::MlxModel;
use crate::plan::{OllamaPs, Plan, Reserve, Verdict};
use crate::settings::{EngineId, GpuLayers};
use crate::units::{Bytes, Tokens};

/// What is kept free on a Mac. Source: `MinimumMemory`, `ml/device.go`.
const KEPT_ON_METAL: Bytes = Bytes::mib(512);
/// What is kept free elsewhere.
const KEPT_ELSEWHERE: Bytes = Bytes::mib(457);
/// What snapshots of other chats may take until the model is unloaded. Source: `x/mlxrunner/prefix_cache.go`.
const SNAPSHOTS: Bytes = Bytes::gib(8);
/// Architectures that the runner has, by how they begin. Source: `base.Register` in `x/models`.
const RUNS: [&str; 13] = [
    "Cohere2MoeForCausalLM",
    "Gemma3For",
    "Gemma4For",
    "Gemma4UnifiedFor",
    "gemma4_unified",
    "MuseGlimmer",
    "Glm4MoeLite",
    "LagunaForCausalLM",
    "LlamaForCausalLM",
    "NemotronH",
    "Qwen3ForCausalLM",
    "Qwen3_5",
    "Qwen3Next",
];

/// The plan of a model that is stored as safetensors.
///
/// # Errors
/// If nothing is known of the model's class, or of what `ollama create` would make of it.
pub(super) fn plan(RequestParts { model, machine, settings }: RequestParts<'_>) -> Result<Plan, EngineError> {
    let mlx = mlx::of(model)?;
    let (weights, basis) = mlx.in_ollama().map_err(|error| EngineError::Model(error.to_string()))?;
    let mut notes = model.header.notes.clone();
    let shown = request::default_context(machine, settings.gpu_overhead).min(mlx::trained(model));
    let tokens = mlx::tokens(settings.ctx, model, shown, &mut notes)?;
    if settings.parallel.is_some_and(|sequences| sequences > 1) {
        notes.push(
            "one request at a time: OLLAMA_NUM_PARALLEL changes nothing for models stored as safetensors".to_owned(),
        );
    }
    let cache = mlx::activations(weights.activations);
    let effect = mlx::in_effect(tokens, 1, mlx::CHUNK, cache);
    let draft_caches = u64::from(has_mtp(mlx));
    let case = MlxCase {
        engine: EngineId::Ollama,
        model,
        mlx,
        machine,
        basis,
        feed: Feed::prompt(tokens),
        sequences: 1,
        draft_caches,
    };
    let in_files = weights.bytes(crate::model::mlx::Allocator::Data);
    let stored = mlx.stored.as_ref().and_then(|stored| stored.manifest.as_ref());
    let need = stored.filter(|_| mlx.asked.is_none()).map_or(Bytes(in_files), |layers| Bytes(layers.bytes));
    if let Err(error) = &mlx.architecture {
        return Err(EngineError::Model(format!(
            "{error}; only the check before a load is known: it asks for {}",
            gib(need)
        )));
    }
    let mut plan = case.plan(&weights, effect, notes)?;
    plan.load_check = Some(need);
    say(&mut plan, mlx);
    if settings.gpu_layers != GpuLayers::Count(0)
        && let Some(gpu) = MlxDevice::of(machine).gpu
    {
        let kept = if gpu.backend == Backend::Cuda { KEPT_ELSEWHERE } else { KEPT_ON_METAL };
        let overhead = kept + settings.gpu_overhead;
        plan.devices[0].reserves.push(Reserve { name: "kept free by the check before a load", bytes: overhead });
        let available = gpu.free - overhead;
        if need > available {
            plan.refusal = Some(format!(
                "model requires {} but only {} are available (after {} overhead)",
                gib(need),
                gib(available),
                gib(overhead)
            ));
        }
    }
    if MlxDevice::of(machine).gpu.is_none() && !machine.gpus.is_empty() {
        plan.refusal = Some("this model requires MLX support, but the MLX runtime is not available".to_owned());
    }
    let architecture = mlx.config.architecture().unwrap_or_default();
    if !RUNS.iter().any(|known| architecture.starts_with(known)) {
        let named = if architecture.is_empty() { mlx.config.model_type() } else { &architecture };
        plan.refusal = Some(format!("Ollama's MLX runner does not know the architecture '{named}'"));
    }
    plan.verdict = Verdict::of(&plan.devices, plan.offloaded, plan.layers.len(), plan.refusal.is_some());
    let size: Bytes = plan.devices.iter().map(|device| device.weights + device.cache).sum();
    plan.ollama_ps = Some(OllamaPs { size, vram: size });
    Ok(plan)
}

impl Plan {
    /// The least and the most that 'ollama ps' shows of a model that MLX runs, as its size changes while it is loaded: its weights;
    /// with its caches, snapshots of other chats, and what loading a layer left. None of what llama-server runs.
    pub fn ps_range(&self) -> Option<(Bytes, Bytes)> {
        let device = self.devices.iter().find(|device| device.after_prompt.is_some())?;
        let caches = device.after_prompt.unwrap_or_default().max(device.cache);
        let layer = self.layers.iter().map(|layer| layer.weights).max().unwrap_or_default();
        Some((device.weights, device.weights + caches + SNAPSHOTS + layer))
    }
}

/// Whether the model has a head that predicts further tokens, which is loaded with it.
fn has_mtp(mlx: &MlxModel) -> bool {
    let mut tensors = mlx.stored.iter().flat_map(|stored| &stored.tensors);
    tensors.any(|tensor| tensor.name.starts_with("mtp.") || tensor.name.contains(".mtp."))
}

/// What is different from a GGUF model.
fn say(plan: &mut Plan, mlx: &MlxModel) {
    let ctx = Tokens(plan.settings.ctx);
    plan.decided.push(format!(
        "num_ctx limits nothing here: 'ollama ps' shows it, and a chat goes on to the model's own maximum; {ctx} tokens in use \
         are planned"
    ));
    plan.notes.push(format!(
        "the size in 'ollama ps' rises by up to {SNAPSHOTS} of snapshots of other chats, and stays until the model is unloaded"
    ));
    let stored = mlx.stored.as_ref().and_then(|stored| stored.manifest.as_ref());
    if stored.is_some_and(|layers| layers.draft) {
        plan.notes.push("a draft model is loaded with it; Gemma 4's reads the target's cache and has none".to_owned());
    }
}
