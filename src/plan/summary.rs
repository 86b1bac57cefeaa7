//! A plan without explanations, for searches.

use super::{DevicePlan, Outcome, Plan, Verdict};
use crate::machine::DeviceKind;
use crate::settings::InEffect;
use crate::units::Bytes;

impl Plan {
    /// The plan on one line, for logs.
    pub fn line(&self) -> String {
        let Self { model, settings, .. } = self;
        let release = settings.release.map(|release| format!(" {release}")).unwrap_or_default();
        let file_type = model.file_type.as_deref().unwrap_or("?");
        let devices = self.devices.iter().map(|device| {
            let (id, needed, free) = (&device.id, device.needed() + device.growth, device.free.0);
            format!("{id} {} of {free} bytes", needed.0)
        });
        format!(
            "{}{release} ({}), {} {} {file_type}, context {}, {} sequences, batch {}/{}, cache {}/{}, {} of {} layers on \
             GPU, {}; {}",
            self.engine,
            self.confidence,
            model.name,
            model.architecture,
            settings.ctx,
            settings.parallel,
            settings.batch,
            settings.ubatch,
            settings.cache_type_k,
            settings.cache_type_v,
            self.offloaded,
            self.layers.len(),
            self.outcome().name(),
            devices.collect::<Vec<_>>().join(", "),
        )
    }
}

/// A plan without explanations.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSummary {
    /// The settings in effect, after the engine's rules.
    pub settings: InEffect,
    /// GPUs in the machine's order, the CPU last.
    pub devices: Vec<DevicePlan>,
    /// All layers, including the output layer.
    pub layer_count: usize,
    /// Layers on GPUs, including the output layer.
    pub offloaded: usize,
    /// Whether and where the model fits.
    pub verdict: Verdict,
    /// Whether the engine would not load it.
    pub refused: bool,
}

impl PlanSummary {
    /// The summary of `plan`.
    pub fn of(plan: &Plan) -> Self {
        Self {
            settings: plan.settings.clone(),
            devices: plan.devices.clone(),
            layer_count: plan.layers.len(),
            offloaded: plan.offloaded,
            verdict: plan.verdict,
            refused: plan.refusal.is_some(),
        }
    }

    /// As [`Plan::outcome`].
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.verdict, self.refused, &self.devices)
    }

    /// As [`Plan::parts_in_ram`].
    pub fn parts_in_ram(&self) -> Bytes {
        self.devices.iter().map(|device| device.parts).sum()
    }

    /// GPUs in the machine's order.
    pub fn gpus(&self) -> impl Iterator<Item = &DevicePlan> {
        self.devices.iter().filter(|device| device.kind == DeviceKind::Gpu)
    }
}
