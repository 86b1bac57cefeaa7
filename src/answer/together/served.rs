//! Several models on one machine: what loading them one after the other comes to, which sets of them stay, and what grows.

use super::sets::ResidentSets;
use super::{LoadOutcome, LoadRequest, LoadedModels, load_behind};
use crate::answer::ram::RamUse;
use crate::command::Router;
use crate::engine::{EngineError, EngineId, PlanRequest};
use crate::machine::Machine;
use crate::settings::written::NO_LIMIT;
use crate::units::Bytes;

/// Several models on one machine.
#[derive(Clone, Debug)]
pub struct ServedModels {
    /// What starts and ends their servers.
    pub router: Router,
    /// The outcome of loading them in order.
    pub loaded: LoadedModels,
    /// Which of them stay loaded together; none if they are too many or too few.
    pub sets: Option<ResidentSets>,
    /// What each one that stays adds in RAM while it is in use.
    pub grows: Vec<Growth>,
}

/// What a server adds in RAM while it is in use, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Its prompt cache.
    pub prompt_cache: Bytes,
    /// Its checkpoints of recurrent states and sliding windows.
    pub checkpoints: Bytes,
}

impl ServedModels {
    /// Loads `requests` in order, and tries every set of them.
    ///
    /// # Errors
    /// If the engine returns an error for one of them.
    pub fn of(
        router: Router,
        engine: EngineId,
        machine: &Machine,
        requests: &[LoadRequest<'_>],
    ) -> Result<Self, EngineError> {
        let loaded = load_behind(&router, engine, machine, requests)?;
        let sets = ResidentSets::of(&router, engine, machine, requests);
        let grows = requests.iter().zip(&loaded.outcomes).map(|(request, outcome)| {
            let LoadOutcome::Loaded(plan) = outcome else { return Growth::default() };
            let asked = PlanRequest::new(engine, request.model.clone(), machine.clone(), request.settings.clone());
            let ram = RamUse::of(&asked, plan);
            Growth { prompt_cache: ram.prompt_cache.unwrap_or_default(), checkpoints: ram.checkpoints }
        });
        let grows = grows.collect();
        Ok(Self { router, loaded, sets, grows })
    }

    /// What grows while they are in use, as a sentence; none where nothing does.
    pub fn growth(&self) -> Option<String> {
        let sum = |of: fn(&Growth) -> Bytes| self.grows.iter().map(of).sum::<Bytes>();
        let (caches, checkpoints) = (sum(|grows| grows.prompt_cache), sum(|grows| grows.checkpoints));
        let free = self.loaded.left.ram.free;
        let has_no_limit = self.grows.iter().any(|grows| grows.prompt_cache == NO_LIMIT);
        let several = |of: fn(&Growth) -> Bytes| self.grows.iter().filter(|grows| of(grows) > Bytes::ZERO).count() > 1;
        let whose = if several(|grows| grows.prompt_cache) { "prompt caches" } else { "the prompt cache" };
        let mut named = Vec::new();
        if has_no_limit {
            named.push(format!("to {whose} without a limit"));
        } else if caches > Bytes::ZERO {
            named.push(format!("up to {caches} to {whose}"));
        }
        if checkpoints > Bytes::ZERO {
            named.push(format!("up to {checkpoints} to checkpoints"));
        }
        if named.is_empty() {
            return None;
        }
        let options = match (caches > Bytes::ZERO, checkpoints > Bytes::ZERO) {
            (true, true) => "--cache-ram and --ctx-checkpoints limit them",
            (true, false) => "--cache-ram limits that",
            _ => "--ctx-checkpoints limits that",
        };
        let is_short = has_no_limit || caches + checkpoints > free;
        let room =
            if is_short { format!("so that RAM may become short; {options}") } else { "which is enough".to_owned() };
        Some(format!(
            "While they are used, RAM goes to what grows: {}; {free} remain free, {room}.",
            named.join(" and ")
        ))
    }
}
