//! A plan: where every layer goes and what every device is asked for. Views, exports and answers read it;
//! nothing else does arithmetic on memory.

mod computers;
mod knob;
mod ollama_ps;
mod own_caches;
mod peak;
mod summary;
mod verdict;
mod why;

use std::sync::Arc;

use serde::Serialize;

use crate::engine::id::EngineId;
use crate::machine::{Backend, DeviceKind, Gpu, Origin, Ram};
use crate::model::ModelSummary;
use crate::settings::InEffect;
use crate::units::Bytes;

pub use computers::Computer;
pub use ollama_ps::OllamaPs;
pub use own_caches::{OwnCache, OwnCacheKind, OwnCaches};
pub use peak::{AliveKind, AliveTensors, BufferKind, Peak};
pub use summary::PlanSummary;
pub use verdict::{FitStatus, Verdict};

/// What an engine decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Who decided.
    pub engine: EngineId,
    /// How sure the figures are.
    pub confidence: Confidence,
    /// Whether the machine is the one in front of us.
    pub origin: Origin,
    /// The model, in short.
    pub model: ModelSummary,
    /// The knobs in effect, after the engine's own rules.
    pub settings: InEffect,
    /// GPUs in the machine's order, the CPU last.
    pub devices: Vec<DevicePlan>,
    /// Blocks in order, then the output layer.
    pub layers: Vec<LayerPlan>,
    /// The compute graph's memory and how it comes about.
    pub graph: GraphPlan,
    /// Sums over devices.
    pub totals: Totals,
    /// What an engine that plans by an estimate of its own says of it; none where it measures.
    pub estimate: Option<Estimate>,
    /// What the Ollama engine's own caches take, where it runs the model and the plan only estimates them.
    pub own_caches: Option<OwnCaches>,
    /// V was laid out with tokens along rows, for attention without flash attention: llama.cpp lays out its caches before
    /// the trial that may turn that off. None where there is no KV cache, or the plan only estimates caches.
    pub v_transposed: Option<bool>,
    /// Layers on GPUs, the output layer counted.
    pub offloaded: usize,
    /// Does it fit, and where?
    pub verdict: Verdict,
    /// Why the engine would not load this, in one sentence; the layout is then what it tried last.
    pub refusal: Option<String>,
    /// What `ollama ps` would print of it; only from the Ollama that starts llama-server.
    pub ollama_ps: Option<OllamaPs>,
    /// What the engine adjusted or what is worth knowing, one sentence each.
    pub notes: Vec<String>,
    /// Those of the notes that say what the engine decided by itself, the most surprising first.
    pub decided: Vec<String>,
}

impl Plan {
    /// The CPU's share; it is always the last device.
    ///
    /// # Panics
    /// Never: every engine lists the CPU.
    pub fn cpu(&self) -> &DevicePlan {
        &self.devices[self.devices.len() - 1]
    }

    /// How it stands, as people should read it.
    pub fn fit_status(&self) -> FitStatus {
        FitStatus::of(self.verdict, self.parts_in_ram())
    }

    /// Layers on GPUs, of those in [`Plan::layers`]; an engine may count further blocks among those that are offloaded.
    pub fn on_gpus(&self) -> usize {
        self.gpus().iter().map(|gpu| gpu.layers.len()).sum()
    }

    /// Weights of layers that count as on GPUs and run from RAM, where no layer is there as a whole.
    pub fn parts_in_ram(&self) -> Bytes {
        self.cpu().parts
    }

    /// Layers on each GPU that is asked for something.
    pub fn shares(&self) -> Vec<f64> {
        let used = self.gpus().iter().filter(|gpu| gpu.asked() > Bytes::ZERO);
        used.map(|gpu| gpu.layers.len() as f64).collect()
    }

    /// Who decided, with the release where that matters: `llama.cpp, release 2026-11`.
    pub fn engine_title(&self) -> String {
        match self.settings.release {
            Some(release) => format!("{}, release {release}", self.engine.title()),
            None => self.engine.title().to_owned(),
        }
    }

    /// Who says so and how sure it is: `Ollama ≤ 0.24 · exact`.
    pub fn source(&self) -> String {
        format!("{} · {}", self.engine_title(), self.confidence)
    }

    /// GPUs in the machine's order.
    pub fn gpus(&self) -> &[DevicePlan] {
        &self.devices[..self.devices.len() - 1]
    }
}

/// How sure a figure is; the surer comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The engine's own arithmetic, reproduced.
    Exact,
    /// The nearest family's graph stands in for this architecture's.
    Modelled,
    /// It rests on an assumed constant.
    Assumed,
}

impl std::fmt::Display for Confidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Exact => "exact",
            Self::Modelled => "modelled",
            Self::Assumed => "assumed",
        })
    }
}

/// What one device is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicePlan {
    /// `GPU0`, `GPU1`, …, `CPU`.
    pub id: String,
    /// GPU or CPU.
    pub kind: DeviceKind,
    /// What people call it.
    pub name: String,
    /// The library behind it; none for the CPU.
    pub backend: Option<Backend>,
    /// All of its memory.
    pub total: Bytes,
    /// What was free before the model.
    pub free: Bytes,
    /// Further memory that may take what does not fit: swap, for the CPU.
    pub swap_free: Bytes,
    /// Weights of its layers, and parts of others.
    pub weights: Bytes,
    /// Of these, what belongs to layers that count as on GPUs; told of a CPU that has no layer of its own.
    pub parts: Bytes,
    /// KV or recurrent caches of its layers.
    pub cache: Bytes,
    /// The compute graph's buffers.
    pub graph: Bytes,
    /// What the engine keeps back here, part by part.
    pub reserves: Vec<Reserve>,
    /// Indices into [`Plan::layers`], ascending.
    pub layers: Vec<usize>,
    /// The computer that it is in, where that is another one which joined.
    pub computer: Option<Arc<str>>,
}

impl DevicePlan {
    /// A GPU of the machine with nothing on it.
    pub fn of_gpu(index: usize, gpu: &Gpu) -> Self {
        Self {
            id: format!("GPU{index}"),
            kind: DeviceKind::Gpu,
            name: gpu.name.clone(),
            backend: Some(gpu.backend),
            total: gpu.total,
            free: gpu.free,
            swap_free: Bytes::ZERO,
            weights: Bytes::ZERO,
            parts: Bytes::ZERO,
            cache: Bytes::ZERO,
            graph: Bytes::ZERO,
            reserves: Vec::new(),
            layers: Vec::new(),
            computer: gpu.computer.clone(),
        }
    }

    /// RAM with nothing in it.
    pub fn of_ram(ram: Ram) -> Self {
        Self {
            id: "CPU".to_owned(),
            kind: DeviceKind::Cpu,
            name: "RAM".to_owned(),
            backend: None,
            total: ram.total,
            free: ram.free,
            swap_free: ram.swap_free,
            weights: Bytes::ZERO,
            parts: Bytes::ZERO,
            cache: Bytes::ZERO,
            graph: Bytes::ZERO,
            reserves: Vec::new(),
            layers: Vec::new(),
            computer: None,
        }
    }

    /// Counts a layer that is here.
    pub fn hold(&mut self, layer: &LayerPlan) {
        self.weights += layer.weights;
        self.cache += layer.cache;
        self.layers.push(layer.index);
    }

    /// Weights, cache and graph together: what is allocated here.
    pub fn asked(&self) -> Bytes {
        self.weights + self.cache + self.graph
    }

    /// Everything the engine keeps back here.
    pub fn reserved(&self) -> Bytes {
        self.reserves.iter().map(|reserve| reserve.bytes).sum()
    }

    /// What is free here, and neither asked for nor kept back.
    pub fn left(&self) -> Bytes {
        self.free - self.asked() - self.reserved()
    }

    /// What something else already holds.
    pub fn in_use(&self) -> Bytes {
        self.total - self.free
    }

    /// More is asked for than is free, swap included.
    pub fn is_over(&self) -> bool {
        self.asked() > self.free + self.swap_free
    }
}

/// A part of what an engine keeps back on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reserve {
    /// What it is for, in a few words.
    pub name: &'static str,
    /// How much.
    pub bytes: Bytes,
}

/// One layer and its home.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerPlan {
    /// Block number; the output layer's is the number of blocks.
    pub index: usize,
    /// Index into [`Plan::devices`].
    pub device: usize,
    /// Bytes of its weights.
    pub weights: Bytes,
    /// Bytes of its cache.
    pub cache: Bytes,
    /// Where the cache's bytes come from; layers of one kind share it. A layer without tensors has no cache, and this
    /// says what it would be.
    pub cache_term: Arc<Term>,
    /// Why it is there.
    pub why: Why,
}

impl LayerPlan {
    /// What it takes on its device: weights and cache, without parts that are on others.
    pub fn here(&self) -> Bytes {
        match self.why {
            Why::InPart { needed, .. } => needed,
            _ => self.weights + self.cache,
        }
    }

    /// Weights of it that are on other devices.
    pub fn elsewhere(&self) -> Bytes {
        match self.why {
            Why::InPart { elsewhere, .. } => elsewhere,
            _ => Bytes::ZERO,
        }
    }
}

/// Why a layer is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It fitted: there were `room` bytes left on the device before it, of which it needed `needed`.
    Fits {
        /// Weights and cache of the layer.
        needed: Bytes,
        /// Free bytes, less everything kept back and the layers placed before.
        room: Bytes,
    },
    /// It is there but for a part of its weights, such as its experts.
    InPart {
        /// Weights and cache of the layer on its device.
        needed: Bytes,
        /// Weights of it on other devices.
        elsewhere: Bytes,
    },
    /// No GPU had room for it; `room` is what the device that was tried last still had.
    NoRoom {
        /// Weights and cache of the layer, and what the graph would have grown by where the engine counts that.
        needed: Bytes,
        /// Free bytes, less everything kept back and the layers placed before.
        room: Bytes,
        /// Index into [`Plan::devices`] of the GPU that was tried.
        device: usize,
    },
    /// The person asked for this number of layers on GPUs.
    AskedFor,
    /// The person asked for fewer layers on GPUs.
    NotAskedFor,
    /// Not everything fits, so the engine keeps the output layer in RAM.
    OutputDropped,
    /// There is no GPU to put it on.
    NoGpu,
    /// The engine had stopped filling the last GPU, because an earlier layer in its order had no room there.
    GivenUp {
        /// Index into [`Plan::devices`] of that GPU.
        device: usize,
        /// Index into [`Plan::layers`] of the layer that had no room.
        layer: usize,
    },
    /// There is nothing of it to place: it has no tensors.
    Nothing,
}

/// The compute graph's memory.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphPlan {
    /// When some layer is in RAM.
    pub partial: GraphSize,
    /// When every layer is on GPUs.
    pub full: GraphSize,
    /// Which of the two is in force.
    pub used: GraphUse,
    /// Why, in one sentence.
    pub why: String,
    /// What the letters of these formulas, and of the caches', stand for in this plan.
    pub legend: Vec<Symbol>,
    /// The fullest moment of each device's buffer, GPUs in order, the CPU last; none where the engine has a formula
    /// instead.
    pub peaks: Vec<Peak>,
}

/// A letter of a formula, what it stands for, and its value in this plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Symbol {
    /// As it is written in formulas: `H_kv`.
    pub letter: &'static str,
    /// `KV heads, the most that a layer has`
    pub meaning: &'static str,
    /// As it is put into formulas: `8`.
    pub value: String,
}

impl GraphPlan {
    /// The one in force.
    pub fn in_force(&self) -> &GraphSize {
        match self.used {
            GraphUse::Partial => &self.partial,
            GraphUse::Full => &self.full,
        }
    }
}

/// Which graph size is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum GraphUse {
    Full,
    Partial,
}

/// One graph size and how it comes about: every branch of its `max`, and the one that wins.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphSize {
    /// The size in effect.
    pub bytes: Bytes,
    /// What the architecture's own formula gives, before the engine's fallbacks; zero where it has none.
    pub own: Bytes,
    /// The branches of the formula's `max`; one where there is no choice, none where there is no graph.
    pub branches: Vec<Branch>,
    /// Index into `branches` of the one that wins.
    pub winner: usize,
}

impl GraphSize {
    /// The terms of the winning branch, largest first.
    pub fn terms(&self) -> &[Term] {
        self.branches.get(self.winner).map_or(&[], |branch| &branch.terms)
    }
}

/// One branch of a `max`.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// What it stands for: `attention`, `logits`.
    pub name: String,
    /// Sum of its terms.
    pub bytes: Bytes,
    /// Largest first.
    pub terms: Vec<Term>,
}

/// One term of a formula: where some bytes come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Term {
    /// What it is: `attention scores`.
    pub name: String,
    /// The formula in the field's letters: `4·B·C·H`.
    pub formula: String,
    /// The same with the numbers put in: `4·512·8192·32`.
    pub numbers: String,
    /// Its value.
    pub bytes: Bytes,
}

impl Term {
    /// There is nothing, and no formula for it.
    pub fn nothing(name: &str) -> Self {
        Self { name: name.to_owned(), formula: "0".to_owned(), numbers: "0".to_owned(), bytes: Bytes::ZERO }
    }
}

/// An estimate in the engine's own words and numbers: what its log shows as `offload`, and `ollama ps` as a size.
/// Beside what the layers take it counts what is kept back on each GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// Ids of the devices that it is made for, in the order in which the engine goes through them.
    pub devices: Vec<String>,
    /// Layers that it places on GPUs, the output layer counted.
    pub layers: usize,
    /// The graph of each GPU.
    pub graph: Bytes,
    /// Everything on GPUs.
    pub vram_size: Bytes,
    /// Everything.
    pub total_size: Bytes,
    /// Layers of each device; empty when none is placed.
    pub tensor_split: Vec<usize>,
    /// Bytes of each device; empty when no layer is placed.
    pub gpu_sizes: Vec<Bytes>,
    /// Weights of what turns images into embeddings.
    pub projector_weights: Bytes,
    /// Its compute graph.
    pub projector_graph: Bytes,
    /// How that graph's size comes about.
    pub projector_terms: Vec<Term>,
}

/// Sums over devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Weights everywhere.
    pub weights: Bytes,
    /// Caches everywhere.
    pub cache: Bytes,
    /// Graphs everywhere.
    pub graph: Bytes,
    /// Weights, cache and graph on GPUs.
    pub gpu: Bytes,
    /// Weights, cache and graph in RAM.
    pub cpu: Bytes,
    /// Everything.
    pub all: Bytes,
}

impl Totals {
    /// Sums `devices`.
    pub fn of(devices: &[DevicePlan]) -> Self {
        let mut totals = Self::default();
        for device in devices {
            totals.weights += device.weights;
            totals.cache += device.cache;
            totals.graph += device.graph;
            match device.kind {
                DeviceKind::Gpu => totals.gpu += device.asked(),
                DeviceKind::Cpu => totals.cpu += device.asked(),
            }
        }
        totals.all = totals.gpu + totals.cpu;
        totals
    }
}
