//! The detected or described machine, and live memory.

use std::sync::Arc;

use super::App;
use crate::hardware::Detected;
use crate::hardware::watch::MemoryUpdate;
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

/// Whether the plan must be made again, and what changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Replan {
    /// The plan is up to date.
    #[default]
    No,
    /// Free memory changed without user input.
    Memory,
    /// The user changed something.
    User,
}

impl App {
    pub(crate) fn detected(&mut self, detected: Box<Detected>) {
        self.found_machine.machine = Arc::new(detected.machine.clone());
        self.found_machine.detected = Some(detected);
        self.found_machine.detection = Detection::Done;
        self.library.renew();
        self.set_machine(Arc::new(self.what_if.over(&self.found_machine.machine)));
        self.replan_from_scratch();
    }

    /// Changes the machine as one undo step, and plans again.
    pub(crate) fn change_machine(&mut self, change: impl FnOnce(&mut WhatIf, &Machine)) {
        let mut what_if = self.what_if.clone();
        change(&mut what_if, &self.found_machine.machine);
        what_if.drop_no_ops();
        if what_if != self.what_if {
            self.push_undo();
            self.what_if = what_if;
            self.machine = Arc::new(self.what_if.over(&self.found_machine.machine));
            self.library.renew();
            self.replan_from_scratch();
        }
    }

    pub(crate) fn memory_changed(&mut self, MemoryUpdate { machine, notes }: MemoryUpdate) {
        // was sent before live memory was frozen
        if self.found_machine.live != LiveMemory::On {
            return;
        }
        if self
            .notice
            .as_ref()
            .is_some_and(|message| self.found_machine.reports.contains(message) && !notes.contains(message))
        {
            self.notice = None;
        }
        if let Some(note) =
            notes.iter().find(|note| self.notes_are_hidden() && !self.found_machine.reports.contains(note))
        {
            self.notice = Some(note.clone());
        }
        self.found_machine.reports = notes;
        self.found_machine.machine = Arc::new(machine);
        let machine = self.what_if.over(&self.found_machine.machine);
        if machine != *self.machine {
            self.set_machine(Arc::new(machine));
            if self.library.must_renew(&self.machine) {
                self.library.touch();
            }
            if self.replan == Replan::No {
                self.replan = Replan::Memory;
            }
        }
    }

    pub(crate) fn freeze(&mut self) -> Vec<Effect> {
        let (live, message) = match self.found_machine.live {
            LiveMemory::On => (LiveMemory::Frozen, "Live memory frozen; f resumes it."),
            LiveMemory::Frozen => (LiveMemory::On, "Live memory resumed."),
            LiveMemory::Off => {
                let why = "Live memory is not available here: free memory stays as detected or specified.";
                self.notice = Some(why.to_owned());
                return Vec::new();
            }
        };
        self.found_machine.live = live;
        self.notice = Some(message.to_owned());
        vec![Effect::Freeze(live == LiveMemory::Frozen)]
    }
}
