//! Whether and where a model fits, for scripts and for users: the outcome, what is left on every device, and RAM as one pool.

use schemars::JsonSchema;
use serde::Serialize;

use super::DevicePlan;
use crate::machine::DeviceKind;
use crate::named::named;
use crate::units::{Bytes, Difference};

named! {
    /// Whether and where a model fits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Verdict {
        /// All layers are on GPUs.
        Gpu = "gpu",
        /// Some layers are in RAM.
        Split = "split",
        /// All layers are in RAM.
        Cpu = "cpu",
        /// Some device, or RAM that several share, needs more than is free, or the engine refuses.
        DoesNotFit = "does-not-fit",
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
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
        let parts: Bytes = in_ram().map(|cpu| cpu.ram.parts + cpu.cache).sum();
        let experts: Bytes = in_ram().map(|cpu| cpu.ram.experts).sum();
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
        let parts: Bytes = devices.iter().map(|device| device.ram.run_in_part).sum();
        let all: Bytes = devices.iter().map(|device| device.ram.run).sum();
        if outcome == Self::LayersInRam && parts > all - parts { Self::ExpertsInRam } else { outcome }
    }

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vram => "vram",
            Self::Tight => "tight",
            Self::PartsInRam => "parts-in-ram",
            Self::ExpertsInRam => "experts-in-ram",
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
            Self::DoesNotFit => "too big",
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

/// What is left on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Headroom {
    /// Free memory less all buffers and their growth. Of RAM, and of a GPU that shares it, less what the others take.
    pub left: Difference,
    /// What the engine keeps free.
    pub kept: Bytes,
    /// What driver and backend take besides once the model is loaded, the most that is known.
    pub driver: Bytes,
}

impl Headroom {
    /// That of `device`, with RAM as `pool`.
    pub(super) fn of(device: &DevicePlan, pool: &RamPool) -> Self {
        let own = Difference::between(device.free, device.needed() + device.growth);
        let left = match device.kind {
            DeviceKind::Cpu => pool.left(),
            DeviceKind::Gpu if device.shares_ram() => own.min(pool.left()),
            DeviceKind::Gpu => own,
        };
        let driver = device.driver.map_or(Bytes::ZERO, |driver| driver.held().most);
        Self { left, kept: device.reserved(), driver }
    }

    /// What is left above what must stay free: the engine's margin, which the driver's share is part of, or that share
    /// where it is more.
    pub fn above(&self) -> Difference {
        self.left - self.kept.max(self.driver)
    }

    /// What is left above the engine's margin alone.
    pub fn above_kept(&self) -> Difference {
        self.left - self.kept
    }

    /// Whether all buffers fit but the driver's share may not.
    pub fn is_tight(&self) -> bool {
        (self.left - self.driver).is_short()
    }
}

/// RAM as one pool. A GPU's memory in it is a budget, not memory besides it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RamPool {
    /// Total RAM.
    pub total: Bytes,
    /// Free RAM before the model is loaded.
    pub free: Bytes,
    /// Free swap space.
    pub swap_free: Bytes,
    /// What is kept of it for the system and other programs.
    pub kept: Bytes,
    /// What GPUs and CPU take of it, growth included.
    pub asked: Bytes,
    /// The part of it that the GPUs take.
    pub by_gpus: Bytes,
    /// The part of it that is mapped from the model's file, which the system may drop and read again.
    pub mapped: Bytes,
}

impl RamPool {
    /// The pool of a plan's devices, the CPU last.
    pub fn of(devices: &[DevicePlan]) -> Self {
        let mut pool = Self {
            total: Bytes::ZERO,
            free: Bytes::ZERO,
            swap_free: Bytes::ZERO,
            kept: Bytes::ZERO,
            asked: Bytes::ZERO,
            by_gpus: Bytes::ZERO,
            mapped: Bytes::ZERO,
        };
        for device in devices {
            pool.asked += device.in_ram();
            match device.kind {
                DeviceKind::Gpu => pool.by_gpus += device.in_ram(),
                DeviceKind::Cpu => {
                    (pool.total, pool.free, pool.swap_free) = (device.total, device.free, device.ram.swap_free);
                    pool.kept = device.ram.kept;
                    pool.mapped += device.ram.mapped;
                }
            }
        }
        pool
    }

    /// Free RAM less what is taken.
    pub fn left(&self) -> Difference {
        Difference::between(self.free, self.asked)
    }

    /// Whether more is taken than RAM and swap have.
    pub fn is_over(&self) -> bool {
        self.asked > self.free + self.swap_free
    }

    /// What is left above what is kept for the system; swap takes what it can of that.
    pub fn above_kept(&self) -> Difference {
        Difference::between(self.free + self.swap_free, self.asked + self.kept)
    }

    /// Weights that do not stay in RAM, so that they are read from the file again and again: what is mapped beyond free
    /// RAM. None where what cannot be dropped is already more than RAM and swap have.
    pub fn from_disk(&self) -> Option<Bytes> {
        let stays = self.asked - self.mapped;
        let beyond = self.left().lacking().min(self.mapped);
        (beyond > Bytes::ZERO && stays <= self.free + self.swap_free).then_some(beyond)
    }
}

/// The GPUs that hold layers, and what is left on each.
pub fn used_gpus(devices: &[DevicePlan]) -> impl Iterator<Item = (&DevicePlan, Headroom)> {
    let all = devices.iter().zip(headrooms(devices));
    all.filter(|(device, _)| device.kind == DeviceKind::Gpu && !device.layers.is_empty())
}

/// What is left on each device, in the order of `devices`: on a GPU that shares RAM no more than RAM has left.
pub fn headrooms(devices: &[DevicePlan]) -> Vec<Headroom> {
    let pool = RamPool::of(devices);
    devices.iter().map(|device| Headroom::of(device, &pool)).collect()
}
