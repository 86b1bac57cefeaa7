//! Whether and where a model fits, for scripts and for users.

use serde::Serialize;

use super::{DevicePlan, RamPool, used_gpus};
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
    /// Some device, or RAM that several share, needs more than is free, or the engine refuses.
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
        if refused || devices.iter().any(DevicePlan::is_over) || RamPool::of(devices).is_over() {
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

/// Where what a token needs is, for the user. Slower ones come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Every tensor that a token needs is on GPUs, with room for what drivers take besides.
    Vram,
    /// The same, but on some GPU what its driver was seen to take besides may not fit.
    Tight,
    /// Every layer is assigned to a GPU, but some of their weights or caches are in RAM, and none of these are experts.
    PartsInRam,
    /// The same with experts in RAM.
    ExpertsInRam,
    /// Some layers are in RAM, or all of them.
    LayersInRam,
    /// All of it is in RAM, for there is no GPU.
    Cpu,
    /// It runs, but some weights are read from the file for every token, as RAM cannot hold them.
    FromDisk,
    /// Some device, or RAM that several share, needs more than is free, or the engine refuses.
    DoesNotFit,
}

impl Outcome {
    /// The outcome of a plan with `verdict` on `devices`, which the engine may have refused.
    pub fn of(verdict: Verdict, refused: bool, devices: &[DevicePlan]) -> Self {
        let over = || devices.iter().any(|device| device.kind == DeviceKind::Gpu && device.is_over());
        if !refused && !over() && RamPool::of(devices).from_disk().is_some() {
            return Self::FromDisk;
        }
        let in_ram = || devices.iter().filter(|device| device.kind == DeviceKind::Cpu);
        let parts: Bytes = in_ram().map(|cpu| cpu.parts + cpu.cache).sum();
        let experts: Bytes = in_ram().map(|cpu| cpu.experts).sum();
        match verdict {
            Verdict::DoesNotFit => Self::DoesNotFit,
            _ if in_ram().count() == devices.len() => Self::Cpu,
            Verdict::Gpu if experts > Bytes::ZERO => Self::ExpertsInRam,
            Verdict::Gpu if parts > Bytes::ZERO => Self::PartsInRam,
            Verdict::Gpu if is_tight(devices) => Self::Tight,
            Verdict::Gpu => Self::Vram,
            Verdict::Split | Verdict::Cpu => Self::LayersInRam,
        }
    }

    /// `outcome` of a plan on `devices`; that of parts in RAM where these are more than the whole layers there.
    pub fn mainly(outcome: Self, devices: &[DevicePlan]) -> Self {
        let parts: Bytes = devices.iter().map(|device| device.run_in_part).sum();
        let all: Bytes = devices.iter().map(|device| device.run).sum();
        if outcome == Self::LayersInRam && parts > all - parts { Self::ExpertsInRam } else { outcome }
    }

    /// Its name in JSON, where parts in RAM have one name, whether they are experts or not.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vram => "vram",
            Self::Tight => "tight",
            Self::PartsInRam | Self::ExpertsInRam => "experts-in-ram",
            Self::LayersInRam => "layers-in-ram",
            Self::Cpu => "cpu",
            Self::FromDisk => "from-disk",
            Self::DoesNotFit => "does-not-fit",
        }
    }

    /// In a table.
    pub const fn short(self) -> &'static str {
        match self {
            Self::Vram => "VRAM",
            Self::Tight => "tight",
            Self::PartsInRam => "parts",
            Self::ExpertsInRam => "experts",
            Self::LayersInRam => "layers",
            Self::Cpu => "RAM",
            Self::FromDisk => "disk",
            Self::DoesNotFit => "over",
        }
    }

    /// As a headline.
    pub const fn headline(self) -> &'static str {
        match self {
            Self::Vram => "All in VRAM",
            Self::Tight => "Tight in VRAM",
            Self::PartsInRam => "Parts in RAM",
            Self::ExpertsInRam => "Experts in RAM",
            Self::LayersInRam => "Layers in RAM",
            Self::Cpu => "In RAM",
            Self::FromDisk => "From disk",
            Self::DoesNotFit => "Does not fit",
        }
    }
}

/// Whether some GPU that holds layers may lack room for what its driver takes.
fn is_tight(devices: &[DevicePlan]) -> bool {
    used_gpus(devices).any(|(_, headroom)| headroom.is_tight())
}

impl Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
