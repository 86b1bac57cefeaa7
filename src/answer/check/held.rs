//! What drivers and Ollama say of a running program, beside its plan: for programs whose log tells nothing.

use crate::machine::Machine;
use crate::machine::budget::DriverMemory;
use crate::observed::{ProcessMemory, PsRow};
use crate::plan::{OllamaPs, Plan};
use crate::units::Bytes;

/// What a process may hold besides its buffers and still be as planned, where less is known of its driver.
const BESIDES: Bytes = Bytes::gib(1);
/// Ollama adds up lines that are rounded to 0.01 MiB.
const ROUNDED: Bytes = Bytes(100 << 10);

/// Memory of a process on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldMemory {
    /// `GPU0`
    pub device: String,
    /// The buffers that are planned there.
    pub planned: Bytes,
    /// What the driver says that the process holds.
    pub observed: Bytes,
    /// What is known of the driver's own part.
    pub driver: Option<DriverMemory>,
    /// Whether the model has experts, on which the driver's part depends.
    has_experts: bool,
}

impl HeldMemory {
    /// Compares a plan with `processes` of its program, per GPU; several on one GPU count together.
    pub fn of(plan: &Plan, processes: &[ProcessMemory]) -> Vec<Self> {
        let gpus = plan.gpus().iter().enumerate();
        let one = |(index, gpu): (usize, &crate::plan::DevicePlan)| {
            let here = processes.iter().filter(|process| process.card == Some(index as u64));
            let held = here.filter_map(|process| process.used).map(|mib| (mib.0 * f64::from(1 << 20)) as u64);
            let held = held.reduce(|a, b| a + b).map(Bytes)?;
            let (planned, has_experts) = (gpu.asked(), plan.model.experts.is_some());
            Some(Self { device: gpu.id.clone(), planned, observed: held, driver: gpu.driver, has_experts })
        };
        gpus.filter_map(one).collect()
    }

    /// Whether it holds what is planned, and no more besides than a driver takes.
    pub fn agrees(&self) -> bool {
        let most = self.driver.map_or(BESIDES, |driver| driver.most(self.has_experts).max(BESIDES));
        self.observed >= self.planned && self.observed - self.planned <= most
    }

    /// The comparison as a clause.
    pub fn clause(&self) -> String {
        let Self { device, planned, observed, .. } = self;
        if observed < planned {
            return format!("{observed} on {device}, {} less than the {planned} planned", *planned - *observed);
        }
        let driver = self.driver.map_or_else(String::new, |driver| format!("; {driver}"));
        format!("{observed} on {device}, {} besides the {planned} planned{driver}", *observed - *planned)
    }
}

/// A model that Ollama lists as loaded, beside its plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedModel {
    /// What is planned; none from an engine whose list is not known.
    pub planned: Option<OllamaPs>,
    /// What `/api/ps` says.
    pub observed: OllamaPs,
}

impl ListedModel {
    /// Compares a plan with a row of `/api/ps`; none where that has no bytes.
    pub fn of(plan: &Plan, row: &PsRow) -> Option<Self> {
        let observed = OllamaPs { size: Bytes(row.size_bytes?), vram: Bytes(row.vram_bytes.unwrap_or_default()) };
        Some(Self { planned: plan.ollama_ps, observed })
    }

    /// Whether both figures are the same, but for rounding.
    pub fn agrees(&self) -> bool {
        let near = |a: Bytes, b: Bytes| a.0.abs_diff(b.0) <= ROUNDED.0;
        self.planned
            .is_some_and(|planned| near(planned.size, self.observed.size) && near(planned.vram, self.observed.vram))
    }
}

/// The machine as it was before programs of this name took `processes`' memory.
pub fn before(machine: &Machine, processes: &[ProcessMemory]) -> Machine {
    let mut machine = machine.clone();
    for (index, gpu) in machine.gpus.iter_mut().enumerate() {
        let here = processes.iter().filter(|process| process.card == Some(index as u64));
        let held: u64 = here.filter_map(|process| process.used).map(|mib| (mib.0 * f64::from(1 << 20)) as u64).sum();
        gpu.free = (gpu.free + Bytes(held)).min(gpu.total);
    }
    machine
}
