//! The detected or described machine, and live memory.

use std::sync::Arc;

use crate::hardware::Detected;
use crate::machine::Machine;
use crate::machine::what_if::WhatIf;
use crate::tui::effect::Effect;

/// Whether detection is complete.
#[derive(Clone, Debug, PartialEq)]
pub enum Detection {
    /// Everything was detected or described.
    Done,
    /// Detection is running.
    Running,
}

/// The local machine, or the described one.
#[derive(Debug)]
pub struct FoundMachine {
    /// The machine with its latest free memory.
    pub machine: Arc<Machine>,
    /// The user's changes to it.
    pub what_if: WhatIf,
    /// Whether detection is complete.
    pub detection: Detection,
    /// Whether its free memory is followed.
    pub live: LiveMemory,
    /// How it was detected, once it was.
    pub detected: Option<Box<Detected>>,
    /// Current notes of the device monitor, one sentence each.
    pub reports: Vec<String>,
}

/// Whether free memory follows the local machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LiveMemory {
    /// Off or not available, such as for a described machine.
    #[default]
    Off,
    /// It is followed.
    On,
    /// It is frozen until resumed.
    Frozen,
}

impl FoundMachine {
    /// The machine with the user's changes: what is planned for.
    pub(super) fn changed(&self) -> Machine {
        self.what_if.over(&self.machine)
    }

    /// Freezes or resumes live memory; returns what to say about it besides.
    pub(crate) fn freeze(&mut self) -> (Vec<Effect>, &'static str) {
        let (live, message) = match self.live {
            LiveMemory::On => (LiveMemory::Frozen, "Live memory frozen; f resumes it."),
            LiveMemory::Frozen => (LiveMemory::On, "Live memory resumed."),
            LiveMemory::Off => {
                let why = "Live memory is not available here: free memory stays as detected or specified.";
                return (Vec::new(), why);
            }
        };
        self.live = live;
        (vec![Effect::Freeze(live == LiveMemory::Frozen)], message)
    }
}
