//! `plimsoll machine`: saved machines.

use serde_json::json;

use super::error::{self, CliError, one_line};
use super::style::Style;
use crate::hardware::remembered::Measurements;
use crate::hardware::saved::SavedMachine;
use crate::machine::Machine;
use crate::text;

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
        Ok(machine) => json!({
            "name": name,
            "origin": machine.origin,
            "gpus": machine.gpus.iter().map(|gpu| &gpu.name).collect::<Vec<_>>(),
            "ram": machine.ram.total,
            "error": null,
        }),
        Err(why) => json!({ "name": name, "error": why }),
    };
    let object = json!({ "machines": entries.iter().map(one).collect::<Vec<_>>() });
    error::json("list", text::json(&object))
}
