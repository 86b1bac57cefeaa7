//! `plimsoll best`: the best settings with the given knobs held.

use super::args::{BestArgs, KnobArgs};
use super::error::CliError;
use super::questions::{json, ready};
use super::report::best;
use super::style::Style;
use crate::answer::best::Objective;
use crate::export::answers;
use crate::settings::knob::Knob;

pub(super) fn run(args: &BestArgs) -> Result<String, CliError> {
    let (ready, opened) = ready(&args.asked)?;
    let request = ready.request(&opened.model);
    let plan = ready.plan(&opened.model)?;
    let held = held(&args.asked.knobs);
    if let Some(objective) = args.objective.filter(|objective| holds(&held, *objective)) {
        let name = objective.knob().name();
        return Err(CliError::flag(
            "--for",
            &format!("--{name} is given and therefore fixed: leave it out to have it chosen"),
        ));
    }
    let objectives: Vec<Objective> = match args.objective {
        Some(objective) => vec![objective],
        None => Objective::ALL.into_iter().filter(|objective| !holds(&held, *objective)).collect(),
    };
    let found: Vec<_> =
        objectives.into_iter().map(|objective| (objective, request.best(&plan, objective, &held))).collect();
    if args.json {
        return json(answers::best::json(&plan, &request.settings, &held, &found));
    }
    Ok(best::text(&plan, &request.settings, &held, &found, &Style::of_stdout()))
}

/// Whether the objective's knob is held; holding the K or V cache type holds both.
fn holds(held: &[Knob], objective: Objective) -> bool {
    let knob = objective.knob();
    held.contains(&knob)
        || (knob == Knob::CacheType && (held.contains(&Knob::CacheTypeK) || held.contains(&Knob::CacheTypeV)))
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
        (Knob::Batch, knobs.batch.is_some()),
        (Knob::Ubatch, knobs.ubatch.is_some()),
        (Knob::Outputs, others.outputs.is_some()),
        (Knob::GpuLayers, knobs.gpu_layers.is_some()),
        (Knob::CpuMoe, others.n_cpu_moe.is_some()),
        (Knob::TensorSplit, !others.tensor_split.is_empty()),
    ];
    given.into_iter().filter_map(|(knob, given)| given.then_some(knob)).collect()
}
