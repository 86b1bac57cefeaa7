//! What is asked of llama.cpp once its fit has chosen: for those who want to watch how its buffers come about.

use super::context::ContextParams;
use super::error::LoadError;
use super::{AllocationDetails, Device, LayerSplit, LoadedModel, MemoryBreakdown};
use crate::engine::ggml::BackendProps;
use crate::engine::ggml::schedule::PassTrace;

/// A request with nothing left open.
#[derive(Clone, Debug)]
pub struct ResolvedRequest {
    /// The model.
    pub loaded: LoadedModel,
    /// The place of each of `devices` among the machine's GPUs.
    pub gpus: Vec<usize>,
    /// The GPUs that are used.
    pub devices: Vec<Device>,
    /// Layers per device.
    pub spread: LayerSplit,
    /// llama.cpp's parameters.
    pub options: ContextParams,
}

impl ResolvedRequest {
    /// What is allocated, and how it comes about. `passes` receives every tensor's device after each pass.
    ///
    /// # Errors
    /// When llama.cpp refuses this request.
    pub fn measure_traced(&self, passes: &mut PassTrace) -> Result<(MemoryBreakdown, AllocationDetails), LoadError> {
        self.loaded.measure_traced(&self.devices, &self.spread, &self.options, Some(passes))
    }

    /// The devices as the allocator sees them, RAM last.
    pub fn backends(&self) -> Vec<BackendProps> {
        super::backends(&self.devices)
    }

    /// Its GPUs by their places in a larger machine, where `seen` tells the place of each.
    #[must_use]
    pub fn among(mut self, seen: &[usize]) -> Self {
        for gpu in &mut self.gpus {
            *gpu = seen.get(*gpu).copied().unwrap_or(*gpu);
        }
        self
    }
}
