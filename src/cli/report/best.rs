//! The best settings as text for people.

use super::super::style::{Hue, Style};
use super::{sanitize, source};
use crate::answer::best::{Objective, Suggestion};
use crate::plan::{DevicePlan, Plan};
use crate::settings::Settings;
use crate::settings::knob::Knob;
use crate::units::Bytes;

/// What was found for each wish while `held` stay; options are written as what has to be added to what was `asked`.
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
    let mut out = style.wrap("", &format!("All suggestions keep all layers on GPU; each was tested.{held}"));
    for (objective, ways) in found {
        out += &format!("\n{}\n", style.paint(Hue::Strong, objective.title()));
        for way in ways {
            out += &one(way, asked, style);
        }
        if ways.is_empty() {
            let none = if plan.gpus().is_empty() { "There is no GPU." } else { "No settings were found." };
            out += &style.wrap("- ", none);
        }
    }
    out.push('\n');
    out += &source(plan, style);
    out
}

fn one(way: &Suggestion, asked: &Settings, style: &Style) -> String {
    let used: Bytes = way.plan.gpus().iter().map(DevicePlan::asked).sum();
    let free: Bytes = way.plan.gpus().iter().map(|gpu| gpu.free).sum();
    let mut out = style.wrap("- ", &format!("{} {}; uses {used} of {free} free", way.gain, way.cost_text()));
    let options = way.options(asked);
    if !options.is_empty() {
        out += &format!("    {options}\n");
    }
    out
}
