//! The labels of engine and machine in the header.

use super::{App, Detection, LiveMemory};
use crate::machine::{Origin, short_name};
use crate::plan::Confidence;
use crate::tui::regions::header::Header;

impl App {
    /// The layout of the header.
    pub fn header(&self) -> Header {
        Header::new(self.regions.header, &self.engine_label(), &self.machine_label())
    }

    /// The engine, its release, and the confidence of the plan.
    pub fn engine_label(&self) -> String {
        let confidence = match self.plan.as_ref().map(|plan| plan.confidence) {
            Some(Confidence::Exact) => " · exact",
            Some(Confidence::Modelled) => " · modelled",
            Some(Confidence::Assumed) => " · assumed",
            None => "",
        };
        format!("{}{confidence}", self.choice())
    }

    /// The GPUs in short, the RAM, and whether the machine is simulated or live.
    pub fn machine_label(&self) -> String {
        let gpus = &self.machine.gpus;
        let cards = match gpus.as_slice() {
            _ if self.found_machine.detection == Detection::Running && self.what_if.replacement.is_none() => {
                "detecting GPUs…".to_owned()
            }
            [] => "no GPU".to_owned(),
            [one] => short_name(&one.name).to_owned(),
            [first, rest @ ..] if rest.iter().all(|gpu| gpu.name == first.name) => {
                format!("{} × {}", gpus.len(), short_name(&first.name))
            }
            _ => format!("{} GPUs", gpus.len()),
        };
        let simulated = if self.machine.origin == Origin::Described { " · simulated" } else { "" };
        let live = match self.found_machine.live {
            LiveMemory::Off => "",
            // memory of another machine is not live
            _ if self.what_if.replacement.is_some() => "",
            // as wide as "frozen"
            LiveMemory::On => " · live  ",
            LiveMemory::Frozen => " · frozen",
        };
        let ram =
            if self.regions.screen.width < 80 { String::new() } else { format!(" · {}", self.machine.ram.total) };
        format!("{cards}{ram}{simulated}{live}")
    }
}
