//! `plimsoll best`: the best settings with the given knobs held.

use super::args::{BestArgs, KnobArgs};
use super::error::CliError;
use super::questions::{json, ready};
use super::report::best;
use super::style::Style;
use crate::answer::best::{BestRequest, DEFAULT_MARGIN, Objective};
use crate::export::answers;
use crate::settings::knob::Knob;

pub(super) fn run(args: &BestArgs) -> Result<String, CliError> {
    let (ready, opened) = ready(&args.asked)?;
    let request = ready.request(&opened.model);
    let plan = ready.plan(&opened.model)?;
    let margin = args.margin.or(ready.config.preferences.margin).unwrap_or(DEFAULT_MARGIN);
    let question = BestRequest { held: held(&args.asked.knobs), margin };
    if args.objective == Some(Objective::Context) && question.held.contains(&Knob::Context) {
        return Err(CliError::flag("--for", "--ctx is given and therefore fixed: leave it out to have it chosen"));
    }
    let cards = match args.objective {
        Some(objective) => request.card(objective, &plan, &question).into_iter().collect(),
        None => request.best(&plan, &question),
    };
    if args.json {
        return json(answers::best::json(&plan, &request.settings, &question, &cards));
    }
    Ok(best::text(&plan, &request.settings, &question, &cards, &Style::of_stdout()))
}

/// The knobs given as options.
fn held(knobs: &KnobArgs) -> Vec<Knob> {
    let others = &knobs.others;
    let given = [
        (Knob::Context, knobs.ctx.is_some()),
        (Knob::Parallel, knobs.parallel.is_some()),
        (Knob::KvUnified, others.kv_unified),
        (Knob::CacheType, knobs.kv_type.is_some()),
        (Knob::CacheTypeK, knobs.cache_type_k.is_some()),
        (Knob::CacheTypeV, knobs.cache_type_v.is_some()),
        (Knob::FlashAttn, knobs.flash_attn.is_some()),
        (Knob::Quant, others.quant.is_some()),
        (Knob::Batch, knobs.batch.is_some()),
        (Knob::Ubatch, knobs.ubatch.is_some()),
        (Knob::Outputs, others.outputs.is_some()),
        (Knob::GpuLayers, knobs.gpu_layers.is_some()),
        (Knob::CpuMoe, others.n_cpu_moe.is_some()),
        (Knob::TensorSplit, !others.tensor_split.is_empty()),
        (Knob::Draft, !others.spec_type.is_empty()),
        (Knob::DraftMax, others.spec_draft_n_max.is_some()),
    ];
    given.into_iter().filter_map(|(knob, given)| given.then_some(knob)).collect()
}
