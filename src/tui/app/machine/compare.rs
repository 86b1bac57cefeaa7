//! The same model on several machines, side by side.

use std::sync::Arc;

use super::saved::SavedPage;
use super::{MachinePrompt, MachineScreen};
use crate::answer::machines::MachineResult;
use crate::machine::Machine;
use crate::tui::app::{App, Mode};
use crate::tui::effect::{Effect, MachinesRequest};

/// The most machines that stand side by side.
pub const MAX_MACHINES: usize = 4;

/// The state of the page.
#[derive(Clone, Debug)]
pub struct MachineComparison {
    /// The machines by name, the one that is planned for first.
    pub machines: Vec<(String, Arc<Machine>)>,
    /// What each makes of the model, once that is known.
    pub answers: Option<Vec<MachineResult>>,
}

impl App {
    /// Puts the marked machines, or else the chosen one, beside the one that is planned for.
    pub(super) fn compare_machines(&mut self, screen: &mut MachineScreen, saved: SavedPage) -> Vec<Effect> {
        let mut machines = vec![("current".to_owned(), Arc::clone(&self.machine))];
        match saved.wanted(&self.found_machine.machine) {
            Ok(wanted) => machines.extend(wanted),
            Err(wrong) => {
                screen.wrong = Some(wrong);
                screen.asking = MachinePrompt::Saved(saved);
                return Vec::new();
            }
        }
        screen.asking = MachinePrompt::Compare(MachineComparison { machines: machines.clone(), answers: None });
        let Some(of) = self.plan_request() else { return Vec::new() };
        vec![Effect::CompareMachines(Box::new(MachinesRequest { of, machines }))]
    }

    pub(in crate::tui::app) fn machines_compared(&mut self, answers: Vec<MachineResult>) {
        let Mode::Machine(screen) = &mut self.mode else { return };
        let MachinePrompt::Compare(compare) = &mut screen.asking else { return };
        // an answer to an earlier question names other machines
        let asked = compare.machines.iter().map(|(name, _)| name);
        if asked.eq(answers.iter().map(|on| &on.name)) {
            compare.answers = Some(answers);
        }
    }
}
