//! What is asked of llama.cpp once its fit has chosen: for those who want to watch how its buffers come about.

use super::context::Options;
use super::error::Refusal;
use super::{Device, Loaded, Measured, Spread, Watched};
use crate::engine::ggml::Backend;
use crate::engine::ggml::schedule::Trace;

/// A request with nothing left open.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The model.
    pub loaded: Loaded,
    /// The place of each of `devices` among the machine's GPUs.
    pub gpus: Vec<usize>,
    /// The GPUs that are used.
    pub devices: Vec<Device>,
    /// Layers per device.
    pub spread: Spread,
    /// llama.cpp's parameters.
    pub options: Options,
}

impl Settled {
    /// What is allocated, and how it comes about. `passes` receives every tensor's device after each pass.
    ///
    /// # Errors
    /// When llama.cpp refuses this request.
    pub fn watch(&self, passes: &mut Trace) -> Result<(Measured, Watched), Refusal> {
        self.loaded.watch(&self.devices, &self.spread, &self.options, Some(passes))
    }

    /// The devices as the allocator sees them, RAM last.
    pub fn backends(&self) -> Vec<Backend> {
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
