//! Ollama from 0.30. It no longer places layers itself but starts llama-server, which does; so a plan of it is llama.cpp's
//! plan with the options, and on the GPUs, that Ollama chooses.

mod batch;
pub(super) mod engine;
mod eviction;
pub(super) mod facts;
mod gpu_selection;
mod ollama_ps;
mod predict;
mod projector;
mod server_launch;

use super::id::{EngineError, EngineId, FitGoal, Launch};
use super::llama_cpp;
use super::llama_cpp::resolved::ResolvedRequest;
use super::preflight::Preflight;
use crate::engine::prepared::PreparedModel;
use crate::machine::{DeviceKind, Machine};
use crate::plan::{DevicePlan, Plan, PlanSummary, Totals, Verdict, Why};
use crate::settings::knob::Knob;
use crate::settings::{Context, GpuLayers, InEffect, Settings};
pub(super) use eviction::eviction_reason;
use server_launch::ServerLaunch;

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
    let place = |start: &ServerLaunch| place(model, &start.machine, &start.options);
    let (start, plan) = start_with_retry(model, machine, settings, &place, &place, |plan| &plan.devices)?;
    Ok(in_ollama_terms(plan, start, model, machine, settings))
}

/// How it starts llama-server.
pub(super) fn launch(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Launch, EngineError> {
    let ServerLaunch { options, gpus, .. } = last_start(model, machine, settings)?;
    Ok(Launch { options, gpus })
}

/// What is asked of the llama-server that it starts.
pub(super) fn resolve(
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
) -> Result<ResolvedRequest, EngineError> {
    let start = last_start(model, machine, settings)?;
    Ok(llama_cpp::resolve(model, &start.machine, &start.options)?.among(&start.gpus))
}

/// The start that loads the model, or else the last one.
fn last_start(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<ServerLaunch, EngineError> {
    let place = |start: &ServerLaunch| llama_cpp::summary(model, &start.machine, &start.options, FitGoal::Most);
    let (start, _) = start_with_retry(model, machine, settings, &place, &place, |summary| &summary.devices)?;
    Ok(start)
}

/// What the plan comes to.
pub(super) fn summary(
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
    fit_goal: FitGoal,
) -> Result<PlanSummary, EngineError> {
    let place =
        |fit_goal| move |start: &ServerLaunch| llama_cpp::summary(model, &start.machine, &start.options, fit_goal);
    // whether a first attempt runs out of memory is seen when it has placed what it can
    let retries = settings.ctx == Context::Auto;
    let first = place(if retries { FitGoal::Most } else { fit_goal });
    let (start, mut summary) =
        start_with_retry(model, machine, settings, &first, &place(fit_goal), |summary: &PlanSummary| &summary.devices)?;
    summary.devices = in_machine_order(summary.devices, &start.gpus, machine);
    summary.settings = in_effect(summary.settings, start.ctx, settings);
    summary.verdict = Verdict::of(&summary.devices, summary.offloaded, summary.layer_count, summary.refused);
    Ok(summary)
}

/// What is certain of it beforehand.
pub(super) fn preflight(
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
) -> Result<Preflight, EngineError> {
    let start = server_launch::decide(model, machine, settings, None)?;
    let mut preflight = llama_cpp::preflight(model, &start.machine, &start.options)?;
    if let Some(lower) = server_launch::lower_context(settings, start.ctx) {
        let again = server_launch::decide(model, machine, settings, Some(lower))?;
        preflight.upper_bound =
            preflight.upper_bound.max(llama_cpp::preflight(model, &again.machine, &again.options)?.upper_bound);
    }
    let considered = |gpu: usize| start.gpus.iter().zip(&preflight.gpus).any(|(&home, &used)| used && home == gpu);
    preflight.gpus = (0..machine.gpus.len()).map(considered).collect();
    preflight.settings = in_effect(preflight.settings, start.ctx, settings);
    Ok(preflight)
}

/// Where its own rules change: the batch grows above some tokens of context over all sequences.
pub(super) fn rule_edges(knob: Knob, settings: &Settings) -> Vec<u64> {
    let parallel = settings.parallel.unwrap_or(1).max(1);
    match (knob, settings.ctx) {
        // some models take one sequence at a time, whatever is asked
        (Knob::Context, _) => batch::thresholds().flat_map(|tokens| [tokens, tokens / parallel]).collect(),
        (Knob::Parallel, Context::Tokens(ctx)) => batch::thresholds().map(|tokens| tokens / ctx.max(1)).collect(),
        _ => Vec::new(),
    }
}

/// How llama-server is started, in the end, and what it then does by `first`, or by `again` where that runs out of memory.
fn start_with_retry<T>(
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
    first: &dyn Fn(&ServerLaunch) -> Result<T, EngineError>,
    again: &dyn Fn(&ServerLaunch) -> Result<T, EngineError>,
    devices: impl Fn(&T) -> &[DevicePlan],
) -> Result<(ServerLaunch, T), EngineError> {
    let mut start = server_launch::decide(model, machine, settings, None)?;
    let mut done = first(&start)?;
    let lower =
        server_launch::lower_context(settings, start.ctx).filter(|_| runs_out_of_memory(devices(&done), machine));
    if let Some(lower) = lower {
        let note =
            format!("context lowered from {} to {lower}: the first attempt to load runs out of memory", start.ctx);
        start = server_launch::decide(model, machine, settings, Some(lower))?;
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
fn in_ollama_terms(
    mut plan: Plan,
    start: ServerLaunch,
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
) -> Plan {
    let ServerLaunch { ctx, gpus, notes, decided, .. } = start;
    let cpu = machine.gpus.len();
    let place = |device: usize| gpus.get(device).copied().unwrap_or(cpu);
    for layer in &mut plan.layers {
        layer.device = place(layer.device);
        if let Why::NoRoom { device, .. } = &mut layer.why {
            *device = place(*device);
        }
    }
    plan.devices = in_machine_order(plan.devices, &gpus, machine);
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
    plan.ollama_ps = Some(ollama_ps::of(&plan, model));
    plan.notes.splice(0..0, notes);
    plan.decided = decided;
    plan
}

/// The devices that llama-server sees, `gpus` among the machine's, by their places in the machine.
fn in_machine_order(seen: Vec<DevicePlan>, gpus: &[usize], machine: &Machine) -> Vec<DevicePlan> {
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
