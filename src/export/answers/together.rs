//! Several models on one machine, as JSON.

use serde::Serialize;

use super::AnswerSource;
use crate::answer::sweep::PlanFigures;
use crate::answer::together::{LoadOutcome, LoadedModels};
use crate::machine::Machine;
use crate::text;
use crate::units::Bytes;

#[derive(Serialize)]
struct Object<'a> {
    #[serde(flatten)]
    source: AnswerSource,
    together: bool,
    models: Vec<LoadRecord<'a>>,
    devices: Vec<DeviceRecord<'a>>,
}

#[derive(Serialize)]
struct LoadRecord<'a> {
    model: &'a str,
    fate: &'static str,
    by: Option<usize>,
    why: Option<&'a str>,
    plan: Option<PlanFigures>,
}

impl<'a> LoadRecord<'a> {
    fn of(model: &'a str, figures: &'a LoadOutcome) -> Self {
        let (by, why, plan) = (None, None, None);
        match figures {
            LoadOutcome::Loaded(plan) => {
                Self { model, fate: "loaded", by, why, plan: Some(PlanFigures::of(plan, None)) }
            }
            LoadOutcome::Shares(host) => Self { model, fate: "shares", by: Some(*host), why, plan },
            LoadOutcome::Evicted { by, why } => Self { model, fate: "evicted", by: Some(*by), why: Some(why), plan },
            LoadOutcome::Refused(why) => Self { model, fate: "refused", by, why: Some(why), plan },
        }
    }
}

#[derive(Serialize)]
struct DeviceRecord<'a> {
    id: String,
    name: &'a str,
    total: Bytes,
    free: Bytes,
    left: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_in_ram: Option<Bytes>,
}

/// `{…,"together":true,"models":[{"model","fate":"loaded|shares|evicted|refused","by","why","plan"}],"devices":[{"id",
/// "name","total","free","left","left_in_ram"}]}`: `by` is the index of another model, `left` the memory that is free in
/// the end. `left_in_ram` is the part of it that is RAM, of GPUs that share RAM, and counted in RAM's `left` too.
///
/// # Errors
/// None that an answer can cause.
pub fn json(
    source: AnswerSource,
    names: &[String],
    machine: &Machine,
    loaded_models: &LoadedModels,
) -> serde_json::Result<String> {
    let gpus = machine.gpus.iter().enumerate();
    let gpus = gpus.map(|(index, gpu)| {
        let (left, in_ram) = loaded_models.left_on(index, machine);
        DeviceRecord {
            id: format!("GPU{index}"),
            name: &gpu.name,
            total: gpu.total,
            free: gpu.free,
            left,
            left_in_ram: (machine.own_memory(gpu) < gpu.total).then_some(in_ram),
        }
    });
    let (before, after) = (machine.ram, loaded_models.left.ram);
    let ram = DeviceRecord {
        id: "CPU".to_owned(),
        name: "RAM",
        total: before.total,
        free: before.free,
        left: after.free,
        left_in_ram: None,
    };
    text::json(&Object {
        source,
        together: loaded_models.all_loaded(),
        models: names
            .iter()
            .zip(&loaded_models.outcomes)
            .map(|(name, figures)| LoadRecord::of(name, figures))
            .collect(),
        devices: gpus.chain(std::iter::once(ram)).collect(),
    })
}
