//! The command line of [`best`](super).
#![allow(clippy::doc_markdown, reason = "these comments are printed on terminals as they are")]

use super::Best;
use crate::answer::best::{BestRequest, DEFAULT_MARGIN, Minimums, Objective};
use crate::gguf::FileType;
use crate::question::arguments::{Arguments, AskedWith, Form, Table, wrong_flag};
use crate::question::{About, parse};
use crate::settings::CacheType;
use crate::settings::knob::Knob;
use crate::units::Bytes;

/// The narrowest types that may be suggested.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct FloorArgs {
    /// Suggest no quantisation that loses more than this one [default: none under IQ3_XXS, unless nothing else runs].
    #[arg(long, value_name = "TYPE", value_parser = parse::file_type, help_heading = "Question")]
    min_quant: Option<FileType>,
    /// Suggest no KV cache that loses more than this type [default: q8_0].
    #[arg(long, value_name = "TYPE", help_heading = "Question")]
    min_kv: Option<CacheType>,
}

impl FloorArgs {
    /// What is given stands over what the configuration sets.
    pub fn over(self, set: Minimums) -> Minimums {
        Minimums { quant: self.min_quant.or(set.quant), cache: self.min_kv.or(set.cache) }
    }
}

/// What is asked besides the plan.
#[derive(Debug, clap::Args)]
#[command(mut_arg("csv", |csv| {
    csv.help("Print CSV with a header line, a line for each card; all sizes are integers in bytes")
}))]
pub struct BestArgs {
    /// Only this card.
    #[arg(long = "for", value_name = "CARD", value_parser = parse::objectives(), help_heading = "Question")]
    objective: Option<Objective>,
    /// What the safe card leaves on every GPU besides what the engine keeps free, and the balanced one where good weights
    /// allow it [default: 512MiB].
    #[arg(long, value_name = "SIZE", help_heading = "Question")]
    margin: Option<Bytes>,
    #[command(flatten)]
    minimums: FloorArgs,
    #[command(flatten)]
    form: Table,
}

impl Arguments for BestArgs {
    type Question = Best;
    const ABOUT: &'static str = "Suggest the best settings with all layers on GPU: the largest context, the most parallel \
                                 sequences, the most precise KV cache. Knobs that are given stay as they are";
    const EXAMPLES: &'static str = "\
Examples:
  plimsoll best model.gguf
  plimsoll best model.gguf --ctx 32768 --gpu \"RTX 3060\"     with this context
  plimsoll best model.gguf --for ctx --parallel 4 --json | jq .wishes";

    fn form(&self) -> Form {
        self.form.form()
    }

    fn question(&self, _: About<'_>, given: &AskedWith) -> Result<Best, String> {
        if self.objective == Some(Objective::Context) && given.knobs.contains(&Knob::Context) {
            let sentence = "--ctx is given and therefore fixed: leave it out to have it chosen";
            return Err(wrong_flag("--for", sentence));
        }
        let margin = self.margin.or(given.margin).unwrap_or(DEFAULT_MARGIN);
        let minimums = self.minimums.over(given.minimums);
        let search = BestRequest { held: given.knobs.clone(), margin, minimums };
        Ok(Best { search, only: self.objective })
    }
}
