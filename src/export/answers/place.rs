//! A faster placement as JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::place::Placed;
use crate::answer::sweep::PlanFigures;
use crate::export::{ModelSource, PlanSource};
use crate::plan::Plan;
use crate::speed::Speeds;
use crate::text;

/// A faster placement than the engine's.
#[derive(JsonSchema, Serialize)]
pub(crate) struct PlaceAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    /// The engine's own placement.
    now: PlanFigures,
    /// The faster one; null where nothing is faster.
    placed: Option<PlacedRecord<'a>>,
}

/// A placement.
#[derive(JsonSchema, Serialize)]
pub(crate) struct PlacedRecord<'a> {
    /// llama-server's command.
    command: &'a str,
    /// What else there is to say of it.
    remarks: &'a [String],
    /// Its options by their names.
    settings: BTreeMap<&'static str, String>,
    /// How many times as fast; null where no speed was known before.
    times: Option<f64>,
    /// Why it is faster.
    reason: &'a str,
    plan: PlanFigures,
}

/// `PlaceAnswer` about `plan`, of a model that was read from `source`.
///
/// # Errors
/// None that an answer can cause.
pub fn place_json(
    (plan, source): (&Plan, &ModelSource),
    speeds: Option<&Speeds>,
    placed: Option<(&Placed, &str, &[String])>,
) -> serde_json::Result<String> {
    let placed = placed.map(|(placed, command, remarks)| PlacedRecord {
        command,
        remarks,
        settings: placed.options(),
        times: placed.times(),
        reason: &placed.reason,
        plan: PlanFigures::of(&placed.plan, Some(&placed.after)),
    });
    text::json(&PlaceAnswer { head: PlanSource::of(plan, source), now: PlanFigures::of(plan, speeds), placed })
}
