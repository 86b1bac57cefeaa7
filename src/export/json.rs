//! A plan as one JSON object; the keys are stable.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::answer::compare::OtherRelease;
use crate::answer::ram::RamUse;
use crate::engine::{ServerStart, ServerStarts};
use crate::machine::budget::DriverMemory;
use crate::machine::{Backend, DeviceKind, Origin};
use crate::model::ModelSummary;
use crate::model::mixture::ExactAfter;
use crate::plan::{
    Branch, Computer, Confidence, DevicePlan, Estimate, GraphPlan, GraphSize, GraphUse, Headroom, LargestBuffer,
    LayerKind, LayerPlan, OllamaPs, Outcome, OwnCaches, Part, PartKind, PartMemory, Plan, RamPool, Reserve, Symbol,
    Term, Totals, Uncertainty, Verdict,
};
use crate::settings::{InEffect, Release};
use crate::speed::Speed;
use crate::speed::prompt::PromptSpeed;
use crate::speed::turn::{Reuse, TurnTime};
use crate::text;
use crate::units::{Bytes, Difference};

/// Defines an object of JSON and the function that fills it, a row each key: its type and its value.
macro_rules! record {
    ($(#[$of:meta])* $name:ident<$life:lifetime>($($from:ident: $type:ty),*) {
        $($(#[$is:meta])* $key:ident: $kind:ty = $value:expr,)*
    }) => {
        $(#[$of])*
        #[derive(serde::Serialize)]
        struct $name<$life> { $($(#[$is])* $key: $kind,)* }

        impl<$life> $name<$life> {
            fn of($($from: $type),*) -> Self {
                Self { $($key: $value,)* }
            }
        }
    };
}

pub(crate) use record;

/// `plan` as the object that `--json` prints: sizes are integers in bytes, keys are in a fixed order.
///
/// # Errors
/// Only if a number is not representable in JSON, which plans do not contain.
pub fn json(plan: &Plan) -> serde_json::Result<String> {
    text::json(&object(plan))
}

/// Where a model was read.
#[derive(Clone, Debug, Serialize)]
pub struct ModelSource {
    /// Which source answered, as in lists: `catalogue`.
    pub source: &'static str,
    /// The reference that opens it again.
    pub reference: String,
    /// What its weights would be exact after, if they are not.
    pub exact_after: Option<ExactAfter>,
}

/// What an object has besides its plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Besides<'a> {
    /// Where the model was read.
    pub source: Option<&'a ModelSource>,
    /// The modelled speed of the plan, if it can be known.
    pub speed: Option<&'a Speed>,
    /// How fast it reads a prompt, or why there is no figure.
    pub prompt: Option<&'a Result<PromptSpeed, String>>,
    /// How long the turn takes that was asked for, or why there is no figure; and what its server keeps.
    pub turn: Option<(&'a Result<TurnTime, String>, &'a Reuse)>,
    /// What it takes of RAM.
    pub ram: Option<&'a RamUse>,
    /// How Ollama starts llama-server for it.
    pub starts: Option<&'a ServerStarts>,
    /// What neighbouring releases of llama.cpp would take, if asked.
    pub releases: Option<&'a [OtherRelease]>,
}

/// [`json`] with what is known besides.
///
/// # Errors
/// As [`json`].
pub fn json_with(plan: &Plan, besides: &Besides<'_>) -> serde_json::Result<String> {
    let Besides { source, speed, prompt, turn, ram, starts, releases } = *besides;
    let launch = starts.and_then(|all| Some(LaunchRecord::of(all.starts.first()?, &all.starts)));
    let prompt = prompt.map(PromptRecord::of);
    let turn = turn.map(|(time, reuse)| TurnRecord::of(time, reuse));
    text::json(&Object { source, speed, prompt, turn, launch, ram, releases, ..Object::of(plan) })
}

/// The object of [`json`], to embed in another.
pub fn object(plan: &Plan) -> impl Serialize + '_ {
    Object::of(plan)
}

record! {
    Object<'a>(plan: &'a Plan) {
        plimsoll: &'static str = env!("CARGO_PKG_VERSION"),
        engine: &'static str = plan.engine.name(),
        release: Option<Release> = plan.settings.release,
        confidence: Confidence = plan.confidence,
        confidence_reasons: &'a [Uncertainty] = &plan.uncertainties,
        origin: Origin = plan.origin,
        #[serde(flatten)]
        source: Option<&'a ModelSource> = None,
        model: &'a ModelSummary = &plan.model,
        settings: &'a InEffect = &plan.settings,
        devices: Vec<DeviceRecord<'a>> = {
            plan.devices.iter().zip(plan.headrooms()).map(|(device, left)| DeviceRecord::of(device, left)).collect()
        },
        /// RAM as one pool, where GPUs take memory of it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pools: Vec<PoolRecord<'a>> = {
            let gpus = plan.gpus_in_ram();
            Some(PoolRecord::of(plan, plan.ram())).filter(|_| !gpus.is_empty()).into_iter().collect()
        },
        parts: Vec<PartRecord<'a>> = plan.parts.iter().map(|part| PartRecord::of(part, plan)).collect(),
        layers: Vec<LayerRecord<'a>> = plan.layers.iter().map(|layer| LayerRecord::of(layer, plan)).collect(),
        graph: GraphRecord<'a> = GraphRecord::of(&plan.graph),
        totals: Totals = plan.totals,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        computers: Vec<Computer> = Some(plan.computers()).filter(|all| all.len() > 1).unwrap_or_default(),
        #[serde(skip_serializing_if = "Option::is_none")]
        estimate: Option<&'a Estimate> = plan.estimate.as_ref(),
        #[serde(skip_serializing_if = "Option::is_none")]
        own_caches: Option<&'a OwnCaches> = plan.own_caches.as_ref(),
        #[serde(skip_serializing_if = "Option::is_none")]
        ollama_ps: Option<OllamaPsRecord<'a>> = plan.ollama_ps.as_ref().map(OllamaPsRecord::of),
        offloaded: usize = plan.offloaded,
        layer_count: usize = plan.layers.len(),
        parts_in_ram: Bytes = plan.parts_in_ram(),
        verdict: Verdict = plan.verdict,
        outcome: Outcome = plan.outcome(),
        refused: Option<&'a str> = plan.refusal.as_deref(),
        #[serde(skip_serializing_if = "Option::is_none")]
        speed: Option<&'a Speed> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        prompt: Option<PromptRecord<'a>> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        turn: Option<TurnRecord<'a>> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        launch: Option<LaunchRecord<'a>> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        ram: Option<&'a RamUse> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        releases: Option<&'a [OtherRelease]> = None,
        notes: &'a [String] = &plan.notes,
    }
}

record! {
    /// How fast a prompt is read; without a figure, `reason` says why.
    PromptRecord<'a>(prompt: &'a Result<PromptSpeed, String>) {
        tokens: Option<u64> = prompt.as_ref().ok().map(|prompt| prompt.tokens),
        depth: Option<u64> = prompt.as_ref().ok().map(|prompt| prompt.depth),
        tokens_per_second: Option<f64> = prompt.as_ref().ok().map(|prompt| prompt.tokens_per_second),
        low: Option<f64> = prompt.as_ref().ok().map(|prompt| prompt.low),
        high: Option<f64> = prompt.as_ref().ok().map(|prompt| prompt.high),
        confidence: Option<Confidence> = prompt.as_ref().ok().map(|prompt| prompt.confidence),
        reason: Option<&'a str> = match prompt {
            Ok(prompt) => prompt.reason.as_deref(),
            Err(why) => Some(why),
        },
        terms: &'a [crate::speed::Term] = prompt.as_ref().map_or(&[], |prompt| &prompt.terms),
    }
}

record! {
    /// How long a turn takes; without a figure, `reason` says why.
    TurnRecord<'a>(time: &'a Result<TurnTime, String>, reuse: &'a Reuse) {
        #[serde(flatten)]
        time: Option<&'a TurnTime> = time.as_ref().ok(),
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str> = time.as_ref().err().map(String::as_str),
        reuse: &'a Reuse = reuse,
    }
}

record! {
    /// The first start of llama-server, and all of them.
    LaunchRecord<'a>(first: &'a ServerStart, starts: &'a [ServerStart]) {
        args: &'a [String] = &first.command.args,
        env: &'a BTreeMap<String, String> = &first.command.env,
        gpus: &'a [usize] = &first.gpus,
        predicted: u64 = first.predicted,
        /// What the fit keeps free on each GPU.
        margin: Bytes = {
            let stated = first.command.env.get("LLAMA_ARG_FIT_TARGET").and_then(|mib| mib.parse().ok());
            stated.map_or(Bytes::gib(1), Bytes::mib)
        },
        starts: &'a [ServerStart] = starts,
    }
}

record! {
    /// The columns of `ollama ps`, in bytes and as printed.
    OllamaPsRecord<'a>(shown: &'a OllamaPs) {
        #[serde(flatten)]
        bytes: &'a OllamaPs = shown,
        size_column: String = shown.size_column(),
        processor_column: String = shown.processor_column(),
    }
}

record! {
    DeviceRecord<'a>(device: &'a DevicePlan, headroom: Headroom) {
        id: &'a str = &device.id,
        kind: DeviceKind = device.kind,
        name: &'a str = &device.name,
        backend: Option<Backend> = device.backend,
        total: Bytes = device.total,
        free: Bytes = device.free,
        swap_free: Bytes = device.swap_free,
        weights: Bytes = device.weights,
        #[serde(skip_serializing_if = "is_zero")]
        repacked: Bytes = device.repacked,
        #[serde(skip_serializing_if = "is_zero")]
        read_once: Bytes = device.read_once,
        cache: Bytes = device.cache,
        graph: Bytes = device.graph,
        #[serde(skip_serializing_if = "Option::is_none")]
        graph_measured: Option<Bytes> = device.graph_measured,
        reserved: Bytes = device.reserved(),
        reserves: &'a [Reserve] = &device.reserves,
        /// What is left above what is kept free; negative where that is missing.
        headroom: Difference = headroom.above_kept(),
        layers: &'a [usize] = &device.layers,
        #[serde(skip_serializing_if = "Option::is_none")]
        computer: Option<&'a str> = device.computer.as_deref(),
        #[serde(skip_serializing_if = "Option::is_none")]
        driver: Option<DriverMemory> = device.driver,
        #[serde(skip_serializing_if = "Option::is_none")]
        largest_buffer: Option<LargestBuffer> = device.largest_buffer,
    }
}

/// Whether there is nothing to say.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(bytes: &Bytes) -> bool {
    *bytes == Bytes::ZERO
}

record! {
    /// Memory that several devices share.
    PoolRecord<'a>(plan: &'a Plan, ram: RamPool) {
        id: &'static str = "RAM",
        devices: Vec<&'a str> = plan.gpus_in_ram().into_iter().chain([plan.cpu().id.as_str()]).collect(),
        total: Bytes = ram.total,
        free: Bytes = ram.free,
        swap_free: Bytes = ram.swap_free,
        asked: Bytes = ram.asked,
        left: Difference = ram.left(),
    }
}

record! {
    /// What is loaded together, each with its memory on every device.
    PartRecord<'a>(part: &'a Part, plan: &'a Plan) {
        name: PartKind = part.kind,
        devices: Vec<PartDeviceRecord<'a>> = {
            let of = |(device, memory): (&'a DevicePlan, &PartMemory)| PartDeviceRecord::of(&device.id, *memory);
            plan.devices.iter().zip(&part.devices).map(of).collect()
        },
        file: Option<&'a str> = part.file.as_deref(),
    }
}

record! {
    PartDeviceRecord<'a>(id: &'a str, memory: PartMemory) {
        id: &'a str = id,
        weights: Bytes = memory.weights,
        cache: Bytes = memory.cache,
        graph: Bytes = memory.graph,
        graph_ready: Bytes = memory.graph_ready,
    }
}

record! {
    LayerRecord<'a>(layer: &'a LayerPlan, plan: &'a Plan) {
        index: usize = layer.index,
        kind: LayerKind = plan.layer_kind(layer.index),
        device: &'a str = plan.devices.get(layer.device).map_or("", |device| &device.id),
        weights: Bytes = layer.weights,
        cache: Bytes = layer.cache,
        cache_formula: &'a str = &layer.cache_term.formula,
        why: String = layer.reason(&plan.devices),
    }
}

record! {
    GraphRecord<'a>(graph: &'a GraphPlan) {
        partial: Bytes = graph.partial.bytes,
        full: Bytes = graph.full.bytes,
        used: GraphUse = graph.used,
        why: &'a str = &graph.why,
        terms: &'a [Term] = graph.in_force().terms(),
        branches: Branches<'a> = Branches::of(graph),
        letters: &'a [Symbol] = &graph.legend,
    }
}

record! {
    Branches<'a>(graph: &'a GraphPlan) {
        partial: Vec<BranchRecord<'a>> = branches(&graph.partial),
        full: Vec<BranchRecord<'a>> = branches(&graph.full),
    }
}

fn branches(size: &GraphSize) -> Vec<BranchRecord<'_>> {
    let all = size.branches.iter().enumerate();
    all.map(|(index, branch)| BranchRecord::of(branch, index == size.winner)).collect()
}

record! {
    BranchRecord<'a>(branch: &'a Branch, wins: bool) {
        name: &'a str = &branch.name,
        bytes: Bytes = branch.bytes,
        wins: bool = wins,
        terms: &'a [Term] = &branch.terms,
    }
}
