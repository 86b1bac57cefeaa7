//! Several models on one machine at once: what each gets, what remains, and which would have to go.

use crate::engine::PreparedModel;
use crate::engine::{self, EngineError, EngineId, Reception};
use crate::machine::{DeviceKind, Machine};
use crate::plan::{Confidence, DevicePlan, Plan, Standing, Verdict};
use crate::settings::{Context, Settings};
use crate::units::Bytes;

/// A model that is to be loaded, with its knobs.
#[derive(Clone, Copy, Debug)]
pub struct Tenant<'a> {
    /// The model. Two tenants have one file where this is one and the same in memory.
    pub model: &'a PreparedModel,
    /// Its knobs.
    pub settings: &'a Settings,
}

/// How it ends when models are loaded one after the other.
#[derive(Clone, Debug)]
pub struct Household {
    /// What becomes of each tenant, in their order.
    pub fates: Vec<Fate>,
    /// The machine with what is left free.
    pub left: Machine,
}

/// What becomes of a model.
#[derive(Clone, Debug)]
pub enum Fate {
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

impl Household {
    /// Everyone stayed, and fits.
    pub fn all_live_together(&self) -> bool {
        self.fates.iter().all(|fate| match fate {
            Fate::Loaded(plan) => plan.verdict != Verdict::DoesNotFit,
            Fate::Shares(_) => true,
            Fate::Evicted { .. } | Fate::Refused(_) => false,
        })
    }

    /// The tenants that are loaded in the end, with their plans.
    pub fn residents(&self) -> impl Iterator<Item = (usize, &Plan)> {
        residents(&self.fates)
    }

    /// Together, or not.
    pub fn headline(&self) -> &'static str {
        if self.all_live_together() { "Together:" } else { "Do not fit together:" }
    }

    /// What comes after the headline.
    pub fn sentence(&self) -> String {
        if !self.all_live_together() {
            return self.who_stays();
        }
        match self.residents().filter(|(_, plan)| plan.standing() != Standing::Fits).count() {
            0 if self.fates.len() == 1 => "all its layers are on GPU.".to_owned(),
            1 if self.fates.len() == 1 => "it is wholly or partly in RAM.".to_owned(),
            0 => "all layers of all models are on GPU.".to_owned(),
            1 => "one of them is wholly or partly in RAM.".to_owned(),
            some => format!("{some} of them are wholly or partly in RAM."),
        }
    }

    /// How all of them stand: as the one among them that stands worst, and where one is not loaded, it does not fit.
    pub fn standing(&self) -> Standing {
        if !self.all_live_together() {
            return Standing::DoesNotFit;
        }
        self.residents().map(|(_, plan)| plan.standing()).max().unwrap_or(Standing::Fits)
    }

    fn who_stays(&self) -> String {
        let all = self.fates.len();
        let too_much = self.residents().filter(|(_, plan)| plan.verdict == Verdict::DoesNotFit).count();
        let stays = |fate: &&Fate| matches!(fate, Fate::Loaded(_) | Fate::Shares(_));
        let loaded = self.fates.iter().filter(stays).count();
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
        self.residents().map(|(_, plan)| plan.confidence).max()
    }
}

impl Fate {
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
                let (word, on, all) = (plan.standing().headline(), plan.on_gpus(), plan.layers.len());
                format!("{word}: {on} of {all} layers on GPU; {}", places.join(", "))
            }
            Self::Shares(host) => format!("is served by {}: the same file with the same knobs", name(*host)),
            Self::Evicted { by, why } => format!("is unloaded to make room for {}: {why}", name(*by)),
            Self::Refused(why) => format!("is not loaded: {why}"),
        }
    }
}

/// Loads `tenants` one after the other on `machine`, as `engine` would; see [`engine::Engine::admit`] for when one has to go.
///
/// All are taken to be idle and to be kept equally long. Ollama then unloads in the order of their files' digests, which
/// nothing here knows; the one that was loaded first goes first instead. One file is loaded once: asked for again with
/// other knobs, it is loaded anew.
/// Source: `server/sched.go` (`processPending`, `findRunnerToUnload`, `needsReload`, `updateFreeSpace`), Ollama, of each
/// engine's own time.
///
/// # Errors
/// When the engine makes no plan at all for one of them.
pub fn live_together(engine: EngineId, machine: &Machine, tenants: &[Tenant<'_>]) -> Result<Household, EngineError> {
    let mut fates = Vec::with_capacity(tenants.len());
    for number in 0..tenants.len() {
        let fate = arrive(engine, machine, tenants, number, &mut fates)?;
        fates.push(fate);
    }
    let left = what_is_left(machine, &fates);
    Ok(Household { fates, left })
}

/// What becomes of tenant `number`, who comes when `fates` are those of the earlier ones.
fn arrive(
    engine: EngineId,
    machine: &Machine,
    tenants: &[Tenant<'_>],
    number: usize,
    fates: &mut [Fate],
) -> Result<Fate, EngineError> {
    let Some(Tenant { model, settings }) = tenants.get(number).copied() else { return Ok(Fate::Shares(number)) };
    let mut settings = settings.clone();
    if engine.facts().evicts {
        let same_file =
            |&(other, _): &(usize, &Plan)| tenants.get(other).is_some_and(|one| std::ptr::eq(one.model, model));
        let other = residents(fates).find(same_file).map(|(other, _)| other);
        if let Some(other) = other {
            if tenants.get(other).is_some_and(|one| *one.settings == settings) {
                return Ok(Fate::Shares(other));
            }
            evict(fates, &[other], number, "the same file is reloaded with other knobs");
        }
    }
    loop {
        let left = what_is_left(machine, fates);
        let loaded: Vec<usize> = residents(fates).map(|(tenant, _)| tenant).collect();
        let Some(&first) = loaded.first() else {
            let plan = engine::plan(engine, model, &left, &settings)?;
            return Ok(match plan.refusal.clone() {
                Some(why) => Fate::Refused(why),
                None => Fate::Loaded(Box::new(plan)),
            });
        };
        if let Some(most) = engine.facts().most_loaded(machine).filter(|&most| loaded.len() >= most) {
            evict(fates, &[first], number, &format!("Ollama keeps at most {most} models loaded here"));
            continue;
        }
        match engine::of(engine).admit(model, &left, &settings)? {
            Reception::Welcome(plan) => return Ok(Fate::Loaded(plan)),
            Reception::Refused(why) => return Ok(Fate::Refused(why)),
            Reception::OneGoes(why) => evict(fates, &[first], number, &why),
            Reception::AllGo { why, ctx } => {
                // alone then, it is planned without asking
                settings.ctx = ctx.map_or(settings.ctx, Context::Tokens);
                evict(fates, &loaded, number, &why);
            }
        }
    }
}

fn residents(fates: &[Fate]) -> impl Iterator<Item = (usize, &Plan)> {
    fates.iter().enumerate().filter_map(|(tenant, fate)| match fate {
        Fate::Loaded(plan) => Some((tenant, plan.as_ref())),
        _ => None,
    })
}

/// Those `who` go, and with them the tenants that they served too.
fn evict(fates: &mut [Fate], who: &[usize], by: usize, why: &str) {
    for (tenant, fate) in fates.iter_mut().enumerate() {
        let served = matches!(fate, Fate::Shares(host) if who.contains(host));
        if served || who.contains(&tenant) {
            *fate = Fate::Evicted { by, why: why.to_owned() };
        }
    }
}

/// `machine` less what those that are loaded were given. What an integrated GPU takes, it takes from RAM.
fn what_is_left(machine: &Machine, fates: &[Fate]) -> Machine {
    let mut left = machine.clone();
    for (_, plan) in residents(fates) {
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
