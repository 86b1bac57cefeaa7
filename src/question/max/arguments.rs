//! The command line of [`max`](super).

use super::MaxRequest;
use crate::answer::Goal;
use crate::answer::sweep::AxisKind;
use crate::question::arguments::{Arguments, AskedWith, Form, within};
use crate::question::{About, parse};

/// What is asked besides the plan.
#[derive(Debug, clap::Args)]
pub struct MaxArgs {
    /// The knob.
    #[arg(long = "for", value_name = "KNOB", value_parser = parse::number_knobs_or_quant(), default_value = "ctx", help_heading = "Question")]
    knob: AxisKind,
    /// Allow experts in RAM as long as every layer is assigned to a GPU; otherwise all must be in VRAM.
    #[arg(long, help_heading = "Question", conflicts_with = "layers")]
    allow_experts_in_ram: bool,
    /// Require only at least N layers on GPU, including the output layer.
    #[arg(long, value_name = "N", value_parser = parse::layers, allow_hyphen_values = true, help_heading = "Question")]
    layers: Option<u64>,
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl Arguments for MaxArgs {
    type Question = MaxRequest;
    const ABOUT: &'static str = "Find the largest value of a knob with all layers on GPU";
    const EXAMPLES: &'static str = "\
Examples:
  plimsoll max model.gguf --for ctx
  plimsoll max model.gguf --for parallel --ctx 8192 --gpu 24GiB
  plimsoll max model.gguf --for ctx --layers 30 --json | jq .value";

    fn form(&self) -> Form {
        Form::of(self.json, false, false)
    }

    fn question(&self, about: About<'_>, _: &AskedWith) -> Result<MaxRequest, String> {
        within("--layers", self.layers, 1, about.plan.layers.len() as u64)?;
        let goal = match self.layers {
            Some(layers) => Goal::AtLeast(usize::try_from(layers).unwrap_or(usize::MAX)),
            // without a GPU, what fits RAM is asked
            None if about.request.machine.gpus.is_empty() => Goal::AtLeast(0),
            None if self.allow_experts_in_ram => Goal::AllLayers,
            None => Goal::Vram,
        };
        Ok(MaxRequest { of: self.knob, goal })
    }
}
