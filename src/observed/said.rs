//! What one line says: the parsers' common result.

use super::buffers::BufferLine;
use super::command::CommandLine;
use super::context::CacheSize;
use super::device::ObservedDevice;
use super::event::Event;
use super::fit::FitLine;
use super::load::Program;
use super::model::ModelFact;
use super::ollama::OllamaEstimate;
use super::prefix::Line;
use super::table::TableRow;
use super::{Mib, Term, buffers, command, context, device, event, fit, marks, model, ollama, table};
use crate::machine::CpuInstructions;

/// What one line says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said<'a> {
    /// Memory was taken.
    Buffer(BufferLine<'a>),
    /// The size of a cache.
    Cache(CacheSize),
    /// A row of the breakdown table.
    Row(String, TableRow),
    /// A line of the fit.
    Fit(FitLine<'a>),
    /// A context is made.
    Constructing,
    /// A parameter of a context and its value.
    Parameter(&'a str, &'a str),
    /// Something of the model's file.
    Model(ModelFact<'a>),
    /// A device.
    Device(ObservedDevice),
    /// The vector instructions that the program was built for and the CPU has.
    Cpu(CpuInstructions),
    /// Build number and commit.
    Build(Option<u64>, &'a str),
    /// A program and its version.
    Version(Program, &'a str),
    /// A program starts, with its command line.
    Start(Program, CommandLine),
    /// A command line somebody typed.
    Typed(CommandLine),
    /// The program is to load this model now.
    Load(&'a str),
    /// The model's name, where another line says its path.
    Named(&'a str),
    /// A server's slots: their number, the context of each, and whether they share one cache.
    Slots { sequences: Option<u64>, context: Option<u64>, unified: Option<bool> },
    /// The load is done; the program serves.
    Ready,
    /// The program ends or takes the model out.
    Closing,
    /// What Ollama's own engine took.
    Own { device: &'a str, term: Term, mib: Mib },
    /// The last line of a group of [`Said::Own`].
    OwnTotal,
    /// Ollama's request to its runner.
    Request(ollama::Request),
    /// Ollama's estimate.
    Estimate(Box<OllamaEstimate>),
    /// Sizes that the projector's loader tells.
    Projector(Mib),
    /// KoboldCpp's outcome of the fit.
    Autofit(CommandLine),
    /// Whether flash attention is in use where it was left open, in the program's words.
    FlashAttention(bool, &'a str),
    /// A part of LM Studio's estimate.
    OwnEstimate(EstimatePart),
    /// Anything else worth telling.
    Event(Event),
}

impl Said<'_> {
    /// Whether it is a figure of memory.
    pub(super) const fn is_memory(&self) -> bool {
        matches!(self, Self::Buffer(_) | Self::Cache(_) | Self::Row(..))
    }
}

/// LM Studio's estimate: a heading, then a line for the weights and one for the caches; or all in one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum EstimatePart {
    Heading,
    Model(Mib),
    Context(Mib),
}

/// What a line says about memory or a load, if anything.
pub(super) fn read<'a>(line: &Line<'a>) -> Option<Said<'a>> {
    let text = line.text;
    if marks::any(text) || table::may_be_cut(text) {
        return parse(text);
    }
    let said = fit::printed(text).map(Said::Fit);
    debug_assert_eq!(said, parse(text), "a mark of `{text}` is missing");
    said
}

/// Whether a line that says nothing may be the beginning of one of memory, as where a terminal's width or a mail broke it.
pub(super) fn may_be_broken(text: &str) -> bool {
    const FUNCTIONS: [&str; 6] = ["load_tensors:", "llama_", "sched_reserve:", "init:", "breakdown_print: |", "_meta:"];
    text.len() < 512 && !text.contains('~') && FUNCTIONS.iter().any(|function| text.contains(function))
}

fn parse(text: &str) -> Option<Said<'_>> {
    if text.contains("MiB")
        && let Some(said) = buffers::read(text).map(Said::Buffer).or_else(|| context::cache(text).map(Said::Cache))
    {
        return Some(said);
    }
    if text.contains("breakdown") || table::may_be_cut(text) {
        return table::row(text).map(|(name, row)| Said::Row(name, row));
    }
    if text.contains("fit_params") || text.contains("params_fit") {
        return fit::read(text).map(Said::Fit);
    }
    if text.contains("msg=") {
        return ollama::read(text);
    }
    model::read(text)
        .or_else(|| context::parameter(text))
        .or_else(|| device::read(text).map(Said::Device))
        .or_else(|| device::instructions(text).map(Said::Cpu))
        .or_else(|| device::build(text))
        .or_else(|| event::read(text))
        .or_else(|| command::typed(text).map(Said::Typed))
        .or_else(|| fit::printed(text).map(Said::Fit))
}
