//! The result of the fit, before any explanations.

use super::super::fit::{FitResult, fit_for};
use super::super::measure::Measurer;
use super::super::placement::Placement;
use super::super::{LoadedModel, MemoryBreakdown};
use super::params::{self, ServerParams};
use crate::engine::id::{EngineError, FitGoal};
use crate::machine::Machine;
use crate::plan::{DevicePlan, PlanSummary, Reserve, Verdict};
use crate::settings::{InEffect, Settings};
use crate::units::Bytes;

/// A request and its fit.
pub struct PlacedModel<'a> {
    pub machine: &'a Machine,
    pub settings: &'a Settings,
    pub loaded: &'a LoadedModel,
    /// As left by the fit.
    pub params: ServerParams,
    pub fitted: FitResult,
}

impl<'a> PlacedModel<'a> {
    /// Runs the fit.
    ///
    /// # Errors
    /// When llama.cpp refuses the settings.
    pub fn new(
        measurer: &mut Measurer<'a>,
        mut params: ServerParams,
        machine: &'a Machine,
        settings: &'a Settings,
        fit_goal: FitGoal,
    ) -> Result<Self, EngineError> {
        let loaded = measurer.model;
        let fitted = fit_for(fit_goal, measurer, &params.spread, &params.options, &params.limits)?;
        params.options.n_ctx = fitted.n_ctx;
        params.spread = fitted.spread.clone();
        Ok(Self { machine, settings, loaded, params, fitted })
    }

    /// The plan without its explanations.
    pub fn summary(self) -> PlanSummary {
        let (devices, offloaded, layer_count) = (self.devices(), self.measured().offloaded(), self.layer_count());
        let verdict = Verdict::of(&devices, offloaded, layer_count, false);
        PlanSummary { settings: self.in_effect(), devices, layer_count, offloaded, verdict, refused: false }
    }

    /// The allocated bytes.
    pub fn measured(&self) -> &MemoryBreakdown {
        &self.fitted.measured
    }

    /// The device of every tensor.
    pub fn placement(&self) -> Placement {
        self.loaded.place(&self.params.devices, &self.params.spread)
    }

    /// Number of blocks plus the output layer.
    pub fn layer_count(&self) -> usize {
        self.loaded.hparams.n_layer() + 1
    }

    pub fn in_effect(&self) -> InEffect {
        params::in_effect(&self.measured().parameters, &self.params.spread, self.loaded, self.settings)
    }

    /// The plan's device for a device of the schedule.
    pub fn device_of(&self, place: usize) -> usize {
        self.params.gpus.get(place).copied().unwrap_or(self.machine.gpus.len())
    }

    /// The device of this layer: a block, or the output layer after the blocks.
    pub fn layer_device(&self, layer: usize) -> usize {
        let layer_devices = &self.measured().layer_devices;
        let block = layer_devices.get(layer).filter(|_| layer < self.loaded.hparams.n_layer());
        self.device_of(usize::from(block.or(layer_devices.last()).copied().unwrap_or(0)))
    }

    pub fn devices(&self) -> Vec<DevicePlan> {
        let gpus = self.machine.gpus.iter().enumerate();
        let mut devices: Vec<DevicePlan> =
            gpus.map(|(at, gpu)| DevicePlan { reserves: self.reserves(at), ..DevicePlan::of_gpu(at, gpu) }).collect();
        devices.push(DevicePlan::of_ram(self.machine.ram));
        let MemoryBreakdown { model, context, compute, .. } = self.measured();
        for (place, ((weights, cache), graph)) in model.iter().zip(context).zip(compute).enumerate() {
            if let Some(device) = devices.get_mut(self.device_of(place)) {
                (device.weights, device.cache, device.graph) = (Bytes(*weights), Bytes(*cache), Bytes(*graph));
            }
        }
        for layer in 0..self.layer_count() {
            if let Some(device) = devices.get_mut(self.layer_device(layer)) {
                device.layers.push(layer);
            }
        }
        if let Some(ram) = devices.last_mut().filter(|ram| ram.layers.is_empty()) {
            ram.parts = ram.weights - Bytes(Placement::input_layer_weights(&self.loaded.weights));
        }
        devices
    }

    fn reserves(&self, gpu: usize) -> Vec<Reserve> {
        let margin =
            self.params.gpus.iter().position(|used| *used == gpu).and_then(|at| self.params.limits.margins.get(at));
        margin.map(|bytes| Reserve { name: "fit margin", bytes: Bytes(*bytes) }).into_iter().collect()
    }
}
