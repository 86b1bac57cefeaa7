//! `plimsoll machine`: saved machines; and what `--measured` teaches of RAM.

use std::sync::Arc;

use super::args::PlanArgs;
use super::error;
use super::error::{CliError, one_line};
use super::resolve::ResolvedArgs;
use super::style::Style;
use crate::engine::PreparedModel;
use crate::hardware::remembered::{Measurements, Remembered, RememberedRam, SavedMachine, SavedMachines, is_file};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::speed::terms::ram_bandwidth;
use crate::speed::work::Work;
use crate::units::Bandwidth;

/// A sentence on the machine that was saved.
pub(super) fn saved(name: &str, machine: &Machine, path: &std::path::Path) -> String {
    format!(
        "saved '{name}' ({}) in {}; plan for it with --machine '{name}'\n",
        one_line(&machine.to_string()),
        path.display()
    )
}

/// A sentence on what was forgotten.
pub(super) fn forgotten(measured: &Measurements) -> String {
    let drivers = measured.drivers.iter();
    let mut each: Vec<String> =
        drivers.map(|entry| format!("what {} takes on {}", entry.backend.name(), one_line(&entry.gpu))).collect();
    each.extend(measured.ram.map(|_| "how fast RAM is read".to_owned()));
    if each.is_empty() {
        return "nothing that was measured on this machine is remembered\n".to_owned();
    }
    format!("forgot {}\n", each.join(", "))
}

/// The saved machines as text.
pub(super) fn text(entries: &[SavedMachine], style: &Style) -> String {
    if entries.is_empty() {
        return style.wrap(
            "",
            "No saved machines: 'plimsoll machine save NAME' saves this one, or with --gpu and --ram \
                       another.",
        );
    }
    let width = entries.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(8);
    let mut out = format!("{}\n", style.strong("Saved machines"));
    for (name, machine) in entries {
        let what = machine.as_ref().map_or_else(|why| format!("cannot be read: {why}"), ToString::to_string);
        out += &style.wrap(&format!("{name:<width$}  "), &one_line(&what));
    }
    out
}

/// The saved machines as one JSON object.
pub(super) fn json(entries: &[SavedMachine]) -> Result<String, CliError> {
    let one = |(name, machine): &SavedMachine| match machine {
        Ok(machine) => serde_json::json!({
            "name": name,
            "origin": machine.origin,
            "gpus": machine.gpus.iter().map(|gpu| &gpu.name).collect::<Vec<_>>(),
            "ram": machine.ram.total,
            "error": null,
        }),
        Err(why) => serde_json::json!({ "name": name, "error": why }),
    };
    let object = serde_json::json!({ "machines": entries.iter().map(one).collect::<Vec<_>>() });
    error::json("list", crate::text::json(&object))
}

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
