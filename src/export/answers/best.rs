//! The best settings as JSON.

use serde::Serialize;

use super::Source;
use crate::answer::best::{Suggestion, Wish};
use crate::answer::sweep::Outcome;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::settings::knob::Knob;

#[derive(Serialize)]
struct Object {
    #[serde(flatten)]
    source: Source,
    held: Vec<&'static str>,
    wishes: Vec<Wished>,
}

#[derive(Serialize)]
struct Wished {
    knob: &'static str,
    suggestions: Vec<Suggested>,
}

#[derive(Serialize)]
struct Suggested {
    value: super::Value,
    costs: Vec<Cost>,
    says: String,
    options: String,
    plan: Outcome,
}

#[derive(Serialize)]
struct Cost {
    knob: &'static str,
    says: String,
}

/// `{…,"held":["ctx"],"wishes":[{"knob","suggestions":[{"value","costs":[{"knob","says"}],"says","options","plan"}]}]}`;
/// `options` are those that have to be added to what was `asked`.
///
/// # Errors
/// None that an answer can cause.
pub fn json(
    plan: &Plan,
    asked: &Settings,
    held: &[Knob],
    found: &[(Wish, Vec<Suggestion>)],
) -> serde_json::Result<String> {
    let suggested = |one: &Suggestion| Suggested {
        value: super::Value::of_gain(one.gain),
        costs: one.costs.iter().map(|cost| Cost { knob: cost.knob().name(), says: cost.to_string() }).collect(),
        says: one.gain.to_string(),
        options: one.options(asked),
        plan: Outcome::of(&one.plan),
    };
    let wishes = found
        .iter()
        .map(|(wish, found)| Wished { knob: wish.knob().name(), suggestions: found.iter().map(suggested).collect() });
    serde_json::to_string_pretty(&Object {
        source: Source::of(plan),
        held: held.iter().map(|knob| knob.name()).collect(),
        wishes: wishes.collect(),
    })
}
