//! What is left on a device, as a signed figure: a shortage is never shown as nothing left.

use serde::Serialize;

use super::{DevicePlan, RamPool};
use crate::machine::DeviceKind;
use crate::units::{Bytes, Difference};

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
        let driver = device.driver.map_or(Bytes::ZERO, |driver| driver.loaded.most);
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
