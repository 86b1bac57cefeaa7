//! A request to llama.cpp with all options decided, and its buffers as llama.cpp's log divides them.

use super::context::ContextParams;
use super::devices::{self, Device};
use super::error::LoadError;
use super::loaded::LoadedModel;
use super::measure::{AllocationDetails, MemoryBreakdown, Reservation};
use super::placement::{LayerSplit, PlacedTensor};
use super::weight_buffers::WeightsInRam;
use super::weights::{LlmTensor, TensorSuffix};
use crate::engine::error::EngineError;
use crate::engine::ggml::BackendRef;
use crate::engine::ggml::schedule::PassTrace;
use crate::settings::{GpuLayers, Settings};
use crate::units::Bytes;

/// A request with all options decided.
#[derive(Clone, Debug)]
pub struct ResolvedRequest {
    /// The model.
    pub loaded: LoadedModel,
    /// The GPUs used, as indices in the machine.
    pub gpus: Vec<usize>,
    /// Their properties and free memory.
    pub devices: Vec<Device>,
    /// Layers per device.
    pub spread: LayerSplit,
    /// llama.cpp's context options.
    pub options: ContextParams,
}

impl ResolvedRequest {
    /// Measures a load of the request with the details of its buffers. `passes` receives every tensor's device after each pass.
    ///
    /// # Errors
    /// When llama.cpp refuses this request.
    pub fn measure_traced(&self, passes: &mut PassTrace) -> Result<(MemoryBreakdown, AllocationDetails), LoadError> {
        self.loaded.measure_traced(&self.devices, &self.spread, &self.options, Reservation::Loaded, Some(passes))
    }

    /// The same with the details of the graph of one token per sequence, which runs while tokens are generated.
    ///
    /// # Errors
    /// When llama.cpp refuses this request.
    pub fn trace_token(&self, passes: &mut PassTrace) -> Result<(MemoryBreakdown, AllocationDetails), LoadError> {
        self.loaded.trace_token(&self.devices, &self.spread, &self.options, passes)
    }

    /// Every tensor that is loaded, once per device that holds it. Devices are indices in the machine, RAM being `ram`.
    pub fn tensors(&self, ram: usize) -> Vec<PlacedTensor> {
        let placement = self.loaded.place(&self.devices, &self.spread);
        let device = |place: usize| self.gpus.get(place).filter(|_| place < self.devices.len()).copied().unwrap_or(ram);
        let tensors = placement.tensors(&self.loaded, &self.backends()).into_iter();
        tensors
            .map(|tensor| PlacedTensor { device: device(tensor.device), own: device(tensor.own), ..tensor })
            .collect()
    }

    /// Whether a fit placed layers or tensors, of which the user set none.
    pub fn is_placed_by_fit(&self, asked: &Settings) -> bool {
        !self.spread.overrides.is_empty()
            || asked.gpu_layers == GpuLayers::Auto && !asked.no_fit && self.spread.gpu_layers.is_some()
    }

    /// The devices' properties, RAM last.
    pub fn backends(&self) -> Vec<BackendRef> {
        devices::backends(&self.devices)
    }

    /// The same with GPU indices of the full machine; `seen` are the indices of the visible GPUs.
    #[must_use]
    pub fn among(mut self, visible: &[usize]) -> Self {
        for gpu in &mut self.gpus {
            *gpu = visible.get(*gpu).copied().unwrap_or(*gpu);
        }
        self
    }

    /// The buffers that llama.cpp would list.
    ///
    /// # Errors
    /// When llama.cpp refuses this request.
    pub fn buffers(&self) -> Result<RequestBuffers, EngineError> {
        Ok(self.measured_buffers()?)
    }

    /// The compute buffers that `--fit` measures for the request: on its GPUs in their order, then in RAM.
    ///
    /// # Errors
    /// When llama.cpp refuses this request.
    pub fn compute_measured(&self) -> Result<Vec<Bytes>, EngineError> {
        let measured = self.loaded.measure(&self.devices, &self.spread, &self.options, Reservation::Measured)?;
        Ok(measured.compute.into_iter().map(Bytes).collect())
    }

    fn measured_buffers(&self) -> Result<RequestBuffers, LoadError> {
        let (measured, details) =
            self.loaded.measure_traced(&self.devices, &self.spread, &self.options, Reservation::Loaded, None)?;
        let states = details.memory.state_bytes(&self.backends());
        let MemoryBreakdown { model, context, compute, parameters, layer_devices, .. } = &measured;
        let devices = (0..model.len()).map(|at| DeviceBuffers {
            weights: Bytes(model[at]),
            kv: Bytes(context[at] - states[at]),
            states: Bytes(states[at]),
            compute: Bytes(compute[at]),
        });
        Ok(RequestBuffers {
            devices: devices.collect(),
            in_ram: measured.in_ram,
            gpus: self.gpus.clone(),
            checkpoints: Bytes(details.memory.checkpoint_bytes(&self.backends())),
            outputs: outputs(&self.loaded, parameters.n_seq_max, parameters.embeddings.is_some()),
            offloaded: measured.offloaded(),
            layers: layer_devices.len(),
            n_ctx: parameters.n_ctx,
            n_ubatch: parameters.n_ubatch,
        })
    }
}

// The buffers of a request as llama.cpp's log divides them: weights, KV caches, recurrent states, compute, outputs.

/// The buffers on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBuffers {
    /// Weights.
    pub weights: Bytes,
    /// KV caches.
    pub kv: Bytes,
    /// Recurrent states.
    pub states: Bytes,
    /// Compute buffers.
    pub compute: Bytes,
}

/// The buffers of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestBuffers {
    /// The GPUs used, as indices in the machine.
    pub gpus: Vec<usize>,
    /// Their buffers in that order, then those in RAM.
    pub devices: Vec<DeviceBuffers>,
    /// The weights in RAM by buffers.
    pub in_ram: WeightsInRam,
    /// A checkpoint of every sequence, at most.
    pub checkpoints: Bytes,
    /// Logits of one token per sequence, in RAM; none for a model that computes embeddings only.
    pub outputs: Option<Bytes>,
    /// Layers on GPUs, including the output layer.
    pub offloaded: usize,
    /// Layers, including the output layer.
    pub layers: usize,
    /// Tokens of context over all sequences.
    pub n_ctx: u64,
    /// Tokens of a physical batch.
    pub n_ubatch: u64,
}

/// One row of logits per sequence, and one of embeddings where they are asked for (`llama_context::output_reserve`, 0.1.161).
fn outputs(model: &LoadedModel, sequences: u64, embeds: bool) -> Option<Bytes> {
    let weights = &model.weights;
    let find = |slot| weights.find_global(slot, TensorSuffix::Weight);
    let matrix = find(LlmTensor::Output).or_else(|| find(LlmTensor::TokenEmbd))?;
    let vocabulary = weights.all.get(matrix)?.ne[1];
    let embedding = if embeds { model.hparams.n_embd } else { 0 };
    model.hparams.causal.then(|| Bytes((vocabulary + embedding) * 4 * sequences))
}
