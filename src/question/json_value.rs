//! The value of a knob in JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::change::Change;
use crate::settings::knob::Knob;

/// A knob's value.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum JsonValue {
    Number(u64),
    Word(String),
}

impl JsonValue {
    pub(super) fn of(knob: Knob, value: u64) -> Self {
        if knob.choices().is_some() { Self::Word(knob.show(value)) } else { Self::Number(value) }
    }

    /// The value that a change sets.
    pub(super) fn after(change: &Change) -> Self {
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
