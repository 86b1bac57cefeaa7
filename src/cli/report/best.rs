//! The best settings as text.

use super::super::style::{Hue, Style};
use super::{sanitize, source};
use crate::answer::best::{Objective, Suggestion};
use crate::plan::{DevicePlan, Plan};
use crate::settings::Settings;
use crate::settings::knob::Knob;
use crate::units::Bytes;

/// The suggestions for each objective, with the options that turn `asked` into each.
pub(in super::super) fn text(
    plan: &Plan,
    asked: &Settings,
    held: &[Knob],
    found: &[(Objective, Vec<Suggestion>)],
    style: &Style,
) -> String {
    let plan = &sanitize(plan.clone());
    let names: Vec<&str> = held.iter().map(|knob| knob.title()).collect();
    let held = if names.is_empty() { String::new() } else { format!(" Fixed as given: {}.", names.join(", ")) };
    let mut out = style.wrap("", &format!("All suggestions keep all in VRAM; each was tested.{held}"));
    for (objective, suggestions) in found {
        out += &format!("\n{}\n", style.paint(Hue::Strong, objective.title()));
        for suggestion in suggestions {
            out += &one(suggestion, asked, style);
        }
        if suggestions.is_empty() {
            let none = if plan.gpus().is_empty() { "There is no GPU." } else { "No settings were found." };
            out += &style.wrap("- ", none);
        }
    }
    out.push('\n');
    out += &source(plan, style);
    out
}

fn one(suggestion: &Suggestion, asked: &Settings, style: &Style) -> String {
    let used: Bytes = suggestion.plan.gpus().iter().map(DevicePlan::asked).sum();
    let free: Bytes = suggestion.plan.gpus().iter().map(|gpu| gpu.free).sum();
    let mut out =
        style.wrap("- ", &format!("{} {}; uses {used} of {free} free", suggestion.gain, suggestion.cost_text()));
    let options = suggestion.options(asked);
    if !options.is_empty() {
        out += &format!("    {options}\n");
    }
    out
}
