//! Arguments of the commands that answer questions about a model.
#![allow(clippy::doc_markdown, reason = "these comments are printed on terminals as they are")]

use std::path::PathBuf;

use clap::Args;

use super::super::value;
use super::{KnobArgs, MachineArgs};
use crate::answer::best::Objective;
use crate::engine::EngineId;
use crate::export::ExportFormat;
use crate::settings::knob::Knob;
use crate::teach::Page;
use crate::units::Bytes;

/// A model, and everything that a plan of it depends on.
#[derive(Debug, Args)]
pub(in super::super) struct QueryArgs {
    /// A .gguf file (any shard of a split model), or a model's name.
    pub(in super::super) model: PathBuf,
    #[command(flatten)]
    pub(in super::super) knobs: KnobArgs,
    #[command(flatten)]
    pub(in super::super) machine: MachineArgs,
}

#[derive(Debug, Args)]
pub(in super::super) struct MaxArgs {
    #[command(flatten)]
    pub(in super::super) asked: QueryArgs,
    /// The knob.
    #[arg(long = "for", value_name = "KNOB", value_parser = value::number_knobs_or_quant(), default_value = "ctx", help_heading = "Question")]
    pub(in super::super) knob: KnobOrQuant,
    /// Allow experts in RAM as long as every layer is assigned to a GPU; otherwise all must be in VRAM.
    #[arg(long, help_heading = "Question", conflicts_with = "layers")]
    pub(in super::super) allow_experts_in_ram: bool,
    /// Require only at least N layers on GPU, including the output layer.
    #[arg(long, value_name = "N", value_parser = value::layers, allow_hyphen_values = true, help_heading = "Question")]
    pub(in super::super) layers: Option<u64>,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(in super::super) json: bool,
}

/// A knob, or the quantisation.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum KnobOrQuant {
    Knob(Knob),
    Quantisation,
}

#[derive(Debug, Args)]
pub(in super::super) struct WhyArgs {
    #[command(flatten)]
    pub(in super::super) asked: QueryArgs,
    /// Only this layer, counted from 0; the output layer comes after the last block.
    #[arg(long, value_name = "N", value_parser = value::layers, allow_hyphen_values = true, help_heading = "Question")]
    pub(in super::super) layer: Option<u64>,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(in super::super) json: bool,
}

#[derive(Debug, Args)]
pub(in super::super) struct BestArgs {
    #[command(flatten)]
    pub(in super::super) asked: QueryArgs,
    /// Only this card.
    #[arg(long = "for", value_name = "CARD", value_parser = value::objectives(), help_heading = "Question")]
    pub(in super::super) objective: Option<Objective>,
    /// What the safe card leaves on every GPU besides what the engine keeps free [default: 512MiB].
    #[arg(long, value_name = "SIZE", help_heading = "Question")]
    pub(in super::super) margin: Option<Bytes>,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(in super::super) json: bool,
}

#[derive(Debug, Args)]
pub(in super::super) struct TogetherArgs {
    /// The models in loading order, each followed by its own knobs: llama3.1:8b,ctx=32k
    #[arg(required = true, value_name = "MODEL[,KNOB=VALUE…]")]
    pub(in super::super) models: Vec<String>,
    #[command(flatten)]
    pub(in super::super) knobs: KnobArgs,
    #[command(flatten)]
    pub(in super::super) machine: MachineArgs,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(in super::super) json: bool,
}

/// A page of the teach screen, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum PageChoice {
    One(Page),
    All,
}

#[derive(Debug, Args)]
pub(in super::super) struct ExplainArgs {
    #[command(flatten)]
    pub(in super::super) asked: QueryArgs,
    /// The page, or all of them for a handout.
    #[arg(long, value_name = "PAGE", value_parser = value::pages(), help_heading = "Question")]
    pub(in super::super) page: PageChoice,
    /// The number of the lesson; without it, Markdown and JSON contain all lessons.
    #[arg(long, value_name = "N", help_heading = "Question")]
    pub(in super::super) lesson: Option<usize>,
    /// Put another engine's formulas beside those of the plan.
    #[arg(long, value_name = "ENGINE", value_parser = value::engines(), help_heading = "Question")]
    pub(in super::super) versus: Option<EngineId>,
    /// Print Markdown, with all figures.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["svg", "json"])]
    pub(in super::super) markdown: bool,
    /// Print a picture of the page.
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(in super::super) svg: bool,
    /// Draw the picture on white, for paper.
    #[arg(long, requires = "svg", help_heading = "Output")]
    pub(in super::super) light: bool,
    /// Write the Markdown with a picture of every page into this folder, as handout.md; the pictures are for paper.
    #[arg(short, long, value_name = "FOLDER", requires = "markdown", help_heading = "Output")]
    pub(in super::super) output: Option<PathBuf>,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(in super::super) json: bool,
}

#[derive(Debug, Args)]
pub(in super::super) struct SweepArgs {
    #[command(flatten)]
    pub(in super::super) asked: QueryArgs,
    /// The knob.
    #[arg(long, value_name = "KNOB", value_parser = value::knobs(), default_value = "ctx", help_heading = "Question")]
    pub(in super::super) over: Knob,
    /// Its values; without them, points spread over its range.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', help_heading = "Question", conflicts_with = "points")]
    pub(in super::super) values: Vec<String>,
    /// Maximum number of points.
    #[arg(long, value_name = "N", value_parser = value::count, default_value = "16", help_heading = "Question")]
    pub(in super::super) points: u64,
    #[command(flatten)]
    pub(in super::super) output: Output,
}

#[derive(Debug, Args)]
pub(in super::super) struct MatrixArgs {
    #[command(flatten)]
    pub(in super::super) asked: QueryArgs,
    /// The knob of the rows.
    #[arg(long, value_name = "KNOB", value_parser = value::knobs_or_quant(), default_value = "ctx", help_heading = "Question")]
    pub(in super::super) rows: KnobOrQuant,
    /// The knob of the columns.
    #[arg(long, value_name = "KNOB", value_parser = value::knobs_or_quant(), hide_possible_values = true, default_value = "kv-type", help_heading = "Question")]
    pub(in super::super) columns: KnobOrQuant,
    /// Values of the rows; without them, 12 points spread over the range.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', help_heading = "Question")]
    pub(in super::super) row_values: Vec<String>,
    /// Values of the columns; without them, 6 points spread over the range.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', help_heading = "Question")]
    pub(in super::super) column_values: Vec<String>,
    #[command(flatten)]
    pub(in super::super) output: Output,
}

#[derive(Debug, Args)]
pub(in super::super) struct ExportArgs {
    #[command(flatten)]
    pub(in super::super) asked: QueryArgs,
    /// The format [default: the engine's first].
    #[arg(long = "as", value_name = "FORM", value_parser = value::formats(), help_heading = "Output")]
    pub(in super::super) form: Option<ExportFormat>,
    /// Leave out options of llama-server that make no difference, even if they are given.
    #[arg(long, help_heading = "Output")]
    pub(in super::super) minimal: bool,
    /// Write to this new file instead of printing.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(in super::super) output: Option<PathBuf>,
    /// Overwrite the file if it exists.
    #[arg(long, requires = "output", help_heading = "Output")]
    pub(in super::super) force: bool,
}

/// In which form a table is printed.
#[derive(Debug, Args)]
pub(in super::super) struct Output {
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output", conflicts_with = "csv")]
    pub(in super::super) json: bool,
    /// Print CSV with a header line; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    pub(in super::super) csv: bool,
    /// Print an SVG picture.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["json", "csv"])]
    pub(in super::super) svg: bool,
}
