//! Several models on one machine, as JSON and CSV.

use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::sweep::PlanFigures;
use crate::answer::together::sets::{ResidentSet, ResidentSets};
use crate::answer::together::{Growth, LoadOutcome, ServedModels};
use crate::export::csv as rows;
use crate::export::{AnswerSource, ModelSource, record};
use crate::machine::{Machine, Ram};
use crate::plan::Outcome;
use crate::units::Bytes;

/// A model as it was named, and where it was read.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name with its knobs, or that of its server.
    pub name: String,
    /// Where it was read.
    pub source: ModelSource,
}

/// Which of several models can be loaded at once.
#[derive(JsonSchema, Serialize)]
pub struct TogetherAnswer<'a> {
    #[serde(flatten)]
    head: AnswerSource,
    /// What starts and ends the servers; null if nothing does.
    router: Option<String>,
    /// Whether all are loaded at once.
    together: bool,
    /// In loading order.
    models: Vec<LoadRecord<'a>>,
    /// GPUs in order, the CPU last.
    devices: Vec<SharedDevice<'a>>,
    /// The largest number of models of which any are all in VRAM together; null for too many models.
    any: Option<usize>,
    /// All sets that stay loaded together, in the order given; null for too many models.
    sets: Option<Vec<SetRecord<'a>>>,
}

impl<'a> TogetherAnswer<'a> {
    /// That about the models `named`.
    pub fn of(head: AnswerSource, named: &'a [Named], machine: &'a Machine, served: &'a ServedModels) -> Self {
        let loaded = &served.loaded;
        let drivers = loaded.held_by_drivers();
        let gpus = machine.gpus.iter().enumerate();
        let gpus = gpus.map(|(at, gpu)| {
            let (left, in_ram) = loaded.left_on(at, machine);
            let left_in_ram = (machine.own_memory(gpu) < gpu.total).then_some(in_ram);
            let drivers = drivers.get(at).copied();
            let (id, total, free) = (format!("GPU{at}"), gpu.total, gpu.free);
            SharedDevice { id, name: &gpu.name, total, free, drivers, left, left_in_ram }
        });
        let Ram { total, free, .. } = machine.ram;
        let (id, left) = ("CPU".to_owned(), loaded.left.ram.free);
        let ram = SharedDevice { id, name: "RAM", total, free, drivers: None, left, left_in_ram: None };
        Self {
            head,
            router: served.router.name(),
            together: loaded.all_loaded(),
            models: loads(named, served).collect(),
            devices: gpus.chain([ram]).collect(),
            any: served.sets.as_ref().map(ResidentSets::any),
            sets: served.sets.as_ref().map(|sets| sets.all().iter().map(SetRecord::of).collect()),
        }
    }
}

/// A line for each model.
pub fn csv(named: &[Named], served: &ServedModels) -> String {
    let row = |load: LoadRecord<'_>| {
        let LoadRecord { model, source, fate, by, why, plan, prompt_cache, checkpoints } = load;
        let plan = plan.as_ref();
        let by = by.and_then(|by| named.get(by)).map(|by| &by.name);
        [
            model.to_owned(),
            rows::cell(source.reference.as_ref()),
            rows::cell(source.source),
            fate.to_owned(),
            rows::cell(by),
            rows::cell(plan.map(|plan| plan.outcome.name())),
            rows::cell(plan.map(|plan| plan.totals.gpu.0)),
            rows::cell(plan.map(|plan| plan.totals.cpu.0)),
            prompt_cache.0.to_string(),
            checkpoints.0.to_string(),
            rows::cell(why),
        ]
    };
    let columns =
        ["model", "reference", "source", "fate", "by", "outcome", "gpu", "cpu", "prompt_cache", "checkpoints", "why"];
    rows::table(columns, loads(named, served).map(row))
}

fn loads<'a>(named: &'a [Named], served: &'a ServedModels) -> impl Iterator<Item = LoadRecord<'a>> {
    let all = named.iter().zip(&served.loaded.outcomes).zip(&served.grows);
    all.map(|((named, outcome), grows)| LoadRecord::of(named, outcome, grows))
}

/// A device that the models share.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SharedDevice<'a> {
    id: String,
    name: &'a str,
    total: Bytes,
    /// Free memory before any is loaded.
    free: Bytes,
    /// What drivers take for all processes; null of RAM.
    drivers: Option<Bytes>,
    /// What is free in the end.
    left: Bytes,
    /// The part of it that is RAM, which counts in RAM's `left` too; null unless a GPU shares RAM.
    left_in_ram: Option<Bytes>,
}

record! {
    /// Models that stay loaded together.
    SetRecord<'a>(set: &'a ResidentSet) {
        /// Their indices.
        models: &'a [usize] = &set.members,
        /// Their contexts, in tokens.
        contexts: &'a [u64] = &set.contexts,
        outcome: Outcome = set.outcome,
    }
}

record! {
    /// What becomes of a model.
    LoadRecord<'a>(named: &'a Named, outcome: &'a LoadOutcome, grows: &'a Growth) {
        /// As it was named.
        model: &'a str = &named.name,
        #[serde(flatten)]
        source: &'a ModelSource = &named.source,
        /// `loaded`, `shares` the server of another, `evicted` or `refused`.
        fate: &'static str = match outcome {
            LoadOutcome::Loaded(_) => "loaded",
            LoadOutcome::Shares(_) => "shares",
            LoadOutcome::Evicted { .. } => "evicted",
            LoadOutcome::Refused(_) => "refused",
        },
        /// The index of the model that it shares with or is evicted by; null otherwise.
        by: Option<usize> = match outcome {
            LoadOutcome::Shares(by) | LoadOutcome::Evicted { by, .. } => Some(*by),
            _ => None,
        },
        /// Why it is evicted or refused; null otherwise.
        why: Option<&'a str> = match outcome {
            LoadOutcome::Evicted { why, .. } | LoadOutcome::Refused(why) => Some(why),
            _ => None,
        },
        /// Its plan in short; null unless it is loaded.
        plan: Option<PlanFigures> = match outcome {
            LoadOutcome::Loaded(plan) => Some(PlanFigures::of(plan, None)),
            _ => None,
        },
        /// What llama-server's prompt cache grows to in RAM, at most.
        prompt_cache: Bytes = grows.prompt_cache,
        /// What checkpoints grow to in RAM, at most.
        checkpoints: Bytes = grows.checkpoints,
    }
}
