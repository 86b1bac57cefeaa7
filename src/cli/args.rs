//! Arguments of the command line with their help texts. The names are stable.
#![allow(clippy::doc_markdown, reason = "these comments are printed on terminals as they are")]
#![allow(clippy::struct_excessive_bools, reason = "flags are what they are")]

mod check;
mod examples;
mod knobs;
mod ollama;
mod questions;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::value;
use crate::plan::Outcome;
use crate::settings::Context;

pub(super) use check::CheckArgs;
pub(super) use knobs::{KnobArgs, MachineArgs};
pub(super) use ollama::OllamaArgs;
pub(super) use questions::{
    BestArgs, ExplainArgs, ExportArgs, KnobOrQuant, MatrixArgs, MaxArgs, Output, PageChoice, QueryArgs, SweepArgs,
    TogetherArgs, WhyArgs,
};

/// Plan the memory of a language model: which layer goes to which GPU, what stays in RAM, and what the KV cache and
/// the compute graph cost.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_help = examples::EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(max_term_width = 100)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Commands>,
    /// A .gguf file (any shard of a split model), or a model's name: llama3.1:8b (local, else in Ollama's registry),
    /// hf://owner/repository:QUANT, the URL of a .gguf file, or catalogue:qwen3-8b@q8_0, which needs no network. Only
    /// the header of a remote model is fetched. Without MODEL, the planner opens on a built-in model.
    pub(super) model: Option<PathBuf>,
    #[command(flatten)]
    pub(super) knobs: KnobArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// How often the planner reads the free memory: a number of seconds, or off [default: 1].
    #[arg(long, value_name = "SECONDS|off", value_parser = value::interval, help_heading = "Planner")]
    pub(super) refresh: Option<Interval>,
    /// Append what was detected, fetched and planned to this file, for bug reports.
    #[arg(long = "log", global = true, value_name = "FILE", help_heading = "Log")]
    pub(super) log_file: Option<PathBuf>,
}

/// A polling interval; `None` for off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval(pub(super) Option<Duration>);

#[derive(Debug, Subcommand)]
pub(super) enum Commands {
    /// Print a plan as text, or as JSON.
    #[command(after_help = examples::PLAN_EXAMPLES)]
    Plan(Box<PlanArgs>),
    /// Find the largest value of a knob with all layers on GPU.
    #[command(after_help = examples::MAX_EXAMPLES)]
    Max(Box<MaxArgs>),
    /// Explain why layers are where they are, and which single changes would move them to GPU.
    #[command(after_help = examples::WHY_EXAMPLES)]
    Why(Box<WhyArgs>),
    /// Suggest the best settings with all layers on GPU: the largest context, the most parallel sequences, the most
    /// precise KV cache. Knobs that are given stay as they are.
    #[command(after_help = examples::BEST_EXAMPLES)]
    Best(Box<BestArgs>),
    /// Check whether several models can be loaded at once, what remains free, and which would be unloaded.
    #[command(after_help = examples::TOGETHER_EXAMPLES)]
    Together(Box<TogetherArgs>),
    /// Compare a plan with what a program says that it took: the log of llama-server or Ollama, or 'ollama ps'.
    #[command(after_help = examples::CHECK_EXAMPLES)]
    Check(Box<CheckArgs>),
    /// Plan over the whole range of one knob.
    #[command(after_help = examples::SWEEP_EXAMPLES)]
    Sweep(Box<SweepArgs>),
    /// Plan for every pair of values of two knobs.
    #[command(after_help = examples::MATRIX_EXAMPLES)]
    Matrix(Box<MatrixArgs>),
    /// Export a plan as a Modelfile, API options, the Ollama server's environment, a llama-server command, JSON,
    /// Markdown or SVG.
    #[command(after_help = examples::EXPORT_EXAMPLES)]
    Export(Box<ExportArgs>),
    /// Print a page of the teach screen: where the memory of a plan goes, and why.
    #[command(after_help = examples::EXPLAIN_EXAMPLES)]
    Explain(Box<ExplainArgs>),
    /// List local models and those of the built-in catalogue, and how each would fit.
    #[command(after_help = examples::LIST_EXAMPLES)]
    List(Box<ListArgs>),
    /// Show the devices detected on this machine, and how; or a specified machine; or the known cards.
    #[command(after_help = examples::DEVICES_EXAMPLES)]
    Devices(DevicesArgs),
    /// Save machines under a name, for --machine NAME.
    #[command(subcommand, after_help = examples::MACHINE_EXAMPLES, arg_required_else_help = false)]
    Machine(MachineCommand),
    /// Show, clear or prune the cached headers of remote models.
    #[cfg(feature = "net")]
    Cache(CacheArgs),
    /// Show where the configuration file is, and the values in effect.
    #[command(after_help = examples::CONFIG_EXAMPLES)]
    Config(ConfigArgs),
    /// Print what an issue about a plan needs: version, machine, the model's header, knobs and plan, as Markdown.
    #[command(after_help = examples::REPORT_EXAMPLES)]
    Report(Box<ReportArgs>),
    /// Print a shell completion script.
    #[command(
        after_help = "Example:\n  plimsoll completions bash > ~/.local/share/bash-completion/completions/plimsoll"
    )]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, or write those of all commands into a folder.
    #[command(after_help = "Examples:\n  plimsoll man > plimsoll.1\n  plimsoll man --folder share/man/man1")]
    Man(ManArgs),
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ConfigArgs {
    /// Print a file with all keys, to begin with.
    #[arg(long)]
    pub(super) example: bool,
}

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Write plimsoll.1 and one page per command into this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(super) folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The model, as for plan; without it, the built-in one.
    pub(super) model: Option<PathBuf>,
    #[command(flatten)]
    pub(super) knobs: KnobArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
}

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// A .gguf file (any shard of a split model), or a model's name: llama3.1:8b (local, else in Ollama's registry),
    /// hf://owner/repository:QUANT, the URL of a .gguf file, or catalogue:qwen3-8b@q8_0, which needs no network. Only
    /// the header of a remote model is fetched.
    pub(super) model: PathBuf,
    #[command(flatten)]
    pub(super) knobs: KnobArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Tokens in the cache for which the speed is shown.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Output")]
    pub(super) depth: u64,
    /// Tokens per second that you measured with this plan, at this depth: tells how fast RAM is read, which is
    /// remembered with the machine.
    #[arg(long, value_name = "TOKENS/S", value_parser = value::speed, help_heading = "Output")]
    pub(super) measured: Option<f64>,
    /// Also show the compute graph that is not in use.
    #[arg(long, help_heading = "Output")]
    pub(super) verbose: bool,
    /// Also say what the releases of llama.cpp just before and after would take.
    #[arg(long, help_heading = "Output")]
    pub(super) releases: bool,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
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
    /// List the cached headers, newest first.
    Show,
    /// Remove all cached headers.
    Clear,
    /// Remove old or damaged headers.
    Prune {
        /// Age in days.
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: u64,
    },
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    pub(super) knobs: KnobArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Only models whose name has all of these words; 'moe', 'dense', 'vision',
    /// 'audio', '>7b' and '<120b' limit kind and size.
    pub(super) words: Vec<String>,
    /// Judge by this context instead of the one that each model would get.
    #[arg(long, value_name = "N", value_parser = value::context, conflicts_with = "ctx", help_heading = "Models")]
    pub(super) need: Option<Context>,
    /// Only models with experts.
    #[arg(long, conflicts_with = "dense", help_heading = "Models")]
    pub(super) moe: bool,
    /// Only models without experts.
    #[arg(long, help_heading = "Models")]
    pub(super) dense: bool,
    /// Only models that read images.
    #[arg(long, help_heading = "Models")]
    pub(super) vision: bool,
    /// Only models that read sounds.
    #[arg(long, help_heading = "Models")]
    pub(super) audio: bool,
    /// Only models with at least this many parameters: 7b, 500m.
    #[arg(long, value_name = "SIZE", value_parser = value::parameters, help_heading = "Models")]
    pub(super) min: Option<u64>,
    /// Only models with at most this many parameters: 120b.
    #[arg(long, value_name = "SIZE", value_parser = value::parameters, help_heading = "Models")]
    pub(super) max: Option<u64>,
    /// Only models that fit: all in VRAM, with experts in RAM at most, or with layers in RAM.
    #[arg(long, value_name = "vram|experts|split", value_parser = value::ways_to_fit(), hide_possible_values = true, num_args = 0..=1,
          default_missing_value = "split", help_heading = "Models")]
    pub(super) fits: Option<Outcome>,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct DevicesArgs {
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long)]
    pub(super) json: bool,
    /// List the cards and systems that --gpu knows by name: all, or those that match SEARCH.
    #[arg(long, value_name = "SEARCH", num_args = 0..=1)]
    #[allow(clippy::option_option, reason = "absent, alone, and with a search are three things")]
    pub(super) presets: Option<Option<String>>,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum MachineCommand {
    /// Save this machine, or a specified one, under a name.
    Save {
        /// Its name: letters, digits, spaces, - and _.
        name: String,
        /// Overwrite a saved machine of this name.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        machine: Box<MachineArgs>,
    },
    /// List the saved machines.
    List {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Remove a saved machine.
    Remove {
        /// Its name.
        name: String,
    },
    /// Forget what 'plimsoll check --remember' measured of the drivers on this machine.
    Forget,
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
