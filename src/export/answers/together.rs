//! Several models on one machine, as JSON.

use serde::Serialize;

use super::Source;
use crate::answer::sweep::Outcome;
use crate::answer::together::{Fate, Household};
use crate::machine::Machine;
use crate::units::Bytes;

#[derive(Serialize)]
struct Object<'a> {
    #[serde(flatten)]
    source: Source,
    together: bool,
    models: Vec<Told<'a>>,
    devices: Vec<Device<'a>>,
}

#[derive(Serialize)]
struct Told<'a> {
    model: &'a str,
    fate: &'static str,
    by: Option<usize>,
    why: Option<&'a str>,
    plan: Option<Outcome>,
}

impl<'a> Told<'a> {
    fn of(model: &'a str, fate: &'a Fate) -> Self {
        let (by, why, plan) = (None, None, None);
        match fate {
            Fate::Loaded(plan) => Self { model, fate: "loaded", by, why, plan: Some(Outcome::of(plan)) },
            Fate::Shares(host) => Self { model, fate: "shares", by: Some(*host), why, plan },
            Fate::Evicted { by, why } => Self { model, fate: "evicted", by: Some(*by), why: Some(why), plan },
            Fate::Refused(why) => Self { model, fate: "refused", by, why: Some(why), plan },
        }
    }
}

#[derive(Serialize)]
struct Device<'a> {
    id: String,
    name: &'a str,
    total: Bytes,
    free: Bytes,
    left: Bytes,
}

/// `{…,"together":true,"models":[{"model","fate":"loaded|shares|evicted|refused","by","why","plan"}],"devices":[{"id",
/// "name","total","free","left"}]}`: `by` is the place of another model in the list, `left` what is free in the end.
///
/// # Errors
/// None that an answer can cause.
pub fn json(source: Source, names: &[String], machine: &Machine, household: &Household) -> serde_json::Result<String> {
    let gpus = machine.gpus.iter().zip(&household.left.gpus).enumerate();
    let gpus = gpus.map(|(index, (before, after))| Device {
        id: format!("GPU{index}"),
        name: &before.name,
        total: before.total,
        free: before.free,
        left: after.free,
    });
    let (before, after) = (machine.ram, household.left.ram);
    let ram = Device { id: "CPU".to_owned(), name: "RAM", total: before.total, free: before.free, left: after.free };
    serde_json::to_string_pretty(&Object {
        source,
        together: household.all_live_together(),
        models: names.iter().zip(&household.fates).map(|(name, fate)| Told::of(name, fate)).collect(),
        devices: gpus.chain(std::iter::once(ram)).collect(),
    })
}
