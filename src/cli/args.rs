//! The command line: what can be written, and the words that explain it. Scripts depend on the names.
#![allow(clippy::doc_markdown, reason = "these comments are printed on terminals as they are")]
#![allow(clippy::struct_excessive_bools, reason = "flags are what they are")]

mod examples;
mod knobs;
mod questions;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::value;

#[cfg(test)]
pub(super) use knobs::OtherKnobs;
pub(super) use knobs::{Knobs, MachineArgs};
pub(super) use questions::{
    Asked, BestArgs, ExplainArgs, ExportArgs, MatrixArgs, MaxArgs, Output, SweepArgs, TogetherArgs, Wanted, WhyArgs,
};

/// How far a machine may be loaded with a language model: which layer goes to which GPU, what stays in RAM, and what
/// the KV cache and the compute graph cost.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_help = examples::EXAMPLES, args_conflicts_with_subcommands = true)]
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
    #[command(after_help = examples::PLAN_EXAMPLES)]
    Plan(Box<PlanArgs>),
    /// Find the largest value of a knob that keeps every layer on GPUs.
    #[command(after_help = examples::MAX_EXAMPLES)]
    Max(Box<MaxArgs>),
    /// Say why layers are where they are, and which single changes would bring them onto GPUs.
    #[command(after_help = examples::WHY_EXAMPLES)]
    Why(Box<WhyArgs>),
    /// Suggest the best settings with every layer on GPUs: the most context, the most sequences, the widest KV cache. Knobs
    /// that are given are held.
    #[command(after_help = examples::BEST_EXAMPLES)]
    Best(Box<BestArgs>),
    /// Say whether several models can be loaded at once, what remains, and which would have to go.
    #[command(after_help = examples::TOGETHER_EXAMPLES)]
    Together(Box<TogetherArgs>),
    /// Plan along the whole range of one knob.
    #[command(after_help = examples::SWEEP_EXAMPLES)]
    Sweep(Box<SweepArgs>),
    /// Plan for every pair of values of two knobs.
    #[command(after_help = examples::MATRIX_EXAMPLES)]
    Matrix(Box<MatrixArgs>),
    /// Take a plan away: as a Modelfile, API options, the Ollama server's environment, a llama-server command, JSON,
    /// Markdown or SVG.
    #[command(after_help = examples::EXPORT_EXAMPLES)]
    Export(Box<ExportArgs>),
    /// Print a page of the teach screen: where the memory of a plan goes, and why.
    #[command(after_help = examples::EXPLAIN_EXAMPLES)]
    Explain(Box<ExplainArgs>),
    /// List the models of the built-in catalogue and those on this machine, and how each would fit.
    #[command(after_help = examples::LIST_EXAMPLES)]
    List(Box<ListArgs>),
    /// Show what was detected on this machine, and how; or a machine that is described; or the cards that are known.
    #[command(after_help = examples::DEVICES_EXAMPLES)]
    Devices(DevicesArgs),
    /// Keep machines by name, for --machine NAME.
    #[command(subcommand, after_help = examples::MACHINE_EXAMPLES, arg_required_else_help = false)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
