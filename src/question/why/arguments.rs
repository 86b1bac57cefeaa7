//! The command line of [`why`](super).

use super::WhyRequest;
use crate::question::arguments::{Arguments, Form, Given, Table, Wrong, within};
use crate::question::{About, parse};

/// What is asked besides the plan.
#[derive(Debug, clap::Args)]
#[command(mut_arg("csv", |csv| {
    csv.help("Print CSV with a header line, a line for each layer; all sizes are integers in bytes")
}))]
pub struct WhyArgs {
    /// Only this layer, counted from 0; the output layer comes after the last block.
    #[arg(long, value_name = "N", value_parser = parse::layers, allow_hyphen_values = true, help_heading = "Question")]
    layer: Option<u64>,
    #[command(flatten)]
    form: Table,
}

impl Arguments for WhyArgs {
    type Question = WhyRequest;
    const ABOUT: &'static str =
        "Explain why layers are where they are, and which single changes would move them to GPU";
    const EXAMPLES: &'static str = "\
Examples:
  plimsoll why model.gguf --ctx 65536 --gpu \"RTX 3060\"
  plimsoll why model.gguf --layer 12 --json | jq .changes";

    fn form(&self) -> Form {
        self.form.form()
    }

    fn question(&self, about: About<'_>, _: &Given) -> Result<WhyRequest, Wrong> {
        within("--layer", self.layer, 0, about.plan.layers.len() as u64 - 1)?;
        Ok(WhyRequest { layer: self.layer.map(|layer| usize::try_from(layer).unwrap_or(usize::MAX)) })
    }
}
