//! The command line as a whole: the planner's own arguments, and the commands.
#![allow(clippy::doc_markdown, reason = "these comments are printed on terminals as they are")]

mod examples;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

#[cfg(feature = "net")]
use super::args::CacheArgs;
use super::args::{
    AboutPlan, ApplyArgs, Ask, Asked, CheckArgs, ConfigArgs, DevicesArgs, ExplainArgs, ExportArgs, KnobArgs, ListArgs,
    MachineArgs, MachineCommand, ManArgs, ModelPlace, PlanArgs, QueryArgs, ReportArgs, TogetherArgs, WatchArgs,
};
use super::schema::{self, AnswerName};
use super::value::{self, Completed, Interval};
use crate::question::best::arguments::BestArgs;
use crate::question::matrix::arguments::MatrixArgs;
use crate::question::max::arguments::MaxArgs;
use crate::question::need::arguments::NeedArgs;
use crate::question::place::arguments::PlaceArgs;
use crate::question::sweep::arguments::SweepArgs;
use crate::question::why::arguments::WhyArgs;
use crate::teach::Tab;

/// Plan the memory of a language model: which layer goes to which GPU, what stays in RAM, and what the KV cache and
/// the compute buffers cost.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_help = examples::EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(max_term_width = 100)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Commands>,
    /// A .gguf file (any shard of a split model), or a model's name: llama3.1:8b (local, else in Ollama's registry),
    /// hf://owner/repository:QUANT, the URL of a .gguf file, or catalogue:qwen3-8b@q8_0, which needs no network. Only
    /// the header of a remote model is fetched. Or a scenario, a .toml file that was exported. Without MODEL, the planner
    /// opens on a built-in model.
    pub(super) model: Option<PathBuf>,
    #[command(flatten)]
    pub(super) knobs: KnobArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Open the plan that the planner had when it was left last.
    #[arg(long, conflicts_with = "model", help_heading = "Planner")]
    pub(super) last: bool,
    /// The planner in lines instead of a screen, for screen readers: a line says a knob and a value, one line answers.
    #[arg(long, conflicts_with_all = ["page", "lesson", "refresh"], help_heading = "Planner")]
    pub(super) plain: bool,
    /// Open this page of the teach screen.
    #[arg(long, value_name = "PAGE", value_parser = value::teach_pages(), help_heading = "Planner")]
    pub(super) page: Option<Tab>,
    /// Open this lesson, counted from 1.
    #[arg(long, value_name = "N", value_parser = value::count, help_heading = "Planner")]
    pub(super) lesson: Option<u64>,
    /// Open the page at this step, counted from 1.
    #[arg(long, value_name = "N", value_parser = value::count, requires = "page", help_heading = "Planner")]
    pub(super) step: Option<u64>,
    /// Add the lessons in this folder, its .toml files, to the built-in ones; without it, those in the folder 'lessons'
    /// beside the configuration file.
    #[arg(long, value_name = "FOLDER", help_heading = "Planner")]
    pub(super) lessons: Option<PathBuf>,
    /// The llama-server that 'a' starts [default: that on PATH], or the address of one that runs as a router.
    #[arg(long, value_name = "PATH|URL", help_heading = "Planner")]
    pub(super) server: Option<PathBuf>,
    /// How often the planner reads the free memory: a number of seconds, or off [default: 1].
    #[arg(long, value_name = "SECONDS|off", value_parser = value::interval, help_heading = "Planner")]
    pub(super) refresh: Option<Interval>,
    /// Append what was detected, fetched and planned to this file, for bug reports.
    #[arg(long = "log", global = true, value_name = "FILE", help_heading = "Log")]
    pub(super) log_file: Option<PathBuf>,
    /// Ask no server for models: names are looked up in files, local stores, the cache and the catalogue.
    #[arg(long, global = true, help_heading = "Network")]
    pub(super) offline: bool,
    /// How long a conversation with servers may take in all, which ends earlier if they stall [default: 5 for a question to
    /// a program on this machine, 60 for a list, 600 for a model; 30 of silence].
    #[arg(long, global = true, value_name = "SECONDS", value_parser = value::timeout, help_heading = "Network")]
    pub(super) timeout: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Commands {
    /// Print a plan as text, or as JSON.
    #[command(after_help = examples::PLAN_EXAMPLES)]
    Plan(Box<PlanArgs>),
    Max(Box<Ask<MaxArgs>>),
    Why(Box<Ask<WhyArgs>>),
    Best(Box<Ask<BestArgs>>),
    Place(Box<Ask<PlaceArgs>>),
    Need(Box<Ask<NeedArgs>>),
    /// Check whether several models can be loaded at once, what remains free, and which would be unloaded.
    #[command(after_help = examples::TOGETHER_EXAMPLES)]
    Together(Box<TogetherArgs>),
    /// Compare a plan with what a program says that it took: the log of llama-server or Ollama, or 'ollama ps'.
    #[command(after_help = examples::CHECK_EXAMPLES)]
    Check(Box<CheckArgs>),
    /// Load a plan: on a running Ollama, or as llama-server; then compare what came of it with the plan.
    #[command(after_help = examples::APPLY_EXAMPLES)]
    Apply(Box<ApplyArgs>),
    /// Follow what runs: what each program that serves models holds, beside its plan.
    #[command(after_help = examples::WATCH_EXAMPLES)]
    Watch(Box<WatchArgs>),
    Sweep(Box<Ask<SweepArgs>>),
    Matrix(Box<Ask<MatrixArgs>>),
    /// Export a plan as a Modelfile, API options, the Ollama server's environment, a llama-server command, a command or
    /// a scenario that reopens it, JSON, Markdown or SVG.
    #[command(after_help = examples::EXPORT_EXAMPLES)]
    Export(Box<ExportArgs>),
    /// Print a page of the teach screen: where the memory of a plan goes, and why.
    #[command(after_help = examples::EXPLAIN_EXAMPLES)]
    Explain(Box<ExplainArgs>),
    /// List local models and those of the built-in catalogue, and how each would fit.
    #[command(after_help = examples::LIST_EXAMPLES, after_long_help = format!("{}\n\n{}", examples::LIST_COLUMNS, examples::LIST_EXAMPLES))]
    List(Box<ListArgs>),
    /// Show the devices detected on this machine, and how; or a specified machine; or the known cards.
    #[command(after_help = examples::DEVICES_EXAMPLES)]
    Devices(Box<DevicesArgs>),
    /// Save machines under a name, for --machine NAME.
    #[command(subcommand, after_help = examples::MACHINE_EXAMPLES, arg_required_else_help = false)]
    Machine(MachineCommand),
    /// Show, clear or prune the cached headers of remote models.
    #[cfg(feature = "net")]
    Cache(CacheArgs),
    /// Show where the configuration file is, and the values in effect.
    #[command(after_help = examples::CONFIG_EXAMPLES)]
    Config(ConfigArgs),
    /// Print the JSON Schema of what a command prints with --json: all keys are always there, and null where nothing is
    /// known. Without NAME, list the names.
    #[command(after_help = examples::SCHEMA_EXAMPLES)]
    Schema {
        /// What is described, as the list names it.
        #[arg(value_parser = schema::names(), hide_possible_values = true)]
        name: Option<AnswerName>,
    },
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
    /// Print the values that a completion script asks for.
    #[command(hide = true)]
    CompleteValues {
        /// What they are of.
        kind: Completed,
        /// How they begin.
        #[arg(default_value = "", allow_hyphen_values = true)]
        prefix: String,
    },
    /// Serve plan, max, why, best, need, list and check as tools of the Model Context Protocol, on standard input and output.
    #[command(after_help = examples::MCP_EXAMPLES)]
    Mcp,
    /// Print the manual page, or write those of all commands into a folder.
    #[command(after_help = "Examples:\n  plimsoll man > plimsoll.1\n  plimsoll man --folder share/man/man1")]
    Man(ManArgs),
}

impl Commands {
    /// The command, if it is about one plan.
    pub(super) fn about_plan(&mut self) -> Option<&mut dyn AboutPlan> {
        Some(match self {
            Self::Max(args) => &mut **args,
            Self::Why(args) => &mut **args,
            Self::Best(args) => &mut **args,
            Self::Place(args) => &mut **args,
            Self::Need(args) => &mut **args,
            Self::Sweep(args) => &mut **args,
            Self::Matrix(args) => &mut **args,
            Self::Export(args) => &mut **args,
            Self::Explain(args) => &mut **args,
            _ => return None,
        })
    }
}

impl Cli {
    /// The knobs of the command, or of the planner.
    pub(super) fn knobs_mut(&mut self) -> Option<&mut KnobArgs> {
        Some(match &mut self.command {
            None => &mut self.knobs,
            Some(Commands::Plan(args)) => &mut args.knobs,
            Some(Commands::Together(args)) => &mut args.knobs,
            Some(Commands::Check(args)) => &mut args.knobs,
            Some(Commands::Apply(args)) => &mut args.asked.knobs,
            Some(Commands::List(args)) => &mut args.knobs,
            Some(Commands::Report(args)) => &mut args.knobs,
            Some(command) => &mut command.about_plan()?.asked().knobs,
        })
    }

    /// What a command about one plan is asked with, where it may be a command that was pasted.
    pub(super) fn query_mut(&mut self) -> Option<&mut QueryArgs> {
        match self.command.as_mut()? {
            Commands::Apply(args) => Some(&mut args.asked),
            command => Some(command.about_plan()?.asked()),
        }
    }

    /// The model, the knobs and the machine of a command about one plan, or of the planner.
    pub(super) fn asked_mut(&mut self) -> Option<Asked<'_>> {
        Some(match &mut self.command {
            None => Asked {
                model: ModelPlace::Optional(&mut self.model),
                knobs: &mut self.knobs,
                machine: &mut self.machine,
            },
            Some(Commands::Plan(args)) => {
                let PlanArgs { model, knobs, machine, .. } = &mut **args;
                Asked { model: ModelPlace::Optional(model), knobs, machine }
            }
            Some(Commands::Report(args)) => {
                let ReportArgs { model, knobs, machine } = &mut **args;
                Asked { model: ModelPlace::Optional(model), knobs, machine }
            }
            Some(command) => {
                let QueryArgs { model, knobs, machine, .. } = command.about_plan()?.asked();
                Asked { model: ModelPlace::Needed(model), knobs, machine }
            }
        })
    }
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
