//! Answers as JSON and as CSV: the types are what `plimsoll schema` prints. Sizes are integers in bytes.

pub(crate) mod best;
pub(crate) mod place;
pub(crate) mod sweep;
pub(crate) mod together;
pub(crate) mod why;

pub use best::{best_csv, best_json};
pub use place::place_json;
pub use sweep::{matrix_csv, matrix_json, sweep_csv, sweep_json};
pub use together::{Named, together_csv, together_json};
pub use why::{why_csv, why_json};

use schemars::JsonSchema;
use serde::Serialize;

use super::{ModelSource, PlanRecord, PlanSource};
use crate::answer::change::Change;
use crate::answer::largest::{Largest, LargestQuantisation};
use crate::gguf::FileType;
use crate::plan::Plan;
use crate::settings::knob::Knob;
use crate::text;

/// The largest value of a knob with all layers on GPUs, or as many as were asked for.
#[derive(JsonSchema, Serialize)]
pub(crate) struct MaxAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    /// The knob, or `quant`.
    knob: &'static str,
    /// The largest value that fits; null if none does.
    value: Option<JsonValue>,
    /// The first value that fails; null at the end of the range.
    next: Option<JsonValue>,
    /// What holds it, in a sentence, where no value fits; null where one does, or nothing holds it.
    held: Option<&'a str>,
    /// The plan at that value; null if none fits.
    plan: Option<PlanRecord<'a>>,
}

/// `MaxAnswer` to a question about `plan`, of a model that was read from `source`; if nothing fits, `next` is `least`,
/// the beginning of the range.
///
/// # Errors
/// None that an answer can cause.
pub fn max_json(
    (plan, source): (&Plan, &ModelSource),
    knob: Knob,
    largest: Option<&Largest>,
    least: u64,
    held: Option<&str>,
) -> serde_json::Result<String> {
    text::json(&MaxAnswer {
        head: PlanSource::of(plan, source),
        knob: knob.name(),
        value: largest.map(|largest| JsonValue::Number(largest.value)),
        next: largest.map_or(Some(least), |largest| largest.next).map(JsonValue::Number),
        held,
        plan: largest.map(|largest| PlanRecord::of(&largest.plan, source)),
    })
}

/// [`max_json`] for the quantisation; values are names such as `Q4_K_M`.
///
/// # Errors
/// None that an answer can cause.
pub fn max_quantisation_json(
    (plan, source): (&Plan, &ModelSource),
    largest: &LargestQuantisation,
) -> serde_json::Result<String> {
    let name = |file_type: FileType| JsonValue::Word(file_type.to_string());
    let found = largest.found.as_ref();
    text::json(&MaxAnswer {
        head: PlanSource::of(plan, source),
        knob: "quant",
        value: found.map(|&(to, _)| name(to)),
        next: largest.next.map(name),
        held: None,
        plan: found.map(|(_, plan)| PlanRecord::of(plan, source)),
    })
}

/// A knob's value.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum JsonValue {
    Number(u64),
    Word(String),
}

impl JsonValue {
    fn of(knob: Knob, value: u64) -> Self {
        if knob.choices().is_some() { Self::Word(knob.show(value)) } else { Self::Number(value) }
    }

    /// The value that a change sets.
    fn after(change: &Change) -> Self {
        let word = |word: &str| Self::Word(word.to_owned());
        match *change {
            Change::Context(value) | Change::Parallel(value) | Change::Batch(value) | Change::CpuMoe(value) => {
                Self::Number(value)
            }
            Change::Cache(ty) | Change::CacheWithFlash(ty) => word(ty.name()),
            Change::Quantisation(to) => word(to.name()),
            Change::ProjectorInRam => word("none"),
            Change::FlashAttn => word("on"),
            Change::GpuLayers(layers) => layers.word().map_or_else(word, Self::Number),
            Change::Free { bytes, .. } | Change::MoreMemory { bytes, .. } => Self::Number(bytes.0),
        }
    }
}
