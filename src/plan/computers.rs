//! The parts of a plan on each of several computers.

use std::borrow::Cow;

use serde::Serialize;

use super::{DevicePlan, Plan};
use crate::units::Bytes;

/// One computer's part of a plan, summed over its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Computer {
    /// Its name; none for the computer that runs the engine.
    pub name: Option<String>,
    /// Ids of its devices.
    pub devices: Vec<String>,
    /// Layers on them.
    pub layers: usize,
    /// Weights, caches and graphs on them.
    pub asked: Bytes,
    /// Free memory on them.
    pub free: Bytes,
}

impl Plan {
    /// The computers of all devices: the one that runs the engine first, with its RAM, then the others in the order of
    /// their devices.
    pub fn computers(&self) -> Vec<Computer> {
        let mut computers = vec![Computer::default()];
        for device in &self.devices {
            let at = computers.iter().position(|computer| computer.name.as_deref() == device.computer.as_deref());
            let at = at.unwrap_or_else(|| {
                computers.push(Computer { name: device.computer.as_deref().map(str::to_owned), ..Computer::default() });
                computers.len() - 1
            });
            computers[at].add(device);
        }
        computers
    }
}

impl DevicePlan {
    /// Its name, including another computer's: `RTX 4090 @garage`.
    pub fn label(&self) -> Cow<'_, str> {
        match &self.computer {
            Some(computer) => format!("{} @{computer}", self.name).into(),
            None => self.name.as_str().into(),
        }
    }
}

impl Computer {
    fn add(&mut self, device: &DevicePlan) {
        self.devices.push(device.id.clone());
        self.layers += device.layers.len();
        self.asked += device.asked();
        // what a GPU shares with the CPU is counted with RAM
        self.free += if device.shares_ram() { device.own.min(device.free) } else { device.free };
    }

    /// `garage`, or `this machine`.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or("this machine")
    }
}
