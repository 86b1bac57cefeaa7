//! The machine as it is found, and as its free memory moves.

use std::sync::Arc;

use super::{App, Known, Mode};
use crate::hardware::Detected;
use crate::hardware::watch::Moved;
use crate::tui::effect::Effect;

/// Whether the free memory on the screen follows the machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Live {
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
        self.here = Arc::new(detected.machine.clone());
        self.found = Some(detected);
        self.known = Known::All;
        self.know_machine(Arc::new(self.what_if.over(&self.here)));
        self.replan_from_scratch();
    }

    pub(super) fn moved(&mut self, Moved { machine, notes }: Moved) {
        // what was on its way when the picture was held comes too late
        if self.live != Live::On {
            return;
        }
        if self.notice.as_ref().is_some_and(|said| self.reports.contains(said) && !notes.contains(said)) {
            self.notice = None;
        }
        if let Some(news) = notes.iter().find(|note| self.notes_are_hidden() && !self.reports.contains(note)) {
            self.notice = Some(news.clone());
        }
        self.reports = notes;
        self.here = Arc::new(machine);
        let machine = self.what_if.over(&self.here);
        if machine != *self.machine {
            self.know_machine(Arc::new(machine));
            if let Mode::Browse(browse) = &mut self.mode
                && Arc::ptr_eq(&self.shelf.machine(&self.machine), &self.machine)
            {
                browse.touch();
            }
            if self.stale == Stale::No {
                self.stale = Stale::ByItself;
            }
        }
    }

    pub(super) fn freeze(&mut self) -> Vec<Effect> {
        let (live, said) = match self.live {
            Live::On => (Live::Frozen, "Live memory frozen; f resumes it."),
            Live::Frozen => (Live::On, "Live memory resumed."),
            Live::Off => {
                let why = "Live memory is not available here: free memory stays as detected or specified.";
                self.notice = Some(why.to_owned());
                return Vec::new();
            }
        };
        self.live = live;
        self.notice = Some(said.to_owned());
        vec![Effect::Freeze(live == Live::Frozen)]
    }
}
