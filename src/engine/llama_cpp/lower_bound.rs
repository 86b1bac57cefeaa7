//! The least memory that a request needs, known before it is planned.

use super::server_params::ServerParams;
use std::sync::Arc;

use super::context::Cparams;
use super::loaded::LoadedModel;
use super::overrides::UserOverrides;
use super::placement::{BlockOverride, LayerSplit, OverrideGroup, Placement, SplitRequest};
use crate::engine::ggml::BackendRef;
use crate::engine::ggml::backend::Cpu;
use crate::engine::preflight::UpperBound;
use crate::machine::Machine;
use crate::units::Bytes;

/// The minimum memory of a request.
pub(super) struct LowerBound<'a> {
    pub loaded: &'a LoadedModel,
    pub params: &'a ServerParams<'a>,
    pub context: &'a Cparams,
    pub machine: &'a Machine,
}

impl LowerBound<'_> {
    pub fn upper_bound(&self) -> UpperBound {
        let ServerParams { devices, spread, limits, .. } = self.params;
        let ram = self.machine.ram.free + self.machine.ram.swap_free;
        let free: Vec<u64> = devices.iter().map(|device| device.free).collect();
        if !self.params.is_fitted || spread.is_fixed(devices.len()) {
            let own = devices.iter().map(|device| device.backend.clone()).collect();
            let needed = self.minimum(&self.loaded.place(devices, spread), own);
            let fits =
                needed.iter().zip(free.iter().copied().map(Bytes).chain([ram])).all(|(needed, free)| *needed <= free);
            return if fits { UpperBound::Vram } else { UpperBound::DoesNotFit };
        }
        let vram: Bytes = free.into_iter().map(Bytes).sum();
        let movable = if self.loaded.hparams.n_expert > 0 { self.loaded.hparams.n_layer_all } else { 0 };
        let total: Bytes = self.minimum(&self.all_on(&[], movable), Vec::new()).into_iter().sum();
        if total > vram + ram {
            return UpperBound::DoesNotFit;
        }
        // the minimum: everything on one GPU, and without padding
        let on_gpus = |movable| {
            let minimum = self.minimum(&self.all_on(&[1], movable), vec![Arc::new(Cpu::default())]);
            minimum.first().copied().unwrap_or_default()
        };
        let margins = limits.margins.iter().copied().chain(std::iter::repeat(0));
        let may_take: Bytes =
            devices.iter().zip(margins).map(|(gpu, margin)| Bytes(gpu.free.saturating_sub(margin))).sum();
        if on_gpus(movable) > may_take {
            UpperBound::SomeLayers
        } else if movable > 0 && on_gpus(0) > may_take {
            UpperBound::AllLayers
        } else {
            UpperBound::Vram
        }
    }

    /// All layers on GPUs with `free` memory, or in RAM; of the first `movable` blocks, the tensors that a fit may move
    /// to RAM are there.
    fn all_on(&self, free: &[u64], movable: usize) -> Placement {
        let hparams = &self.loaded.hparams;
        let in_ram = |block| BlockOverride { block, part: OverrideGroup::FeedForward, gpu: None };
        let overrides: Vec<BlockOverride> = (0..movable).map(in_ram).collect();
        Placement::new(
            hparams,
            &SplitRequest {
                gpu_layers: None,
                tensor_split: &[],
                free,
                overrides: &overrides,
                by_user: &UserOverrides::default(),
                load_mtp: self.params.spread.load_mtp,
                output_layer_first: self.loaded.release.output_layer_first,
            },
        )
    }

    /// Weights and caches per device for GPUs of these kinds, RAM last.
    fn minimum(&self, placement: &Placement, mut backends: Vec<BackendRef>) -> Vec<Bytes> {
        backends.push(Arc::new(Cpu::default()));
        self.loaded.without_graph(placement, self.context, &backends).into_iter().map(Bytes).collect()
    }
}

impl LayerSplit {
    /// Whether a fit must not change it.
    fn is_fixed(&self, gpus: usize) -> bool {
        gpus == 0 || self.set_by_user(gpus).is_some()
    }
}
