//! The command line of [`need`](super).

use crate::answer::need::{BESIDE_CARDS, NeedRequest};
use crate::engine::EngineId;
use crate::question::arguments::{Arguments, AskedWith, Form, Table, wrong_flag};
use crate::question::{About, parse};
use crate::speed::USABLE;

/// What is asked besides the plan.
#[derive(Debug, clap::Args)]
pub struct NeedArgs {
    /// Tokens per second that it must generate with the context full [default: 5].
    #[arg(long, value_name = "N", value_parser = parse::speed, help_heading = "Question")]
    speed: Option<f64>,
    #[command(flatten)]
    form: Table,
}

impl Arguments for NeedArgs {
    type Question = NeedRequest;
    const ABOUT: &'static str =
        "Say which known cards and systems run a model with these settings: one card, two of it, or with RAM beside";
    const EXAMPLES: &'static str = "\
Examples:
  plimsoll need catalogue:qwen3-30b-a3b --ctx 64k --speed 30
  plimsoll need model.gguf --ram 128GiB
  plimsoll need model.gguf --csv

Those with the least memory come first. Cards stand beside 64 GiB of RAM unless --ram says otherwise; systems have their own.
Without --ctx the context is 16 384 tokens, or all that the model was trained for; speeds are for a full context.
What a driver or a desktop needs is left free.";

    fn form(&self) -> Form {
        self.form.form()
    }

    fn before(&self, _: &mut Option<EngineId>, machine: &[&'static str]) -> Result<(), String> {
        match machine.first() {
            Some(flag) => Err(wrong_flag(flag, "every known card is tried: leave it out")),
            None => Ok(()),
        }
    }

    fn question(&self, about: About<'_>, given: &AskedWith) -> Result<NeedRequest, String> {
        let ram = if given.ram { about.request.machine.ram } else { BESIDE_CARDS };
        Ok(NeedRequest { ram, speed: self.speed.unwrap_or(USABLE) })
    }
}
