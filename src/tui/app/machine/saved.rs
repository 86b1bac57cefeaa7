//! Saved machines: opening, joining, comparing and saving.

use std::sync::Arc;

use tui_input::Input;

use super::{MachinePrompt, MachineScreen, PAGE, compare};
use crate::engine::EngineId;
use crate::hardware::remembered::SavedMachine;
use crate::machine::Machine;
use crate::machine::what_if::{NamedMachine, WhatIf};
use crate::tui::action::Command;
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::screen::moved;

/// The state of the list.
#[derive(Clone, Debug, Default)]
pub struct SavedPage {
    /// The saved machines; none while the folder is read.
    pub entries: Option<Vec<SavedMachine>>,
    /// The selected one: 0 is the machine at start, the saved ones follow.
    pub at: usize,
    /// Those marked for comparison with the present machine, at most three.
    pub marked: Vec<usize>,
}

impl SavedPage {
    /// Marks the selected machine, or unmarks it.
    fn mark(&mut self) -> Result<(), String> {
        if let Some(at) = self.marked.iter().position(|&marked| marked == self.at) {
            self.marked.remove(at);
        } else if self.marked.len() + 1 < compare::MAX_MACHINES {
            self.marked.push(self.at);
        } else {
            return Err(format!(
                "At most {} machines can be compared with the current one.",
                compare::MAX_MACHINES - 1
            ));
        }
        Ok(())
    }

    /// The marked machines, or the selected one if none is marked; `here` is the machine at start.
    pub(super) fn wanted(&self, here: &Arc<Machine>) -> Result<Vec<(String, Arc<Machine>)>, String> {
        let wanted = if self.marked.is_empty() { vec![self.at] } else { self.marked.clone() };
        let named = |at: usize| match self.entry(at)? {
            Some((name, machine)) => Ok((name.to_owned(), Arc::new(machine.clone()))),
            None => Ok(("at start".to_owned(), Arc::clone(here))),
        };
        wanted.into_iter().map(named).collect()
    }

    /// The selected machine and its name; none for the machine at start.
    fn chosen(&self) -> Result<Option<(&str, &Machine)>, String> {
        self.entry(self.at)
    }

    fn entry(&self, at: usize) -> Result<Option<(&str, &Machine)>, String> {
        match at.checked_sub(1).and_then(|at| self.entries.as_ref()?.get(at)) {
            None => Ok(None),
            Some((name, Ok(machine))) => Ok(Some((name, machine))),
            Some((name, Err(why))) => Err(format!("{name} cannot be opened: {why}")),
        }
    }
}

impl App {
    pub(super) fn press_on_saved(
        &mut self,
        screen: &mut MachineScreen,
        mut saved: SavedPage,
        command: Command,
    ) -> Vec<Effect> {
        let count = 1 + saved.entries.as_ref().map_or(0, Vec::len);
        match command {
            Command::Back => return Vec::new(),
            Command::Enter | Command::Join => {
                let done = if command == Command::Enter { self.replace_machine(&saved) } else { self.join(&saved) };
                match done {
                    Ok(()) => {
                        *screen = MachineScreen::default();
                        return Vec::new();
                    }
                    Err(wrong) => screen.wrong = Some(wrong),
                }
            }
            Command::CompareMachines => return self.compare_machines(screen, saved),
            Command::Toggle => screen.wrong = saved.mark().err(),
            _ => saved.at = moved(saved.at, count, PAGE, command),
        }
        screen.prompt = MachinePrompt::Saved(saved);
        Vec::new()
    }

    /// Replaces the machine by the selected one.
    fn replace_machine(&mut self, saved: &SavedPage) -> Result<(), String> {
        let replacement = saved.chosen()?;
        let replacement = replacement
            .map(|(name, machine)| NamedMachine { name: name.to_owned(), machine: Arc::new(machine.clone()) });
        self.change_machine(|what_if, _| *what_if = WhatIf::replacement(replacement));
        Ok(())
    }

    /// Adds the GPUs of the selected machine over RPC.
    fn join(&mut self, saved: &SavedPage) -> Result<(), String> {
        let Some((name, machine)) = saved.chosen()? else {
            return Err("A machine cannot join itself: save it under a name to add another like it.".to_owned());
        };
        let mut joined = Ok(());
        self.change_machine(|what_if, here| {
            let before = what_if.clone();
            joined = what_if.join(name, machine, here);
            if joined.is_err() {
                *what_if = before;
            }
        });
        let uses_others = |engine: &EngineId| engine.facts().uses_other_computers;
        if joined.is_ok() && !uses_others(&self.engine) {
            let engines: Vec<&str> = EngineId::ALL.iter().filter(|id| uses_others(id)).map(|id| id.title()).collect();
            let engines = engines.join(" and ");
            self.notice = Some(format!("{name} joined over RPC; only {engines} can use it: press e to choose it."));
        }
        joined
    }

    pub(super) fn press_on_name(&mut self, screen: &mut MachineScreen, input: Input, command: Command) -> Vec<Effect> {
        if command != Command::Enter {
            return Vec::new();
        }
        let name = input.value().trim().to_owned();
        // stays open until the machine is saved
        screen.prompt = MachinePrompt::Name(input);
        vec![Effect::SaveMachine { name, machine: Arc::clone(&self.machine) }]
    }
}
