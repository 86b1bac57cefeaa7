//! A faster placement as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::AnswerSource;
use crate::answer::place::Placed;
use crate::answer::sweep::PlanFigures;
use crate::plan::Plan;
use crate::speed::Speeds;
use crate::text;

/// `{…,"now":{plan},"placed":{"command","remarks","settings":{"device":"CUDA0",…},"times","reason","plan"}}`: `placed` is
/// null where nothing is faster, `settings` are options by their names, and `times` is null where there was no speed before.
///
/// # Errors
/// None that an answer can cause.
pub fn place_json(
    plan: &Plan,
    speeds: Option<&Speeds>,
    placed: Option<(&Placed, &str, &[String])>,
) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        #[serde(flatten)]
        source: AnswerSource,
        now: PlanFigures,
        placed: Option<PlacedRecord<'a>>,
    }
    #[derive(Serialize)]
    struct PlacedRecord<'a> {
        command: &'a str,
        remarks: &'a [String],
        settings: BTreeMap<&'static str, String>,
        times: Option<f64>,
        reason: &'a str,
        plan: PlanFigures,
    }
    let placed = placed.map(|(placed, command, remarks)| PlacedRecord {
        command,
        remarks,
        settings: placed.options(),
        times: placed.times(),
        reason: &placed.reason,
        plan: PlanFigures::of(&placed.plan, Some(&placed.after)),
    });
    let (source, now) = (AnswerSource::of(plan), PlanFigures::of(plan, speeds));
    text::json(&Object { source, now, placed })
}
