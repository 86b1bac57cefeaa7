//! The list of engines and releases.

use super::{App, Mode};
use crate::answer::compare::OtherRelease;
use crate::engine::EngineVersion;
use crate::tui::action::Command;

/// The state of the list.
#[derive(Clone, Debug, Default)]
pub struct EnginesPage {
    /// The selected entry of [`EngineVersion::all`].
    pub at: usize,
    /// What the other releases of the engine in use would take for the open plan.
    pub others: Vec<OtherRelease>,
}

impl EnginesPage {
    /// The difference of `choice`, if it is another release of the engine in use, which is `now`.
    pub fn difference(&self, choice: EngineVersion, now: EngineVersion) -> Option<&OtherRelease> {
        let release = choice.release.filter(|_| choice.engine == now.engine)?;
        self.others.iter().find(|other| other.release == release)
    }
}

impl App {
    /// Opens the list at the engine in use.
    pub(super) fn open_engines(&mut self) {
        let now = self.choice();
        let at = EngineVersion::all().iter().position(|&choice| choice == now).unwrap_or(0);
        self.mode = Mode::Engines(Box::new(EnginesPage { at, others: self.other_releases() }));
    }

    /// Plans again for the open list.
    pub(super) fn update_engines(&mut self) {
        if let Mode::Engines(page) = &self.mode {
            let at = page.at;
            self.mode = Mode::Engines(Box::new(EnginesPage { at, others: self.other_releases() }));
        }
    }

    fn other_releases(&self) -> Vec<OtherRelease> {
        let plan = self.plan.as_ref().filter(|_| self.refused.is_none());
        plan.zip(self.plan_request()).map_or_else(Vec::new, |(plan, request)| request.other_releases(plan))
    }

    pub(super) fn press_on_engines(&mut self, mut page: Box<EnginesPage>, command: Command) {
        let choices = EngineVersion::all();
        let last = choices.len().saturating_sub(1);
        match command {
            Command::Up | Command::Less => page.at = page.at.saturating_sub(1),
            Command::Down | Command::More => page.at = (page.at + 1).min(last),
            Command::First => page.at = 0,
            Command::Last => page.at = last,
            Command::Enter => {
                if let Some(&choice) = choices.get(page.at) {
                    self.choose(choice);
                }
                return;
            }
            Command::Help => {
                self.mode = Mode::Help(0);
                return;
            }
            Command::Back => return,
            _ => {}
        }
        self.mode = Mode::Engines(page);
    }
}
