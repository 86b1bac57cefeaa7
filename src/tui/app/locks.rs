//! Locked knobs, which suggestions do not change.

use super::App;
use crate::settings::knob::Knob;

impl App {
    /// Locks the focused knob, or unlocks it.
    pub(super) fn lock(&mut self) {
        let knob = self.knobs.focus;
        if let Some(at) = self.knobs.locked.iter().position(|&held| held == knob) {
            self.knobs.locked.remove(at);
            self.notice = Some(format!("{} unlocked: suggestions may change it.", knob.title()));
        } else {
            self.knobs.locked.push(knob);
            self.notice = Some(format!("{} locked: s suggests the best settings that keep it.", knob.title()));
        }
    }

    /// Whether suggestions must not change `knob`.
    pub fn is_locked(&self, knob: Knob) -> bool {
        self.knobs.locked.contains(&knob)
    }
}
