//! Whether and where a model fits, for scripts and for users.

use serde::Serialize;

use super::DevicePlan;
use crate::machine::DeviceKind;
use crate::units::Bytes;

/// Whether and where a model fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All layers are on GPUs.
    Gpu,
    /// Some layers are in RAM.
    Split,
    /// All layers are in RAM.
    Cpu,
    /// Some device needs more than is free, or the engine refuses.
    DoesNotFit,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Gpu => "gpu",
            Self::Split => "split",
            Self::Cpu => "cpu",
            Self::DoesNotFit => "does-not-fit",
        })
    }
}

impl Verdict {
    /// The verdict on a layout: `devices` as filled, `offloaded` of `layer_count` layers on GPUs, and whether the
    /// engine refused.
    pub fn of(devices: &[DevicePlan], offloaded: usize, layer_count: usize, refused: bool) -> Self {
        // an engine may count MTP blocks as offloaded
        let in_ram = devices.iter().any(|device| device.kind == DeviceKind::Cpu && !device.layers.is_empty());
        if refused || devices.iter().any(DevicePlan::is_over) {
            Self::DoesNotFit
        } else if offloaded == 0 {
            Self::Cpu
        } else if in_ram || offloaded < layer_count {
            Self::Split
        } else {
            Self::Gpu
        }
    }
}

/// A verdict for the user, which also distinguishes whether all weights of layers counted on GPUs are there. Slower
/// ones come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FitStatus {
    /// All layers are on GPUs, with all of their weights.
    Fits,
    /// All layers are counted on GPUs, but this part of their weights is in RAM: experts, or parts of the feed-forward.
    PartInRam(Bytes),
    /// Some layers are in RAM.
    Split,
    /// All layers are in RAM.
    InRam,
    /// Some device needs more than is free, or the engine refuses.
    DoesNotFit,
}

impl FitStatus {
    /// The status for `verdict`, where `parts_in_ram` are the weights in RAM of layers counted on GPUs.
    pub fn of(verdict: Verdict, parts_in_ram: Bytes) -> Self {
        match verdict {
            Verdict::Gpu if parts_in_ram > Bytes::ZERO => Self::PartInRam(parts_in_ram),
            Verdict::Gpu => Self::Fits,
            Verdict::Split => Self::Split,
            Verdict::Cpu => Self::InRam,
            Verdict::DoesNotFit => Self::DoesNotFit,
        }
    }
}
