//! Several models on one machine at once: what each gets, what remains, and which would have to go.

use crate::engine::PreparedModel;
use crate::engine::{self, Admission, EngineError, EngineId};
use crate::machine::{DeviceKind, Machine};
use crate::plan::{Confidence, DevicePlan, FitStatus, Plan, Verdict};
use crate::settings::{Context, Settings};
use crate::units::Bytes;

/// A model that is to be loaded, with its knobs.
#[derive(Clone, Copy, Debug)]
pub struct LoadRequest<'a> {
    /// The model. Two tenants have one file where this is one and the same in memory.
    pub model: &'a PreparedModel,
    /// Its knobs.
    pub settings: &'a Settings,
}

/// How it ends when models are loaded one after the other.
#[derive(Clone, Debug)]
pub struct LoadedModels {
    /// What becomes of each tenant, in their order.
    pub outcomes: Vec<LoadOutcome>,
    /// The machine with what is left free.
    pub left: Machine,
}

/// What becomes of a model.
#[derive(Clone, Debug)]
pub enum LoadOutcome {
    /// It is loaded in the end, placed so in what the others had left when it came.
    Loaded(Box<Plan>),
    /// Its file is loaded with the same knobs already, for this tenant: both are served by it.
    Shares(usize),
    /// It was loaded and had to go.
    Evicted {
        /// The tenant who needed the room.
        by: usize,
        /// Why, in one sentence without its full stop.
        why: String,
    },
    /// It is not loaded; why, in one sentence without its full stop.
    Refused(String),
}

impl LoadedModels {
    /// Everyone stayed, and fits.
    pub fn all_loaded(&self) -> bool {
        self.outcomes.iter().all(|outcome| match outcome {
            LoadOutcome::Loaded(plan) => plan.verdict != Verdict::DoesNotFit,
            LoadOutcome::Shares(_) => true,
            LoadOutcome::Evicted { .. } | LoadOutcome::Refused(_) => false,
        })
    }

    /// The tenants that are loaded in the end, with their plans.
    pub fn loaded(&self) -> impl Iterator<Item = (usize, &Plan)> {
        loaded(&self.outcomes)
    }

    /// Together, or not.
    pub fn headline(&self) -> &'static str {
        if self.all_loaded() { "Together:" } else { "Do not fit together:" }
    }

    /// What comes after the headline.
    pub fn sentence(&self) -> String {
        if !self.all_loaded() {
            return self.who_stays();
        }
        match self.loaded().filter(|(_, plan)| plan.fit_status() != FitStatus::Fits).count() {
            0 if self.outcomes.len() == 1 => "all its layers are on GPU.".to_owned(),
            1 if self.outcomes.len() == 1 => "it is wholly or partly in RAM.".to_owned(),
            0 => "all layers of all models are on GPU.".to_owned(),
            1 => "one of them is wholly or partly in RAM.".to_owned(),
            some => format!("{some} of them are wholly or partly in RAM."),
        }
    }

    /// How all of them stand: as the one among them that stands worst, and where one is not loaded, it does not fit.
    pub fn fit_status(&self) -> FitStatus {
        if !self.all_loaded() {
            return FitStatus::DoesNotFit;
        }
        self.loaded().map(|(_, plan)| plan.fit_status()).max().unwrap_or(FitStatus::Fits)
    }

    fn who_stays(&self) -> String {
        let all = self.outcomes.len();
        let too_much = self.loaded().filter(|(_, plan)| plan.verdict == Verdict::DoesNotFit).count();
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

    /// How sure all of it is: no surer than the least sure of the plans.
    pub fn confidence(&self) -> Option<Confidence> {
        self.loaded().map(|(_, plan)| plan.confidence).max()
    }
}

impl LoadOutcome {
    /// What becomes of it, after its name; `name` says what another tenant is called.
    pub fn sentence(&self, name: &dyn Fn(usize) -> String) -> String {
        match self {
            Self::Loaded(plan) => {
                let places = plan.devices.iter().filter(|device| device.asked() > Bytes::ZERO);
                let place = |device: &DevicePlan| match device.kind {
                    DeviceKind::Gpu => format!("{} on {}", device.asked(), device.id),
                    DeviceKind::Cpu => format!("{} in RAM", device.asked()),
                };
                let places: Vec<String> = places.map(place).collect();
                let (word, on, all) = (plan.fit_status().headline(), plan.on_gpus(), plan.layers.len());
                format!("{word}: {on} of {all} layers on GPU; {}", places.join(", "))
            }
            Self::Shares(host) => format!("is served by {}: the same file with the same knobs", name(*host)),
            Self::Evicted { by, why } => format!("is unloaded to make room for {}: {why}", name(*by)),
            Self::Refused(why) => format!("is not loaded: {why}"),
        }
    }
}

/// Loads `requests` one after the other on `machine`, as `engine` would; see [`engine::Engine::admit`] for when one has to go.
///
/// All are taken to be idle and to be kept equally long. Ollama then unloads in the order of their files' digests, which
/// nothing here knows; the one that was loaded first goes first instead. One file is loaded once: asked for again with
/// other knobs, it is loaded anew.
/// Source: `server/sched.go` (`processPending`, `findRunnerToUnload`, `needsReload`, `updateFreeSpace`), Ollama, of each
/// engine's own time.
///
/// # Errors
/// When the engine makes no plan at all for one of them.
pub fn load_together(
    engine: EngineId,
    machine: &Machine,
    requests: &[LoadRequest<'_>],
) -> Result<LoadedModels, EngineError> {
    let mut outcomes = Vec::with_capacity(requests.len());
    for number in 0..requests.len() {
        let outcome = load_one(engine, machine, requests, number, &mut outcomes)?;
        outcomes.push(outcome);
    }
    let left = free_after(machine, &outcomes);
    Ok(LoadedModels { outcomes, left })
}

/// What becomes of tenant `number`, who comes when `outcomes` are those of the earlier ones.
fn load_one(
    engine: EngineId,
    machine: &Machine,
    requests: &[LoadRequest<'_>],
    number: usize,
    outcomes: &mut [LoadOutcome],
) -> Result<LoadOutcome, EngineError> {
    let Some(LoadRequest { model, settings }) = requests.get(number).copied() else {
        return Ok(LoadOutcome::Shares(number));
    };
    let mut settings = settings.clone();
    if engine.facts().evicts {
        let same_file =
            |&(other, _): &(usize, &Plan)| requests.get(other).is_some_and(|one| std::ptr::eq(one.model, model));
        let other = loaded(outcomes).find(same_file).map(|(other, _)| other);
        if let Some(other) = other {
            if requests.get(other).is_some_and(|one| *one.settings == settings) {
                return Ok(LoadOutcome::Shares(other));
            }
            evict(outcomes, &[other], number, "the same file is reloaded with other knobs");
        }
    }
    loop {
        let left = free_after(machine, outcomes);
        let loaded: Vec<usize> = loaded(outcomes).map(|(request, _)| request).collect();
        let Some(&first) = loaded.first() else {
            let plan = engine::plan(engine, model, &left, &settings)?;
            return Ok(match plan.refusal.clone() {
                Some(why) => LoadOutcome::Refused(why),
                None => LoadOutcome::Loaded(Box::new(plan)),
            });
        };
        if let Some(most) = engine.facts().max_loaded_models(machine).filter(|&most| loaded.len() >= most) {
            evict(outcomes, &[first], number, &format!("Ollama keeps at most {most} models loaded here"));
            continue;
        }
        match engine::of(engine).admit(model, &left, &settings)? {
            Admission::Load(plan) => return Ok(LoadOutcome::Loaded(plan)),
            Admission::Refused(why) => return Ok(LoadOutcome::Refused(why)),
            Admission::EvictOne(why) => evict(outcomes, &[first], number, &why),
            Admission::EvictAll { why, ctx } => {
                // alone then, it is planned without asking
                settings.ctx = ctx.map_or(settings.ctx, Context::Tokens);
                evict(outcomes, &loaded, number, &why);
            }
        }
    }
}

fn loaded(outcomes: &[LoadOutcome]) -> impl Iterator<Item = (usize, &Plan)> {
    outcomes.iter().enumerate().filter_map(|(request, outcome)| match outcome {
        LoadOutcome::Loaded(plan) => Some((request, plan.as_ref())),
        _ => None,
    })
}

/// Those `who` go, and with them the tenants that they served too.
fn evict(outcomes: &mut [LoadOutcome], who: &[usize], by: usize, why: &str) {
    for (request, outcome) in outcomes.iter_mut().enumerate() {
        let served = matches!(outcome, LoadOutcome::Shares(host) if who.contains(host));
        if served || who.contains(&request) {
            *outcome = LoadOutcome::Evicted { by, why: why.to_owned() };
        }
    }
}

/// `machine` less what those that are loaded were given. What an integrated GPU takes, it takes from RAM.
fn free_after(machine: &Machine, outcomes: &[LoadOutcome]) -> Machine {
    let mut left = machine.clone();
    for (_, plan) in loaded(outcomes) {
        for (gpu, device) in left.gpus.iter_mut().zip(plan.gpus()) {
            gpu.free = gpu.free - device.asked();
            if gpu.integrated && gpu.computer.is_none() {
                left.ram.free = left.ram.free - device.asked();
            }
        }
        left.ram.free = left.ram.free - plan.cpu().asked();
    }
    left
}
