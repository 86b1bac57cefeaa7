//! The machine as it is found, and as its free memory moves.

use std::sync::Arc;

use super::{App, Mode};
use crate::hardware::Detected;
use crate::hardware::watch::MemoryUpdate;
use crate::machine::Machine;
use crate::tui::effect::Effect;

/// What is known of the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// Everything that was asked.
    All,
    /// Drivers are still being asked.
    Asking,
}

/// The machine in front of us, or the one that was described.
#[derive(Debug)]
pub struct FoundMachine {
    /// As it is; its free memory may move.
    pub machine: Arc<Machine>,
    /// Whether more of it will become known.
    pub known: Known,
    /// Whether its free memory is followed.
    pub live: LiveMemory,
    /// How it was found, once it was looked for.
    pub detected: Option<Box<Detected>>,
    /// What the devices say at present, one sentence each.
    pub reports: Vec<String>,
}

/// Whether the free memory on the screen follows the machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LiveMemory {
    /// It does not: the machine is described, or nobody wants it.
    #[default]
    Off,
    /// It does.
    On,
    /// It would, and is held still.
    Frozen,
}

/// Whether the plan is the one of the knobs and the machine, and who changed them if not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stale {
    /// It is.
    #[default]
    No,
    /// Free memory moved by itself.
    ByItself,
    /// A person changed something.
    ByHand,
}

impl App {
    pub(super) fn found(&mut self, detected: Box<Detected>) {
        self.found_machine.machine = Arc::new(detected.machine.clone());
        self.found_machine.detected = Some(detected);
        self.found_machine.known = Known::All;
        self.set_machine(Arc::new(self.what_if.over(&self.found_machine.machine)));
        self.replan_from_scratch();
    }

    pub(super) fn moved(&mut self, MemoryUpdate { machine, notes }: MemoryUpdate) {
        // what was on its way when the picture was held comes too late
        if self.found_machine.live != LiveMemory::On {
            return;
        }
        if self.notice.as_ref().is_some_and(|said| self.found_machine.reports.contains(said) && !notes.contains(said)) {
            self.notice = None;
        }
        if let Some(news) =
            notes.iter().find(|note| self.notes_are_hidden() && !self.found_machine.reports.contains(note))
        {
            self.notice = Some(news.clone());
        }
        self.found_machine.reports = notes;
        self.found_machine.machine = Arc::new(machine);
        let machine = self.what_if.over(&self.found_machine.machine);
        if machine != *self.machine {
            self.set_machine(Arc::new(machine));
            if let Mode::Browse(browse) = &mut self.mode
                && Arc::ptr_eq(&self.library.machine(&self.machine), &self.machine)
            {
                browse.touch();
            }
            if self.stale == Stale::No {
                self.stale = Stale::ByItself;
            }
        }
    }

    pub(super) fn freeze(&mut self) -> Vec<Effect> {
        let (live, said) = match self.found_machine.live {
            LiveMemory::On => (LiveMemory::Frozen, "Live memory frozen; f resumes it."),
            LiveMemory::Frozen => (LiveMemory::On, "Live memory resumed."),
            LiveMemory::Off => {
                let why = "Live memory is not available here: free memory stays as detected or specified.";
                self.notice = Some(why.to_owned());
                return Vec::new();
            }
        };
        self.found_machine.live = live;
        self.notice = Some(said.to_owned());
        vec![Effect::Freeze(live == LiveMemory::Frozen)]
    }
}
