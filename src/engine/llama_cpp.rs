//! llama.cpp: what llama-server allocates for a model: weights, caches and the buffers of the compute graph, to the byte.
//!
//! The reference is the llama.cpp of package `llama-cpp-sys-2`; which version of it, [`Release`] says.

pub mod architecture;
pub mod cache;
pub mod context;
pub(super) mod engine;
pub mod error;
pub(super) mod facts;
pub mod fit;
pub mod graph;
mod graph_plan;
pub mod hparams;
mod measure;
pub mod pipeline;
pub mod placement;
mod plan;
mod probe;
pub mod release;
pub mod resolved;
pub mod weights;

use crate::engine::ggml::allocate::Lifetime;
use crate::engine::ggml::schedule::{PassTrace, Schedule};
use crate::engine::ggml::tensor::BackendId;
use crate::engine::ggml::{BackendProps, Graph};
use crate::engine::id::EngineError;
use crate::engine::prepared::PreparedModel;
use crate::gguf::Header;
use crate::plan::Plan;
use crate::settings::{FlashAttn, Release, Settings};
use architecture::GraphFamily;
use cache::Memory;
use context::{ContextParams, Cparams};
use error::LoadError;
use hparams::Hparams;
use measure::Measurer;
use pipeline::Pipeline;
use placement::{Placement, SplitRequest, TensorOverride};
pub(super) use plan::{plan, preflight, resolve, summary, visible};
use release::ReleaseTraits;
use weights::Weights;

/// A model as llama.cpp sees it, ready to be measured with many settings.
#[derive(Clone, Debug)]
pub struct LoadedModel {
    /// By which release's rules.
    pub release: &'static ReleaseTraits,
    /// Whose graph it has.
    pub family: GraphFamily,
    /// Its hyperparameters.
    pub hparams: Hparams,
    /// Its tensors.
    pub weights: Weights,
}

/// A GPU as far as llama.cpp's arithmetic needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// What its buffers and operations are like.
    pub backend: BackendProps,
    /// Free bytes.
    pub free: u64,
}

/// How layers are to be spread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerSplit {
    /// Layers on GPUs, the output layer counted; none for all.
    pub gpu_layers: Option<u64>,
    /// Share of the layers per GPU; empty for the share of free memory.
    pub tensor_split: Vec<f32>,
    /// What goes elsewhere than its layer.
    pub overrides: Vec<TensorOverride>,
}

/// What is allocated: bytes per device in the order given, RAM last.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryBreakdown {
    /// Weights.
    pub model: Vec<u64>,
    /// KV caches and recurrent states.
    pub context: Vec<u64>,
    /// Buffers of the compute graph.
    pub compute: Vec<u64>,
    /// The parameters in effect.
    pub parameters: Cparams,
    /// The device of every block, then that of the output layer.
    pub homes: Vec<BackendId>,
}

impl MemoryBreakdown {
    /// Layers on GPUs, the output layer counted.
    pub fn offloaded(&self) -> usize {
        let cpu = self.model.len() - 1;
        self.homes.iter().filter(|home| usize::from(**home) < cpu).count()
    }

    /// All that is asked of a device.
    fn total(&self, device: usize) -> u64 {
        self.model[device] + self.context[device] + self.compute[device]
    }
}

/// How a figure came about, for those who want to watch.
#[derive(Clone, Debug)]
pub struct AllocationDetails {
    /// Where caches are, and how large.
    pub memory: Memory,
    /// The graph, with the scheduler's copies.
    pub graph: Graph,
    /// Its splits and order.
    pub schedule: Schedule,
    /// What is alive when.
    pub lifetimes: Vec<Lifetime>,
    /// Whether devices work as a pipeline, and why or why not.
    pub pipeline: Pipeline,
}

/// What devices' buffers and operations are like, RAM last.
fn backends(devices: &[Device]) -> Vec<BackendProps> {
    devices.iter().map(|device| device.backend.clone()).chain([BackendProps::CPU]).collect()
}

/// What the caches of `plan`, which is one of `model`, keep and in what shapes. Where their homes are is in the plan.
///
/// # Errors
/// When llama.cpp cannot read the model or refuses the settings.
pub fn cache_layout(model: &PreparedModel, plan: &Plan, settings: &Settings) -> Result<Memory, EngineError> {
    let effect = &plan.settings;
    let loaded = model.llama_cpp(settings.release.unwrap_or_default())?;
    let options = ContextParams {
        n_ctx: effect.ctx_total,
        n_batch: effect.batch,
        n_ubatch: effect.ubatch,
        n_seq_max: effect.parallel,
        type_k: effect.cache_type_k.format(),
        type_v: effect.cache_type_v.format(),
        flash_attn: match plan.v_transposed {
            Some(true) => FlashAttn::Off,
            Some(false) => FlashAttn::On,
            None => effect.flash_attn,
        },
        kv_unified: effect.kv_unified.unwrap_or(false),
        swa_full: settings.swa_full,
        ..ContextParams::default()
    };
    let placement = loaded.place(&[], &LayerSplit::default());
    Ok(Measurer::new(loaded, &[]).memory(&placement, &options)?)
}

impl LoadedModel {
    /// Reads a header.
    ///
    /// # Errors
    /// When it lacks what llama.cpp of that release cannot do without.
    pub fn new(header: &Header, release: Release) -> Result<Self, LoadError> {
        let release = ReleaseTraits::of(release);
        let family = GraphFamily::of(header);
        let mut hparams = Hparams::read(header, family.architecture, release)?;
        let weights = Weights::read(header, hparams.n_layer_all)?;
        if !family.exact {
            hparams.read_blocks(header, &weights)?;
        }
        Ok(Self { release, family, hparams, weights })
    }

    /// What llama.cpp allocates on `devices` and in RAM.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn measure(
        &self,
        devices: &[Device],
        spread: &LayerSplit,
        options: &ContextParams,
    ) -> Result<MemoryBreakdown, LoadError> {
        Measurer::new(self, devices).measure(&self.place(devices, spread), options)
    }

    /// The same, and how the compute buffers came about. `passes` receives every tensor's device after each pass.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn measure_traced(
        &self,
        devices: &[Device],
        spread: &LayerSplit,
        options: &ContextParams,
        passes: Option<&mut PassTrace>,
    ) -> Result<(MemoryBreakdown, AllocationDetails), LoadError> {
        Measurer::new(self, devices).measure_traced(&self.place(devices, spread), options, passes)
    }

    /// Bytes of weights and caches per device, RAM last: what a placement takes at least, whatever its graph.
    fn without_graph(&self, placement: &Placement, context: &Cparams, backends: &[BackendProps]) -> Vec<u64> {
        let memory = Memory::new(&self.hparams, self.family.architecture, context, placement);
        let weights = placement.weights(self, backends);
        weights.into_iter().zip(memory.bytes(backends)).map(|(weights, cache)| weights + cache).collect()
    }

    /// How layers are spread over `devices`.
    fn place(&self, devices: &[Device], spread: &LayerSplit) -> Placement {
        let free: Vec<u64> = devices.iter().map(|device| device.free).collect();
        let request = SplitRequest {
            gpu_layers: spread.gpu_layers,
            tensor_split: &spread.tensor_split,
            free: &free,
            overrides: &spread.overrides,
        };
        Placement::new(&self.hparams, &request)
    }
}
