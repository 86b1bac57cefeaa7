//! Pools of memory: each card's own, and RAM, which the CPU shares with GPUs that have none or little of their own.

use serde::Serialize;

use super::{DevicePlan, Headroom};
use crate::machine::DeviceKind;
use crate::units::{Bytes, Difference};

/// RAM as one pool. A GPU's memory in it is a budget, not memory besides it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RamPool {
    /// Total RAM.
    pub total: Bytes,
    /// Free RAM before the model is loaded.
    pub free: Bytes,
    /// Free swap space.
    pub swap_free: Bytes,
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
            asked: Bytes::ZERO,
            by_gpus: Bytes::ZERO,
            mapped: Bytes::ZERO,
        };
        for device in devices {
            pool.asked += device.in_ram();
            match device.kind {
                DeviceKind::Gpu => pool.by_gpus += device.in_ram(),
                DeviceKind::Cpu => {
                    (pool.total, pool.free, pool.swap_free) = (device.total, device.free, device.swap_free);
                    pool.mapped += device.mapped;
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
