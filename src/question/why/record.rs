//! Why layers are where they are, as JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::WhyFound;
use crate::answer::Remedy;
use crate::answer::change::Change;
use crate::answer::parts::PartAnswer;
use crate::answer::place::Placed;
use crate::answer::why::{LayerAnswer, MemoryUser};
use crate::export::{PlanSource, record};
use crate::plan::Verdict;
use crate::question::About;
use crate::question::json_value::JsonValue;
use crate::speed::SpeedRange;

/// Why layers are where they are, and what would bring them onto GPUs.
#[derive(JsonSchema, Serialize)]
pub struct WhyAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    verdict: Verdict,
    /// Why the engine refuses; null if it does not.
    refused: Option<&'a str>,
    /// The layers that were asked for.
    layers: &'a [LayerAnswer],
    /// What would bring layers onto GPUs, the cheapest first.
    changes: Vec<Proposal<'a>>,
    /// A faster placement; null if there is none, or all is in VRAM.
    placement: Option<FasterPlacement<'a>>,
    /// What takes memory, by device.
    takers: &'a [MemoryUser],
    /// What the fit keeps free on each GPU, and for what, in sentences.
    kept_free: Vec<String>,
    /// What is loaded beside the model.
    beside: &'a [PartAnswer],
}

impl<'a> WhyAnswer<'a> {
    pub(super) fn of(About { plan, source, .. }: About<'a>, found: &'a WhyFound) -> Self {
        Self {
            head: PlanSource::of(plan, source),
            verdict: plan.verdict,
            refused: plan.refusal.as_deref(),
            layers: &found.layers,
            changes: found.changes.iter().map(Proposal::of).collect(),
            placement: found.placed.as_ref().map(FasterPlacement::of),
            takers: &found.memory_users,
            kept_free: plan.kept_free(),
            beside: &found.beside,
        }
    }
}

record! {
    /// A placement that is faster than the engine's.
    FasterPlacement<'a>(placed: &'a Placed) {
        /// How many times as fast, in the middle of both ranges.
        times: Option<f64> = placed.times().map(|times| times.0),
        reason: &'a str = &placed.reason,
        settings: BTreeMap<&'static str, String> = placed.options(),
    }
}

record! {
    /// A change and the goal that it meets.
    Proposal<'a>(remedy: &'a Remedy) {
        knob: &'static str = remedy.change.knob(),
        value: JsonValue = JsonValue::after(&remedy.change),
        brings: String = remedy.goal.to_string(),
        /// A second knob that has to change too.
        with: Option<With> = match &remedy.change {
            Change::CacheWithFlash(_) => Some(With { flash_attn: "on" }),
            _ => None,
        },
        device: Option<String> = match &remedy.change {
            Change::Free { gpu, .. } | Change::MoreMemory { gpu, .. } => Some(format!("GPU{gpu}")),
            _ => None,
        },
        says: String = remedy.says(),
        options: Option<String> = remedy.options(),
        /// What it costs the user.
        costs: &'a Option<String> = &remedy.cost,
        speed: &'a Option<SpeedRange> = &remedy.speed,
    }
}

/// The second knob of a change of two.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct With {
    flash_attn: &'static str,
}
