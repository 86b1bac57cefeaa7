//! The same model on several machines, side by side.

use std::sync::Arc;

use super::shelf::Shelf;
use super::{Asking, Bench};
use crate::answer::machines::OnMachine;
use crate::machine::Machine;
use crate::tui::app::{App, Mode};
use crate::tui::effect::{Contest, Effect};

/// The most machines that stand side by side.
pub const MOST: usize = 4;

/// The state of the page.
#[derive(Clone, Debug)]
pub struct Versus {
    /// The machines by name, the one that is planned for first.
    pub machines: Vec<(String, Arc<Machine>)>,
    /// What each makes of the model, once that is known.
    pub answers: Option<Vec<OnMachine>>,
}

impl App {
    /// Puts the marked machines, or else the chosen one, beside the one that is planned for.
    pub(super) fn begin_versus(&mut self, bench: &mut Bench, shelf: Shelf) -> Vec<Effect> {
        let mut machines = vec![("current".to_owned(), Arc::clone(&self.machine))];
        match shelf.wanted(&self.found_machine.machine) {
            Ok(wanted) => machines.extend(wanted),
            Err(wrong) => {
                bench.wrong = Some(wrong);
                bench.asking = Asking::Shelf(shelf);
                return Vec::new();
            }
        }
        bench.asking = Asking::Versus(Versus { machines: machines.clone(), answers: None });
        let Some(of) = self.situation() else { return Vec::new() };
        vec![Effect::Versus(Box::new(Contest { of, machines }))]
    }

    pub(in crate::tui::app) fn versed(&mut self, answers: Vec<OnMachine>) {
        let Mode::Machine(bench) = &mut self.mode else { return };
        let Asking::Versus(versus) = &mut bench.asking else { return };
        // an answer to an earlier question names other machines
        let asked = versus.machines.iter().map(|(name, _)| name);
        if asked.eq(answers.iter().map(|on| &on.name)) {
            versus.answers = Some(answers);
        }
    }
}
