//! Several models on one machine at once: what each gets, what remains, and which would have to go.

use super::Case;
use crate::engine::{EngineError, EngineId};
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::{Plan, Verdict};
use crate::settings::Settings;

/// A model that is to be loaded, with its knobs.
#[derive(Clone, Copy, Debug)]
pub struct Tenant<'a> {
    /// The model.
    pub model: &'a Model,
    /// Its knobs.
    pub settings: &'a Settings,
}

/// How it ends when models are loaded one after the other.
#[derive(Clone, Debug)]
pub struct Household {
    /// Models that are loaded in the end, in the order of their loading.
    pub residents: Vec<Resident>,
    /// Models that had to go, in the order of their going.
    pub evictions: Vec<Eviction>,
    /// Models that the engine would not load even alone.
    pub refused: Vec<usize>,
    /// The machine with what is left free.
    pub left: Machine,
}

/// A model that is loaded.
#[derive(Clone, Debug)]
pub struct Resident {
    /// Its place among the tenants.
    pub tenant: usize,
    /// How it was placed in what the others had left.
    pub plan: Plan,
}

/// A model that made room for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Who went, by the place among the tenants.
    pub tenant: usize,
    /// Who needed the room.
    pub by: usize,
}

impl Household {
    /// Everyone stayed, and fits.
    pub fn all_live_together(&self) -> bool {
        let fits = |resident: &Resident| resident.plan.verdict != Verdict::DoesNotFit;
        self.evictions.is_empty() && self.refused.is_empty() && self.residents.iter().all(fits)
    }
}

/// Loads `tenants` one after the other on `machine`, as `engine` would.
///
/// Ollama wants a further model whole on the GPUs (or whole in RAM, without GPUs) beside those that are loaded; as long
/// as it is not, one of them is unloaded. All are taken to be idle and to be kept equally long; Ollama then goes by the
/// order of their files' digests, which nothing here knows, and the one that was loaded first goes first instead.
/// Source: `server/sched.go` (`processPending`, `findRunnerToUnload`, `updateFreeSpace`), Ollama, May 2026.
///
/// # Errors
/// When the engine makes no plan at all for one of them.
pub fn live_together(engine: EngineId, machine: &Machine, tenants: &[Tenant<'_>]) -> Result<Household, EngineError> {
    let mut residents: Vec<Resident> = Vec::new();
    let (mut evictions, mut refused) = (Vec::new(), Vec::new());
    for (number, tenant) in tenants.iter().enumerate() {
        let room = engine.most_loaded(machine);
        loop {
            let left = what_is_left(machine, &residents);
            let alone = residents.is_empty();
            let whole = engine.evicts() && !alone;
            let settings = Settings { require_full: whole || tenant.settings.require_full, ..tenant.settings.clone() };
            let plan = Case { engine, model: tenant.model, machine: &left, settings: &settings }.plan()?;
            let welcome = plan.refusal.is_none() && room.is_none_or(|most| residents.len() < most);
            if welcome || (!engine.evicts() && plan.refusal.is_none()) {
                residents.push(Resident { tenant: number, plan });
                break;
            }
            if alone || !engine.evicts() {
                refused.push(number);
                break;
            }
            evictions.push(Eviction { tenant: residents.remove(0).tenant, by: number });
        }
    }
    Ok(Household { left: what_is_left(machine, &residents), residents, evictions, refused })
}

/// `machine` less what the residents were given.
fn what_is_left(machine: &Machine, residents: &[Resident]) -> Machine {
    let mut left = machine.clone();
    for resident in residents {
        for (gpu, device) in left.gpus.iter_mut().zip(resident.plan.gpus()) {
            gpu.free = gpu.free - device.asked();
        }
        left.ram.free = left.ram.free - resident.plan.cpu().asked();
    }
    left
}
