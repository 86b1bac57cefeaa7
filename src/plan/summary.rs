//! A plan without its explanations: what those read who ask for many plans and show none.

use super::{DevicePlan, Plan, Verdict};
use crate::machine::DeviceKind;
use crate::settings::InEffect;
use crate::units::Bytes;

/// What a plan comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSummary {
    /// The knobs in effect, after the engine's own rules.
    pub settings: InEffect,
    /// GPUs in the machine's order, the CPU last.
    pub devices: Vec<DevicePlan>,
    /// Layers in all, the output layer counted.
    pub layer_count: usize,
    /// Layers on GPUs, the output layer counted.
    pub offloaded: usize,
    /// Does it fit, and where?
    pub verdict: Verdict,
    /// The engine would not load it.
    pub refused: bool,
}

impl PlanSummary {
    /// What `plan` comes to.
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

    /// As [`Plan::parts_in_ram`].
    pub fn parts_in_ram(&self) -> Bytes {
        self.devices.iter().map(|device| device.parts).sum()
    }

    /// GPUs in the machine's order.
    pub fn gpus(&self) -> impl Iterator<Item = &DevicePlan> {
        self.devices.iter().filter(|device| device.kind == DeviceKind::Gpu)
    }
}
