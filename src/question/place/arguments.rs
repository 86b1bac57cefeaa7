//! The command line of [`place`](super).

use super::PlaceRequest;
use crate::engine::EngineId;
use crate::export::ModelLocation;
use crate::question::About;
use crate::question::arguments::{Arguments, AskedWith, Form, wrong_flag};
use crate::text::{exact, quoted};

/// What is asked besides the plan.
#[derive(Debug, clap::Args)]
pub struct PlaceArgs {
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl Arguments for PlaceArgs {
    type Question = PlaceRequest;
    const ABOUT: &'static str = "Find a faster placement for llama-server than its fit decides: which GPUs, in which order, \
                                 with which layers, and whose experts are in RAM. Prints the command. What is given stays \
                                 as it is";
    const EXAMPLES: &'static str = "\
Examples:
  plimsoll place model.gguf --ctx 32768
  plimsoll place model.gguf --gpu \"RTX 4090\" --gpu \"RTX 3060\" --ram total=64GiB,bandwidth=80GB/s
  plimsoll place model.gguf --json | jq -r .placed.command

Speeds are those of generation, over a context that fills up. What the fit leaves free stays free.";

    fn form(&self) -> Form {
        Form::of(self.json, false, false)
    }

    fn before(&self, engine: &mut Option<EngineId>, _: &[&'static str]) -> Result<(), String> {
        if *engine.get_or_insert(EngineId::LlamaCpp) == EngineId::LlamaCpp {
            return Ok(());
        }
        let sentence = "only llama-server can be told a placement: leave --engine out, or use --engine llama.cpp";
        Err(wrong_flag("--engine", sentence))
    }

    fn question(&self, _: About<'_>, given: &AskedWith) -> Result<PlaceRequest, String> {
        // the answer is worth something without the command
        let location = match &given.location {
            ModelLocation::File(path) if exact(path).is_err() => ModelLocation::Unknown(quoted(path).into_owned()),
            location => location.clone(),
        };
        Ok(PlaceRequest { location, notes: given.notes.clone() })
    }
}
