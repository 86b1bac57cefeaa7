//! A plan as one JSON object; the keys are stable.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{ModelSource, PlanSource};
use crate::answer::compare::{DeviceDifference, OtherRelease, ReleaseDifference};
use crate::answer::ram::RamUse;
use crate::engine::{ServerStart, ServerStarts};
use crate::machine::budget::DriverMemory;
use crate::machine::{Backend, DeviceKind, Origin};
use crate::plan::{
    Branch, Computer, Confidence, DevicePlan, Estimate, FitMargin, GraphPlan, GraphSize, GraphUse, Headroom,
    LargestBuffer, LayerKind, LayerPlan, OllamaPs, Outcome, OwnCaches, Part, PartKind, PartMemory, Plan, RamPool,
    Reserve, Symbol, Term, Totals, Uncertainty, Verdict,
};
use crate::settings::{InEffect, Release, Turn};
use crate::speed::Speed;
use crate::speed::prompt::PromptSpeed;
use crate::speed::turn::{Reuse, Seconds, TurnTime};
use crate::text;
use crate::units::{Bytes, Difference};

/// Defines an object of JSON and the function that fills it, a row each key: its type and its value.
macro_rules! record {
    ($(#[$of:meta])* $name:ident<$life:lifetime>($($from:ident: $type:ty),*) {
        $($(#[$is:meta])* $key:ident: $kind:ty = $value:expr,)*
    }) => {
        $(#[$of])*
        #[derive(schemars::JsonSchema, serde::Serialize)]
        pub(crate) struct $name<$life> { $($(#[$is])* $key: $kind,)* }

        impl<$life> $name<$life> {
            pub(crate) fn of($($from: $type),*) -> Self {
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
    json_with(plan, &Besides::default())
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
    let turn = plan.settings.turn.zip(turn).map(|(asked, (time, reuse))| TurnRecord::of(asked, time, reuse));
    let releases = releases.map(|all| all.iter().map(ReleaseRecord::of).collect());
    let known = PlanRecord::of(plan, source.unwrap_or(&ModelSource::UNKNOWN));
    text::json(&PlanRecord { speed, prompt, turn, launch, ram, releases, ..known })
}

record! {
    /// A plan. Sizes are in bytes.
    PlanRecord<'a>(plan: &'a Plan, source: &'a ModelSource) {
        #[serde(flatten)]
        head: PlanSource<'a> = PlanSource::of(plan, source),
        /// Why the figures are not exact, if they are not.
        confidence_reasons: &'a [Uncertainty] = &plan.uncertainties,
        /// Where the description of the machine comes from.
        origin: Origin = plan.origin,
        /// The knobs after the engine's rules.
        settings: &'a InEffect = &plan.settings,
        /// GPUs in order, the CPU last.
        devices: Vec<DeviceRecord<'a>> = {
            plan.devices.iter().zip(plan.headrooms()).map(|(device, left)| DeviceRecord::of(device, left)).collect()
        },
        /// RAM as one pool, where GPUs take memory of it.
        pools: Vec<PoolRecord<'a>> = {
            let gpus = plan.gpus_in_ram();
            Some(PoolRecord::of(plan, plan.ram())).filter(|_| !gpus.is_empty()).into_iter().collect()
        },
        /// The model, and what is loaded with it.
        parts: Vec<PartRecord<'a>> = plan.parts.iter().map(|part| PartRecord::of(part, plan)).collect(),
        /// Blocks in order, the output layer last.
        layers: Vec<LayerRecord<'a>> = plan.layers.iter().map(|layer| LayerRecord::of(layer, plan)).collect(),
        /// The compute graph.
        graph: GraphRecord<'a> = GraphRecord::of(&plan.graph),
        /// Sums over the devices.
        totals: Totals = plan.totals,
        /// The share of each computer, where there are several.
        computers: Vec<Computer> = Some(plan.computers()).filter(|all| all.len() > 1).unwrap_or_default(),
        /// The engine's own estimate; null for an engine that makes none.
        estimate: Option<&'a Estimate> = plan.estimate.as_ref(),
        /// What Ollama's check before a load asks for, the files in all; only of models stored as safetensors.
        load_check: Option<Bytes> = plan.load_check,
        /// The caches block by block; null where the Ollama engine does not make them.
        own_caches: Option<&'a OwnCaches> = plan.own_caches.as_ref(),
        /// What `ollama ps` will say; null for an engine that it does not list.
        ollama_ps: Option<OllamaPsRecord<'a>> = plan.ollama_ps.as_ref().map(OllamaPsRecord::of),
        /// Layers on GPUs, the output layer counted.
        offloaded: usize = plan.offloaded,
        /// All layers, the output layer counted.
        layer_count: usize = plan.layers.len(),
        /// Weights in RAM of layers that count as on GPUs.
        parts_in_ram: Bytes = plan.parts_in_ram(),
        /// Whether and where the model fits.
        verdict: Verdict = plan.verdict,
        /// Where what a token needs is.
        outcome: Outcome = plan.outcome(),
        /// Why the engine refuses; null if it does not.
        refused: Option<&'a str> = plan.refusal.as_deref(),
        /// How fast it generates; null where that cannot be known, and in other answers than `plan`.
        speed: Option<&'a Speed> = None,
        /// How fast it reads a prompt; null in other answers than `plan`.
        prompt: Option<PromptRecord<'a>> = None,
        /// How long the turn takes that was asked for; null if none was.
        turn: Option<TurnRecord<'a>> = None,
        /// How Ollama starts llama-server; null where it does not, and in other answers than `plan`.
        launch: Option<LaunchRecord<'a>> = None,
        /// What it takes of RAM; null in other answers than `plan`.
        ram: Option<&'a RamUse> = None,
        /// What other releases of llama.cpp would take; null unless `--releases` asks.
        releases: Option<Vec<ReleaseRecord<'a>>> = None,
        /// What else there is to say, one sentence each.
        notes: &'a [String] = &plan.notes,
    }
}

/// What another release would take, or why it refuses.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ReleaseRecord<'a> {
    release: Release,
    /// All that it would take; null if it refuses.
    total: Option<Bytes>,
    /// Bytes more than the plan at hand, negative for less; null if it refuses.
    more: Option<i64>,
    /// The same for each device, GPUs in order, the CPU last; none if it refuses.
    devices: &'a [DeviceDifference],
    /// What it would decide otherwise, each as part of a sentence.
    decisions: &'a [String],
    /// Why it refuses; null if it does not.
    refused: Option<&'a str>,
}

impl<'a> ReleaseRecord<'a> {
    fn of(other: &'a OtherRelease) -> Self {
        let OtherRelease { release, difference } = other;
        let release = *release;
        match difference {
            ReleaseDifference::Planned { total, more, devices, decisions } => {
                Self { release, total: Some(*total), more: Some(*more), devices, decisions, refused: None }
            }
            ReleaseDifference::Refused { refused } => {
                Self { release, total: None, more: None, devices: &[], decisions: &[], refused: Some(refused) }
            }
        }
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
    TurnRecord<'a>(asked: Turn, time: &'a Result<TurnTime, String>, reuse: &'a Reuse) {
        #[serde(flatten)]
        asked: Turn = asked,
        /// Until the first token is written.
        first: Option<Seconds> = time.as_ref().ok().map(|time| time.first),
        /// Until the last is.
        last: Option<Seconds> = time.as_ref().ok().map(|time| time.last),
        confidence: Option<Confidence> = time.as_ref().ok().map(|time| time.confidence),
        reason: Option<&'a str> = time.as_ref().err().map(String::as_str),
        /// What of a prompt the server need not read again.
        reuse: &'a Reuse = reuse,
    }
}

record! {
    /// The first start of llama-server, and all of them.
    LaunchRecord<'a>(first: &'a ServerStart, starts: &'a [ServerStart]) {
        args: &'a [String] = &first.command.args,
        env: &'a BTreeMap<String, String> = &first.command.env,
        /// The GPUs that Ollama chose, as indices in the machine.
        gpus: &'a [usize] = &first.gpus,
        /// Bytes that Ollama expects it to need.
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
    /// A device, and what the plan takes on it.
    DeviceRecord<'a>(device: &'a DevicePlan, headroom: Headroom) {
        id: &'a str = &device.id,
        kind: DeviceKind = device.kind,
        name: &'a str = &device.name,
        backend: Option<Backend> = device.backend,
        total: Bytes = device.total,
        /// Free memory before the model is loaded.
        free: Bytes = device.free,
        swap_free: Bytes = device.ram.swap_free,
        /// Weights of its layers, and parts of other layers.
        weights: Bytes = device.weights,
        /// The part of the weights in a layout of the CPU's own.
        repacked: Bytes = device.ram.repacked,
        /// The part of the weights that nothing reads after the load: pages of a mapped file.
        read_once: Bytes = device.ram.read_once,
        cache: Bytes = device.cache,
        /// The caches when all but the last token of a prompt of this length is read; only from MLX.
        after_prompt: Option<Bytes> = device.after_prompt,
        graph: Bytes = device.graph,
        /// The compute buffer as the fit measures it, where a load takes another size.
        graph_measured: Option<Bytes> = device.graph_measured,
        /// What the engine keeps free: the sum of `reserves`.
        reserved: Bytes = device.reserved(),
        reserves: &'a [Reserve] = &device.reserves,
        /// How what the fit keeps free came about; null where nothing was fitted.
        fit_margin: Option<&'a FitMargin> = device.margin.as_ref(),
        /// What is left above what is kept free; negative where that is missing.
        headroom: Difference = headroom.above_kept(),
        /// Indices of its layers.
        layers: &'a [usize] = &device.layers,
        /// The computer that it is in; null for the one that runs the engine.
        computer: Option<&'a str> = device.computer.as_deref(),
        /// What driver and backend take besides, which no other figure has; null where that is not known.
        driver: Option<DriverMemory> = device.driver,
        /// The largest single buffer; null for the CPU, and where an engine does not know its buffers.
        largest_buffer: Option<LargestBuffer> = device.largest_buffer,
    }
}

record! {
    /// Memory that several devices share.
    PoolRecord<'a>(plan: &'a Plan, ram: RamPool) {
        id: &'static str = "RAM",
        devices: Vec<&'a str> = plan.gpus_in_ram().into_iter().chain([plan.cpu().id.as_str()]).collect(),
        total: Bytes = ram.total,
        free: Bytes = ram.free,
        swap_free: Bytes = ram.swap_free,
        /// What GPUs and CPU take of it.
        asked: Bytes = ram.asked,
        /// What is left; negative where it is missing.
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
        /// Its file as it was named; null where that is not known.
        file: Option<&'a str> = part.file.as_deref(),
    }
}

record! {
    /// What a part takes on a device.
    PartDeviceRecord<'a>(id: &'a str, memory: PartMemory) {
        id: &'a str = id,
        weights: Bytes = memory.weights,
        cache: Bytes = memory.cache,
        /// The compute buffer as reserved while loading.
        graph: Bytes = memory.graph,
        /// The compute buffer once the first batches or images have been computed.
        graph_ready: Bytes = memory.graph_ready,
    }
}

record! {
    /// A layer.
    LayerRecord<'a>(layer: &'a LayerPlan, plan: &'a Plan) {
        index: usize = layer.index,
        kind: LayerKind = plan.layer_kind(layer.index),
        device: &'a str = plan.devices.get(layer.device).map_or("", |device| &device.id),
        weights: Bytes = layer.weights,
        cache: Bytes = layer.cache,
        cache_formula: &'a str = &layer.cache_term.formula,
        /// Why it is on its device.
        why: String = layer.reason(&plan.devices),
    }
}

record! {
    /// The compute graph.
    GraphRecord<'a>(graph: &'a GraphPlan) {
        /// Where some layers are in RAM.
        partial: Bytes = graph.partial.bytes,
        /// Where all layers are on GPUs.
        full: Bytes = graph.full.bytes,
        /// Which of both is in force.
        used: GraphUse = graph.used,
        why: &'a str = &graph.why,
        /// The terms of the one in force, largest first.
        terms: &'a [Term] = graph.in_force().terms(),
        branches: Branches<'a> = Branches::of(graph),
        /// The letters of the formulas.
        letters: &'a [Symbol] = &graph.legend,
    }
}

record! {
    /// The branches of which the largest decides, for both sizes.
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
    /// A branch of a formula's `max`.
    BranchRecord<'a>(branch: &'a Branch, wins: bool) {
        name: &'a str = &branch.name,
        bytes: Bytes = branch.bytes,
        /// Whether it is the largest.
        wins: bool = wins,
        terms: &'a [Term] = &branch.terms,
    }
}
