//! Does it fit, and where: as scripts read it, and as people do.

use serde::Serialize;

use super::DevicePlan;
use crate::machine::DeviceKind;
use crate::units::Bytes;

/// Does it fit, and where?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every layer is on GPUs.
    Gpu,
    /// Some layers are in RAM.
    Split,
    /// Every layer is in RAM.
    Cpu,
    /// Some device is asked for more than is free, or the engine refuses.
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
    /// Judges a layout: `devices` as filled, `offloaded` of `layer_count` layers on GPUs, and whether the engine refused.
    pub fn of(devices: &[DevicePlan], offloaded: usize, layer_count: usize, refused: bool) -> Self {
        // blocks that only predict further tokens may be among those that an engine counts as offloaded
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

/// A verdict for people: that every layer counts as on GPUs does not say that all of its weights are. What is worse for
/// speed comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FitStatus {
    /// Every layer is on GPUs, with all of its weights.
    Fits,
    /// Every layer counts as on GPUs, but so much of their weights runs from RAM: experts, or parts of a feed-forward.
    PartInRam(Bytes),
    /// Some layers are in RAM.
    Split,
    /// Every layer is in RAM.
    InRam,
    /// Some device is asked for more than is free, or the engine refuses.
    DoesNotFit,
}

impl FitStatus {
    /// What `verdict` comes to where so much of the weights of layers on GPUs runs from RAM.
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
