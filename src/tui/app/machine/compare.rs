//! Compares machines for the same model.

use std::sync::Arc;

use super::saved::SavedPage;
use super::{MachinePrompt, MachineScreen};
use crate::answer::compare::MachineResult;
use crate::machine::Machine;
use crate::tui::app::App;
use crate::tui::effect::{Effect, MachinesRequest};

/// Maximum number of machines side by side.
pub const MAX_MACHINES: usize = 4;

/// The state of the comparison.
#[derive(Clone, Debug)]
pub struct MachineComparison {
    /// The machines by name, the present one first.
    pub machines: Vec<(String, Arc<Machine>)>,
    /// Each machine's plan for the model, once known.
    pub answers: Option<Vec<MachineResult>>,
}

impl App {
    /// Compares the marked machines, or else the selected one, with the present machine.
    pub(super) fn compare_machines(&mut self, screen: &mut MachineScreen, saved: SavedPage) -> Vec<Effect> {
        let mut machines = vec![("current".to_owned(), Arc::clone(&self.machine))];
        match saved.wanted(&self.found_machine.machine) {
            Ok(wanted) => machines.extend(wanted),
            Err(wrong) => {
                screen.wrong = Some(wrong);
                screen.prompt = MachinePrompt::Saved(saved);
                return Vec::new();
            }
        }
        screen.prompt = MachinePrompt::Compare(MachineComparison { machines: machines.clone(), answers: None });
        let Some(of) = self.plan_request() else { return Vec::new() };
        vec![Effect::CompareMachines(Box::new(MachinesRequest { of, machines }))]
    }
}

impl MachineComparison {
    /// Takes the plans; an answer to an earlier request is for other machines.
    pub(super) fn learn(&mut self, answers: Vec<MachineResult>) {
        let asked = self.machines.iter().map(|(name, _)| name);
        if asked.eq(answers.iter().map(|on| &on.name)) {
            self.answers = Some(answers);
        }
    }
}
