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
    const ABOUT: &'static str = "Suggest the best settings, a row each: balanced, the fastest, the best quality, the longest \
                                 context, the fastest prompts, a faster placement, and safe. Knobs that are given stay as \
                                 they are";
    const EXAMPLES: &'static str = "\
Balanced: what most would take. Safe leaves --margin on every GPU, and balanced too where good weights allow it. Best
quality and longest context write 5 tok/s or more where anything does. A row is the best of its name at its context.

Examples:
  plimsoll best model.gguf
  plimsoll best model.gguf --ctx 32768 --gpu \"RTX 3060\"     with this context
  plimsoll best model.gguf --for quality --parallel 4 --json | jq .cards";

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
        let search = BestRequest { held: given.knobs.clone(), margin, minimums, prefers_published: false };
        Ok(Best { search, only: self.objective })
    }
}
