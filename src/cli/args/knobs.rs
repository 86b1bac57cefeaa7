//! The knob and machine options, shared by the commands.
#![allow(clippy::struct_excessive_bools, reason = "flags are what they are")]

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::super::value;
use super::DeviceList;
use crate::engine::EngineId;
use crate::gguf::FileType;
use crate::machine::{CpuInstructions, Os, drivers};
use crate::settings::{
    CacheType, Context, FlashAttn, GpuLayers, ImageSize, LlamaProgram, LoadMode, MmprojDevice, NearestRelease, Outputs,
    Pooling, SpecType,
};
use crate::units::{Bandwidth, Bytes};

/// The knobs of an engine. What is not given, the engine chooses.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Knobs")]
pub(in super::super) struct KnobArgs {
    /// The engine that places the layers [default: ollama].
    #[arg(long, value_name = "ENGINE", value_parser = value::engines())]
    pub(in super::super) engine: Option<EngineId>,
    /// Context size in tokens (num_ctx per sequence, -c in total for llama.cpp), or max: the model's training context.
    #[arg(long, value_name = "N|max", value_parser = value::context, allow_hyphen_values = true)]
    pub(in super::super) ctx: Option<Context>,
    /// Parallel sequences (OLLAMA_NUM_PARALLEL, --parallel).
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(in super::super) parallel: Option<u64>,
    /// Logical batch size: prompt tokens submitted at once (num_batch, --batch-size).
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(in super::super) batch: Option<u64>,
    /// Physical batch size: tokens computed at once (--ubatch-size).
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(in super::super) ubatch: Option<u64>,
    /// Data type of the KV cache, for both K and V.
    #[arg(long, value_name = "TYPE", value_parser = value::cache_types(), conflicts_with_all = ["cache_type_k", "cache_type_v"])]
    pub(in super::super) kv_type: Option<CacheType>,
    /// Data type of the K cache.
    #[arg(long, value_name = "TYPE", value_parser = value::cache_types(), hide_possible_values = true)]
    pub(in super::super) cache_type_k: Option<CacheType>,
    /// Data type of the V cache.
    #[arg(long, value_name = "TYPE", value_parser = value::cache_types(), hide_possible_values = true)]
    pub(in super::super) cache_type_v: Option<CacheType>,
    /// Flash attention: auto (chosen by the engine), on or off.
    #[arg(long, value_name = "auto|on|off", value_parser = value::flash_attns(), hide_possible_values = true)]
    pub(in super::super) flash_attn: Option<FlashAttn>,
    /// Layers on GPU, including the output layer (num_gpu, -ngl): auto (chosen by the engine), all, or a number.
    #[arg(long, value_name = "auto|all|N", value_parser = value::gpu_layers, allow_hyphen_values = true)]
    pub(in super::super) gpu_layers: Option<GpuLayers>,
    /// Memory to keep free on each GPU (OLLAMA_GPU_OVERHEAD).
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(in super::super) gpu_overhead: Option<Bytes>,
    /// Spread the layers over all GPUs (OLLAMA_SCHED_SPREAD).
    #[arg(long)]
    pub(in super::super) spread: bool,
    /// Refuse any plan without all layers on GPU.
    #[arg(long)]
    pub(in super::super) require_full: bool,
    /// Use the knobs exactly as given, without the engine's adjustments and the OLLAMA_* variables.
    #[arg(long)]
    pub(in super::super) raw_settings: bool,
    #[command(flatten)]
    pub(in super::super) ollama: super::OllamaArgs,
    #[command(flatten)]
    pub(in super::super) others: OtherKnobArgs,
}

/// Knobs of engines that share one command line with the rest; an engine that does not know one says so.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "llama.cpp knobs (accepted everywhere; an engine that does not use one says so)")]
pub(in super::super) struct OtherKnobArgs {
    /// Use one unified KV buffer shared by all sequences.
    #[arg(long)]
    pub(in super::super) kv_unified: bool,
    /// Keep the KV cache in RAM.
    #[arg(long)]
    pub(in super::super) no_kv_offload: bool,
    /// Do not offload operations on weights in RAM to a GPU.
    #[arg(long)]
    pub(in super::super) no_op_offload: bool,
    /// Use a full-size cache for sliding-window layers.
    #[arg(long)]
    pub(in super::super) swa_full: bool,
    /// Proportion of the layers on each GPU.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', value_parser = value::share, allow_hyphen_values = true)]
    pub(in super::super) tensor_split: Vec<f64>,
    /// Tokens per ubatch whose logits are computed: a number, or ubatch for all of them.
    #[arg(long, value_name = "N|ubatch", value_parser = value::outputs, allow_hyphen_values = true)]
    pub(in super::super) outputs: Option<Outputs>,
    /// Serve embeddings only: logits of a whole batch are reserved, which is no larger than an ubatch [default: for models
    /// that are made for it].
    #[arg(long, alias = "embedding", value_name = "true|false", num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    pub(in super::super) embeddings: Option<bool>,
    /// Serve scores of texts: embeddings with pooling rank.
    #[arg(long, alias = "rerank")]
    pub(in super::super) reranking: bool,
    /// How embeddings are pooled: none, mean, cls, last or rank [default: the model's own].
    #[arg(long, value_name = "KIND")]
    pub(in super::super) pooling: Option<Pooling>,
    /// The program of llama.cpp that runs the model: llama-server, llama-cli, llama-completion, llama-bench,
    /// llama-batched-bench, llama-perplexity or llama-fit-params [default: llama-server].
    #[arg(long, value_name = "NAME")]
    pub(in super::super) program: Option<LlamaProgram>,
    /// Memory in MiB that the fit leaves free on each GPU.
    #[arg(long, value_name = "MIB", value_parser = value::mebibytes, allow_hyphen_values = true)]
    pub(in super::super) fit_target: Option<Bytes>,
    /// Smallest context that the fit may choose.
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(in super::super) fit_ctx: Option<u64>,
    /// Keep the MoE weights of the first N layers in RAM.
    #[arg(long, value_name = "N", value_parser = value::layers, allow_hyphen_values = true)]
    pub(in super::super) n_cpu_moe: Option<u64>,
    /// How weights are read into RAM: mmap, mlock, none, dio or mmap+mlock [default: the engine's].
    #[arg(long, value_name = "MODE")]
    pub(in super::super) load_mode: Option<LoadMode>,
    /// Limit in MiB of llama-server's prompt cache in RAM, 0 for none [default: 8192].
    #[arg(long, value_name = "MIB", value_parser = value::mebibytes)]
    pub(in super::super) cache_ram: Option<Bytes>,
    /// Checkpoints of recurrent states and sliding windows that llama-server keeps per sequence at most [default: 32].
    #[arg(long, value_name = "N", value_parser = value::layers)]
    pub(in super::super) ctx_checkpoints: Option<u64>,
    /// Leave weights in RAM as they are in the file, not repacked for the CPU.
    #[arg(long, overrides_with = "repack")]
    pub(in super::super) no_repack: bool,
    /// Repack weights in RAM for the CPU, as llama.cpp does by default.
    #[arg(long, overrides_with = "no_repack")]
    pub(in super::super) repack: bool,
    /// The model's vision or audio projector: a file, or one of the catalogue, such as catalogue:gemma3-4b. Without
    /// this, the one that is found with the model is planned.
    #[arg(long, value_name = "FILE|catalogue:NAME")]
    pub(in super::super) mmproj: Option<PathBuf>,
    /// Plan without a projector, also if one is found with the model.
    #[arg(long, conflicts_with = "mmproj")]
    pub(in super::super) no_mmproj: bool,
    /// The projector's device: GPU0, GPU1, …, or none for the CPU [default: the first GPU].
    #[arg(long, value_name = "GPU1|none", conflicts_with = "no_mmproj_offload")]
    pub(in super::super) mmproj_device: Option<MmprojDevice>,
    /// Keep the projector in RAM.
    #[arg(long)]
    pub(in super::super) no_mmproj_offload: bool,
    /// Minimum number of tokens of an image, for projectors that read many sizes.
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(in super::super) image_min_tokens: Option<u64>,
    /// Maximum number of tokens of an image, for projectors that read many sizes.
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(in super::super) image_max_tokens: Option<u64>,
    /// Plan for an image of this size in pixels, not for the largest one allowed.
    #[arg(long, value_name = "WxH")]
    pub(in super::super) image: Option<ImageSize>,
    /// How tokens are drafted, several separated by commas: draft-mtp, draft-simple, draft-eagle3, draft-dflash,
    /// draft-dspark, ngram-simple, ngram-map-k, ngram-map-k4v, ngram-mod, ngram-cache, or none [default: what the draft
    /// model is for].
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(in super::super) spec_type: Vec<SpecType>,
    /// The model that drafts tokens: a file, or any other name of a model.
    #[arg(long, value_name = "MODEL")]
    pub(in super::super) model_draft: Option<PathBuf>,
    /// Tokens drafted at most.
    #[arg(long, value_name = "N", value_parser = value::layers, allow_hyphen_values = true)]
    pub(in super::super) spec_draft_n_max: Option<u64>,
    /// Layers of the draft on GPU: auto, all, or a number [default: all].
    #[arg(long, value_name = "auto|all|N", value_parser = value::gpu_layers, allow_hyphen_values = true)]
    pub(in super::super) gpu_layers_draft: Option<GpuLayers>,
    /// Data type of the draft's K cache [default: f16].
    #[arg(long, value_name = "TYPE", value_parser = value::cache_types(), hide_possible_values = true)]
    pub(in super::super) cache_type_k_draft: Option<CacheType>,
    /// Data type of the draft's V cache [default: f16].
    #[arg(long, value_name = "TYPE", value_parser = value::cache_types(), hide_possible_values = true)]
    pub(in super::super) cache_type_v_draft: Option<CacheType>,
    /// GPUs of the draft, such as GPU1, or none [default: those of the model].
    #[arg(long, value_name = "GPU,…", value_parser = value::devices)]
    pub(in super::super) device_draft: Option<DeviceList>,
    /// The llama.cpp release to plan for, or the nearest one to a build (b11200) or a date (2026-09-15) [default: the
    /// newest, or the nearest to what this version of Ollama ships].
    #[arg(long, value_name = "RELEASE", value_parser = value::releases())]
    pub(in super::super) release: Option<NearestRelease>,
    /// Plan as if the model had this quantisation: Q4_K_M, Q8_0, IQ4_XS, MXFP4, …
    #[arg(long, value_name = "TYPE")]
    pub(in super::super) quant: Option<FileType>,
}

/// The machine to plan for.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Machine")]
pub(in super::super) struct MachineArgs {
    /// A GPU, once per GPU: a card ("RTX 4090"), a size (24GiB),
    /// name=…,total=…,free=…,backend=…,integrated=…,compute=…,gfx=…,pci=…,also-vulkan, or none. If given, GPUs are not detected.
    #[arg(long, value_name = "GPU", allow_hyphen_values = true)]
    pub(in super::super) gpu: Vec<String>,
    /// System RAM: a size, or total=…,free=…,swap=…,bandwidth=80GB/s. If given, RAM is not detected.
    #[arg(long, value_name = "RAM", allow_hyphen_values = true)]
    pub(in super::super) ram: Option<String>,
    /// How fast the disk with the model is read, such as 3GB/s, where RAM cannot hold all of it [default: assumed].
    #[arg(long, value_name = "SPEED", value_parser = Bandwidth::from_str)]
    pub(in super::super) disk: Option<Bandwidth>,
    /// Another machine: a saved one, or a file written there by 'plimsoll devices --json'. --gpu and --ram override
    /// it. 'this' is the present one, where config.toml names another.
    #[arg(long, value_name = "NAME|FILE")]
    pub(in super::super) machine: Option<String>,
    /// Another machine, saved or in a file, whose GPUs are added over llama.cpp's RPC; once per machine.
    #[arg(long, value_name = "NAME|FILE")]
    pub(in super::super) join: Vec<String>,
    /// The machine's operating system: linux, macos or windows.
    #[arg(long, value_name = "OS", value_parser = value::os)]
    pub(in super::super) os: Option<Os>,
    /// The CPU's vector instructions, by which llama.cpp repacks weights: avx2, avx512, amx, neon-dotprod, neon-i8mm or
    /// none [default: detected; of a specified machine assumed].
    #[arg(long, value_name = "CPU")]
    pub(in super::super) cpu: Option<CpuInstructions>,
    /// The branch of NVIDIA's driver, such as 580.
    #[arg(long, value_name = "VERSION", value_parser = drivers::major)]
    pub(in super::super) driver: Option<u32>,
    /// The version of NVIDIA's JetPack on a Jetson.
    #[arg(long, value_name = "VERSION", value_parser = drivers::major)]
    pub(in super::super) jetpack: Option<u32>,
    /// Load NVIDIA's management library (NVML) from this path.
    #[arg(long, value_name = "PATH")]
    pub(in super::super) nvml: Option<PathBuf>,
    /// Read AMD and Intel GPUs from this directory instead of /sys.
    #[arg(long, value_name = "DIR")]
    pub(in super::super) sysfs: Option<PathBuf>,
}
