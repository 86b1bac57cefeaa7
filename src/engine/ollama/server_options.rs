//! What Ollama's decisions come to for llama-server.

use super::discovery::CountedGpu;
use crate::engine::id::ServerStart;
use crate::machine::{Gpu, Machine};
use crate::settings::{Context, FlashAttn, GpuLayers, MmprojDevice, MmprojOptions, Outputs, Settings};
use crate::units::Bytes;

/// Tokens of all sequences, and of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSizes {
    pub tokens: u64,
    pub batch: u64,
}

/// llama-server's options.
pub(super) fn server_options(
    settings: &Settings,
    start: &ServerStart,
    flash_attn: FlashAttn,
    BatchSizes { tokens, batch }: BatchSizes,
    margin: Option<Bytes>,
    mmproj_device: MmprojDevice,
) -> Settings {
    let if_raw = |asked: bool| asked && settings.raw;
    let server = &settings.ollama.server;
    let by_variable = server.inherited.get("LLAMA_ARG_N_GPU_LAYERS").and_then(|count| count.trim().parse().ok());
    let gpu_layers = match settings.gpu_layers {
        GpuLayers::Auto if server.no_fit => by_variable.map_or(GpuLayers::All, GpuLayers::Count),
        GpuLayers::Auto => by_variable.map_or(GpuLayers::Auto, GpuLayers::Count),
        asked => asked,
    };
    let sent = Some(batch).filter(|&batch| batch > 0);
    Settings {
        ctx: Context::Tokens(tokens),
        parallel: Some(start.parallel),
        batch: sent,
        ubatch: settings.ubatch.filter(|_| settings.raw).or(sent),
        flash_attn,
        gpu_layers,
        fit_target: settings.fit_target.or(margin),
        no_op_offload: if_raw(settings.no_op_offload),
        outputs: if settings.raw { settings.outputs } else { Outputs::default() },
        gpu_overhead: Bytes::ZERO,
        adapters: Bytes::ZERO,
        mmproj: MmprojOptions { device: mmproj_device, ..settings.mmproj },
        spread: false,
        raw: false,
        require_full: if_raw(settings.require_full),
        ..settings.clone()
    }
}

/// Why llama-server refuses its options, if it does.
pub(super) fn server_refusal(settings: &Settings, start: &ServerStart, main_gpu: Option<i64>) -> Option<String> {
    if let Some(unknown) = &settings.ollama.server.unknown_cache_type {
        return Some(format!("llama-server knows no KV cache type '{unknown}'"));
    }
    let gpus = start.command.sees.len();
    let wrong = main_gpu.filter(|&index| usize::try_from(index).map_or(true, |index| index >= gpus.max(1)))?;
    Some(format!("llama-server sees no GPU {wrong} (main_gpu): it has {gpus}"))
}

/// The machine with only the GPUs that llama-server sees, by the backend that it is started with.
pub(super) fn visible_machine(machine: &Machine, chosen: &[CountedGpu], sees: &[usize]) -> Machine {
    let backend = chosen.first().map(|one| one.gpu.backend);
    let seen = |&index: &usize| {
        let gpu = machine.gpus.get(index)?.clone();
        Some(Gpu { backend: backend.unwrap_or(gpu.backend), ..gpu })
    };
    Machine { gpus: sees.iter().filter_map(seen).collect(), ..machine.clone() }
}
