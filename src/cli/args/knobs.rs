//! The knobs, and the machine, which every question may name.
#![allow(clippy::struct_excessive_bools, reason = "flags are what they are")]

use std::path::PathBuf;

use clap::Args;

use super::super::value;
use crate::engine::EngineId;
use crate::gguf::FileType;
use crate::settings::{CacheType, Context, FlashAttn, GpuLayers, Outputs, Release};
use crate::units::Bytes;

/// What can be asked of an engine. What is not given, the engine decides.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Knobs")]
pub(in super::super) struct Knobs {
    /// Who decides where things go.
    #[arg(long, value_name = "ENGINE", default_value_t)]
    pub(in super::super) engine: EngineId,
    /// Tokens of context (num_ctx, for each sequence), or max: all that the model was trained for.
    #[arg(long, value_name = "N|max", value_parser = value::context, allow_hyphen_values = true)]
    pub(in super::super) ctx: Option<Context>,
    /// Sequences served at once.
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(in super::super) parallel: Option<u64>,
    /// Tokens of a prompt that are computed at once (num_batch).
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(in super::super) batch: Option<u64>,
    /// Tokens of a batch that the graph is built for.
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(in super::super) ubatch: Option<u64>,
    /// Number format of the KV cache, K and V alike: f16, q8_0, q4_0, …
    #[arg(long, value_name = "TYPE", conflicts_with_all = ["cache_type_k", "cache_type_v"])]
    pub(in super::super) kv_type: Option<CacheType>,
    /// Number format of the K cache.
    #[arg(long, value_name = "TYPE")]
    pub(in super::super) cache_type_k: Option<CacheType>,
    /// Number format of the V cache.
    #[arg(long, value_name = "TYPE")]
    pub(in super::super) cache_type_v: Option<CacheType>,
    /// Flash attention: auto (the engine decides), on or off.
    #[arg(long, value_name = "auto|on|off", value_parser = value::flash_attn)]
    pub(in super::super) flash_attn: Option<FlashAttn>,
    /// Layers on GPUs, the output layer counted (num_gpu): auto (the engine decides), all, or a number.
    #[arg(long, value_name = "auto|all|N", value_parser = value::gpu_layers, allow_hyphen_values = true)]
    pub(in super::super) gpu_layers: Option<GpuLayers>,
    /// Memory to keep free on each GPU (OLLAMA_GPU_OVERHEAD).
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(in super::super) gpu_overhead: Option<Bytes>,
    /// Spread the layers over all GPUs (OLLAMA_SCHED_SPREAD).
    #[arg(long)]
    pub(in super::super) spread: bool,
    /// Refuse anything less than every layer on GPUs.
    #[arg(long)]
    pub(in super::super) require_full: bool,
    /// Take the knobs as given, without the engine's own adjustments and without OLLAMA_* variables.
    #[arg(long)]
    pub(in super::super) raw_settings: bool,
    #[command(flatten)]
    pub(in super::super) others: OtherKnobs,
}

/// Knobs of engines that share one command line with the rest; an engine that does not know one says so.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Knobs of llama.cpp (accepted everywhere; an engine that does not use one says so)")]
pub(in super::super) struct OtherKnobs {
    /// One KV cache for all sequences.
    #[arg(long)]
    pub(in super::super) kv_unified: bool,
    /// Keep the KV cache in RAM.
    #[arg(long)]
    pub(in super::super) no_kv_offload: bool,
    /// Never copy weights to a GPU for one operation.
    #[arg(long)]
    pub(in super::super) no_op_offload: bool,
    /// Full-size caches for sliding-window layers.
    #[arg(long)]
    pub(in super::super) swa_full: bool,
    /// Share of the layers for each GPU.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', value_parser = value::share, allow_hyphen_values = true)]
    pub(in super::super) tensor_split: Vec<f64>,
    /// Tokens whose logits one ubatch computes: a number, or ubatch for all of them.
    #[arg(long, value_name = "N|ubatch", value_parser = value::outputs, allow_hyphen_values = true)]
    pub(in super::super) outputs: Option<Outputs>,
    /// MiB that the fit leaves free on each GPU.
    #[arg(long, value_name = "MIB", value_parser = value::mebibytes, allow_hyphen_values = true)]
    pub(in super::super) fit_target: Option<Bytes>,
    /// Smallest context that the fit may choose.
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(in super::super) fit_ctx: Option<u64>,
    /// Layers whose experts stay in RAM.
    #[arg(long, value_name = "N", value_parser = value::layers, allow_hyphen_values = true)]
    pub(in super::super) n_cpu_moe: Option<u64>,
    /// The model's vision or audio projector.
    #[arg(long, value_name = "FILE")]
    pub(in super::super) mmproj: Option<PathBuf>,
    /// The release of llama.cpp whose sizes are meant: 2026-11 or 2026-08 [default: the newest].
    #[arg(long, value_name = "RELEASE")]
    pub(in super::super) release: Option<Release>,
    /// Plan as if the model were quantised so: `Q4_K_M`, `Q8_0`, `IQ4_XS`, `MXFP4`, …
    #[arg(long, value_name = "TYPE")]
    pub(in super::super) quant: Option<FileType>,
}

/// The machine, as far as it is not to be detected.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Machine")]
pub(in super::super) struct MachineArgs {
    /// A GPU, once for each: a card ("RTX 4090"), a size (24GiB), name=…,total=…,free=…,backend=…,integrated=…,compute=…,
    /// or none. Given at all, no GPU is detected.
    #[arg(long, value_name = "GPU", allow_hyphen_values = true)]
    pub(in super::super) gpu: Vec<String>,
    /// Main memory: a size, or total=…,free=…,swap=…. Given, it is not detected.
    #[arg(long, value_name = "RAM", allow_hyphen_values = true)]
    pub(in super::super) ram: Option<String>,
    /// Another machine: a file that 'plimsoll devices --json' wrote there, or one saved by name. --gpu and --ram go
    /// before it.
    #[arg(long, value_name = "NAME|FILE")]
    pub(in super::super) machine: Option<String>,
    /// Another computer, saved by name or as a file, whose GPUs join these over llama.cpp's RPC; once for each.
    #[arg(long, value_name = "NAME|FILE")]
    pub(in super::super) join: Vec<String>,
    /// Load NVIDIA's management library from here instead of the usual places.
    #[arg(long, value_name = "PATH")]
    pub(in super::super) nvml: Option<PathBuf>,
    /// Read what Linux tells of AMD's and Intel's GPUs here instead of in /sys.
    #[arg(long, value_name = "DIR")]
    pub(in super::super) sysfs: Option<PathBuf>,
}
