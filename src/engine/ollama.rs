//! Ollama from 0.30. It starts llama-server, which places the layers; so its plan is llama.cpp's with the options and
//! GPUs that Ollama chooses.

mod command;
mod discovery;
mod ollama_ps;
mod release;
pub mod scheduler;
mod server_launch;
mod starts;

use std::collections::BTreeMap;

use super::admission::Admission;
use super::facts::{EngineFacts, ReserveSetting};
use super::id::{EngineError, EngineId, FitGoal, Launch, ServerStarts};
use super::knobs::KnobCondition;
use super::llama_cpp::PreparedModel;
use super::llama_cpp::ResolvedRequest;
use super::preflight::Preflight;
use super::request::{local_gpus_only, on_local_gpus};
use super::{Engine, llama_cpp};
use crate::machine::{DeviceKind, Machine};
use crate::plan::{Confidence, DevicePlan, Plan, PlanSummary, Totals, Uncertainty, Verdict, Why};
use crate::settings::knob::Knob;
use crate::settings::{Context, Flag, GpuLayers, InEffect, Release, Settings};
use server_launch::{Retry, ServerLaunch};
use starts::start_with_retry;

/// The facts. Maximum number of loaded models: `server/sched.go`, `defaultModelsPerGPU`, Ollama, May 2026.
pub(super) const FACTS: EngineFacts = EngineFacts {
    releases: &Release::ALL,
    // its batch is also llama-server's ubatch, and it has no option for outputs; llama-server reads the others from its
    // environment
    offered_knobs: &[
        (Knob::Context, KnobCondition::Always),
        (Knob::Parallel, KnobCondition::Always),
        (Knob::Quant, KnobCondition::Always),
        (Knob::KvUnified, KnobCondition::KvCache),
        (Knob::CacheType, KnobCondition::OneCacheType),
        (Knob::CacheTypeK, KnobCondition::TwoCacheTypes),
        (Knob::CacheTypeV, KnobCondition::TwoCacheTypes),
        (Knob::FlashAttn, KnobCondition::KvCache),
        (Knob::Batch, KnobCondition::Always),
        (Knob::Ubatch, KnobCondition::Raw),
        (Knob::Outputs, KnobCondition::Raw),
        (Knob::GpuLayers, KnobCondition::Always),
        (Knob::CpuMoe, KnobCondition::Experts),
        (Knob::TensorSplit, KnobCondition::SeveralGpus),
        (Knob::LoadMode, KnobCondition::Always),
        (Knob::CacheRam, KnobCondition::Generates),
    ],
    ignores: &[
        Flag::Ubatch,
        Flag::NoOpOffload,
        Flag::Outputs,
        Flag::Embeddings,
        Flag::Program,
        Flag::FitCtx,
        Flag::RequireFull,
    ],
    reserve_setting: ReserveSetting::Overhead,
    is_ollama: true,
    starts_llama_server: true,
    estimates: false,
    ctx_is_total: false,
    counts_projectors: true,
    places_output_last: false,
    uses_other_computers: false,
    evicts: true,
    max_loaded_per_gpu: Some(3),
};

/// Ollama from 0.30.
#[derive(Debug)]
pub struct Ollama;

impl Engine for Ollama {
    fn facts(&self) -> &'static EngineFacts {
        &FACTS
    }

    fn plan(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
        on_local_gpus(plan, model, machine, settings)
    }

    fn summary(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
        fit_goal: FitGoal,
    ) -> Result<PlanSummary, EngineError> {
        summary(model, &local_gpus_only(machine), settings, fit_goal)
    }

    fn preflight(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<Preflight>, EngineError> {
        let machine = &local_gpus_only(machine);
        let start = server_launch::decide(model, machine, settings, Retry::default())?;
        let (mut preflight, _) = accepted(&start, |options| llama_cpp::preflight(model, &start.machine, options))?;
        if let Some(lower) = server_launch::lower_context(settings, start.ctx) {
            let again =
                server_launch::decide(model, machine, settings, Retry { ctx: Some(lower), ..Retry::default() })?;
            let (lower, _) = accepted(&again, |options| llama_cpp::preflight(model, &again.machine, options))?;
            preflight.upper_bound = preflight.upper_bound.max(lower.upper_bound);
        }
        let considered =
            |gpu: usize| start.gpus.iter().zip(&preflight.gpus).any(|(&index, &used)| used && index == gpu);
        preflight.gpus = (0..machine.gpus.len()).map(considered).collect();
        preflight.settings = in_effect(preflight.settings, start.ctx, settings, start.sources);
        Ok(Some(preflight))
    }

    fn launch(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<Launch>, EngineError> {
        let ServerLaunch { options, gpus, start, failures, .. } =
            last_start(model, &local_gpus_only(machine), settings)?;
        Ok(Some(Launch { options, gpus, command: Some(start.command), failures }))
    }

    fn starts(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
        failures: usize,
    ) -> Result<Option<ServerStarts>, EngineError> {
        starts::starts(model, &local_gpus_only(machine), settings, failures).map(Some)
    }

    fn resolve(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<ResolvedRequest>, EngineError> {
        let start = last_start(model, &local_gpus_only(machine), settings)?;
        let (resolved, _) = accepted(&start, |options| llama_cpp::resolve(model, &start.machine, options))?;
        Ok(Some(resolved.among(&start.gpus)))
    }

    fn admit(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Admission, EngineError> {
        // what goes before is decided by the scheduler, which knows the loaded models
        self.plan(model, machine, settings).map(Admission::load)
    }

    fn rule_edges(&self, knob: Knob, settings: &Settings) -> Vec<u64> {
        let parallel = settings.parallel.unwrap_or(1).max(1);
        match (knob, settings.ctx) {
            // some models use one sequence, whatever is requested
            (Knob::Context, _) => server_launch::thresholds().flat_map(|tokens| [tokens, tokens / parallel]).collect(),
            (Knob::Parallel, Context::Tokens(ctx)) => {
                server_launch::thresholds().map(|tokens| tokens / ctx.max(1)).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn plan(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
    plan_by(llama_cpp::plan, model, machine, settings)
}

/// Ollama's plan with `place` as the plan of llama-server.
fn plan_by(
    place: impl Fn(&PreparedModel, &Machine, &Settings) -> Result<Plan, EngineError>,
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
) -> Result<Plan, EngineError> {
    let place = |start: &ServerLaunch| {
        accepted(start, |options| place(model, &start.machine, options)).map(|(mut plan, refusal)| {
            plan.refusal = plan.refusal.or(refusal);
            plan
        })
    };
    let (start, plan) = start_with_retry(model, machine, settings, &place, &place, |plan| &plan.devices)?;
    Ok(in_ollama_terms(plan, start, model, machine, settings))
}

/// The result of `place`; with settings that llama-server refuses, that with its own KV cache type, and why it refuses.
fn accepted<T>(
    start: &ServerLaunch,
    place: impl Fn(&Settings) -> Result<T, EngineError>,
) -> Result<(T, Option<String>), EngineError> {
    match place(&start.options) {
        Err(EngineError::Settings(why)) if start.options.cache_type_v.is_some() => {
            let plain = Settings { cache_type_k: None, cache_type_v: None, ..start.options.clone() };
            place(&plain).map(|done| (done, Some(why)))
        }
        done => done.map(|done| (done, start.refusal.clone())),
    }
}

/// The start that succeeds, or else the last one.
fn last_start(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<ServerLaunch, EngineError> {
    let place = |start: &ServerLaunch| {
        accepted(start, |options| llama_cpp::summary(model, &start.machine, options, FitGoal::Most))
            .map(|(done, _)| done)
    };
    let (start, _) = start_with_retry(model, machine, settings, &place, &place, |summary| &summary.devices)?;
    Ok(start)
}

/// The plan without its explanations.
fn summary(
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
    fit_goal: FitGoal,
) -> Result<PlanSummary, EngineError> {
    let place = |fit_goal| {
        move |start: &ServerLaunch| {
            let placed = accepted(start, |options| llama_cpp::summary(model, &start.machine, options, fit_goal));
            placed.map(|(mut summary, refusal)| {
                summary.refused |= refusal.is_some();
                summary
            })
        }
    };
    // whether the first attempt runs out of memory is only known after as many layers as possible were placed
    let retries = settings.ctx == Context::Auto || settings.projector.is_some();
    let first = place(if retries { FitGoal::Most } else { fit_goal });
    let (start, mut summary) =
        start_with_retry(model, machine, settings, &first, &place(fit_goal), |summary: &PlanSummary| &summary.devices)?;
    summary.devices = in_machine_order(summary.devices, &start.gpus, machine);
    summary.settings = in_effect(summary.settings, start.ctx, settings, start.sources);
    summary.verdict = Verdict::of(&summary.devices, summary.offloaded, summary.layer_count, summary.refused);
    Ok(summary)
}

/// llama.cpp's plan in Ollama's terms: name, settings, notes, and all GPUs of the machine.
fn in_ollama_terms(
    mut plan: Plan,
    start: ServerLaunch,
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
) -> Plan {
    let ServerLaunch { ctx, gpus, notes, decided, sources, .. } = start;
    let cpu = machine.gpus.len();
    let place = |device: usize| gpus.get(device).copied().unwrap_or(cpu);
    for layer in &mut plan.layers {
        layer.device = place(layer.device);
        if let Why::NoRoom { device, .. } = &mut layer.why {
            *device = place(*device);
        }
    }
    plan.devices = in_machine_order(plan.devices, &gpus, machine);
    plan.parts = plan.parts.into_iter().map(|part| part.spread_over(&gpus, cpu + 1)).collect();
    for peak in &mut plan.graph.peaks {
        peak.device = place(peak.device);
    }
    for size in [&mut plan.graph.partial, &mut plan.graph.full] {
        for (branch, peak) in size.branches.iter_mut().zip(&plan.graph.peaks) {
            branch.name = plan.devices.get(peak.device).map(|device| device.id.clone()).unwrap_or_default();
        }
    }
    plan.engine = EngineId::Ollama;
    plan.settings = in_effect(plan.settings, ctx, settings, sources);
    plan.totals = Totals::of(&plan.devices);
    plan.verdict = Verdict::of(&plan.devices, plan.offloaded, plan.layers.len(), plan.refusal.is_some());
    plan.ollama_ps = Some(ollama_ps::of(&plan, model));
    plan.notes.splice(0..0, notes);
    say_release(&mut plan, settings);
    plan.decided = decided;
    plan
}

/// Says which llama.cpp Ollama ships, and what was planned for it: figures are exact where that release agrees with the
/// build, or was asked for.
fn say_release(plan: &mut Plan, settings: &Settings) {
    let Some(release) = plan.settings.release else { return };
    let version = settings.ollama.version;
    let (ships, nearest) = (version.ships(), version.release());
    let (sentence, is_sure) = if release == nearest {
        let compared =
            version.llama_cpp_build().is_some_and(|build| release.is_like_build(build, &plan.model.architecture));
        let but = if compared { "" } else { ", which was not compared with it for this architecture" };
        (format!("{ships}: planned for release {release}, the nearest that is known here{but}"), compared)
    } else if settings.release.is_some() {
        (format!("{ships}: planned for release {release}, as asked, and not {nearest}"), true)
    } else {
        let architecture = &plan.model.architecture;
        let lacks = format!("release {nearest}, the nearest that is known here, does not know the architecture");
        (format!("{ships}; {lacks} {architecture}, so this is planned for release {release}"), false)
    };
    if !is_sure {
        plan.uncertainties.push(Uncertainty { confidence: Confidence::Modelled, reason: sentence.clone() });
        plan.confidence = Uncertainty::worst(&plan.uncertainties);
    }
    plan.notes.push(sentence);
}

/// The devices as indexed in the machine; `gpus` are those that llama-server sees.
fn in_machine_order(seen: Vec<DevicePlan>, gpus: &[usize], machine: &Machine) -> Vec<DevicePlan> {
    let mut devices = DevicePlan::all_of(machine);
    devices.truncate(machine.gpus.len());
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
fn in_effect(mut knobs: InEffect, ctx: u64, settings: &Settings, sources: BTreeMap<&'static str, String>) -> InEffect {
    (knobs.ctx, knobs.sources) = (ctx, sources);
    if settings.gpu_layers == GpuLayers::Auto {
        knobs.gpu_layers = -1;
    }
    knobs
}

#[cfg(test)]
mod tests;
