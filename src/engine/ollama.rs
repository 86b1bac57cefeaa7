//! Ollama from 0.30. It starts llama-server, which places the layers; so its plan is llama.cpp's with the options and
//! GPUs that Ollama chooses.

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

/// Ollama's plan with `place` as the plan of llama-server.
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

/// The request to the llama-server that it starts.
pub(super) fn resolve(
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
) -> Result<ResolvedRequest, EngineError> {
    let start = last_start(model, machine, settings)?;
    Ok(llama_cpp::resolve(model, &start.machine, &start.options)?.among(&start.gpus))
}

/// The start that succeeds, or else the last one.
fn last_start(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<ServerLaunch, EngineError> {
    let place = |start: &ServerLaunch| llama_cpp::summary(model, &start.machine, &start.options, FitGoal::Most);
    let (start, _) = start_with_retry(model, machine, settings, &place, &place, |summary| &summary.devices)?;
    Ok(start)
}

/// The plan without its explanations.
pub(super) fn summary(
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
    fit_goal: FitGoal,
) -> Result<PlanSummary, EngineError> {
    let place =
        |fit_goal| move |start: &ServerLaunch| llama_cpp::summary(model, &start.machine, &start.options, fit_goal);
    // whether the first attempt runs out of memory is only known after as many layers as possible were placed
    let retries = settings.ctx == Context::Auto;
    let first = place(if retries { FitGoal::Most } else { fit_goal });
    let (start, mut summary) =
        start_with_retry(model, machine, settings, &first, &place(fit_goal), |summary: &PlanSummary| &summary.devices)?;
    summary.devices = in_machine_order(summary.devices, &start.gpus, machine);
    summary.settings = in_effect(summary.settings, start.ctx, settings);
    summary.verdict = Verdict::of(&summary.devices, summary.offloaded, summary.layer_count, summary.refused);
    Ok(summary)
}

/// An upper bound known before planning.
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
    let considered = |gpu: usize| start.gpus.iter().zip(&preflight.gpus).any(|(&index, &used)| used && index == gpu);
    preflight.gpus = (0..machine.gpus.len()).map(considered).collect();
    preflight.settings = in_effect(preflight.settings, start.ctx, settings);
    Ok(preflight)
}

/// Values where Ollama's own rules change: the batch grows above some total contexts.
pub(super) fn rule_edges(knob: Knob, settings: &Settings) -> Vec<u64> {
    let parallel = settings.parallel.unwrap_or(1).max(1);
    match (knob, settings.ctx) {
        // some models use one sequence, whatever is requested
        (Knob::Context, _) => batch::thresholds().flat_map(|tokens| [tokens, tokens / parallel]).collect(),
        (Knob::Parallel, Context::Tokens(ctx)) => batch::thresholds().map(|tokens| tokens / ctx.max(1)).collect(),
        _ => Vec::new(),
    }
}

/// The final start of llama-server, and the result of `first`, or of `again` after a start that ran out of memory.
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

/// Whether an allocation would fail. GPUs only allocate what they have; an operating system refuses only what exceeds
/// all of its memory, and otherwise fails on access.
fn runs_out_of_memory(devices: &[DevicePlan], machine: &Machine) -> bool {
    let all = machine.ram.total + machine.ram.swap_free;
    devices.iter().any(|device| match device.kind {
        DeviceKind::Gpu => device.is_over(),
        DeviceKind::Cpu => device.cache > all || device.graph > all,
    })
}

/// llama.cpp's plan in Ollama's terms: name, settings, notes, and all GPUs of the machine.
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

/// The devices as indexed in the machine; `gpus` are those that llama-server sees.
fn in_machine_order(seen: Vec<DevicePlan>, gpus: &[usize], machine: &Machine) -> Vec<DevicePlan> {
    let mut devices: Vec<DevicePlan> =
        machine.gpus.iter().enumerate().map(|(index, gpu)| DevicePlan::of_gpu(index, gpu)).collect();
    for (index, device) in seen.into_iter().enumerate() {
        let target = gpus.get(index).and_then(|&index| devices.get_mut(index));
        match (device.kind, target) {
            (DeviceKind::Gpu, Some(target)) => *target = DevicePlan { id: std::mem::take(&mut target.id), ..device },
            _ => devices.push(device),
        }
    }
    devices
}

/// llama-server's settings in Ollama's terms.
fn in_effect(mut knobs: InEffect, ctx: u64, settings: &Settings) -> InEffect {
    knobs.ctx = ctx;
    if settings.gpu_layers == GpuLayers::Auto {
        knobs.gpu_layers = -1;
    }
    knobs
}

#[cfg(test)]
mod tests;
