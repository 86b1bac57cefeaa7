//! A plan: the device of every layer and the memory of every device. Views, exports and answers read plans; nothing
//! else computes memory.
//!
//! ```
//! # use plimsoll::engine::{EngineId, PlanRequest};
//! # use plimsoll::machine::Machine;
//! # use plimsoll::settings::Settings;
//! # use plimsoll::catalogue;
//! # let (model, _) = catalogue::model_and_projector("qwen3-8b").ok_or("no such model")?;
//! # let machine = Machine::described(&["RTX 3060"], "32GiB")?;
//! # let request = PlanRequest::new(EngineId::LlamaCpp, model, machine, Settings::default());
//! let plan = request.plan()?;
//! println!("{}: {} of {} layers on GPUs", plan.outcome().headline(), plan.offloaded, plan.layers.len());
//! for device in &plan.devices {
//!     println!("{}: {} weights, {} cache, {} graph", device.id, device.weights, device.cache, device.graph);
//! }
//! assert_eq!(plan.devices.iter().map(|device| device.weights).sum::<plimsoll::units::Bytes>(), plan.totals.weights);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod device;
mod graph;
mod layer;
mod margin;
mod part;
mod summary;
mod verdict;

use schemars::JsonSchema;
use serde::Serialize;

use crate::machine::{DeviceKind, Origin};
use crate::model::{Model, ModelSummary};
use crate::settings::{CacheType, EngineId, InEffect};
use crate::units::{Bytes, Difference};

pub use device::{DevicePlan, InRam};
pub use graph::{Branch, GraphPlan, GraphSize, GraphUse, Symbol, Term};
pub use layer::{LayerPlan, Why};
pub use margin::{FitMargin, MarginShare};
pub use part::LayerKind;
pub use part::{AliveKind, AliveTensors, BufferKind, Peak};
pub use part::{BufferUse, LargestBuffer};
pub use part::{OwnCache, OwnCacheKind, OwnCaches};
pub use part::{Part, PartKind, PartMemory};
pub use summary::Computer;
pub use summary::PlanSummary;
pub use summary::{LoggedBuffer, LoggedLoad, OllamaPs};
pub use verdict::Headroom;
pub use verdict::{Outcome, Verdict};
pub use verdict::{RamPool, headrooms, used_gpus};

/// The decisions of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The engine.
    pub engine: EngineId,
    /// The confidence in the figures.
    pub confidence: Confidence,
    /// Why they are not exact; empty if they are.
    pub uncertainties: Vec<Uncertainty>,
    /// Whether the machine is detected or described.
    pub origin: Origin,
    /// A summary of the model.
    pub model: ModelSummary,
    /// The settings in effect, after the engine's rules.
    pub settings: InEffect,
    /// GPUs in the machine's order, the CPU last.
    pub devices: Vec<DevicePlan>,
    /// What is loaded together, the model first; their sums are in `devices`.
    pub parts: Vec<Part>,
    /// Blocks in order, then the output layer.
    pub layers: Vec<LayerPlan>,
    /// The compute graph's memory and its explanation.
    pub graph: GraphPlan,
    /// Sums over devices.
    pub totals: Totals,
    /// The estimator's own figures; none from an engine that measures.
    pub estimate: Option<Estimate>,
    /// What Ollama's check before a load asks for; only of models stored as safetensors, whose files it adds up.
    pub load_check: Option<Bytes>,
    /// The caches of Ollama's own engine, if it runs the model and the plan only estimates them.
    pub own_caches: Option<OwnCaches>,
    /// Whether V is stored transposed, as required without flash attention: llama.cpp lays out its caches before the
    /// probe that may turn flash attention off. None without a KV cache, or if caches are estimated.
    pub v_transposed: Option<bool>,
    /// Layers on GPUs, including the output layer.
    pub offloaded: usize,
    /// Whether and where the model fits.
    pub verdict: Verdict,
    /// Why the engine would not load this, as one sentence; the layout is then the last one tried.
    pub refusal: Option<String>,
    /// The output of `ollama ps`; only from Ollama that starts llama-server.
    pub ollama_ps: Option<OllamaPs>,
    /// Adjustments and other remarks, one sentence each.
    pub notes: Vec<String>,
    /// The notes on decisions that the user did not ask for, most surprising first.
    pub decided: Vec<String>,
}

impl Plan {
    /// Adds a reason why its figures are not exact, if there is one.
    pub(crate) fn doubt(&mut self, doubt: Option<Uncertainty>) {
        self.notes.extend(doubt.iter().map(|doubt| doubt.reason.clone()));
        self.uncertainties.extend(doubt);
        self.confidence = Uncertainty::worst(&self.uncertainties);
    }

    /// The CPU, always the last device.
    ///
    /// # Panics
    /// Never: every plan has the CPU.
    pub fn cpu(&self) -> &DevicePlan {
        &self.devices[self.devices.len() - 1]
    }

    /// Where what a token needs is.
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.verdict, self.refusal.is_some(), &self.devices)
    }

    /// The outcome that lists judge by: where more of what runs from RAM is parts of layers on GPUs, such as their
    /// experts, than whole layers, as if no whole layer were there.
    pub fn mainly(&self) -> Outcome {
        Outcome::mainly(self.outcome(), &self.devices)
    }

    /// [`Outcome::short`] in lists; `mixed` where there are whole layers in RAM besides more parts of others.
    pub fn in_ram_short(&self) -> &'static str {
        match (self.outcome(), self.mainly()) {
            (outcome, main) if outcome != main => "mixed",
            (outcome, _) => outcome.short(),
        }
    }

    /// RAM as one pool.
    pub fn ram(&self) -> RamPool {
        RamPool::of(&self.devices)
    }

    /// The GPUs whose memory is RAM, at least in part.
    pub fn gpus_in_ram(&self) -> Vec<&str> {
        self.gpus().iter().filter(|gpu| gpu.shares_ram()).map(|gpu| gpu.id.as_str()).collect()
    }

    /// What GPUs take of the memory of this device: none unless it is RAM.
    pub fn lent_to_gpus(&self, device: usize) -> Bytes {
        if device + 1 == self.devices.len() { self.ram().by_gpus } else { Bytes::ZERO }
    }

    /// What a device is called: `GPU0`, `RAM`.
    pub fn device_name(&self, device: usize) -> &str {
        match self.devices.get(device) {
            Some(device) if device.kind == DeviceKind::Gpu => &device.id,
            _ => "RAM",
        }
    }

    /// Whether this device, with what GPUs take of it, is asked for more than it has, including swap.
    pub fn is_over(&self, device: usize) -> bool {
        let is_ram = device + 1 == self.devices.len();
        if is_ram { self.ram().is_over() } else { self.devices.get(device).is_some_and(DevicePlan::is_over) }
    }

    /// What is left on each device, in their order.
    pub fn headrooms(&self) -> Vec<Headroom> {
        headrooms(&self.devices)
    }

    /// What `device` has left above what must stay free there, which screens and answers call its headroom: of a GPU with
    /// layers less what its driver takes too; of RAM less what is kept for the system, of which free swap may take some.
    pub fn headroom(&self, device: usize) -> Difference {
        let (own, found) = (self.devices.get(device), self.headrooms().get(device).copied());
        match (own, found) {
            (Some(cpu), _) if cpu.kind == DeviceKind::Cpu => {
                self.ram().left().min(self.ram().above_kept()) - cpu.reserved()
            }
            (Some(gpu), Some(headroom)) if !gpu.layers.is_empty() => headroom.above(),
            (_, Some(headroom)) => headroom.above_kept(),
            (_, None) => Difference(0),
        }
    }

    /// The GPU with layers that has the least memory left above what must stay free, and its headroom.
    pub fn tightest_gpu(&self) -> Option<(&DevicePlan, Headroom)> {
        used_gpus(&self.devices).min_by_key(|(_, headroom)| headroom.above())
    }

    /// Layers on GPUs among [`Plan::layers`]; an engine may count further blocks as offloaded.
    pub fn on_gpus(&self) -> usize {
        self.gpus().iter().map(|gpu| gpu.layers.len()).sum()
    }

    /// What the loss of a pipeline saves and costs, as the end of a sentence; none if none is lost: llama.cpp reserves the
    /// compute buffers again without pipeline parallelism where those with it cannot be allocated.
    pub fn without_pipeline(&self) -> Option<String> {
        let model = self.parts.iter().find(|part| part.kind == PartKind::Model)?;
        let sizes = self.gpus().iter().zip(&model.devices).filter_map(|(gpu, memory)| {
            let pipelined = gpu.graph_pipelined.filter(|pipelined| *pipelined > memory.graph)?;
            Some((&gpu.id, format!("{} instead of {pipelined}", memory.graph)))
        });
        let sizes: Vec<(&String, String)> = sizes.collect();
        let (_, first) = sizes.first()?;
        let sizes = if sizes.iter().all(|(_, size)| size == first) {
            format!("{first} a card")
        } else {
            sizes.iter().map(|(id, size)| format!("{size} on {id}")).collect::<Vec<_>>().join(", ")
        };
        Some(format!("without pipeline parallelism: {sizes}, prompts slower"))
    }

    /// Weights in RAM that belong to layers counted on GPUs, if no layer is entirely in RAM.
    pub fn parts_in_ram(&self) -> Bytes {
        self.cpu().ram.parts
    }

    /// Number of layers on each used GPU.
    pub fn shares(&self) -> Vec<f64> {
        let used = self.gpus().iter().filter(|gpu| gpu.asked() > Bytes::ZERO);
        used.map(|gpu| gpu.layers.len() as f64).collect()
    }

    /// The engine, with its release if it has one: `llama.cpp, release 2026-11`.
    pub fn engine_title(&self) -> String {
        match self.settings.release {
            Some(release) => format!("{}, release {release}", self.engine.title()),
            None => self.engine.title().to_owned(),
        }
    }

    /// Engine and confidence: `Ollama ≤ 0.24 · exact`.
    pub fn source(&self) -> String {
        format!("{} · {}", self.engine_title(), self.confidence)
    }

    /// The caches of its layers by their formulas: how many layers have each.
    pub fn cache_formulas(&self) -> Vec<(usize, &Term)> {
        let mut kinds: Vec<(usize, &Term)> = Vec::new();
        for layer in self.layers.iter().filter(|layer| layer.cache > Bytes::ZERO) {
            let term = &*layer.cache_term;
            match kinds.iter_mut().find(|(_, known)| *known == term) {
                Some((count, _)) => *count += 1,
                None => kinds.push((1, term)),
            }
        }
        kinds
    }

    /// What each token of the context adds to the caches of all layers; none where that is not known or nothing.
    pub fn cache_per_token(&self) -> Option<Bytes> {
        let all: Bytes = self.layers.iter().map(|layer| layer.per_token).sum();
        (all > Bytes::ZERO).then_some(all)
    }

    /// GPUs in the machine's order.
    pub fn gpus(&self) -> &[DevicePlan] {
        &self.devices[..self.devices.len() - 1]
    }
}

/// The confidence in a figure, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The engine's own arithmetic.
    Exact,
    /// Based on the graph of the closest known architecture.
    Modelled,
    /// Based on an assumed constant.
    Assumed,
}

/// A reason why figures are not exact.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Uncertainty {
    /// How sure they are for this reason.
    pub confidence: Confidence,
    /// The reason, as part of a sentence.
    pub reason: String,
}

impl Uncertainty {
    /// How a reason begins that is that llama.cpp would not load a file.
    pub const REFUSES: &'static str = "llama.cpp refuses";

    /// Whether it is that llama.cpp would not load a file.
    pub fn is_refusal(&self) -> bool {
        self.reason.starts_with(Self::REFUSES)
    }

    /// Why the sizes of a model's tensors are not exact.
    pub fn of_weights(model: &Model) -> Option<Self> {
        let reason = model.mixture.as_ref()?.uncertainty()?.to_owned();
        Some(Self { confidence: Confidence::Modelled, reason })
    }

    /// Why the sizes of caches of a fork's type are assumed.
    pub fn of_cache_type(ty: CacheType) -> Option<Self> {
        let fork = ty.of_fork()?;
        let (bytes, block) = (fork.block_bytes(), fork.block());
        let reason = format!(
            "{ty} is no cache type of llama.cpp, but of {}: it is planned as {bytes} bytes for {block} values, and what \
             else such a fork does is not known",
            fork.whose()
        );
        Some(Self { confidence: Confidence::Assumed, reason })
    }

    /// The confidence that all these reasons leave.
    pub fn worst(uncertainties: &[Self]) -> Confidence {
        uncertainties.iter().map(|uncertainty| uncertainty.confidence).max().unwrap_or(Confidence::Exact)
    }
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

/// A part of an engine's reserves on a device.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Reserve {
    /// The purpose, in a few words.
    pub name: &'static str,
    /// The size.
    pub bytes: Bytes,
}

/// An estimate in the engine's own terms and numbers, as its log (`offload`) and `ollama ps` show it, including the
/// reserves on each GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Estimate {
    /// Ids of the devices, in the engine's order.
    pub devices: Vec<String>,
    /// Layers on GPUs, including the output layer.
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
    /// Weights of the vision part or projector.
    pub projector_weights: Bytes,
    /// Its compute graph.
    pub projector_graph: Bytes,
    /// The terms of that graph's size.
    pub projector_terms: Vec<Term>,
}

/// Sums over devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Totals {
    /// Weights on all devices.
    pub weights: Bytes,
    /// Caches on all devices.
    pub cache: Bytes,
    /// Graphs on all devices.
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
