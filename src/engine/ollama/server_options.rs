//! What Ollama's decisions come to for llama-server.

use super::discovery::CountedGpu;
use crate::engine::id::ServerStart;
use crate::engine::llama_cpp::architectures::is_known;
use crate::machine::{Gpu, Machine};
use crate::settings::{
    Context, FlashAttn, GpuLayers, LlamaProgram, MmprojDevice, MmprojOptions, Outputs, Release, Settings,
};
use crate::units::Bytes;

/// Tokens of all sequences, and of a batch, and what is computed of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSizes {
    pub tokens: u64,
    pub batch: u64,
    /// Whether embeddings are asked for.
    pub embedding: bool,
}

/// llama-server's options.
pub(super) fn server_options(
    settings: &Settings,
    start: &ServerStart,
    flash_attn: FlashAttn,
    BatchSizes { tokens, batch, embedding }: BatchSizes,
    architecture: &str,
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
    let (version, release) = (settings.ollama.version, release(architecture, settings));
    let sent = Some(batch).filter(|&batch| batch > 0);
    Settings {
        ctx: Context::Tokens(tokens),
        parallel: Some(start.parallel),
        batch: sent,
        ubatch: settings.ubatch.filter(|_| settings.raw).or(sent),
        flash_attn,
        gpu_layers,
        embeddings: Some(embedding),
        reranking: false,
        pooling: None,
        program: LlamaProgram::Server,
        fit_target: settings.fit_target.or(margin),
        no_op_offload: if_raw(settings.no_op_offload),
        outputs: if settings.raw { settings.outputs } else { Outputs::default() },
        release: Some(release),
        build: version.llama_cpp_build().filter(|_| release == version.release()),
        gpu_overhead: Bytes::ZERO,
        adapters: Bytes::ZERO,
        mmproj: MmprojOptions { device: mmproj_device, ..settings.mmproj },
        spread: false,
        raw: false,
        require_full: if_raw(settings.require_full),
        ..settings.clone()
    }
}

/// The release that is planned: the one asked for, else the nearest to what this version ships, else, where that does not
/// know the architecture, the next one that does.
fn release(architecture: &str, settings: &Settings) -> Release {
    let own = settings.ollama.version.release();
    let knows = |release: &Release| is_known(architecture, *release);
    let newer = Release::ALL.into_iter().rev().skip_while(|release| *release != own);
    settings.release.unwrap_or_else(|| newer.clone().find(knows).unwrap_or(own))
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
