//! llama.cpp: what llama-server allocates for a model, to the byte: weights, caches and compute buffers.
//!
//! The reference is the llama.cpp of package `llama-cpp-sys-2`; [`Release`] names the versions.

pub mod architectures;
pub mod cache;
pub mod context;
pub mod draft;
pub(super) mod engine;
pub mod error;
pub mod fit;
pub mod graph;
pub mod hparams;
mod measure;
pub mod placement;
mod plan;
pub mod projector;
pub mod release;
pub mod weights;

use std::sync::Arc;

use crate::engine::ggml::allocate::{Lifetime, Piece};
use crate::engine::ggml::schedule::{PassTrace, Schedule};
use crate::engine::ggml::tensor::BackendId;
use crate::engine::ggml::{BackendRef, Graph};
use crate::engine::id::EngineError;
use crate::engine::prepared::PreparedModel;
use crate::gguf::{Header, Value};
use crate::machine::CpuInstructions;
use crate::plan::Plan;
use crate::settings::{FlashAttn, Release, Settings};
use architectures::{GraphFamily, Trait};
use cache::Memory;
use context::{ContextParams, Cparams};
use draft::DeviceBytes;
use error::LoadError;
use hparams::{HeaderKeys, Hparams};
use measure::Measurer;
pub use measure::{DeviceBuffers, Pipeline, RequestBuffers, Reservation, ResolvedRequest};
use placement::{Placement, SplitRequest, TensorOverride};
pub use plan::{Evidence, Likeness, ModelledError, evidence};
pub(super) use plan::{gpus as visible, plan, preflight, resolve, summary};
use release::ReleaseTraits;
use weights::{Layouts, LlmTensor, WeightHomes, Weights, WeightsInRam};

/// A model as loaded by llama.cpp, ready to be measured with any settings.
#[derive(Clone, Debug)]
pub struct LoadedModel {
    /// The release whose rules apply.
    pub release: &'static ReleaseTraits,
    /// The family of its graph.
    pub family: GraphFamily,
    /// Its hyperparameters.
    pub hparams: Hparams,
    /// Its tensors.
    pub weights: Weights,
}

/// A GPU as needed by llama.cpp's arithmetic.
#[derive(Clone, Debug)]
pub struct Device {
    /// Properties of its buffers and operations.
    pub backend: BackendRef,
    /// Free bytes.
    pub free: u64,
}

/// How layers are split over the devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerSplit {
    /// Layers on GPUs, including the output layer; none for all.
    pub gpu_layers: Option<u64>,
    /// Share of the layers per GPU; empty to split by free memory.
    pub tensor_split: Vec<f32>,
    /// Tensors placed on another device than their layer.
    pub overrides: Vec<TensorOverride>,
    /// MTP blocks are loaded.
    pub load_mtp: bool,
    /// The instructions of the CPU for which weights in RAM are repacked; `None` if they are not.
    pub repack_for: CpuInstructions,
}

/// Allocated bytes per device, in the given order with RAM last.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryBreakdown {
    /// Weights.
    pub model: Vec<u64>,
    /// KV caches and recurrent states.
    pub context: Vec<u64>,
    /// Compute buffers.
    pub compute: Vec<u64>,
    /// The context parameters in effect.
    pub parameters: Cparams,
    /// The device of every block, then that of the output layer.
    pub layer_devices: Vec<BackendId>,
    /// The weights in RAM by buffers.
    pub in_ram: WeightsInRam,
    /// Per device the weights, the largest cache and the compute buffer, each with its largest tensor.
    pub pieces: Vec<[Piece; 3]>,
    /// The compute buffers of a pipeline that could not be allocated, so that these are without one.
    pub refused_pipeline: Option<Vec<u64>>,
}

impl MemoryBreakdown {
    /// Layers on GPUs, including the output layer.
    pub fn offloaded(&self) -> usize {
        let cpu = self.model.len() - 1;
        self.layer_devices.iter().filter(|device| usize::from(**device) < cpu).count()
    }

    /// The same with `more` bytes.
    fn with(&self, more: &DeviceBytes) -> Self {
        let sum = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| a + b).collect();
        Self {
            model: sum(&self.model, &more.model),
            context: sum(&self.context, &more.context),
            compute: sum(&self.compute, &more.compute),
            ..self.clone()
        }
    }

    /// All bytes on a device.
    fn total(&self, device: usize) -> u64 {
        self.model[device] + self.context[device] + self.compute[device]
    }
}

/// Graph, schedule and allocation behind a measurement.
#[derive(Clone, Debug)]
pub struct AllocationDetails {
    /// The caches with devices and sizes.
    pub memory: Memory,
    /// The graph, with the scheduler's copies.
    pub graph: Graph,
    /// Its splits and order.
    pub schedule: Schedule,
    /// The lifetime of every allocation.
    pub lifetimes: Vec<Lifetime>,
    /// Whether pipeline parallelism is used, and why or why not.
    pub pipeline: Pipeline,
    /// The graph of one token per sequence, if it was reserved besides.
    pub token: Option<TokenGraph>,
}

/// The graph of one token per sequence, as it is reserved beside the prompt graph.
#[derive(Clone, Debug)]
pub struct TokenGraph {
    /// The graph, with the scheduler's copies.
    pub graph: Graph,
    /// Its splits and order.
    pub schedule: Schedule,
    /// The lifetime of every allocation.
    pub lifetimes: Vec<Lifetime>,
    /// What each device reserves for it.
    pub reserved: Vec<Piece>,
}

/// A graph as it is allocated.
#[derive(Clone, Copy, Debug)]
struct Allocated<'a> {
    graph: &'a Graph,
    schedule: &'a Schedule,
    lifetimes: &'a [Lifetime],
}

impl AllocationDetails {
    /// The graph that reserves most on `place`.
    fn largest_on(&self, place: BackendId) -> Allocated<'_> {
        let here = |lifetimes: &[Lifetime]| {
            let on_place = lifetimes.iter().filter(|life| life.place == place);
            on_place.map(|life| (life.chunk, life.offset.saturating_add(life.bytes))).max()
        };
        let token = self.token.as_ref().filter(|token| here(&token.lifetimes) > here(&self.lifetimes));
        token.map_or(Allocated { graph: &self.graph, schedule: &self.schedule, lifetimes: &self.lifetimes }, |token| {
            Allocated { graph: &token.graph, schedule: &token.schedule, lifetimes: &token.lifetimes }
        })
    }
}

/// The devices' backends, the CPU last. RAM is allocated in the host buffers of the first GPU if that has some.
fn backends(devices: &[Device]) -> Vec<BackendRef> {
    let cpu = devices.first().and_then(|device| device.backend.host()).unwrap_or_default();
    let gpus = devices.iter().map(|device| Arc::clone(&device.backend));
    gpus.chain([Arc::new(cpu) as BackendRef]).collect()
}

/// The caches of `plan`, which is a plan of `model`, and their shapes. Their devices are in the plan.
///
/// # Errors
/// When llama.cpp cannot read the model or refuses the settings.
pub fn cache_layout(model: &PreparedModel, plan: &Plan, settings: &Settings) -> Result<Memory, EngineError> {
    let effect = &plan.settings;
    let loaded = model.llama_cpp(effect.release.or(settings.release).unwrap_or_default())?;
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
    /// When it lacks what this release of llama.cpp requires.
    pub fn new(header: &Header, release: Release) -> Result<Self, LoadError> {
        let release = ReleaseTraits::of(release);
        let family = GraphFamily::of(header);
        if family.architecture.has(Trait::HasNoLoader) {
            return Err(LoadError::model(
                "llama.cpp refuses it: it lists this architecture, but cannot load it (unsupported model architecture)",
            ));
        }
        let name = header.metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
        if !architectures::is_known(name, release.name) {
            return Err(LoadError::model(format!(
                "unknown model architecture: '{name}' in llama.cpp release {}: use a newer release",
                release.name
            )));
        }
        let mut hparams = Hparams::read(header, family.architecture, release)?;
        let mut weights = Weights::read(header, hparams.n_layer_all)?;
        weights.split_groups(LlmTensor::AttnOutA, hparams.n_output_groups);
        let has_mtp = hparams.n_layer_nextn > 0 && weights.has(LlmTensor::NextnEhProj);
        if has_mtp && family.architecture.row().refuses_mtp_blocks.contain(release.name) {
            return Err(LoadError::model(format!(
                "llama.cpp release {} cannot load files of this architecture with MTP blocks: use a newer release",
                release.name
            )));
        }
        if !family.exact {
            hparams.read_blocks(&HeaderKeys::of(header, release), &weights)?;
        }
        Ok(Self { release, family, hparams, weights })
    }

    /// Whether it is made for embeddings: its header says how they are pooled, or it has no logits.
    pub fn is_embedder(&self) -> bool {
        let Self { hparams, family: GraphFamily { architecture, .. }, .. } = self;
        hparams.pooling.is_some()
            || architecture.reads_only()
            || architecture.has(Trait::EncoderOfTexts)
            || hparams.reads_only && !architecture.has(Trait::Diffusion)
    }

    /// Measures what llama.cpp reserves on `devices` and in RAM.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn measure(
        &self,
        devices: &[Device],
        spread: &LayerSplit,
        options: &ContextParams,
        reservation: Reservation,
    ) -> Result<MemoryBreakdown, LoadError> {
        Measurer::new(self, devices).measure(&self.place(devices, spread), options, reservation)
    }

    /// The same with the details of the compute buffers. `passes` receives every tensor's device after each pass.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn measure_traced(
        &self,
        devices: &[Device],
        spread: &LayerSplit,
        options: &ContextParams,
        reservation: Reservation,
        passes: Option<&mut PassTrace>,
    ) -> Result<(MemoryBreakdown, AllocationDetails), LoadError> {
        let measurer = Measurer::new(self, devices);
        let (measured, graphs) = measurer.reserve(&self.place(devices, spread), options, reservation, None, passes)?;
        Ok((measured, measurer.details(graphs)))
    }

    /// Bytes of weights and caches per device, RAM last: a lower bound for any graph.
    fn without_graph(&self, placement: &Placement, context: &Cparams, backends: &[BackendRef]) -> Vec<u64> {
        let memory = Memory::new(self, context, placement, None);
        let weights = placement.weights(self, backends);
        weights.into_iter().zip(memory.bytes(backends)).map(|(weights, cache)| weights.bytes + cache).collect()
    }

    /// The number of blocks whose weights are loaded, MTP blocks last.
    fn loaded_blocks(&self, load_mtp: bool) -> usize {
        let Self { release, family: GraphFamily { architecture, .. }, hparams, .. } = self;
        let loads = load_mtp
            || architecture.has(Trait::OnlyDrafts)
            || hparams.has_router_block
            || architecture.row().loads_mtp_blocks.contain(release.name);
        if loads { hparams.n_layer_all } else { hparams.n_layer() }
    }

    /// The layouts by which its release repacks weights for `instructions`.
    pub fn layouts(&self, instructions: CpuInstructions) -> Layouts {
        Layouts { instructions, one_bit: self.release.repacks_one_bit }
    }

    /// Assigns layers to `devices`.
    fn place(&self, devices: &[Device], spread: &LayerSplit) -> Placement {
        let free: Vec<u64> = devices.iter().map(|device| device.free).collect();
        let request = SplitRequest {
            gpu_layers: spread.gpu_layers,
            tensor_split: &spread.tensor_split,
            free: &free,
            overrides: &spread.overrides,
            load_mtp: spread.load_mtp,
        };
        // host buffers of a GPU come first
        let host = devices.iter().any(|device| device.backend.has_host_buffers());
        let layouts = self.layouts(if host { CpuInstructions::None } else { spread.repack_for });
        Placement::new(&self.hparams, &request).with_homes(WeightHomes::new(self, devices, layouts))
    }
}
