//! What a program that runs was asked for, planned: by its command line, else by what Ollama lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ollama::cut;
use crate::answer::check::running::machine_before;
use crate::answer::check::{CheckRequest, check};
use crate::answer::live::RunningPlan;
use crate::engine::{EngineId, PlanRequest};
use crate::library::check;
use crate::machine::spec::MachineSpec;
use crate::machine::{Backend, Cpu, Drivers, Gpu, Machine, Origin, Os, Ram, presets};
use crate::observed::sample::{DeviceSample, Listed, ProgramSample, RAM, Sample};
use crate::observed::{Mib, Observation, ProcessMemory, ShownCommand};
use crate::settings::{Context, Settings};
use crate::source::{self, Roots};
use crate::units::Bytes;

/// The plan of `program` on `machine` as it was before it took its memory.
///
/// # Errors
/// One sentence on why it cannot be planned.
pub fn of(program: &ProgramSample, machine: &Machine, roots: &Roots) -> Result<RunningPlan, String> {
    let machine = machine_before(machine, &own(program));
    match (command(program), program.listed.first()) {
        (Some(command), _) if program.name == "llama-server" => of_command(command, machine, roots),
        (_, Some(listed)) => of_listed(listed, machine, roots),
        _ => Err(format!("{} does not tell what it was asked for", program.name)),
    }
}

/// The command of a program that runs, or what a recording tells of it.
fn command(program: &ProgramSample) -> Option<&str> {
    program.whole_command.as_deref().or_else(|| program.command.as_ref().map(ShownCommand::as_str))
}

/// Which program a plan is of: the process, its command, and what it lists.
type Key = (Option<u32>, Option<String>, Vec<(String, Option<u64>)>);

/// The plan of a program, or why there is none; none of either while it loads.
pub type FoundPlan = Option<Result<Arc<RunningPlan>, String>>;

/// The plans of what runs, each made once.
#[derive(Default)]
pub struct Plans(BTreeMap<Key, Result<Arc<RunningPlan>, String>>);

impl Plans {
    /// The plans of the programs of `sample`, in their order; without a machine, on that of the sample. A program that still
    /// loads is planned once it is ready, and those that are gone are forgotten.
    pub fn of(&mut self, sample: &Sample, known: Option<&Machine>, roots: &Roots) -> Vec<FoundPlan> {
        let mut before = std::mem::take(&mut self.0);
        let plan = |program: &ProgramSample| {
            if program.served.is_some_and(|served| !served.ready) {
                return None;
            }
            let listed = program.listed.iter().map(|listed| (listed.name.clone(), listed.context)).collect();
            let key = (program.pid, command(program).map(str::to_owned), listed);
            let found = before.remove(&key).unwrap_or_else(|| match known {
                Some(known) => of(program, known, roots).map(Arc::new),
                None => of(program, &machine(sample), roots).map(Arc::new),
            });
            self.0.insert(key, found.clone());
            Some(found)
        };
        sample.programs.iter().map(plan).collect()
    }
}

/// What it holds on GPUs, as a driver lists it.
fn own(program: &ProgramSample) -> Vec<ProcessMemory> {
    let held = program.gpus.iter().map(|held| ProcessMemory {
        card: held.device.strip_prefix("GPU").and_then(|number| number.parse().ok()),
        pid: program.pid.map_or(0, u64::from),
        name: program.name.clone(),
        used: Some(Mib::of(held.bytes)),
    });
    held.collect()
}

fn of_command(command: &str, machine: Machine, roots: &Roots) -> Result<RunningPlan, String> {
    let seen = Observation::of(command);
    let load = seen
        .loads
        .first()
        .ok_or_else(|| format!("its command line cannot be read: {}", cut(ShownCommand::read(command).as_str())))?;
    let found = check::find(load, roots)?;
    let how = (!found.is_same_file).then_some(found.how);
    let asked = CheckRequest {
        model: found.package.model,
        projector: found.package.projector,
        is_same_file: found.is_same_file,
        machine: &MachineSpec::default(),
        engine: None,
        release: None,
        knobs: &|_| {},
    };
    let request = check(load, &asked).map_err(|error| error.to_string())?.request;
    let running = RunningPlan::of(PlanRequest { machine: Arc::new(machine), ..request })?;
    Ok(RunningPlan { found: how, ..running })
}

fn of_listed(listed: &Listed, machine: Machine, roots: &Roots) -> Result<RunningPlan, String> {
    let opened = source::load(&listed.name, roots, &mut source::no_progress);
    let package =
        opened.and_then(|opened| opened.package(&mut source::no_progress)).map_err(|error| error.to_string())?;
    let mut settings = Settings::default();
    package.apply_to(&mut settings);
    settings.ctx = listed.context.map_or(settings.ctx, Context::Tokens);
    RunningPlan::of(PlanRequest::new(EngineId::default(), package.model, machine, settings))
}

/// The machine of a recording: its devices, as far as a sample tells them.
pub fn machine(sample: &Sample) -> Machine {
    let (gpus, ram): (Vec<_>, Vec<_>) = sample.devices.iter().partition(|device| device.id != RAM);
    let gpu = |device: &&DeviceSample| {
        let backend = presets::of_gpu(&device.name, device.total).map_or(Backend::Cuda, |preset| preset.backend);
        Gpu { free: device.free, ..Gpu::of(&device.name, backend, device.total) }
    };
    let (total, free) = ram.first().map_or((Bytes::ZERO, Bytes::ZERO), |ram| (ram.total, ram.free));
    Machine {
        disk: None,
        os: Os::here(),
        cpu: sample.cpu.map_or_else(Cpu::default, Cpu::with),
        gpus: gpus.iter().map(gpu).collect(),
        ram: Ram { total, free, swap_free: Bytes::ZERO, bandwidth: None },
        origin: Origin::Detected,
        drivers: Drivers::default(),
    }
}
