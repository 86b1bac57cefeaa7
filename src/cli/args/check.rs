//! Arguments of `plimsoll check`.
#![allow(clippy::doc_markdown, reason = "these comments are printed on terminals as they are")]

use std::path::PathBuf;

use clap::Args;

use super::super::value;
use super::{KnobArgs, MachineArgs};

#[derive(Debug, Args)]
pub(in super::super) struct CheckArgs {
    /// A file with the output of llama-server, Ollama or another program, - for standard input, or example for a log
    /// that comes with this program. With --ps, the model. Without it, the running Ollama and llama-server.
    pub(in super::super) log: Option<PathBuf>,
    /// The model of the log, as for plan; without it, it is looked for by the names in the log.
    #[arg(long, value_name = "MODEL", help_heading = "Question")]
    pub(in super::super) model: Option<PathBuf>,
    /// Compare with the column PROCESSOR of 'ollama ps': "27%/73% CPU/GPU", "100% GPU".
    #[arg(long, value_name = "SHARES", help_heading = "Question")]
    pub(in super::super) ps: Option<String>,
    /// Compare this load of several in the log, counted from 1.
    #[arg(long, value_name = "N", value_parser = value::count, help_heading = "Question")]
    pub(in super::super) load: Option<u64>,
    /// Remember what the driver took on this machine besides buffers, for its later plans: the process's memory less
    /// the buffers in the log. 'plimsoll machine forget' takes it back.
    #[arg(long, help_heading = "Question", conflicts_with = "ps")]
    pub(in super::super) remember: bool,
    #[command(flatten)]
    pub(in super::super) knobs: KnobArgs,
    #[command(flatten)]
    pub(in super::super) machine: MachineArgs,
    /// Print one JSON object; sizes are in MiB, as in the log.
    #[arg(long, help_heading = "Output", conflicts_with = "markdown")]
    pub(in super::super) json: bool,
    /// Print a Markdown table.
    #[arg(long, help_heading = "Output")]
    pub(in super::super) markdown: bool,
}
