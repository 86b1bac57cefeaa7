//! What each of several computers holds.

use std::borrow::Cow;

use serde::Serialize;

use super::{DevicePlan, Plan};
use crate::units::Bytes;

/// One computer's part of a plan, summed over its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Computer {
    /// What it is called; none for the one that runs the engine.
    pub name: Option<String>,
    /// Ids of its devices.
    pub devices: Vec<String>,
    /// Layers on them.
    pub layers: usize,
    /// Weights, caches and graphs on them.
    pub asked: Bytes,
    /// What is free of them.
    pub free: Bytes,
}

impl Plan {
    /// The computers that devices are in: the one that runs the engine first, with its RAM, the others in the order in
    /// which they joined.
    pub fn computers(&self) -> Vec<Computer> {
        let mut computers = vec![Computer::default()];
        for device in &self.devices {
            let at = computers.iter().position(|computer| computer.name.as_deref() == device.computer.as_deref());
            let at = at.unwrap_or_else(|| {
                computers.push(Computer { name: device.computer.as_deref().map(str::to_owned), ..Computer::default() });
                computers.len() - 1
            });
            computers[at].take(device);
        }
        computers
    }
}

impl DevicePlan {
    /// Its name, with the computer that it is in where that is another one: `RTX 4090 @garage`.
    pub fn label(&self) -> Cow<'_, str> {
        match &self.computer {
            Some(computer) => format!("{} @{computer}", self.name).into(),
            None => self.name.as_str().into(),
        }
    }
}

impl Computer {
    fn take(&mut self, device: &DevicePlan) {
        self.devices.push(device.id.clone());
        self.layers += device.layers.len();
        self.asked += device.asked();
        self.free += device.free;
    }

    /// `garage`, or `this computer`.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or("this machine")
    }
}
