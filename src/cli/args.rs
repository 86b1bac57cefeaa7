//! Arguments of commands with their help texts. The names are stable.
#![allow(clippy::doc_markdown, reason = "these comments are printed on terminals as they are")]
#![allow(clippy::struct_excessive_bools, reason = "flags are what they are")]

mod knobs;

use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::error::CliError;
use super::value::{self, Interval, PageChoice};
use crate::answer::fits::Fit;
use crate::command::router::RouterKind;
use crate::engine::EngineId;
use crate::export::{ExportFormat, SetFormat};
use crate::library::SortBy;
use crate::plan::Outcome;
use crate::question::arguments::Arguments;
use crate::question::best::arguments::FloorArgs;
use crate::settings::ollama::Endpoint;
use crate::settings::{Context, OllamaVersion};
use crate::teach::Tab;

pub(super) use knobs::{KnobArgs, MachineArgs};

impl MachineArgs {
    /// The options that are given which describe or choose GPUs.
    pub(super) fn of_gpus(&self) -> Vec<&'static str> {
        let Self { gpu, machine, join, .. } = self;
        let all = [("--gpu", !gpu.is_empty()), ("--machine", machine.is_some()), ("--join", !join.is_empty())];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag).collect()
    }
}

/// What a plan is asked with.
pub(super) struct Asked<'a> {
    pub(super) model: ModelPlace<'a>,
    pub(super) knobs: &'a mut KnobArgs,
    pub(super) machine: &'a mut MachineArgs,
}

/// Where a command keeps its model.
pub(super) enum ModelPlace<'a> {
    Needed(&'a mut PathBuf),
    Optional(&'a mut Option<PathBuf>),
}

impl ModelPlace<'_> {
    pub(super) fn get(&self) -> Option<&Path> {
        match self {
            Self::Needed(model) => Some(model),
            Self::Optional(model) => model.as_deref(),
        }
    }

    /// # Errors
    /// If the command needs a model, and this is none.
    pub(super) fn set(&mut self, to: Option<PathBuf>) -> Result<(), String> {
        match self {
            Self::Needed(model) => **model = to.ok_or("it names no model: add model = \"…\"")?,
            Self::Optional(model) => **model = to,
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ConfigArgs {
    /// Print a file with all keys, to begin with.
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(super) example: bool,
    /// Print one JSON object: the file, and each key with its value and who set it.
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,
    /// Print CSV with a header line.
    #[arg(long)]
    pub(super) csv: bool,
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

/// A command that is pasted instead of a model and its knobs.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct CommandArgs {
    /// Take what this command starts, or a file with commands (a script, compose, systemd, llama-swap, presets of
    /// llama-server), - for standard input: model, options, variables and limits. What is given besides stands over it.
    #[arg(
        long,
        value_name = "COMMAND",
        allow_hyphen_values = true,
        conflicts_with = "engine",
        help_heading = "Question"
    )]
    pub(super) command: Option<String>,
    /// Of several that it starts, take this one; without, plan takes all of them together.
    #[arg(long, value_name = "NAME", requires = "command", help_heading = "Question")]
    pub(super) pick: Option<String>,
    /// The model may be found by its name where its file is not here.
    #[arg(skip)]
    pub(super) names_model: bool,
}

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// A .gguf file (any shard of a split model), or a model's name: llama3.1:8b (local, else in Ollama's registry),
    /// hf://owner/repository:QUANT, the URL of a .gguf file, or catalogue:qwen3-8b@q8_0, which needs no network. Only
    /// the header of a remote model is fetched.
    #[arg(required_unless_present = "command")]
    pub(super) model: Option<PathBuf>,
    #[command(flatten)]
    pub(super) command: CommandArgs,
    /// Models that llama-server's router keeps loaded at most, where it is presets; 0 for no limit [default: 4]
    #[arg(long, value_name = "N", requires = "command", help_heading = "Question")]
    pub(super) models_max: Option<usize>,
    /// End with status 5 and one line why unless it fits so: all in VRAM with what must stay free (vram), or whatever stays
    /// free (gpu), every layer on a GPU with experts in RAM or not (experts), or at all (load).
    #[arg(long, value_name = "HOW", value_parser = value::fits_as(), help_heading = "Question")]
    pub(super) fits: Option<Fit>,
    /// Tokens in the cache for which the speed is shown.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Output")]
    pub(super) depth: u64,
    /// Tokens per second that you measured with this plan, at this depth: tells how fast RAM is read, which is
    /// remembered with the machine.
    #[arg(long, value_name = "TOKENS/S", value_parser = value::speed, help_heading = "Output")]
    pub(super) measured: Option<f64>,
    /// Tokens of a prompt per second that you measured with this plan: tells how fast the link from RAM to the card is,
    /// which is saved with a machine that has a name. With --turn, of its prompt; else of one of 4096 tokens.
    #[arg(long, value_name = "TOKENS/S", value_parser = value::speed, help_heading = "Output")]
    pub(super) measured_prompt: Option<f64>,
    /// Also show the compute buffer that is not in use.
    #[arg(long, help_heading = "Output")]
    pub(super) verbose: bool,
    /// Also say what the releases of llama.cpp just before and after would take.
    #[arg(long, help_heading = "Output")]
    pub(super) releases: bool,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) knobs: KnobArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
}

#[cfg(feature = "net")]
#[derive(Debug, Args)]
pub(super) struct CacheArgs {
    #[command(subcommand)]
    pub(super) command: Option<CacheCommand>,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, global = true, conflicts_with = "csv")]
    pub(super) json: bool,
    /// Print CSV with a header line; all sizes are integers in bytes.
    #[arg(long, global = true)]
    pub(super) csv: bool,
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
    /// Only models whose name has all of these words; 'moe', 'dense', 'vision', 'audio', 'coding', 'reasoning', 'embedding',
    /// 'reranking', 'translation', 'ocr', '>7b' and '<120b' limit kind, use and size. hf://owner/repository lists the files
    /// of a repository on Hugging Face instead; of original weights, also those of a folder, what can be made of them.
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
    /// Only models that write this many tokens per second, or read them where they write nothing.
    #[arg(long, value_name = "N", value_parser = value::speed, help_heading = "Models")]
    pub(super) min_tps: Option<f64>,
    #[command(flatten)]
    pub(super) minimums: FloorArgs,
    /// The order: best (what runs well first, of that the most capable by size and age), name, released, params, size,
    /// context or speed.
    #[arg(long, value_name = "ORDER", value_parser = value::orders(), hide_possible_values = true, default_value = "best",
          help_heading = "Output")]
    pub(super) sort: SortBy,
    /// List at most this many.
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub(super) limit: Option<usize>,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, conflicts_with = "csv", help_heading = "Output")]
    pub(super) json: bool,
    /// Print CSV with a header line; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) csv: bool,
    #[command(flatten)]
    pub(super) knobs: KnobArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
}

#[derive(Debug, Args)]
pub(super) struct DevicesArgs {
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,
    /// Print CSV with a header line; all sizes are integers in bytes.
    #[arg(long)]
    pub(super) csv: bool,
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
        #[arg(long, conflicts_with = "csv")]
        json: bool,
        /// Print CSV with a header line.
        #[arg(long)]
        csv: bool,
    },
    /// Remove a saved machine.
    Remove {
        /// Its name.
        name: String,
    },
    /// Forget what 'plimsoll check --remember' measured of the drivers on this machine.
    Forget,
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// A file with the output of llama-server, Ollama or another program, - for standard input, or example for a log
    /// that comes with this program. With --ps, the model. Without it, the running Ollama and llama-server.
    pub(super) log: Option<PathBuf>,
    /// The model of the log, as for plan; without it, it is looked for by the names in the log.
    #[arg(long, value_name = "MODEL", help_heading = "Question")]
    pub(super) model: Option<PathBuf>,
    #[command(flatten)]
    pub(super) command: CommandArgs,
    /// Compare with the column PROCESSOR of 'ollama ps': "27%/73% CPU/GPU", "100% GPU".
    #[arg(long, value_name = "SHARES", help_heading = "Question")]
    pub(super) ps: Option<String>,
    /// Compare this load of several in the log, counted from 1.
    #[arg(long, value_name = "N", value_parser = value::count, help_heading = "Question")]
    pub(super) load: Option<u64>,
    /// Remember what the driver took on this machine besides buffers, for its later plans: the process's memory less
    /// the buffers in the log. 'plimsoll machine forget' takes it back.
    #[arg(long, help_heading = "Question", conflicts_with = "ps")]
    pub(super) remember: bool,
    /// Write a sample of the load for this program's tests: its lines without folders, names and addresses, and the figures
    /// in them. It is shown first, and written once you agree; - only shows it.
    #[arg(long, value_name = "FILE", help_heading = "Output", conflicts_with_all = ["ps", "json", "csv", "markdown"])]
    pub(super) share: Option<PathBuf>,
    /// Print one JSON object; sizes are in MiB, as in the log.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["markdown", "csv"])]
    pub(super) json: bool,
    /// Print CSV with a header line, a line for each figure of the load; sizes are in MiB.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["markdown", "ps"], requires = "log")]
    pub(super) csv: bool,
    /// Print a Markdown table.
    #[arg(long, help_heading = "Output")]
    pub(super) markdown: bool,
    #[command(flatten)]
    pub(super) knobs: KnobArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
}

#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    /// llama-server's path [default: that on PATH], or the address of one that runs as a router: it is asked to load the
    /// model.
    #[arg(long, value_name = "PATH|URL", help_heading = "Apply")]
    pub(super) server: Option<PathBuf>,
    /// Leave the server that is started running; with Ollama, keep the model loaded until Ollama ends.
    #[arg(long, help_heading = "Apply")]
    pub(super) keep: bool,
    /// Do not ask before anything is started, loaded or unloaded.
    #[arg(long, help_heading = "Apply")]
    pub(super) yes: bool,
    /// Print one JSON object; sizes are in MiB, as in a log.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) asked: QueryArgs,
}

#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// Print one sample and end.
    #[arg(long, help_heading = "Watch")]
    pub(super) once: bool,
    /// Seconds between samples.
    #[arg(long, value_name = "SECONDS", value_parser = value::interval, default_value = "1", help_heading = "Watch")]
    pub(super) every: Interval,
    /// End after this many samples.
    #[arg(long, value_name = "N", value_parser = value::count, help_heading = "Watch")]
    pub(super) samples: Option<u64>,
    /// Also write the samples to this file, compressed if its name ends in .gz.
    #[arg(long, value_name = "FILE", conflicts_with = "replay", help_heading = "Watch")]
    pub(super) record: Option<PathBuf>,
    /// Show a recording instead of this machine.
    #[arg(long, value_name = "FILE", help_heading = "Watch")]
    pub(super) replay: Option<PathBuf>,
    /// Remember what the driver takes on this machine besides buffers, once a model is loaded and before its first prompt,
    /// for later plans; only where its log tells its buffers. 'plimsoll machine forget' takes it back.
    #[arg(long, conflicts_with = "replay", help_heading = "Watch")]
    pub(super) remember: bool,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Print one JSON object per sample and line; sizes are in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

/// What only Ollama from 0.30 is asked.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Ollama (from 0.30)")]
pub(super) struct OllamaArgs {
    /// Ollama's version: 0.33, 0.30, or one between such as 0.31.2, or one of an engine with an estimator [default: 0.33,
    /// or the one that runs where the model comes from].
    #[arg(long, value_name = "VERSION", value_parser = OllamaVersion::any)]
    pub(super) ollama: Option<OllamaVersion>,
    /// A variable of Ollama's server, once per variable; if given, this environment's variables are not read.
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::pair)]
    pub(super) server_env: Vec<(String, String)>,
    /// A Modelfile, whose PARAMETER, ADAPTER and DRAFT lines count.
    #[arg(long, value_name = "FILE")]
    pub(super) modelfile: Option<PathBuf>,
    /// An option of the request, as JSON: num_ctx=8192, num_batch=null, main_gpu=1, use_mmap=false.
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::pair)]
    pub(super) option: Vec<(String, String)>,
    /// What is asked of the model: generate or embed [default: what it is for].
    #[arg(long, value_name = "generate|embed", value_parser = value::endpoints(), hide_possible_values = true)]
    pub(super) endpoint: Option<Endpoint>,
    /// Whether the request lets the context shift [default: by the model].
    #[arg(long, value_name = "true|false")]
    pub(super) shift: Option<bool>,
    /// Ollama renders the prompt by the model's own template.
    #[arg(long)]
    pub(super) go_template: bool,
}

/// A model, and everything that a plan of it depends on.
#[derive(Debug, Args)]
pub(super) struct QueryArgs {
    /// A .gguf file (any shard of a split model), or a model's name.
    #[arg(required_unless_present = "command", default_value = "", hide_default_value = true,
          value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(super) model: PathBuf,
    #[command(flatten)]
    pub(super) command: CommandArgs,
    #[command(flatten)]
    pub(super) knobs: KnobArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
}

/// A question about one plan.
#[derive(Debug, Args)]
#[command(about = A::ABOUT, after_help = A::EXAMPLES)]
pub(super) struct Ask<A: Arguments> {
    // a command's own options stand first in its help
    #[command(flatten)]
    pub(super) own: A,
    #[command(flatten)]
    pub(super) asked: QueryArgs,
}

/// A command about one plan.
pub(super) trait AboutPlan {
    /// What the plan is asked with.
    fn asked(&mut self) -> &mut QueryArgs;
    /// Prints the answer.
    fn run(&mut self) -> Result<(), CliError>;
}

#[derive(Debug, Args)]
pub(super) struct TogetherArgs {
    /// The models in loading order, each followed by its own knobs: llama3.1:8b,ctx=32k
    #[arg(required = true, value_name = "MODEL[,KNOB=VALUE…]")]
    pub(super) models: Vec<String>,
    /// What starts and ends the servers: llama-server's own router, or llama-swap. Without, no server is ended for another.
    #[arg(long, value_name = "ROUTER", value_parser = value::routers(), help_heading = "Question")]
    pub(super) router: Option<RouterKind>,
    /// Models that llama-server's router keeps loaded at most; 0 for no limit [default: 4]
    #[arg(long, value_name = "N", help_heading = "Question")]
    pub(super) models_max: Option<usize>,
    /// Print a file that starts them instead: presets of llama-server's router, llama-swap's configuration, or variables of
    /// the Ollama server.
    #[arg(long = "as", value_name = "FORMAT", value_parser = value::set_formats(), conflicts_with_all = ["json", "csv"], help_heading = "Output")]
    pub(super) form: Option<SetFormat>,
    /// With --as: pin what llama-server's fit decides for each, so that it decides the same whatever is free.
    #[arg(long, requires = "form", help_heading = "Output")]
    pub(super) pin: bool,
    /// With --as: write it into this new file.
    #[arg(long, value_name = "FILE", requires = "form", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// With --output: overwrite a file.
    #[arg(long, requires = "output", help_heading = "Output")]
    pub(super) force: bool,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output", conflicts_with = "csv")]
    pub(super) json: bool,
    /// Print CSV with a header line, a line for each model; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) csv: bool,
    #[command(flatten)]
    pub(super) knobs: KnobArgs,
    #[command(flatten)]
    pub(super) machine: MachineArgs,
}

impl ExplainArgs {
    /// The page; a lesson is on its own.
    pub(super) fn page(&self) -> PageChoice {
        self.page.unwrap_or(PageChoice::One(Tab::Lessons))
    }
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The page, or all of them for a handout; not needed with --lesson.
    #[arg(long, value_name = "PAGE", value_parser = value::pages(), required_unless_present = "lesson", help_heading = "Question")]
    pub(super) page: Option<PageChoice>,
    /// The number of the lesson; without it, Markdown and JSON contain all lessons.
    #[arg(long, value_name = "N", help_heading = "Question")]
    pub(super) lesson: Option<usize>,
    /// Draw the page as the planner's screen does at this step of its walk, counted from 1.
    #[arg(long, value_name = "N", value_parser = value::count, conflicts_with_all = ["lesson", "markdown", "json", "animate"], help_heading = "Question")]
    pub(super) step: Option<u64>,
    /// Add the lessons in this folder, its .toml files, to the built-in ones; without it, those in the folder 'lessons'
    /// beside the configuration file.
    #[arg(long, value_name = "FOLDER", help_heading = "Question")]
    pub(super) lessons: Option<PathBuf>,
    /// Print the answers of lessons, and what tells them; a handout has the answers on its last page.
    #[arg(long, help_heading = "Question")]
    pub(super) answers: bool,
    /// Put another engine's formulas beside those of the plan.
    #[arg(long, value_name = "ENGINE", value_parser = value::engines(), help_heading = "Question")]
    pub(super) versus: Option<EngineId>,
    /// Print Markdown, with all figures.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["svg", "json"])]
    pub(super) markdown: bool,
    /// Print a picture of the page.
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(super) svg: bool,
    /// Print a moving picture: the walk of a page step by step, or a lesson idea by idea.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["svg", "markdown", "json"])]
    pub(super) animate: bool,
    /// Draw the picture on white, for paper.
    #[arg(long, conflicts_with_all = ["markdown", "json"], help_heading = "Output")]
    pub(super) light: bool,
    /// Write the Markdown with a picture of every page into this folder, as handout.md: a table of contents, the pages, the
    /// glossary and the answers; the pictures are for paper.
    #[arg(short, long, value_name = "FOLDER", requires = "markdown", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// With --output: overwrite files.
    #[arg(long, requires = "output", help_heading = "Output")]
    pub(super) force: bool,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) asked: QueryArgs,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The format [default: the engine's first].
    #[arg(long = "as", value_name = "FORM", value_parser = value::formats(), help_heading = "Output")]
    pub(super) form: Option<ExportFormat>,
    /// Leave out options of llama-server that make no difference, even if they are given.
    #[arg(long, help_heading = "Output")]
    pub(super) minimal: bool,
    /// In a llama-server command, set context, layers, split and devices of tensors as its fit decides them here.
    #[arg(long, help_heading = "Output")]
    pub(super) pin: bool,
    /// Write to this new file instead of printing.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// Overwrite the file if it exists.
    #[arg(long, requires = "output", help_heading = "Output")]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) asked: QueryArgs,
}
