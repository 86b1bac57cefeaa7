//! Ollama from 0.30. It no longer places layers itself but starts llama-server, which does; so a plan of it is llama.cpp's
//! plan with the options, and on the GPUs, that Ollama chooses.

mod batch;
mod choice;
mod decide;
pub(super) mod engine;
pub(super) mod facts;
mod listing;
mod objection;
mod predict;
mod projector;

use super::id::{Aim, EngineError, EngineId, Launch};
use super::llama_cpp;
use super::llama_cpp::settled::Settled;
use super::outlook::Outlook;
use crate::engine::prepared::PreparedModel;
use crate::machine::{DeviceKind, Machine};
use crate::plan::{DevicePlan, Gist, Plan, Totals, Verdict, Why};
use crate::settings::knob::Knob;
use crate::settings::{Context, GpuLayers, InEffect, Settings};
use decide::Start;
pub(super) use objection::objection;

pub(super) fn plan(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
    plan_by(llama_cpp::plan, model, machine, settings)
}

/// Ollama's plan by a llama-server that places layers as `place` does.
fn plan_by(
    place: impl Fn(&PreparedModel, &Machine, &Settings) -> Result<Plan, EngineError>,
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
) -> Result<Plan, EngineError> {
    let place = |start: &Start| place(model, &start.machine, &start.options);
    let (start, plan) = begin(model, machine, settings, &place, &place, |plan| &plan.devices)?;
    Ok(told_by_ollama(plan, start, model, machine, settings))
}

/// How it starts llama-server.
pub(super) fn launch(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Launch, EngineError> {
    let Start { options, gpus, .. } = last_start(model, machine, settings)?;
    Ok(Launch { options, gpus })
}

/// What is asked of the llama-server that it starts.
pub(super) fn settled(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Settled, EngineError> {
    let start = last_start(model, machine, settings)?;
    Ok(llama_cpp::settled(model, &start.machine, &start.options)?.among(&start.gpus))
}

/// The start that loads the model, or else the last one.
fn last_start(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Start, EngineError> {
    let place = |start: &Start| llama_cpp::gist(model, &start.machine, &start.options, Aim::Most);
    let (start, _) = begin(model, machine, settings, &place, &place, |gist| &gist.devices)?;
    Ok(start)
}

/// What the plan comes to.
pub(super) fn gist(
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
    aim: Aim,
) -> Result<Gist, EngineError> {
    let place = |aim| move |start: &Start| llama_cpp::gist(model, &start.machine, &start.options, aim);
    // whether a first attempt runs out of memory is seen when it has placed what it can
    let retries = settings.ctx == Context::Auto;
    let first = place(if retries { Aim::Most } else { aim });
    let (start, mut gist) = begin(model, machine, settings, &first, &place(aim), |gist: &Gist| &gist.devices)?;
    gist.devices = at_home(gist.devices, &start.gpus, machine);
    gist.settings = in_effect(gist.settings, start.ctx, settings);
    gist.verdict = Verdict::of(&gist.devices, gist.offloaded, gist.layer_count, gist.refused);
    Ok(gist)
}

/// What is certain of it beforehand.
pub(super) fn outlook(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Outlook, EngineError> {
    let start = decide::start(model, machine, settings, None)?;
    let mut outlook = llama_cpp::outlook(model, &start.machine, &start.options)?;
    if let Some(lower) = decide::lower_context(settings, start.ctx) {
        let again = decide::start(model, machine, settings, Some(lower))?;
        outlook.hope = outlook.hope.max(llama_cpp::outlook(model, &again.machine, &again.options)?.hope);
    }
    let considered = |gpu: usize| start.gpus.iter().zip(&outlook.gpus).any(|(&home, &used)| used && home == gpu);
    outlook.gpus = (0..machine.gpus.len()).map(considered).collect();
    outlook.settings = in_effect(outlook.settings, start.ctx, settings);
    Ok(outlook)
}

/// Where its own rules change: the batch grows above some tokens of context over all sequences.
pub(super) fn edges(knob: Knob, settings: &Settings) -> Vec<u64> {
    let parallel = settings.parallel.unwrap_or(1).max(1);
    match (knob, settings.ctx) {
        // some models take one sequence at a time, whatever is asked
        (Knob::Context, _) => batch::thresholds().flat_map(|tokens| [tokens, tokens / parallel]).collect(),
        (Knob::Parallel, Context::Tokens(ctx)) => batch::thresholds().map(|tokens| tokens / ctx.max(1)).collect(),
        _ => Vec::new(),
    }
}

/// How llama-server is started, in the end, and what it then does by `first`, or by `again` where that runs out of memory.
fn begin<T>(
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
    first: &dyn Fn(&Start) -> Result<T, EngineError>,
    again: &dyn Fn(&Start) -> Result<T, EngineError>,
    devices: impl Fn(&T) -> &[DevicePlan],
) -> Result<(Start, T), EngineError> {
    let mut start = decide::start(model, machine, settings, None)?;
    let mut done = first(&start)?;
    let lower = decide::lower_context(settings, start.ctx).filter(|_| runs_out_of_memory(devices(&done), machine));
    if let Some(lower) = lower {
        let note =
            format!("context lowered from {} to {lower}: the first attempt to load runs out of memory", start.ctx);
        start = decide::start(model, machine, settings, Some(lower))?;
        start.notes.insert(0, note.clone());
        start.decided.insert(0, note);
        done = again(&start)?;
    }
    Ok((start, done))
}

/// Whether an allocation would fail. GPUs give no more than they have; an operating system refuses what is larger than all
/// of its memory, and otherwise gives and lets touching it fail.
fn runs_out_of_memory(devices: &[DevicePlan], machine: &Machine) -> bool {
    let all = machine.ram.total + machine.ram.swap_free;
    devices.iter().any(|device| match device.kind {
        DeviceKind::Gpu => device.is_over(),
        DeviceKind::Cpu => device.cache > all || device.graph > all,
    })
}

/// llama.cpp's plan in Ollama's terms: its name, its knobs, its notes, and every GPU of the machine.
fn told_by_ollama(mut plan: Plan, start: Start, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Plan {
    let Start { ctx, gpus, notes, decided, .. } = start;
    let cpu = machine.gpus.len();
    let place = |device: usize| gpus.get(device).copied().unwrap_or(cpu);
    for layer in &mut plan.layers {
        layer.device = place(layer.device);
        if let Why::NoRoom { device, .. } = &mut layer.why {
            *device = place(*device);
        }
    }
    plan.devices = at_home(plan.devices, &gpus, machine);
    for peak in &mut plan.graph.peaks {
        peak.device = place(peak.device);
    }
    for size in [&mut plan.graph.partial, &mut plan.graph.full] {
        for (branch, peak) in size.branches.iter_mut().zip(&plan.graph.peaks) {
            branch.name = plan.devices.get(peak.device).map(|device| device.id.clone()).unwrap_or_default();
        }
    }
    plan.engine = EngineId::Ollama;
    plan.settings = in_effect(plan.settings, ctx, settings);
    plan.totals = Totals::of(&plan.devices);
    plan.verdict = Verdict::of(&plan.devices, plan.offloaded, plan.layers.len(), plan.refusal.is_some());
    plan.listing = Some(listing::of(&plan, model));
    plan.notes.splice(0..0, notes);
    plan.decided = decided;
    plan
}

/// The devices that llama-server sees, `gpus` among the machine's, by their places in the machine.
fn at_home(seen: Vec<DevicePlan>, gpus: &[usize], machine: &Machine) -> Vec<DevicePlan> {
    let mut devices: Vec<DevicePlan> =
        machine.gpus.iter().enumerate().map(|(index, gpu)| DevicePlan::of_gpu(index, gpu)).collect();
    for (index, device) in seen.into_iter().enumerate() {
        let home = gpus.get(index).and_then(|&home| devices.get_mut(home));
        match (device.kind, home) {
            (DeviceKind::Gpu, Some(home)) => *home = DevicePlan { id: std::mem::take(&mut home.id), ..device },
            _ => devices.push(device),
        }
    }
    devices
}

/// llama-server's knobs as Ollama's.
fn in_effect(mut knobs: InEffect, ctx: u64, settings: &Settings) -> InEffect {
    knobs.ctx = ctx;
    if settings.gpu_layers == GpuLayers::Auto {
        knobs.gpu_layers = -1;
    }
    knobs
}

#[cfg(test)]
mod tests;
