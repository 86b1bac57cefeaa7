//! The value of a knob in JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::change::{Change, ChangedTo};
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
        match change.row().value {
            ChangedTo::Number(number) => Self::Number(number),
            ChangedTo::Word(word) => Self::Word(word),
        }
    }
}
