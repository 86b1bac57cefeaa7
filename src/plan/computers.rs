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
    /// Weights, caches and graphs on them with what these grow by, without pages that nothing reads after the load.
    pub asked: Bytes,
    /// Free memory on them.
    pub free: Bytes,
    /// What its devices lack, each for itself: free memory of one is of no use to another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<(String, Bytes)>,
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
        for (device, headroom) in self.devices.iter().zip(self.headrooms()) {
            let own = computers.iter_mut().find(|computer| computer.name.as_deref() == device.computer.as_deref());
            if let (Some(own), true) = (own, headroom.left.is_short()) {
                own.lacking.push((device.id.clone(), headroom.left.lacking()));
            }
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
        self.asked += device.needed() + device.growth;
        // what a GPU shares with the CPU is counted with RAM
        self.free += if device.shares_ram() { device.own.min(device.free) } else { device.free };
    }

    /// `garage`, or `this machine`.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or("this machine")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EngineId, PlanRequest};
    use crate::machine::spec::MachineSpec;
    use crate::machine::{Cpu, Drivers, Machine, Origin, Os, Ram};
    use crate::settings::{Context, GpuLayers, Settings};
    use crate::source::catalogue;

    /// Room on one card does not hide what another lacks.
    #[test]
    fn a_computer_says_what_each_of_its_devices_lacks() {
        for (model, split) in [("qwen3-14b", [1.0, 9.0]), ("qwen3-14b", [9.0, 1.0]), ("llama3.1-8b", [1.0, 1.0])] {
            let gpus = ["name=a,total=12GiB".to_owned(), "name=b,total=12GiB".to_owned()];
            let gpus = MachineSpec::read(&gpus, None).unwrap().gpus.unwrap();
            let free = Bytes::gib(64);
            let machine = Machine {
                disk: None,
                cpu: Cpu::default(),
                os: Os::Linux,
                gpus,
                ram: Ram { total: free, free, swap_free: Bytes::ZERO, bandwidth: None },
                origin: Origin::Described,
                drivers: Drivers::default(),
            };
            let settings = Settings {
                ctx: Context::Tokens(65_536),
                gpu_layers: GpuLayers::Count(99),
                tensor_split: split.to_vec(),
                ..Settings::default()
            };
            let model = catalogue::model(model).unwrap();
            let plan = PlanRequest::new(EngineId::LlamaCpp, model, machine, settings).plan().unwrap();
            let computers = plan.computers();
            let [computer] = computers.as_slice() else { panic!("{computers:?}") };
            let over = plan.devices.iter().filter(|device| device.is_over()).map(|device| &device.id);
            assert!(over.eq(computer.lacking.iter().map(|(id, _)| id)), "{computer:?}");
            let needed: Bytes = plan.devices.iter().map(|device| device.needed() + device.growth).sum();
            assert_eq!(computer.asked, needed);
            let room = Bytes::gib(24) > plan.totals.gpu;
            assert_eq!(split[0] != split[1] && room, room && !computer.lacking.is_empty(), "{computer:?}");
        }
    }
}
