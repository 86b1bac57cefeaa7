//! An upper bound of a plan: weights and caches must be placed somewhere, whatever the graph adds.

use super::super::context::Cparams;
use super::super::placement::{OverrideGroup, Placement, SplitRequest, TensorOverride};
use super::super::{LayerSplit, LoadedModel};
use super::params::{ServerParams, in_effect};
use crate::engine::ggml::BackendRef;
use crate::engine::ggml::backend::Cpu;
use crate::engine::id::EngineError;
use crate::engine::preflight::{Preflight, UpperBound};
use crate::engine::prepared::PreparedModel;
use crate::machine::Machine;
use crate::settings::Settings;
use crate::units::Bytes;
use std::sync::Arc;

/// Computes the bound.
///
/// # Errors
/// When llama.cpp refuses the settings.
pub fn preflight(
    prepared: &PreparedModel,
    loaded: &LoadedModel,
    machine: &Machine,
    settings: &Settings,
) -> Result<Preflight, EngineError> {
    let mut params = ServerParams::new(prepared, loaded, machine, settings)?;
    if params.options.n_ctx == 0 {
        params.options.n_ctx = params.limits.min_context(loaded, &params.options);
    }
    let context = Cparams::new(&params.options, loaded)?;
    let gpus = (0..machine.gpus.len()).map(|gpu| params.gpus.contains(&gpu)).collect();
    let upper_bound = LowerBound { loaded, params: &params, context: &context, machine }.upper_bound();
    Ok(Preflight { settings: in_effect(&context, &params, loaded, settings), gpus, upper_bound })
}

/// The minimum memory of a request.
struct LowerBound<'a> {
    loaded: &'a LoadedModel,
    params: &'a ServerParams<'a>,
    context: &'a Cparams,
    machine: &'a Machine,
}

impl LowerBound<'_> {
    fn upper_bound(&self) -> UpperBound {
        let ServerParams { devices, spread, limits, .. } = self.params;
        let ram = self.machine.ram.free + self.machine.ram.swap_free;
        let free: Vec<u64> = devices.iter().map(|device| device.free).collect();
        if spread.is_fixed(devices.len()) {
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
        let in_ram = |block| TensorOverride { block, part: OverrideGroup::FeedForward, gpu: None };
        let overrides: Vec<TensorOverride> = (0..movable).map(in_ram).collect();
        Placement::new(
            hparams,
            &SplitRequest {
                gpu_layers: None,
                tensor_split: &[],
                free,
                overrides: &overrides,
                load_mtp: self.params.spread.load_mtp,
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
