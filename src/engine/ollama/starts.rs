//! The starts of llama-server for one request: after one that runs out of memory Ollama tries again with less.
//! Source: `load` and `reduceAutoNumCtxForLoadOOM`, `server/sched.go`, and `llm/llama_server.go`, Ollama, August 2026.

use super::server_launch::{self, Retry, ServerLaunch};
use crate::engine::error::EngineError;
use crate::engine::launch::{CountedDevice, ServerStarts};
use crate::engine::request;
use crate::machine::{DeviceKind, Machine};
use crate::model::Model;
use crate::plan::DevicePlan;
use crate::settings::Settings;

/// What comes after the start `failed`, which ran out of memory after `retry`; none if it is given up.
fn next(settings: &Settings, failed: &ServerLaunch, retry: Retry) -> Option<Retry> {
    if failed.has_projector_on_gpu {
        return Some(Retry { projector_in_ram: true, ..retry });
    }
    let lower = server_launch::lower_context(settings, failed.ctx).filter(|_| retry.ctx.is_none())?;
    Some(Retry { ctx: Some(lower), projector_in_ram: false })
}

/// The start that comes if `launch`, the first, runs out of memory.
pub(super) fn second(
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    launch: &ServerLaunch,
) -> Option<Result<ServerLaunch, EngineError>> {
    let retry = next(settings, launch, Retry::default())?;
    Some(server_launch::decide(model, machine, settings, retry))
}

/// The starts with nothing else loaded, of which the first `failures` run out of memory.
pub(in crate::engine) fn starts(
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    failures: usize,
) -> Result<ServerStarts, EngineError> {
    let mut retry = Retry::default();
    let mut launch = server_launch::decide(model, machine, settings, retry)?;
    let device = |one: &super::discovery::CountedGpu| CountedDevice {
        gpu: one.index,
        library: one.gpu.backend,
        folder: one.folder,
        integrated: one.gpu.integrated,
        total: one.gpu.total,
        free: one.gpu.free,
    };
    let devices = launch.counted.iter().map(device).collect();
    let counted = Machine { gpus: launch.counted.iter().map(|one| one.gpu.clone()).collect(), ..machine.clone() };
    let total_vram = request::total_vram(&counted, settings.gpu_overhead).0;
    let default_ctx = request::default_context(&counted, settings.gpu_overhead);
    let mut starts = vec![launch.start.clone()];
    let mut failures = failures;
    while failures > 0 {
        failures -= 1;
        let Some(next) = next(settings, &launch, retry) else {
            return Ok(ServerStarts { devices, total_vram, default_ctx, starts, loaded: false });
        };
        retry = next;
        launch = server_launch::decide(model, machine, settings, retry)?;
        starts.push(launch.start.clone());
    }
    Ok(ServerStarts { devices, total_vram, default_ctx, starts, loaded: true })
}

/// The final start of llama-server, and the result of `first`, or of `again` after a start that ran out of memory.
pub(super) fn start_with_retry<T>(
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    first: &dyn Fn(&ServerLaunch) -> Result<T, EngineError>,
    again: &dyn Fn(&ServerLaunch) -> Result<T, EngineError>,
    devices: impl Fn(&T) -> &[DevicePlan],
) -> Result<(ServerLaunch, T), EngineError> {
    let mut retry = Retry::default();
    let mut launch = server_launch::decide(model, machine, settings, retry)?;
    let mut done = first(&launch)?;
    while runs_out_of_memory(devices(&done), machine) {
        let Some(next) = next(settings, &launch, retry) else { break };
        let (before, failures) = (launch.ctx, launch.failures + 1);
        launch = server_launch::decide(model, machine, settings, next)?;
        if let Some(lower) = next.ctx.filter(|_| retry.ctx.is_none()) {
            let note =
                format!("context lowered from {before} to {lower}: the first attempt to load runs out of memory");
            launch.notes.insert(0, note.clone());
            launch.decided.insert(0, note);
        }
        launch.failures = failures;
        retry = next;
        done = again(&launch)?;
    }
    Ok((launch, done))
}

/// Whether an allocation of the load would fail, before anything grows. GPUs only allocate what they have; an operating
/// system refuses only what exceeds all of its memory, and otherwise fails on access.
pub(super) fn runs_out_of_memory(devices: &[DevicePlan], machine: &Machine) -> bool {
    let all = machine.ram.total + machine.ram.swap_free;
    devices.iter().any(|device| match device.kind {
        DeviceKind::Gpu => device.needed() > device.free,
        DeviceKind::Cpu => device.cache > all || device.graph > all,
    })
}
