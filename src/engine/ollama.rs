//! Ollama from 0.30. It starts llama-server, which places the layers; so its plan is llama.cpp's with the options and
//! GPUs that Ollama chooses.

mod command;
mod discovery;
mod mlx_runner;
mod ollama_ps;
mod release;
pub mod scheduler;
mod server_launch;
mod starts;

use std::collections::BTreeMap;

use super::admission::Admission;
use super::contract::{Engine, RunsLlamaCpp};
use super::error::EngineError;
use super::goal::FitGoal;
use super::launch::{Launch, ServerStarts};
use super::llama_cpp;
use super::llama_cpp::PreparedModel;
use super::llama_cpp::ResolvedRequest;
use super::plan_request::RequestParts;
use super::preflight::Preflight;
use super::request::{self, local_gpus_only};
use crate::machine::{DeviceKind, Machine};
use crate::plan::{Confidence, DevicePlan, Plan, PlanSummary, Totals, Uncertainty, Verdict, Why};
use crate::settings::knob::Knob;
use crate::settings::{Context, EngineId, GpuLayers, InEffect, NearestRelease, Settings};
use server_launch::{Retry, ServerLaunch};
use starts::start_with_retry;

/// Ollama from 0.30.
#[derive(Debug)]
pub struct Ollama;

impl Engine for Ollama {
    fn place(&self, request: RequestParts<'_>, fit_goal: FitGoal) -> Result<Option<Plan>, EngineError> {
        let machine = &local_gpus_only(request.machine)?;
        let request = RequestParts { machine, ..request };
        match &request.model.mlx {
            Some(_) => mlx_runner::plan(request).map(Some),
            None => placed_by(&llama_cpp::place, request, fit_goal),
        }
    }

    fn explain(&self, request: RequestParts<'_>, plan: &mut Plan) {
        if request.model.mlx.is_none() {
            if let Ok(machine) = &local_gpus_only(request.machine) {
                plan.doubt(doubt(RequestParts { machine, ..request }, plan));
            }
            explain_further(plan, request.settings);
        }
        request::say_unused(plan, request.machine);
    }

    fn summary(&self, request: RequestParts<'_>, fit_goal: FitGoal) -> Result<Option<PlanSummary>, EngineError> {
        let machine = local_gpus_only(request.machine)?;
        let request = RequestParts { machine: &machine, ..request };
        match &request.model.mlx {
            Some(_) => mlx_runner::plan(request).map(|plan| Some(PlanSummary::of(&plan))),
            None => summary_by(&llama_cpp::summary, request, fit_goal),
        }
    }

    fn preflight(&self, request: RequestParts<'_>) -> Result<Option<Preflight>, EngineError> {
        let RequestParts { model, settings, .. } = request;
        if model.mlx.is_some() {
            return Ok(None);
        }
        let machine = &local_gpus_only(request.machine)?;
        let of = |start: &ServerLaunch| {
            let llama_server =
                |settings: &Settings| llama_cpp::preflight(RequestParts { model, machine: &start.machine, settings });
            accepted(start, llama_server).map(|(known, refusal)| Preflight { refused: refusal.is_some(), ..known })
        };
        let start = server_launch::decide(model, machine, settings, Retry::default())?;
        let mut preflight = of(&start)?;
        if let Some(lower) = server_launch::lower_context(settings, start.ctx) {
            let retry = Retry { ctx: Some(lower), ..Retry::default() };
            let lower = of(&server_launch::decide(model, machine, settings, retry)?)?;
            preflight.upper_bound = preflight.upper_bound.max(lower.upper_bound);
        }
        let considered =
            |gpu: usize| start.gpus.iter().zip(&preflight.gpus).any(|(&index, &used)| used && index == gpu);
        preflight.gpus = (0..machine.gpus.len()).map(considered).collect();
        preflight.settings = in_effect(preflight.settings, start.ctx, settings, start.sources);
        Ok(Some(preflight))
    }

    fn admit(&self, request: RequestParts<'_>) -> Result<Admission, EngineError> {
        // what goes before is decided by the scheduler, which knows the loaded models
        self.plan(request).map(Admission::load)
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

impl RunsLlamaCpp for Ollama {
    fn launch(&self, request: RequestParts<'_>) -> Result<Launch, EngineError> {
        let machine = &local_gpus_only(request.machine)?;
        let ServerLaunch { options, gpus, start, failures, .. } = last_start(RequestParts { machine, ..request })?;
        Ok(Launch { options, gpus, command: Some(start.command), failures })
    }

    fn starts(&self, request: RequestParts<'_>, failures: usize) -> Result<Option<ServerStarts>, EngineError> {
        let machine = local_gpus_only(request.machine)?;
        starts::starts(request.model, &machine, request.settings, failures).map(Some)
    }

    fn resolve(&self, request: RequestParts<'_>) -> Result<ResolvedRequest, EngineError> {
        let (model, machine) = (request.model, &local_gpus_only(request.machine)?);
        let start = last_start(RequestParts { machine, ..request })?;
        let resolve =
            |settings: &Settings| llama_cpp::resolve(RequestParts { model, machine: &start.machine, settings });
        let (resolved, _) = accepted(&start, resolve)?;
        Ok(resolved.among(&start.gpus))
    }
}

/// Ollama's plan with those of `llama_server`; none if the goal is not met and the fit stopped.
fn placed_by(
    llama_server: &LlamaServer<'_, Plan>,
    request: RequestParts<'_>,
    fit_goal: FitGoal,
) -> Result<Option<Plan>, EngineError> {
    let RequestParts { model, machine, settings } = request;
    let (start, placed) = started(llama_server, request, fit_goal)?;
    Ok(placed.map(|placed| in_ollama_terms(placed, start, model, machine, settings)))
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
fn last_start(request: RequestParts<'_>) -> Result<ServerLaunch, EngineError> {
    started(&llama_cpp::summary, request, FitGoal::Most).map(|(start, _)| start)
}

/// Why `plan` is not exact: the llama.cpp that Ollama starts may have a change already with which it is another one.
fn doubt(request: RequestParts<'_>, plan: &Plan) -> Option<Uncertainty> {
    let RequestParts { model, machine, settings } = request;
    let start = server_launch::decide(model, machine, settings, Retry::default()).ok()?;
    let llama_server = RequestParts { model, machine: &start.machine, settings: &start.options };
    llama_cpp::UnderWay::of(llama_server)?.doubt_if(plan, |loaded| {
        summary_by(&|llama_server, goal| llama_cpp::summary_as(llama_server, loaded, goal), request, FitGoal::Most)
    })
}

/// What llama-server makes of one start: its plan, or the summary of that.
trait Started {
    fn devices(&self) -> &[DevicePlan];

    /// Notes that it is not what was asked for.
    fn refuse(&mut self, why: String);
}

impl Started for Plan {
    fn devices(&self) -> &[DevicePlan] {
        &self.devices
    }

    fn refuse(&mut self, why: String) {
        self.refusal.get_or_insert(why);
    }
}

impl Started for PlanSummary {
    fn devices(&self) -> &[DevicePlan] {
        &self.devices
    }

    fn refuse(&mut self, _: String) {
        self.refused = true;
    }
}

/// Starts llama-server; none if the goal is not met and the fit stopped.
type LlamaServer<'a, T> = dyn Fn(RequestParts<'_>, FitGoal) -> Result<Option<T>, EngineError> + 'a;

/// The plan without its explanations, with `llama_server`'s summaries; none if the goal is not met and the fit stopped.
fn summary_by(
    llama_server: &LlamaServer<'_, PlanSummary>,
    request: RequestParts<'_>,
    fit_goal: FitGoal,
) -> Result<Option<PlanSummary>, EngineError> {
    let RequestParts { machine, settings, .. } = request;
    let (start, summary) = started(llama_server, request, fit_goal)?;
    Ok(summary.map(|mut summary| {
        summary.devices = in_machine_order(summary.devices, &start.gpus, machine);
        summary.settings = in_effect(summary.settings, start.ctx, settings, start.sources);
        summary.verdict = Verdict::of(&summary.devices, summary.offloaded, summary.layer_count, summary.refused);
        summary
    }))
}

/// The start that succeeds, or else the last one, and what llama-server makes of it.
fn started<T: Started>(
    llama_server: &LlamaServer<'_, T>,
    RequestParts { model, machine, settings }: RequestParts<'_>,
    fit_goal: FitGoal,
) -> Result<(ServerLaunch, Option<T>), EngineError> {
    let place = |start: &ServerLaunch, fit_goal| {
        let of_start =
            |settings: &Settings| llama_server(RequestParts { model, machine: &start.machine, settings }, fit_goal);
        accepted(start, of_start).map(|(mut placed, refusal)| {
            if let Some((placed, refusal)) = placed.as_mut().zip(refusal) {
                placed.refuse(refusal);
            }
            placed
        })
    };
    let first = |start: &ServerLaunch| match place(start, fit_goal) {
        // whether it runs out of memory, and so another start comes, is only known after as many layers as possible were
        // placed; it matters where that one would meet the goal
        Ok(None) => {
            let second = starts::second(model, machine, settings, start);
            match second.map_or(Ok(None), |second| place(&second?, fit_goal)) {
                Ok(None) => Ok(None),
                Ok(Some(_)) | Err(_) => place(start, FitGoal::Most),
            }
        }
        done => done,
    };
    let again = |start: &ServerLaunch| place(start, fit_goal);
    start_with_retry(model, machine, settings, &first, &again, |placed: &Option<T>| {
        placed.as_ref().map_or(&[], |placed| placed.devices())
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
    let margins = plan.devices.iter_mut().filter_map(|device| device.margin.as_mut());
    for share in margins.flat_map(|margin| &mut margin.added) {
        share.device = place(share.device);
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
    plan.decided = decided;
    plan
}

/// Says where margins are misplaced, and of which llama.cpp the figures are.
fn explain_further(plan: &mut Plan, settings: &Settings) {
    plan.notes.extend(plan.misplaced_margins());
    say_release(plan, settings);
}

/// Says which llama.cpp Ollama ships, and what was planned for it: figures are exact where its build is known, or a release
/// was asked for.
fn say_release(plan: &mut Plan, settings: &Settings) {
    let Some(release) = plan.settings.release else { return };
    let planned = NearestRelease { release, build: plan.settings.build };
    let version = settings.ollama.version;
    let (ships, own) = (version.ships(), version.llama_cpp());
    let (sentence, is_sure) = if planned == own && own.build.is_some() {
        (format!("{ships}, which is planned"), true)
    } else if planned == own {
        let but = "the nearest that is known here, which was not compared with it";
        (format!("{ships}: planned for release {release}, {but}"), false)
    } else if settings.release.is_some() {
        (format!("{ships}: planned for {planned}, as asked"), true)
    } else {
        let architecture = &plan.model.architecture;
        let lacks = if own.build.is_some() {
            "it does not know the architecture".to_owned()
        } else {
            format!("release {}, the nearest that is known here, does not know the architecture", own.release)
        };
        (format!("{ships}; {lacks} {architecture}, so this is planned for {planned}"), false)
    };
    if !is_sure {
        plan.uncertainties.push(Uncertainty { confidence: Confidence::Modelled, reason: sentence.clone() });
        plan.confidence = Uncertainty::worst(&plan.uncertainties);
    }
    // the sentence names it too
    let build = planned.to_string();
    plan.notes.retain(|note| *note != build);
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
