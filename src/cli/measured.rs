//! `plimsoll plan --measured`: how fast RAM is read, from a speed that was measured with the plan.

use std::sync::Arc;

use super::args::PlanArgs;
use super::error::CliError;
use super::resolve::ResolvedArgs;
use crate::engine::PreparedModel;
use crate::hardware::remembered::{Remembered, RememberedRam};
use crate::hardware::remembered::{SavedMachines, is_file};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::speed::terms::ram_bandwidth;
use crate::speed::work::Work;
use crate::units::Bandwidth;

/// Sets the bandwidth that explains the measured speed, and remembers it where the machine is kept: a saved machine
/// with it, and this one for later plans. Says so in a note.
pub(super) fn apply(
    args: &PlanArgs,
    ready: &mut ResolvedArgs,
    model: &PreparedModel,
    plan: &mut Plan,
) -> Result<(), CliError> {
    let Some(tokens_per_second) = args.measured else { return Ok(()) };
    let cannot = |why: String| CliError::flag("--measured", &why);
    let work = Work::of(model, &ready.machine, plan, args.depth)
        .ok_or_else(|| cannot("the bandwidth of a GPU is not known, so no speed is modelled".to_owned()))?;
    let found = ram_bandwidth(&work, tokens_per_second).map_err(cannot)?;
    let machine = Arc::make_mut(&mut ready.machine);
    machine.ram.bandwidth = Some(found);
    let kept = keep(args, machine, found).map_err(cannot)?;
    plan.notes.push(format!("{tokens_per_second} tokens per second mean that RAM is read at {found}; {kept}"));
    Ok(())
}

/// Keeps it; returns where, as part of a sentence.
fn keep(args: &PlanArgs, machine: &Machine, found: Bandwidth) -> Result<String, String> {
    let described = &args.machine;
    if let Some(name) = described.machine.as_ref().filter(|name| !is_file(name) && described.ram.is_none()) {
        let mut saved = SavedMachines::find(name)?;
        saved.ram.bandwidth = Some(found);
        SavedMachines::here()?.save(name, &saved, true)?;
        return Ok(format!("saved with the machine '{name}'"));
    }
    if described.machine.is_some() || described.ram.is_some() {
        return Ok(format!("for later plans, describe the RAM with bandwidth={}", found.to_string().replace(' ', "")));
    }
    Remembered::here()?.keep_ram(RememberedRam::of(&machine.ram, found))?;
    Ok("remembered for later plans on this machine".to_owned())
}
