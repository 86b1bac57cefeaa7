//! The conditions of pipeline parallelism (`llama_context`, 0.1.161).

use super::Device;
use super::context::Cparams;
use super::placement::Placement;

/// The conditions, all of which are required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a condition of its own")]
pub struct Pipeline {
    /// There is more than one GPU.
    pub several_gpus: bool,
    /// All layers are on GPUs.
    pub all_layers: bool,
    /// Caches are on the devices of their layers.
    pub caches_offloaded: bool,
    /// There are no tensor overrides.
    pub nothing_overridden: bool,
    /// All GPUs compute asynchronously and have events.
    pub asynchronous: bool,
    /// Its buffers can be allocated; otherwise llama.cpp reserves memory again without it.
    pub buffers_fit: bool,
}

impl Pipeline {
    pub(super) fn of(devices: &[Device], placement: &Placement, context: &Cparams) -> Self {
        Self {
            several_gpus: devices.len() > 1,
            all_layers: placement.full_offload,
            caches_offloaded: context.offload_kqv,
            nothing_overridden: !placement.has_overrides(),
            asynchronous: devices.iter().all(|device| device.backend.pipelines()),
            buffers_fit: true,
        }
    }

    /// Whether all conditions are met.
    pub fn is_on(&self) -> bool {
        self.conditions().iter().all(|(_, met)| *met)
    }

    /// Each condition as text, and whether it is met.
    pub const fn conditions(&self) -> [(&'static str, bool); 6] {
        [
            ("more than one GPU", self.several_gpus),
            ("all layers are on GPU", self.all_layers),
            ("the KV cache is offloaded", self.caches_offloaded),
            ("no tensor overrides", self.nothing_overridden),
            ("all GPUs support async compute", self.asynchronous),
            ("its compute buffers fit", self.buffers_fit),
        ]
    }
}
