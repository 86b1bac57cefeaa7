//! Several models loaded on one machine: where each is placed, which are evicted, and what memory remains.

mod served;
pub mod sets;

pub use served::{Growth, ServedModels};

use std::sync::Arc;

use crate::command::Router;
use crate::engine;
use crate::engine::ollama::scheduler::{Retried, Scheduled, ScheduledRequest, ScheduledStart, Scheduler};
use crate::engine::{Admission, EngineError, EngineId, PreparedModel, RequestParts};
use crate::machine::{DeviceKind, Machine};
use crate::plan::{Confidence, DevicePlan, Outcome, Plan};
use crate::settings::{Context, Settings};
use crate::units::Bytes;

/// A model to load, with its settings.
#[derive(Clone, Copy, Debug)]
pub struct LoadRequest<'a> {
    /// The model. Two requests are for the same file if this is the same reference.
    pub model: &'a PreparedModel,
    /// The path of its file; where it is unknown, models go in the order of the requests.
    pub path: Option<&'a str>,
    /// Its settings.
    pub settings: &'a Settings,
}

/// The result of loading models one after the other.
#[derive(Clone, Debug)]
pub struct LoadedModels {
    /// The outcome of each request, in order.
    pub outcomes: Vec<LoadOutcome>,
    /// The machine with the memory that is left free: besides what plans ask for, what drivers take for each process of
    /// llama-server.
    pub left: Machine,
}

/// The outcome of one request.
#[derive(Clone, Debug)]
pub enum LoadOutcome {
    /// It stays loaded, with the plan for what was free when it was loaded.
    Loaded(Arc<Plan>),
    /// It uses the runner of this request, which has the same file and settings.
    Shares(usize),
    /// It was loaded and then evicted.
    Evicted {
        /// The request that needed its memory.
        by: usize,
        /// The reason, a sentence without its full stop.
        why: String,
    },
    /// It is not loaded, with the reason, a sentence without its full stop.
    Refused(String),
}

impl LoadedModels {
    /// What is left on the GPU `index` of `machine`, and the part of it that is RAM, which RAM's own figure counts too.
    pub fn left_on(&self, index: usize, machine: &Machine) -> (Bytes, Bytes) {
        let (Some(before), Some(after)) = (machine.gpus.get(index), self.left.gpus.get(index)) else {
            return (Bytes::ZERO, Bytes::ZERO);
        };
        // memory of its own is filled first
        let own = machine.own_memory(before).min(before.free) - (before.free - after.free);
        let in_ram = (after.free - own).min(self.left.ram.free);
        if machine.own_memory(before) < before.total { (own + in_ram, in_ram) } else { (after.free, Bytes::ZERO) }
    }

    /// Whether all stay loaded and fit.
    pub fn all_loaded(&self) -> bool {
        self.outcomes.iter().all(|outcome| match outcome {
            LoadOutcome::Loaded(plan) => plan.outcome() != Outcome::DoesNotFit,
            LoadOutcome::Shares(_) => true,
            LoadOutcome::Evicted { .. } | LoadOutcome::Refused(_) => false,
        })
    }

    /// The requests that stay loaded, with their plans.
    pub fn loaded(&self) -> impl Iterator<Item = (usize, &Plan)> {
        loaded(&self.outcomes)
    }

    /// `machine` as the request `place` finds it: without what those before it take that stay.
    pub fn machine_for(&self, place: usize, machine: &Machine) -> Machine {
        free_after(machine, self.outcomes.get(..place).unwrap_or_default())
    }

    /// What drivers take on each GPU for the processes that stay, at most: in no plan, and not free for another process.
    pub fn held_by_drivers(&self) -> Vec<Bytes> {
        (0..self.left.gpus.len())
            .map(|gpu| {
                let on = |(_, plan): (usize, &Plan)| plan.gpus().get(gpu).map(|device| held_by_driver(plan, device));
                self.loaded().filter_map(on).sum()
            })
            .collect()
    }

    /// The headline of the result.
    pub fn headline(&self) -> &'static str {
        if self.all_loaded() { "Together:" } else { "Do not fit together:" }
    }

    /// The sentence after the headline.
    pub fn sentence(&self) -> String {
        if !self.all_loaded() {
            return self.loaded_count_sentence();
        }
        let from_disk = self.loaded().filter(|(_, plan)| plan.outcome() == Outcome::FromDisk).count();
        match self.loaded().filter(|(_, plan)| plan.outcome() > Outcome::Tight).count() {
            1.. if from_disk > 0 && self.outcomes.len() == 1 => "RAM cannot hold it: it is read from disk.".to_owned(),
            1.. if from_disk > 0 => format!("RAM cannot hold {from_disk} of them: weights are read from disk."),
            0 if self.outcomes.len() == 1 => "all its layers are on GPU.".to_owned(),
            1 if self.outcomes.len() == 1 => "it is wholly or partly in RAM.".to_owned(),
            0 => "all layers of all models are on GPU.".to_owned(),
            1 => "one of them is wholly or partly in RAM.".to_owned(),
            some => format!("{some} of them are wholly or partly in RAM."),
        }
    }

    /// The worst status among them; does not fit if one is not loaded.
    pub fn outcome(&self) -> Outcome {
        if !self.all_loaded() {
            return Outcome::DoesNotFit;
        }
        self.loaded().map(|(_, plan)| plan.outcome()).max().unwrap_or(Outcome::Vram)
    }

    fn loaded_count_sentence(&self) -> String {
        let all = self.outcomes.len();
        let too_much = self.loaded().filter(|(_, plan)| plan.outcome() == Outcome::DoesNotFit).count();
        let stays = |outcome: &&LoadOutcome| matches!(outcome, LoadOutcome::Loaded(_) | LoadOutcome::Shares(_));
        let loaded = self.outcomes.iter().filter(stays).count();
        let who = match loaded {
            0 => format!("none of {all} stays loaded"),
            1 if all == 1 => "the model is loaded".to_owned(),
            1 => format!("only 1 of {all} stays loaded"),
            n if n == all => format!("all {all} are loaded"),
            n => format!("only {n} of {all} stay loaded"),
        };
        match too_much {
            0 => format!("{who}."),
            1 if loaded == 1 => format!("{who}, and it does not fit."),
            1 => format!("{who}, and one of them does not fit."),
            n => format!("{who}, and {n} of them do not fit."),
        }
    }

    /// The lowest confidence among the plans.
    pub fn confidence(&self) -> Option<Confidence> {
        self.loaded().map(|(_, plan)| plan.confidence).max()
    }
}

impl LoadOutcome {
    /// The outcome in words, after the model's name; `name` names other requests.
    pub fn sentence(&self, name: &dyn Fn(usize) -> String) -> String {
        match self {
            Self::Loaded(plan) => {
                let places = plan.devices.iter().filter(|device| device.asked() > Bytes::ZERO);
                let place = |device: &DevicePlan| match device.kind {
                    DeviceKind::Gpu => format!("{} on {}", device.asked(), device.id),
                    DeviceKind::Cpu => format!("{} in RAM", device.needed()),
                };
                let places: Vec<String> = places.map(place).collect();
                let (word, on, all) = (plan.outcome().headline(), plan.on_gpus(), plan.layers.len());
                format!("{word}: {on} of {all} layers on GPU; {}", places.join(", "))
            }
            Self::Shares(host) => format!("is served by {}: the same file with the same knobs", name(*host)),
            Self::Evicted { by, why } => format!("is unloaded to make room for {}: {why}", name(*by)),
            Self::Refused(why) => format!("is not loaded: {why}"),
        }
    }
}

/// Loads `requests` one after the other on `machine`; [`engine::Engine::admit`] decides when one must be evicted.
///
/// All models are assumed to be idle with equal keep-alive times. Ollama from 0.30 then unloads in the order of their
/// files' paths, that is by digest; earlier ones, whose files' paths do not decide, the model loaded first. A file is
/// loaded once: a request with other settings reloads it.
///
/// Source: `server/sched.go` (`processPending`, `findRunnerToUnload`, `needsReload`, `updateFreeSpace`), Ollama, in
/// each engine's release.
///
/// # Errors
/// If the engine returns an error for one of them.
pub fn load_together(
    engine: EngineId,
    machine: &Machine,
    requests: &[LoadRequest<'_>],
) -> Result<LoadedModels, EngineError> {
    load_behind(&Router::None, engine, machine, requests)
}

/// The same behind a router, which decides which servers of llama.cpp go; each request is a model of its own there.
///
/// # Errors
/// As [`load_together`].
pub fn load_behind(
    router: &Router,
    engine: EngineId,
    machine: &Machine,
    requests: &[LoadRequest<'_>],
) -> Result<LoadedModels, EngineError> {
    let local = machine_of(engine, machine);
    let mut loader = Loader::new(router, engine, &local, requests);
    for number in 0..requests.len() {
        loader.load(number)?;
    }
    let left = free_after(&local, &loader.outcomes);
    Ok(LoadedModels { outcomes: loader.outcomes, left })
}

/// The machine as `engine` uses it: Ollama has no GPUs of other computers.
fn machine_of(engine: EngineId, machine: &Machine) -> Machine {
    let local = if engine.facts().starts_llama_server { machine.without_rpc_gpus() } else { None };
    local.unwrap_or_else(|| machine.clone())
}

/// Loads some of several requests one after the other.
#[derive(Clone)]
struct Loader<'a> {
    router: &'a Router,
    engine: EngineId,
    machine: &'a Machine,
    /// All requests; those that were loaded are `asked` of them.
    requests: &'a [LoadRequest<'a>],
    asked: Vec<usize>,
    /// The outcome of each that was asked for, in order.
    outcomes: Vec<LoadOutcome>,
    /// Of an Ollama that starts llama-server.
    scheduler: Option<Scheduler<'a>>,
}

impl<'a> Loader<'a> {
    fn new(router: &'a Router, engine: EngineId, machine: &'a Machine, requests: &'a [LoadRequest<'a>]) -> Self {
        let scheduler = engine.facts().starts_llama_server.then(|| Scheduler::new(machine));
        Self { router, engine, machine, requests, asked: Vec::new(), outcomes: Vec::new(), scheduler }
    }

    /// Loads the request with this number.
    fn load(&mut self, number: usize) -> Result<(), EngineError> {
        let Some(request) = self.requests.get(number).copied() else { return Ok(()) };
        let place = self.asked.len();
        self.asked.push(number);
        let outcome = match self.scheduler.take() {
            Some(mut scheduler) => {
                let outcome = self.schedule(&mut scheduler, request, number, place);
                self.scheduler = Some(scheduler);
                outcome?
            }
            None => self.admit(request, place)?,
        };
        self.outcomes.push(outcome);
        Ok(())
    }

    /// The outcome of a request, which may evict earlier ones.
    fn admit(&mut self, request: LoadRequest<'_>, place: usize) -> Result<LoadOutcome, EngineError> {
        let (engine, machine) = (self.engine, self.machine);
        let LoadRequest { model, settings, .. } = request;
        let mut settings = settings.clone();
        let asked = |place: usize| self.asked.get(place).and_then(|&number| self.requests.get(number));
        let outcomes = &mut self.outcomes;
        if engine.facts().evicts {
            let same_file =
                |&(other, _): &(usize, &Plan)| asked(other).is_some_and(|one| std::ptr::eq(one.model, model));
            let other = loaded(outcomes).find(same_file).map(|(other, _)| other);
            if let Some(other) = other {
                if asked(other).is_some_and(|one| *one.settings == settings) {
                    return Ok(LoadOutcome::Shares(other));
                }
                evict(outcomes, &[other], place, "the same file is reloaded with other knobs");
            }
        }
        let running: Vec<usize> = loaded(outcomes).map(|(place, _)| place).collect();
        let numbers: Vec<usize> = running.iter().filter_map(|&place| self.asked.get(place).copied()).collect();
        for (goes, why) in self.router.unloads(self.asked.get(place).copied().unwrap_or(place), &numbers) {
            let goes = numbers.iter().position(|&number| number == goes).and_then(|at| running.get(at));
            evict(outcomes, &goes.copied().into_iter().collect::<Vec<_>>(), place, &why);
        }
        loop {
            let left = free_after(machine, outcomes);
            let loaded: Vec<usize> = loaded(outcomes).map(|(request, _)| request).collect();
            let Some(&first) = loaded.first() else {
                let plan = engine::plan(engine, model, &left, &settings)?;
                return Ok(match plan.refusal.clone() {
                    Some(why) => LoadOutcome::Refused(why),
                    None => LoadOutcome::Loaded(Arc::new(plan)),
                });
            };
            if let Some(most) = engine.facts().max_loaded_models(machine).filter(|&most| loaded.len() >= most) {
                evict(outcomes, &[first], place, &format!("Ollama keeps at most {most} models loaded here"));
                continue;
            }
            match engine::of(engine).admit(RequestParts { model, machine: &left, settings: &settings })? {
                Admission::Load(plan) => return Ok(LoadOutcome::Loaded(Arc::from(plan))),
                Admission::Refused(why) => return Ok(LoadOutcome::Refused(why)),
                Admission::EvictOne(why) => evict(outcomes, &[first], place, &why),
                Admission::EvictAll { why, ctx } => {
                    // with nothing else loaded, it is planned without admission
                    settings.ctx = ctx.map_or(settings.ctx, Context::Tokens);
                    evict(outcomes, &loaded, place, &why);
                }
            }
        }
    }

    /// The outcome of a request to an Ollama that starts llama-server.
    fn schedule(
        &mut self,
        scheduler: &mut Scheduler<'_>,
        request: LoadRequest<'_>,
        number: usize,
        place: usize,
    ) -> Result<LoadOutcome, EngineError> {
        let LoadRequest { model, settings, .. } = request;
        let path = path(self.requests, number);
        let asked = ScheduledRequest { model, path: &path, settings, keep_alive: None, busy: false };
        match scheduler.schedule(&asked)? {
            Scheduled::Serves(host) => Ok(LoadOutcome::Shares(host)),
            Scheduled::Starts(start) => started(scheduler, &asked, *start, place, &mut self.outcomes, self.machine),
        }
    }
}

fn loaded(outcomes: &[LoadOutcome]) -> impl Iterator<Item = (usize, &Plan)> {
    outcomes.iter().enumerate().filter_map(|(request, outcome)| match outcome {
        LoadOutcome::Loaded(plan) => Some((request, plan.as_ref())),
        _ => None,
    })
}

/// Evicts `who`, and the requests that use their runners.
fn evict(outcomes: &mut [LoadOutcome], who: &[usize], by: usize, why: &str) {
    for (request, outcome) in outcomes.iter_mut().enumerate() {
        let served = matches!(outcome, LoadOutcome::Shares(host) if who.contains(host));
        if served || who.contains(&request) {
            *outcome = LoadOutcome::Evicted { by, why: why.to_owned() };
        }
    }
}

/// `machine` minus the memory of the loaded models; what GPUs take of RAM is taken from it.
fn free_after(machine: &Machine, outcomes: &[LoadOutcome]) -> Machine {
    let mut left = machine.clone();
    for (_, plan) in loaded(outcomes) {
        for (gpu, device) in left.gpus.iter_mut().zip(plan.gpus()) {
            let taken = device.needed() + held_by_driver(plan, device);
            gpu.free = gpu.free - taken;
            // what the system set aside for an integrated GPU is filled first, and once
            gpu.dedicated = gpu.dedicated.map(|own| own - taken);
        }
        left.ram.free = left.ram.free - plan.ram().asked;
    }
    left
}

/// What a driver takes on a GPU with layers for the process of a plan, after its first prompt at most. Ollama up to 0.24
/// counts its own.
fn held_by_driver(plan: &Plan, device: &DevicePlan) -> Bytes {
    let is_server = plan.engine == EngineId::LlamaCpp || plan.engine.facts().starts_llama_server;
    let driver = device.driver.filter(|_| is_server && !device.layers.is_empty());
    driver.map_or(Bytes::ZERO, |driver| driver.most(plan.model.experts.is_some()))
}

/// The outcome of a start, and of the next ones where it runs out of memory.
fn started(
    scheduler: &mut Scheduler<'_>,
    asked: &ScheduledRequest<'_>,
    mut start: ScheduledStart,
    number: usize,
    outcomes: &mut [LoadOutcome],
    machine: &Machine,
) -> Result<LoadOutcome, EngineError> {
    let mut retried = Retried::default();
    loop {
        for (gone, why) in &start.unloaded {
            evict(outcomes, &[*gone], number, why);
        }
        if let Some(same) = start.reloaded {
            evict(outcomes, &[same], number, "the same file is reloaded with other knobs");
        }
        let actual = free_after(machine, outcomes);
        let plan = start.plan(asked.model, &actual, asked.settings)?;
        if let Some(why) = plan.refusal {
            return Ok(LoadOutcome::Refused(why));
        }
        let out_of_memory = start.runs_out_of_memory(&plan, &actual);
        let again = if out_of_memory { scheduler.schedule_again(asked, &start, retried)? } else { None };
        if let Some((next, tried)) = again {
            (start, retried) = (next, tried);
        } else {
            let asked_for = of_seen(&plan, &start, &|device| device.asked());
            let besides = of_seen(&plan, &start, &|device| held_by_driver(&plan, device));
            drop(scheduler.loaded(asked, &start, &asked_for, &besides));
            return Ok(LoadOutcome::Loaded(Arc::new(plan)));
        }
    }
}

/// A figure of a plan for each GPU that llama-server sees.
fn of_seen(plan: &Plan, start: &ScheduledStart, figure: &dyn Fn(&DevicePlan) -> Bytes) -> Vec<Bytes> {
    let of = |&index: &usize| plan.devices.get(index).map_or(Bytes::ZERO, figure);
    start.start.command.sees.iter().map(of).collect()
}

/// The path of a request's file; without one, a place in the order of the files' first requests.
fn path(requests: &[LoadRequest<'_>], number: usize) -> String {
    let Some(request) = requests.get(number) else { return String::new() };
    let first = requests.iter().position(|other| std::ptr::eq(other.model, request.model)).unwrap_or(number);
    request.path.map_or_else(|| format!("{first:08}"), str::to_owned)
}
