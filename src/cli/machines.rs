//! `plimsoll machine`: saved machines.

use serde_json::json;

use super::error::{self, CliError, one_line};
use super::style::{Hue, Style};
use crate::hardware::remembered::RememberedDriver;
use crate::hardware::saved::SavedMachine;
use crate::machine::Machine;

/// A sentence on the machine that was saved.
pub(super) fn saved(name: &str, machine: &Machine, path: &std::path::Path) -> String {
    format!(
        "saved '{name}' ({}) in {}; plan for it with --machine '{name}'\n",
        one_line(&machine.to_string()),
        path.display()
    )
}

/// A sentence on what was forgotten.
pub(super) fn forgotten(entries: &[RememberedDriver]) -> String {
    if entries.is_empty() {
        return "nothing is remembered of this machine's drivers\n".to_owned();
    }
    let each = entries.iter().map(|entry| format!("{} with {}", one_line(&entry.gpu), entry.backend.name()));
    format!("forgot what drivers took on {}\n", each.collect::<Vec<_>>().join(", "))
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
    let mut out = format!("{}\n", style.paint(Hue::Strong, "Saved machines"));
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
    error::json("list", serde_json::to_string_pretty(&object))
}
