//! The command line: what can be written, and the words that explain it. Scripts depend on the names.
#![allow(clippy::doc_markdown, reason = "these comments are printed on terminals as they are")]
#![allow(clippy::struct_excessive_bools, reason = "flags are what they are")]

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::value;
use crate::engine::EngineId;
use crate::engine::llama_cpp::release::Release;
use crate::export::Format;
use crate::gguf::FileType;
use crate::settings::knob::Knob;
use crate::settings::{CacheType, Context, FlashAttn, GpuLayers, Outputs};
use crate::teach::Page;
use crate::units::Bytes;

const EXAMPLES: &str = "\
Examples:
  plimsoll                                       the planner, on a built-in model and this machine
  plimsoll model.gguf                            the planner, on a file of yours
  plimsoll llama3.1:8b --gpu \"RTX 4090\"          a model of Ollama's, a card that is not here
  plimsoll hf://Qwen/Qwen3-8B-GGUF:Q8_0          a model on Hugging Face, before it is pulled
  plimsoll plan model.gguf --ctx 32768           the same plan as text
  plimsoll plan model.gguf --gpu 24GiB --json    and as JSON, for scripts
  plimsoll catalogue:qwen3-8b@q8_0               a model that is nowhere yet, from the built-in catalogue
  plimsoll list --fits                           the models that fit this machine
  plimsoll devices                               what was found on this machine, and how";

const PLAN_EXAMPLES: &str = "\
Examples:
  plimsoll plan model.gguf --ctx 32768 --kv-type q8_0 --flash-attn on
  plimsoll plan model.gguf --ctx max --gpu \"RTX 3090\" --gpu \"RTX 3060\" --ram 64GiB
  plimsoll plan model.gguf --gpu name=A,total=24GiB,free=22GiB,backend=CUDA,compute=8.6
  plimsoll plan model.gguf --gpu none --json | jq .verdict

Sizes are written 24GiB, 24GB, 512MiB, or in plain bytes.
What is not said of the machine is detected.

Exit status:
  0  a plan was made, whatever its verdict
  2  the arguments are wrong, or the engine refuses the settings
  3  the model could not be read";

const MAX_EXAMPLES: &str = "\
Examples:
  plimsoll max model.gguf --for ctx
  plimsoll max model.gguf --for parallel --ctx 8192 --gpu 24GiB
  plimsoll max model.gguf --for ctx --layers 30 --json | jq .value";

const WHY_EXAMPLES: &str = "\
Examples:
  plimsoll why model.gguf --ctx 65536 --gpu \"RTX 3060\"
  plimsoll why model.gguf --layer 12 --json | jq .changes";

const SWEEP_EXAMPLES: &str = "\
Examples:
  plimsoll sweep model.gguf
  plimsoll sweep model.gguf --over parallel --values 1,2,4,8 --csv";

const MATRIX_EXAMPLES: &str = "\
Examples:
  plimsoll matrix model.gguf --flash-attn on
  plimsoll matrix model.gguf --rows quant --columns ctx
  plimsoll matrix model.gguf --rows parallel --columns ctx --column-values 8k,16k,32k --json";

const EXPORT_EXAMPLES: &str = "\
Examples:
  plimsoll export llama3.1:8b --ctx 32768 > Modelfile
  plimsoll export model.gguf --as env --kv-type q8_0 --flash-attn on
  plimsoll export model.gguf --as llama-server --engine llama.cpp --ctx 65536
  plimsoll export model.gguf --as svg --gpu \"RTX 4090\" --output plan.svg

Which forms there are depends on the engine: Modelfile, options, env and systemd are Ollama's.";
const EXPLAIN_EXAMPLES: &str = "\
Examples:
  plimsoll explain model.gguf --page formulas --ctx 32768 --gpu 24GiB
  plimsoll explain model.gguf --page cache --markdown
  plimsoll explain model.gguf --page allocation --svg > allocation.svg
  plimsoll explain model.gguf --page allocation --json | jq '.devices[].peak'";

const LIST_EXAMPLES: &str = "\
Examples:
  plimsoll list --fits                              what this machine can run
  plimsoll list --gpu \"RTX 4090\" --ctx 32768       how all of them would fit on another one
  plimsoll list --quant Q8_0 --gpu 24GiB --json     in another quantisation, for scripts

Models that are only in the catalogue are planned from built-in descriptions: nothing is downloaded.";

const DEVICES_EXAMPLES: &str = "\
Examples:
  plimsoll devices                               this machine
  plimsoll devices --json > garage.json          and for another computer: plimsoll plan MODEL --machine garage.json
  plimsoll devices --presets 4090                cards and systems that --gpu knows by name";

const MACHINE_EXAMPLES: &str = "\
Examples:
  plimsoll machine save here
  plimsoll machine save dream --gpu \"RTX 5090\" --gpu \"RTX 5090\" --ram 128GiB
  plimsoll plan model.gguf --machine dream";

/// How far a machine may be loaded with a language model: which layer goes to which GPU, what stays in RAM, and what
/// the KV cache and the compute graph cost.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(max_term_width = 100)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    /// A .gguf file (any shard of a split one will do), or a model's name: llama3.1:8b (here, else in Ollama's registry),
    /// hf://owner/repository:QUANT, the address of a .gguf file (of what is not here only the header is fetched), or
    /// catalogue:qwen3-8b@q8_0, which needs no network.
    /// Without it, the planner opens on a built-in model.
    pub(super) model: Option<PathBuf>,
    #[command(flatten)]
    pub(super) knobs: Knobs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// How often the planner asks how much memory is free: a number of seconds, or off.
    #[arg(long, value_name = "SECONDS|off", value_parser = value::interval, default_value = "1", help_heading = "Planner")]
    pub(super) refresh: Interval,
}

/// How often something is asked; none for never.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval(pub(super) Option<Duration>);

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print a plan as text, or as JSON.
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Box<PlanArgs>),
    /// Find the largest value of a knob that keeps every layer on GPUs.
    #[command(after_help = MAX_EXAMPLES)]
    Max(Box<MaxArgs>),
    /// Say why layers are where they are, and which single changes would bring them onto GPUs.
    #[command(after_help = WHY_EXAMPLES)]
    Why(Box<WhyArgs>),
    /// Plan along the whole range of one knob.
    #[command(after_help = SWEEP_EXAMPLES)]
    Sweep(Box<SweepArgs>),
    /// Plan for every pair of values of two knobs.
    #[command(after_help = MATRIX_EXAMPLES)]
    Matrix(Box<MatrixArgs>),
    /// Take a plan away: as a Modelfile, API options, the Ollama server's environment, a llama-server command, JSON,
    /// Markdown or SVG.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(Box<ExportArgs>),
    /// Print a page of the teach screen: where the memory of a plan goes, and why.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Box<ExplainArgs>),
    /// List the models of the built-in catalogue and those on this machine, and how each would fit.
    #[command(after_help = LIST_EXAMPLES)]
    List(Box<ListArgs>),
    /// Show what was detected on this machine, and how; or a machine that is described; or the cards that are known.
    #[command(after_help = DEVICES_EXAMPLES)]
    Devices(DevicesArgs),
    /// Keep machines by name, for --machine NAME.
    #[command(subcommand, after_help = MACHINE_EXAMPLES)]
    Machine(MachineCommand),
    /// Show, clear or prune the headers that are kept of models on the network.
    #[cfg(feature = "net")]
    Cache(CacheArgs),
    /// Print completions for a shell, to be kept where that shell looks for them.
    #[command(
        after_help = "Example:\n  plimsoll completions bash > ~/.local/share/bash-completion/completions/plimsoll"
    )]
    Completions {
        /// For which shell.
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// A .gguf file (any shard of a split one will do), or a model's name: llama3.1:8b (here, else in Ollama's registry),
    /// hf://owner/repository:QUANT, the address of a .gguf file (of what is not here only the header is fetched), or
    /// catalogue:qwen3-8b@q8_0, which needs no network.
    pub(super) model: PathBuf,
    #[command(flatten)]
    pub(super) knobs: Knobs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

/// A model, and everything that a plan of it depends on.
#[derive(Debug, Args)]
pub(super) struct Asked {
    /// A .gguf file (any shard of a split one will do), or a model's name.
    pub(super) model: PathBuf,
    #[command(flatten)]
    pub(super) knobs: Knobs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
}

#[derive(Debug, Args)]
pub(super) struct MaxArgs {
    #[command(flatten)]
    pub(super) asked: Asked,
    /// The knob: ctx, parallel, batch, gpu-layers, or quant.
    #[arg(long = "for", value_name = "KNOB", value_parser = value::number_knob_or_quant, help_heading = "Question")]
    pub(super) knob: Wanted,
    /// At least so many layers on GPUs, the output layer counted, instead of all.
    #[arg(long, value_name = "N", value_parser = value::layers, allow_hyphen_values = true, help_heading = "Question")]
    pub(super) layers: Option<u64>,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

/// What the most is wanted of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    Knob(Knob),
    Quantisation,
}

#[derive(Debug, Args)]
pub(super) struct WhyArgs {
    #[command(flatten)]
    pub(super) asked: Asked,
    /// Only this layer, counted from 0; the output layer comes after the last block.
    #[arg(long, value_name = "N", value_parser = value::layers, allow_hyphen_values = true, help_heading = "Question")]
    pub(super) layer: Option<u64>,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    pub(super) asked: Asked,
    /// The page.
    #[arg(long, value_name = "PAGE", value_parser = value::page, help_heading = "Question")]
    pub(super) page: Page,
    /// Print Markdown, with every figure.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["svg", "json"])]
    pub(super) markdown: bool,
    /// Print a picture of the page.
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(super) svg: bool,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct SweepArgs {
    #[command(flatten)]
    pub(super) asked: Asked,
    /// The knob: ctx, parallel, batch, ubatch, gpu-layers, n-cpu-moe, kv-type, flash-attn or another that takes values.
    #[arg(long, value_name = "KNOB", value_parser = value::knob, default_value = "ctx", help_heading = "Question")]
    pub(super) over: Knob,
    /// Its values; without them, places spread over its range.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', help_heading = "Question", conflicts_with = "points")]
    pub(super) values: Vec<String>,
    /// How many places at most.
    #[arg(long, value_name = "N", value_parser = value::count, default_value = "16", help_heading = "Question")]
    pub(super) points: u64,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(super) struct MatrixArgs {
    #[command(flatten)]
    pub(super) asked: Asked,
    /// What changes from row to row: a knob, as ctx, parallel, batch, ubatch, gpu-layers, n-cpu-moe, kv-type or
    /// flash-attn; or quant.
    #[arg(long, value_name = "KNOB", value_parser = value::knob_or_quant, default_value = "ctx", help_heading = "Question")]
    pub(super) rows: Wanted,
    /// What changes from column to column.
    #[arg(long, value_name = "KNOB", value_parser = value::knob_or_quant, default_value = "kv-type", help_heading = "Question")]
    pub(super) columns: Wanted,
    /// The rows' values; without them, 12 places spread over the range.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', help_heading = "Question")]
    pub(super) row_values: Vec<String>,
    /// The columns' values; without them, 6 places spread over the range.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', help_heading = "Question")]
    pub(super) column_values: Vec<String>,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    pub(super) asked: Asked,
    /// The form: modelfile, options, env, systemd, llama-server, json, markdown or svg.
    #[arg(long = "as", value_name = "FORM", help_heading = "Output")]
    pub(super) form: Option<Format>,
    /// Write it to this file, which must not be there yet, instead of printing it.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// Write it even if the file is there.
    #[arg(long, requires = "output", help_heading = "Output")]
    pub(super) force: bool,
}

/// In which form a table is printed.
#[derive(Debug, Args)]
pub(super) struct Output {
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output", conflicts_with = "csv")]
    pub(super) json: bool,
    /// Print comma-separated values with a line of names; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) csv: bool,
    /// Print an SVG picture.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["json", "csv"])]
    pub(super) svg: bool,
}

#[cfg(feature = "net")]
#[derive(Debug, Args)]
pub(super) struct CacheArgs {
    #[command(subcommand)]
    pub(super) command: Option<CacheCommand>,
}

#[cfg(feature = "net")]
#[derive(Clone, Copy, Debug, Subcommand)]
pub(super) enum CacheCommand {
    /// List what is kept, newest first.
    Show,
    /// Remove everything.
    Clear,
    /// Remove what is old or damaged.
    Prune {
        /// How many days old.
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: u64,
    },
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    pub(super) knobs: Knobs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Leave out what does not fit, not even with layers in RAM.
    #[arg(long, help_heading = "Output")]
    pub(super) fits: bool,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct DevicesArgs {
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long)]
    pub(super) json: bool,
    /// List the cards and systems that can be named, all of them or those that the search finds.
    #[arg(long, value_name = "SEARCH", num_args = 0..=1)]
    #[allow(clippy::option_option, reason = "absent, alone, and with a search are three things")]
    pub(super) presets: Option<Option<String>>,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum MachineCommand {
    /// Save this machine, or the one that is described, under a name.
    Save {
        /// Its name: letters, digits, spaces, - and _.
        name: String,
        #[command(flatten)]
        machine: Box<MachineArgs>,
    },
    /// List the machines that are saved.
    List {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Forget a saved machine.
    Remove {
        /// Its name.
        name: String,
    },
}

/// What can be asked of an engine. What is not given, the engine decides.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Knobs")]
pub(super) struct Knobs {
    /// Who decides where things go.
    #[arg(long, value_name = "ENGINE", default_value_t)]
    pub(super) engine: EngineId,
    /// Tokens of context (num_ctx, for each sequence), or max: all that the model was trained for.
    #[arg(long, value_name = "N|max", value_parser = value::context, allow_hyphen_values = true)]
    pub(super) ctx: Option<Context>,
    /// Sequences served at once.
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(super) parallel: Option<u64>,
    /// Tokens of a prompt that are computed at once (num_batch).
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(super) batch: Option<u64>,
    /// Tokens of a batch that the graph is built for.
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(super) ubatch: Option<u64>,
    /// Number format of the KV cache, K and V alike: f16, q8_0, q4_0, …
    #[arg(long, value_name = "TYPE", conflicts_with_all = ["cache_type_k", "cache_type_v"])]
    pub(super) kv_type: Option<CacheType>,
    /// Number format of the K cache.
    #[arg(long, value_name = "TYPE")]
    pub(super) cache_type_k: Option<CacheType>,
    /// Number format of the V cache.
    #[arg(long, value_name = "TYPE")]
    pub(super) cache_type_v: Option<CacheType>,
    /// Flash attention: auto (the engine decides), on or off.
    #[arg(long, value_name = "auto|on|off", value_parser = value::flash_attn)]
    pub(super) flash_attn: Option<FlashAttn>,
    /// Layers on GPUs, the output layer counted (num_gpu): auto (the engine decides), all, or a number.
    #[arg(long, value_name = "auto|all|N", value_parser = value::gpu_layers, allow_hyphen_values = true)]
    pub(super) gpu_layers: Option<GpuLayers>,
    /// Memory to keep free on each GPU (OLLAMA_GPU_OVERHEAD).
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(super) gpu_overhead: Option<Bytes>,
    /// Spread the layers over all GPUs (OLLAMA_SCHED_SPREAD).
    #[arg(long)]
    pub(super) spread: bool,
    /// Refuse anything less than every layer on GPUs.
    #[arg(long)]
    pub(super) require_full: bool,
    /// Take the knobs as given, without the engine's own adjustments and without OLLAMA_* variables.
    #[arg(long)]
    pub(super) raw_settings: bool,
    #[command(flatten)]
    pub(super) others: OtherKnobs,
}

/// Knobs of engines that share one command line with the rest; an engine that does not know one says so.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Knobs of llama.cpp (accepted everywhere; an engine that does not use one says so)")]
pub(super) struct OtherKnobs {
    /// One KV cache for all sequences.
    #[arg(long)]
    pub(super) kv_unified: bool,
    /// Keep the KV cache in RAM.
    #[arg(long)]
    pub(super) no_kv_offload: bool,
    /// Never copy weights to a GPU for one operation.
    #[arg(long)]
    pub(super) no_op_offload: bool,
    /// Full-size caches for sliding-window layers.
    #[arg(long)]
    pub(super) swa_full: bool,
    /// Share of the layers for each GPU.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', value_parser = value::share, allow_hyphen_values = true)]
    pub(super) tensor_split: Vec<f64>,
    /// Tokens whose logits one ubatch computes: a number, or ubatch for all of them.
    #[arg(long, value_name = "N|ubatch", value_parser = value::outputs, allow_hyphen_values = true)]
    pub(super) outputs: Option<Outputs>,
    /// MiB that the fit leaves free on each GPU.
    #[arg(long, value_name = "MIB", value_parser = value::mebibytes, allow_hyphen_values = true)]
    pub(super) fit_target: Option<Bytes>,
    /// Smallest context that the fit may choose.
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(super) fit_ctx: Option<u64>,
    /// Layers whose experts stay in RAM.
    #[arg(long, value_name = "N", value_parser = value::layers, allow_hyphen_values = true)]
    pub(super) n_cpu_moe: Option<u64>,
    /// The model's vision or audio projector.
    #[arg(long, value_name = "FILE")]
    pub(super) mmproj: Option<PathBuf>,
    /// The release of llama.cpp whose sizes are meant: 2026-11 or 2026-08 [default: the newest].
    #[arg(long, value_name = "RELEASE")]
    pub(super) release: Option<Release>,
    /// Plan as if the model were quantised so: `Q4_K_M`, `Q8_0`, `IQ4_XS`, `MXFP4`, …
    #[arg(long, value_name = "TYPE")]
    pub(super) quant: Option<FileType>,
}

/// The machine, as far as it is not to be detected.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Machine")]
pub(super) struct MachineArgs {
    /// A GPU, once for each: a card ("RTX 4090"), a size (24GiB), name=…,total=…,free=…,backend=…,integrated=…,compute=…,
    /// or none. Given at all, no GPU is detected.
    #[arg(long, value_name = "GPU", allow_hyphen_values = true)]
    pub(super) gpu: Vec<String>,
    /// Main memory: a size, or total=…,free=…,swap=…. Given, it is not detected.
    #[arg(long, value_name = "RAM", allow_hyphen_values = true)]
    pub(super) ram: Option<String>,
    /// Another machine: a file that 'plimsoll devices --json' wrote there, or one saved by name. --gpu and --ram go
    /// before it.
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) machine: Option<String>,
    /// Another computer, saved by name or as a file, whose GPUs join these over llama.cpp's RPC; once for each.
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) join: Vec<String>,
    /// Load NVIDIA's management library from here instead of the usual places.
    #[arg(long, value_name = "PATH")]
    pub(super) nvml: Option<PathBuf>,
    /// Read what Linux tells of AMD's and Intel's GPUs here instead of in /sys.
    #[arg(long, value_name = "DIR")]
    pub(super) sysfs: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
