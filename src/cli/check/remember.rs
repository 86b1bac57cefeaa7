//! `plimsoll check --remember`: what the driver really took, for later plans on this machine.

use super::super::args::CheckArgs;
use super::super::error::CliError;
use super::super::resolve::MachineSource;
use crate::answer::check::running::driver_overhead;
use crate::hardware::remembered::{Remembered, RememberedDriver};
use crate::hardware::{self, DetectOptions, Detected};
use crate::machine::{Machine, short_name};
use crate::observed::{Load, Mib, Observation, ProcessMemory};
use crate::units::Bytes;

/// Remembers it, and returns a sentence on it. Figures of `nvidia-smi` in the text stand over those that NVML has now.
pub(super) fn remember(args: &CheckArgs, seen: &Observation, load: &Load) -> Result<String, CliError> {
    let cannot = |why: String| CliError::Model(format!("--remember: {why}"));
    let detected = hardware::detect(&DetectOptions { gpus: true, ..MachineSource::read(&args.machine)?.search });
    let processes = if seen.processes.is_empty() { processes(&detected) } else { seen.processes.clone() };
    let found = driver_overhead(load, &processes).map_err(cannot)?;
    let version = load.version.clone().or_else(|| load.build.map(|build| format!("b{build}"))).unwrap_or_default();
    let program = load.program.map_or("a program", crate::observed::Program::name);
    let program = format!("{program} {version}").trim_end().to_owned();
    let entries = found.iter().map(|found| {
        let gpu = found.gpu.clone().or_else(|| only_gpu(&detected.machine, found.backend));
        let gpu = gpu.ok_or_else(|| cannot(format!("the log does not name the card of {}", found.device)))?;
        let bytes = found.mib().bytes().0;
        Ok(RememberedDriver { gpu, backend: found.backend, bytes, program: program.clone() })
    });
    let entries: Vec<RememberedDriver> = entries.collect::<Result<_, CliError>>()?;
    Remembered::here().and_then(|kept| kept.keep(&entries)).map_err(cannot)?;
    let each = entries.iter().map(|entry| {
        format!("{} takes {} besides buffers on {}", entry.backend.name(), Bytes(entry.bytes), short_name(&entry.gpu))
    });
    let each: Vec<String> = each.collect();
    Ok(format!("remembered: {}; plans for this machine say so from now on", each.join(", ")))
}

/// The processes that hold memory of GPUs now.
pub(super) fn processes(detected: &Detected) -> Vec<ProcessMemory> {
    let process = |process: &hardware::Process| ProcessMemory {
        card: process.device.strip_prefix("GPU").and_then(|number| number.parse().ok()),
        pid: u64::from(process.pid),
        name: process.name.clone().unwrap_or_default(),
        used: process.bytes.map(Mib::of),
    };
    detected.processes.iter().map(process).collect()
}

/// The name of the machine's GPU, if it has only one of this backend.
fn only_gpu(machine: &Machine, backend: crate::machine::Backend) -> Option<String> {
    let mut gpus = machine.gpus.iter().filter(|gpu| gpu.backend == backend);
    gpus.next().filter(|_| gpus.next().is_none()).map(|gpu| gpu.name.clone())
}
