//! The request to llama.cpp after the fit, for the teach screen.

use super::context::ContextParams;
use super::error::LoadError;
use super::{AllocationDetails, Device, LayerSplit, LoadedModel, MemoryBreakdown, Reservation};
use crate::engine::ggml::BackendRef;
use crate::engine::ggml::schedule::PassTrace;

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

    /// The devices' properties, RAM last.
    pub fn backends(&self) -> Vec<BackendRef> {
        super::backends(&self.devices)
    }

    /// The same with GPU indices of the full machine; `seen` are the indices of the visible GPUs.
    #[must_use]
    pub fn among(mut self, visible: &[usize]) -> Self {
        for gpu in &mut self.gpus {
            *gpu = visible.get(*gpu).copied().unwrap_or(*gpu);
        }
        self
    }
}
