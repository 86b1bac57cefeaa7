//! Where everything ends up, before any of it is explained.

use super::super::fit::{Fitted, fit_for};
use super::super::measure::Measurer;
use super::super::placement::Placement;
use super::super::{Loaded, Measured};
use super::ask::{self, Ask};
use crate::engine::id::{Aim, EngineError};
use crate::machine::Machine;
use crate::plan::{DevicePlan, Gist, Reserve, Verdict};
use crate::settings::{InEffect, Settings};
use crate::units::Bytes;

/// A request and what llama.cpp makes of it.
pub struct Placed<'a> {
    pub machine: &'a Machine,
    pub settings: &'a Settings,
    pub loaded: &'a Loaded,
    /// As the fit leaves it.
    pub ask: Ask,
    pub fitted: Fitted,
}

impl<'a> Placed<'a> {
    /// Runs the fit.
    ///
    /// # Errors
    /// When llama.cpp refuses the settings.
    pub fn new(
        measurer: &mut Measurer<'a>,
        mut ask: Ask,
        machine: &'a Machine,
        settings: &'a Settings,
        aim: Aim,
    ) -> Result<Self, EngineError> {
        let loaded = measurer.model;
        let fitted = fit_for(aim, measurer, &ask.spread, &ask.options, &ask.limits)?;
        ask.options.n_ctx = fitted.n_ctx;
        ask.spread = fitted.spread.clone();
        Ok(Self { machine, settings, loaded, ask, fitted })
    }

    /// What a plan comes to.
    pub fn gist(self) -> Gist {
        let (devices, offloaded, layer_count) = (self.devices(), self.measured().offloaded(), self.layer_count());
        let verdict = Verdict::of(&devices, offloaded, layer_count, false);
        Gist { settings: self.in_effect(), devices, layer_count, offloaded, verdict, refused: false }
    }

    /// What is allocated.
    pub fn measured(&self) -> &Measured {
        &self.fitted.measured
    }

    /// The home of every tensor.
    pub fn placement(&self) -> Placement {
        self.loaded.place(&self.ask.devices, &self.ask.spread)
    }

    /// Blocks and the output layer.
    pub fn layer_count(&self) -> usize {
        self.loaded.hparams.n_layer() + 1
    }

    pub fn in_effect(&self) -> InEffect {
        ask::in_effect(&self.measured().parameters, &self.ask.spread, self.loaded, self.settings)
    }

    /// The device of the plan that a place of the schedule stands for.
    pub fn device_of(&self, place: usize) -> usize {
        self.ask.gpus.get(place).copied().unwrap_or(self.machine.gpus.len())
    }

    /// The device of the layer with this index: a block, or the output layer after them.
    pub fn home(&self, layer: usize) -> usize {
        let homes = &self.measured().homes;
        let block = homes.get(layer).filter(|_| layer < self.loaded.hparams.n_layer());
        self.device_of(usize::from(block.or(homes.last()).copied().unwrap_or(0)))
    }

    pub fn devices(&self) -> Vec<DevicePlan> {
        let gpus = self.machine.gpus.iter().enumerate();
        let mut devices: Vec<DevicePlan> =
            gpus.map(|(at, gpu)| DevicePlan { reserves: self.reserves(at), ..DevicePlan::of_gpu(at, gpu) }).collect();
        devices.push(DevicePlan::of_ram(self.machine.ram));
        let Measured { model, context, compute, .. } = self.measured();
        for (place, ((weights, cache), graph)) in model.iter().zip(context).zip(compute).enumerate() {
            if let Some(device) = devices.get_mut(self.device_of(place)) {
                (device.weights, device.cache, device.graph) = (Bytes(*weights), Bytes(*cache), Bytes(*graph));
            }
        }
        for layer in 0..self.layer_count() {
            if let Some(device) = devices.get_mut(self.home(layer)) {
                device.layers.push(layer);
            }
        }
        if let Some(ram) = devices.last_mut().filter(|ram| ram.layers.is_empty()) {
            ram.parts = ram.weights - Bytes(Placement::looked_up(&self.loaded.weights));
        }
        devices
    }

    fn reserves(&self, gpu: usize) -> Vec<Reserve> {
        let margin = self.ask.gpus.iter().position(|used| *used == gpu).and_then(|at| self.ask.limits.margins.get(at));
        margin.map(|bytes| Reserve { name: "fit margin", bytes: Bytes(*bytes) }).into_iter().collect()
    }
}
