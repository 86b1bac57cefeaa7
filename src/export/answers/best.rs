//! The best settings as JSON.

use serde::Serialize;

use super::AnswerSource;
use crate::answer::best::{Objective, Suggestion};
use crate::answer::sweep::PlanFigures;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::settings::knob::Knob;

#[derive(Serialize)]
struct Object {
    #[serde(flatten)]
    source: AnswerSource,
    held: Vec<&'static str>,
    wishes: Vec<ObjectiveRecord>,
}

#[derive(Serialize)]
struct ObjectiveRecord {
    knob: &'static str,
    suggestions: Vec<SuggestionRecord>,
}

#[derive(Serialize)]
struct SuggestionRecord {
    value: super::JsonValue,
    costs: Vec<CostRecord>,
    says: String,
    options: String,
    plan: PlanFigures,
}

#[derive(Serialize)]
struct CostRecord {
    knob: &'static str,
    says: String,
}

/// `{…,"held":["ctx"],"wishes":[{"knob","suggestions":[{"value","costs":[{"knob","says"}],"says","options","plan"}]}]}`;
/// `options` are the command line options that turn `asked` into the suggestion.
///
/// # Errors
/// None that an answer can cause.
pub fn json(
    plan: &Plan,
    asked: &Settings,
    held: &[Knob],
    found: &[(Objective, Vec<Suggestion>)],
) -> serde_json::Result<String> {
    let suggested = |one: &Suggestion| SuggestionRecord {
        value: super::JsonValue::of_gain(one.gain),
        costs: one.costs.iter().map(|cost| CostRecord { knob: cost.knob().name(), says: cost.to_string() }).collect(),
        says: one.gain.to_string(),
        options: one.options(asked),
        plan: PlanFigures::of(&one.plan),
    };
    let wishes = found.iter().map(|(objective, found)| ObjectiveRecord {
        knob: objective.knob().name(),
        suggestions: found.iter().map(suggested).collect(),
    });
    serde_json::to_string_pretty(&Object {
        source: AnswerSource::of(plan),
        held: held.iter().map(|knob| knob.name()).collect(),
        wishes: wishes.collect(),
    })
}
