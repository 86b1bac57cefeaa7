//! A plan as one JSON object; the keys are stable.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::answer::compare::OtherRelease;
use crate::answer::ram::RamUse;
use crate::engine::{ServerCommand, ServerStart, ServerStarts};
use crate::machine::budget::DriverMemory;
use crate::machine::{DeviceKind, Origin};
use crate::model::ModelSummary;
use crate::plan::{
    Branch, Computer, Confidence, DevicePlan, Estimate, GraphPlan, GraphSize, GraphUse, Headroom, LargestBuffer,
    LayerKind, OllamaPs, Outcome, OwnCaches, Part, PartKind, PartMemory, Plan, Reserve, Symbol, Term, Totals,
    Uncertainty, Verdict,
};
use crate::settings::{InEffect, Release};
use crate::speed::Speed;
use crate::text;
use crate::units::{Bytes, Difference};

/// `plan` as the object that `--json` prints: sizes are integers in bytes, keys are in a fixed order.
///
/// # Errors
/// Only if a number is not representable in JSON, which plans do not contain.
pub fn json(plan: &Plan) -> serde_json::Result<String> {
    text::json(&object(plan))
}

/// What an object has besides its plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Besides<'a> {
    /// The modelled speed of the plan, if it can be known.
    pub speed: Option<&'a Speed>,
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
    let Besides { speed, ram, starts, releases } = *besides;
    let launch = starts.and_then(LaunchRecord::of);
    text::json(&Object { speed, launch, ram, releases, ..Object::of(plan) })
}

/// The object of [`json`], to embed in another.
pub fn object(plan: &Plan) -> impl Serialize + '_ {
    Object::of(plan)
}

#[derive(Serialize)]
struct Object<'a> {
    plimsoll: &'static str,
    engine: &'static str,
    release: Option<Release>,
    confidence: Confidence,
    confidence_reasons: &'a [Uncertainty],
    origin: Origin,
    model: &'a ModelSummary,
    settings: &'a InEffect,
    devices: Vec<DeviceRecord<'a>>,
    /// RAM as one pool, where GPUs take memory of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pools: Vec<PoolRecord<'a>>,
    parts: Vec<PartRecord<'a>>,
    layers: Vec<LayerRecord<'a>>,
    graph: GraphRecord<'a>,
    totals: Totals,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    computers: Vec<Computer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<&'a Estimate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    own_caches: Option<&'a OwnCaches>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ollama_ps: Option<OllamaPsRecord>,
    offloaded: usize,
    layer_count: usize,
    parts_in_ram: Bytes,
    verdict: Verdict,
    outcome: Outcome,
    refused: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed: Option<&'a Speed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    launch: Option<LaunchRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ram: Option<&'a RamUse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    releases: Option<&'a [OtherRelease]>,
    notes: &'a [String],
}

impl<'a> Object<'a> {
    fn of(plan: &'a Plan) -> Self {
        let layer = |layer: &'a crate::plan::LayerPlan| LayerRecord {
            index: layer.index,
            kind: plan.layer_kind(layer.index),
            device: plan.devices.get(layer.device).map_or("", |device| &device.id),
            weights: layer.weights,
            cache: layer.cache,
            cache_formula: &layer.cache_term.formula,
            why: layer.reason(&plan.devices),
        };
        Self {
            plimsoll: env!("CARGO_PKG_VERSION"),
            engine: plan.engine.name(),
            release: plan.settings.release,
            confidence: plan.confidence,
            confidence_reasons: &plan.uncertainties,
            origin: plan.origin,
            model: &plan.model,
            settings: &plan.settings,
            devices: plan.devices.iter().zip(plan.headrooms()).map(DeviceRecord::of).collect(),
            pools: PoolRecord::of(plan).into_iter().collect(),
            parts: plan.parts.iter().map(|part| PartRecord::of(part, plan)).collect(),
            layers: plan.layers.iter().map(layer).collect(),
            graph: GraphRecord::of(&plan.graph),
            totals: plan.totals,
            computers: Some(plan.computers()).filter(|all| all.len() > 1).unwrap_or_default(),
            estimate: plan.estimate.as_ref(),
            own_caches: plan.own_caches.as_ref(),
            ollama_ps: plan.ollama_ps.map(OllamaPsRecord::of),
            offloaded: plan.offloaded,
            layer_count: plan.layers.len(),
            parts_in_ram: plan.parts_in_ram(),
            verdict: plan.verdict,
            outcome: plan.outcome(),
            refused: plan.refusal.as_deref(),
            speed: None,
            launch: None,
            ram: None,
            releases: None,
            notes: &plan.notes,
        }
    }
}

/// The first start of llama-server, and all of them.
#[derive(Serialize)]
struct LaunchRecord<'a> {
    args: &'a [String],
    env: &'a BTreeMap<String, String>,
    gpus: &'a [usize],
    predicted: u64,
    /// What the fit keeps free on each GPU.
    margin: Bytes,
    starts: &'a [ServerStart],
}

impl<'a> LaunchRecord<'a> {
    fn of(starts: &'a ServerStarts) -> Option<Self> {
        let ServerStart { command, gpus, predicted, .. } = starts.starts.first()?;
        let stated = command.env.get("LLAMA_ARG_FIT_TARGET").and_then(|mib| mib.parse().ok());
        let margin = stated.map_or(Bytes::gib(1), Bytes::mib);
        let ServerCommand { args, env, .. } = command;
        Some(Self { args, env, gpus, predicted: *predicted, margin, starts: &starts.starts })
    }
}

/// The columns of `ollama ps`, in bytes and as printed.
#[derive(Serialize)]
struct OllamaPsRecord {
    size: Bytes,
    vram: Bytes,
    size_column: String,
    processor_column: String,
}

impl OllamaPsRecord {
    fn of(ollama_ps: OllamaPs) -> Self {
        let OllamaPs { size, vram } = ollama_ps;
        Self { size, vram, size_column: ollama_ps.size_column(), processor_column: ollama_ps.processor_column() }
    }
}

#[derive(Serialize)]
struct DeviceRecord<'a> {
    id: &'a str,
    kind: DeviceKind,
    name: &'a str,
    backend: Option<crate::machine::Backend>,
    total: Bytes,
    free: Bytes,
    swap_free: Bytes,
    weights: Bytes,
    #[serde(skip_serializing_if = "is_zero")]
    repacked: Bytes,
    #[serde(skip_serializing_if = "is_zero")]
    read_once: Bytes,
    cache: Bytes,
    graph: Bytes,
    reserved: Bytes,
    reserves: &'a [Reserve],
    /// What is left above what is kept free; negative where that is missing.
    headroom: Difference,
    layers: &'a [usize],
    #[serde(skip_serializing_if = "Option::is_none")]
    computer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<DriverMemory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    largest_buffer: Option<LargestBuffer>,
}

impl<'a> DeviceRecord<'a> {
    fn of((device, headroom): (&'a DevicePlan, Headroom)) -> Self {
        Self {
            id: &device.id,
            kind: device.kind,
            name: &device.name,
            backend: device.backend,
            total: device.total,
            free: device.free,
            swap_free: device.swap_free,
            weights: device.weights,
            repacked: device.repacked,
            read_once: device.read_once,
            cache: device.cache,
            graph: device.graph,
            reserved: device.reserved(),
            reserves: &device.reserves,
            headroom: headroom.above_kept(),
            layers: &device.layers,
            computer: device.computer.as_deref(),
            driver: device.driver,
            largest_buffer: device.largest_buffer,
        }
    }
}

/// Memory that several devices share.
#[derive(Serialize)]
struct PoolRecord<'a> {
    id: &'static str,
    devices: Vec<&'a str>,
    total: Bytes,
    free: Bytes,
    swap_free: Bytes,
    asked: Bytes,
    left: Difference,
}

impl<'a> PoolRecord<'a> {
    fn of(plan: &'a Plan) -> Option<Self> {
        let ram = plan.ram();
        let gpus = plan.gpus_in_ram();
        (!gpus.is_empty()).then(|| Self {
            id: "RAM",
            devices: gpus.into_iter().chain([plan.cpu().id.as_str()]).collect(),
            total: ram.total,
            free: ram.free,
            swap_free: ram.swap_free,
            asked: ram.asked,
            left: ram.left(),
        })
    }
}

/// Whether there is nothing to say.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(bytes: &Bytes) -> bool {
    *bytes == Bytes::ZERO
}

/// What is loaded together, each with its memory on every device.
#[derive(Serialize)]
struct PartRecord<'a> {
    name: PartKind,
    devices: Vec<PartDeviceRecord<'a>>,
    file: Option<&'a str>,
}

#[derive(Serialize)]
struct PartDeviceRecord<'a> {
    id: &'a str,
    weights: Bytes,
    cache: Bytes,
    graph: Bytes,
    graph_ready: Bytes,
}

impl<'a> PartRecord<'a> {
    fn of(part: &'a Part, plan: &'a Plan) -> Self {
        let record = |(device, memory): (&'a DevicePlan, &PartMemory)| PartDeviceRecord {
            id: &device.id,
            weights: memory.weights,
            cache: memory.cache,
            graph: memory.graph,
            graph_ready: memory.graph_ready,
        };
        let devices = plan.devices.iter().zip(&part.devices).map(record).collect();
        Self { name: part.kind, devices, file: part.file.as_deref() }
    }
}

#[derive(Serialize)]
struct LayerRecord<'a> {
    index: usize,
    kind: LayerKind,
    device: &'a str,
    weights: Bytes,
    cache: Bytes,
    cache_formula: &'a str,
    why: String,
}

#[derive(Serialize)]
struct GraphRecord<'a> {
    partial: Bytes,
    full: Bytes,
    used: GraphUse,
    why: &'a str,
    terms: &'a [Term],
    branches: Branches<'a>,
    letters: &'a [Symbol],
}

#[derive(Serialize)]
struct Branches<'a> {
    partial: Vec<BranchRecord<'a>>,
    full: Vec<BranchRecord<'a>>,
}

#[derive(Serialize)]
struct BranchRecord<'a> {
    name: &'a str,
    bytes: Bytes,
    wins: bool,
    terms: &'a [Term],
}

impl<'a> GraphRecord<'a> {
    fn of(graph: &'a GraphPlan) -> Self {
        let branches = |size: &'a GraphSize| {
            let one = |(index, branch): (usize, &'a Branch)| BranchRecord {
                name: &branch.name,
                bytes: branch.bytes,
                wins: index == size.winner,
                terms: &branch.terms,
            };
            size.branches.iter().enumerate().map(one).collect()
        };
        Self {
            partial: graph.partial.bytes,
            full: graph.full.bytes,
            used: graph.used,
            why: &graph.why,
            terms: graph.in_force().terms(),
            branches: Branches { partial: branches(&graph.partial), full: branches(&graph.full) },
            letters: &graph.legend,
        }
    }
}
