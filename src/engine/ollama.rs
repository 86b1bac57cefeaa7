//! Ollama from 0.30. It no longer places layers itself but starts llama-server, which does; so a plan of it is llama.cpp's
//! plan with the options, and on the GPUs, that Ollama chooses.

mod batch;
mod choice;
mod decide;
mod listing;
mod predict;
mod projector;

use super::{EngineError, EngineId, Launch, llama_cpp};
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::{DeviceKind, DevicePlan, Plan, Totals, Verdict, Why};
use crate::settings::{GpuLayers, Settings};
use decide::Start;

pub(super) fn plan(model: &Model, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
    plan_by(llama_cpp::plan, model, machine, settings)
}

/// Ollama's plan by a llama-server that places layers as `place` does.
fn plan_by(
    place: impl Fn(&Model, &Machine, &Settings) -> Result<Plan, EngineError>,
    model: &Model,
    machine: &Machine,
    settings: &Settings,
) -> Result<Plan, EngineError> {
    let (start, plan) = started(place, model, machine, settings)?;
    Ok(told_by_ollama(plan, start, model, machine, settings))
}

/// How it starts llama-server.
pub(super) fn launch(model: &Model, machine: &Machine, settings: &Settings) -> Result<Launch, EngineError> {
    let (start, _) = started(llama_cpp::plan, model, machine, settings)?;
    Ok(Launch { options: start.options, gpus: start.gpus })
}

/// The start that loads the model, or else the last one, and llama-server's own plan of it.
fn started(
    place: impl Fn(&Model, &Machine, &Settings) -> Result<Plan, EngineError>,
    model: &Model,
    machine: &Machine,
    settings: &Settings,
) -> Result<(Start, Plan), EngineError> {
    let mut start = decide::start(model, machine, settings, None)?;
    let mut plan = place(model, &start.machine, &start.options)?;
    let lower = decide::lower_context(settings, start.ctx).filter(|_| runs_out_of_memory(&plan, machine));
    if let Some(lower) = lower {
        let note =
            format!("context lowered from {} to {lower}: the first attempt to load runs out of memory", start.ctx);
        start = decide::start(model, machine, settings, Some(lower))?;
        start.notes.insert(0, note.clone());
        start.decided.insert(0, note);
        plan = place(model, &start.machine, &start.options)?;
    }
    Ok((start, plan))
}

/// Whether an allocation would fail. GPUs give no more than they have; an operating system refuses what is larger than all
/// of its memory, and otherwise gives and lets touching it fail.
fn runs_out_of_memory(plan: &Plan, machine: &Machine) -> bool {
    let cpu = plan.cpu();
    let all = machine.ram.total + machine.ram.swap_free;
    plan.gpus().iter().any(DevicePlan::is_over) || cpu.cache > all || cpu.graph > all
}

/// llama.cpp's plan in Ollama's terms: its name, its knobs, its notes, and every GPU of the machine.
fn told_by_ollama(mut plan: Plan, start: Start, model: &Model, machine: &Machine, settings: &Settings) -> Plan {
    let Start { ctx, gpus, notes, decided, .. } = start;
    let cpu = machine.gpus.len();
    let place = |device: usize| gpus.get(device).copied().unwrap_or(cpu);
    for layer in &mut plan.layers {
        layer.device = place(layer.device);
        if let Why::NoRoom { device, .. } = &mut layer.why {
            *device = place(*device);
        }
    }
    let seen = std::mem::take(&mut plan.devices);
    plan.devices = machine.gpus.iter().enumerate().map(|(index, gpu)| DevicePlan::of_gpu(index, gpu)).collect();
    for (index, device) in seen.into_iter().enumerate() {
        match (device.kind, plan.devices.get_mut(place(index))) {
            (DeviceKind::Gpu, Some(home)) => *home = DevicePlan { id: std::mem::take(&mut home.id), ..device },
            _ => plan.devices.push(device),
        }
    }
    for peak in &mut plan.graph.peaks {
        peak.device = place(peak.device);
    }
    for size in [&mut plan.graph.partial, &mut plan.graph.full] {
        for (branch, peak) in size.branches.iter_mut().zip(&plan.graph.peaks) {
            branch.name = plan.devices.get(peak.device).map(|device| device.id.clone()).unwrap_or_default();
        }
    }
    plan.engine = EngineId::Ollama;
    plan.settings.ctx = ctx;
    if settings.gpu_layers == GpuLayers::Auto {
        plan.settings.gpu_layers = -1;
    }
    plan.totals = Totals::of(&plan.devices);
    plan.verdict = Verdict::of(&plan.devices, plan.offloaded, plan.layers.len(), plan.refusal.is_some());
    plan.listing = Some(listing::of(&plan, model));
    plan.notes.splice(0..0, notes);
    plan.decided = decided;
    plan
}

#[cfg(test)]
mod tests;
