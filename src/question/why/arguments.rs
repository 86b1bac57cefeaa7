//! The command line of [`why`](super).

use super::WhyRequest;
use crate::plan::Plan;
use crate::question::arguments::{Arguments, AskedWith, Form, Table, within, wrong_flag};
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
    /// What takes the memory on this device, and how its figures come about: GPU0, RAM.
    #[arg(long, value_name = "DEVICE", conflicts_with = "layer", help_heading = "Question")]
    on: Option<String>,
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

    fn question(&self, about: About<'_>, _: &AskedWith) -> Result<WhyRequest, String> {
        within("--layer", self.layer, 0, about.plan.layers.len() as u64 - 1)?;
        Ok(match (self.layer, &self.on) {
            (Some(layer), _) => WhyRequest::Layer(usize::try_from(layer).unwrap_or(usize::MAX)),
            (_, Some(name)) => WhyRequest::Device(device(about.plan, name)?),
            _ => WhyRequest::Layers,
        })
    }
}

/// The device of this name, in capitals or not; RAM is the CPU's too.
fn device(plan: &Plan, name: &str) -> Result<usize, String> {
    let names = || (0..plan.devices.len()).map(|device| plan.device_name(device));
    let wanted = if name.eq_ignore_ascii_case("cpu") { "RAM" } else { name };
    names().position(|known| known.eq_ignore_ascii_case(wanted)).ok_or_else(|| {
        let names: Vec<&str> = names().collect();
        wrong_flag("--on", &format!("there is no device '{name}': use one of {}", names.join(", ")))
    })
}
