//! Saved machines: opening, joining, comparing and saving.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};

use super::PAGE;
use super::compare::{MAX_MACHINES, MachineComparison};
use crate::engine::EngineId;
use crate::hardware::remembered::SavedMachine;
use crate::machine::Machine;
use crate::machine::what_if::{NamedMachine, WhatIf};
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::screen::{Response, Screen, moved};
use crate::tui::theme::Hue;
use crate::tui::widget::field::{self, Text, TextEntry};
use crate::tui::widget::list::{self, ListRows};
use crate::tui::widget::row_writer::{RowWriter, sentence, shortened, width};
use crate::tui::widget::{page, panel};

/// The state of the list.
#[derive(Debug)]
pub(super) struct SavedMachines {
    /// The saved machines; none while the folder is read.
    entries: Option<Vec<SavedMachine>>,
    /// The selected one: 0 is the machine at start, the saved ones follow.
    at: usize,
    /// Those marked for comparison with the present machine.
    marked: Vec<usize>,
    /// Why the last command was rejected.
    wrong: Option<String>,
    /// Another machine was opened or joined.
    pub(super) is_done: bool,
}

impl SavedMachines {
    /// Opens the list.
    pub(super) fn open() -> Response {
        let list = Self { entries: None, at: 0, marked: Vec::new(), wrong: None, is_done: false };
        Response::Over(Box::new(list), vec![Effect::ListMachines])
    }

    /// Marks the selected machine, or unmarks it.
    fn mark(&mut self) -> Result<(), String> {
        if let Some(at) = self.marked.iter().position(|&marked| marked == self.at) {
            self.marked.remove(at);
        } else if self.marked.len() + 1 < MAX_MACHINES {
            self.marked.push(self.at);
        } else {
            return Err(format!("At most {} machines can be compared with the current one.", MAX_MACHINES - 1));
        }
        Ok(())
    }

    /// The marked machines, or the selected one if none is marked; `here` is the machine at start.
    fn wanted(&self, here: &Arc<Machine>) -> Result<Vec<(String, Arc<Machine>)>, String> {
        let wanted = if self.marked.is_empty() { vec![self.at] } else { self.marked.clone() };
        let named = |at: usize| match self.entry(at)? {
            Some((name, machine)) => Ok((name.to_owned(), Arc::new(machine.clone()))),
            None => Ok(("at start".to_owned(), Arc::clone(here))),
        };
        wanted.into_iter().map(named).collect()
    }

    fn saved(&self) -> &[SavedMachine] {
        self.entries.as_deref().unwrap_or_default()
    }

    /// Machine `at` and its name; none for the machine at start.
    fn entry(&self, at: usize) -> Result<Option<(&str, &Machine)>, String> {
        match at.checked_sub(1).and_then(|at| self.saved().get(at)) {
            None => Ok(None),
            Some((name, Ok(machine))) => Ok(Some((name, machine))),
            Some((name, Err(why))) => Err(format!("{name} cannot be opened: {why}")),
        }
    }

    /// Replaces the machine by the selected one.
    fn replace_machine(&self, app: &mut App) -> Result<(), String> {
        let replacement = self
            .entry(self.at)?
            .map(|(name, machine)| NamedMachine { name: name.to_owned(), machine: Arc::new(machine.clone()) });
        app.change_machine(|what_if, _| *what_if = WhatIf::replacement(replacement));
        Ok(())
    }

    /// Adds the GPUs of the selected machine over RPC.
    fn join(&self, app: &mut App) -> Result<(), String> {
        let Some((name, machine)) = self.entry(self.at)? else {
            return Err("A machine cannot join itself: save it under a name to add another like it.".to_owned());
        };
        let mut joined = Ok(());
        app.change_machine(|what_if, here| {
            let before = what_if.clone();
            joined = what_if.join(name, machine, here);
            if joined.is_err() {
                *what_if = before;
            }
        });
        let uses_others = |engine: &EngineId| engine.facts().uses_other_computers;
        if joined.is_ok() && !uses_others(&app.request.engine) {
            let engines: Vec<&str> = EngineId::ALL.iter().filter(|id| uses_others(id)).map(|id| id.title()).collect();
            let engines = engines.join(" and ");
            app.notice = Some(format!("{name} joined over RPC; only {engines} can use it: press e to choose it."));
        }
        joined
    }

    fn list(&self, app: &App) -> ListRows {
        let inner = self.area(app).inner(Margin::new(2, 1));
        let above = Rect { height: inner.height.saturating_sub(2), ..inner };
        ListRows::showing(self.at, self.saved().len() + 1, above)
    }
}

impl Screen for SavedMachines {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::SavedMachines, Scope::Everywhere]
    }

    fn message(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        self.wrong = None;
        let done = match command {
            Command::Help => return Response::Ignored,
            Command::Back => return Response::CLOSE,
            Command::Enter => self.replace_machine(app),
            Command::Join => self.join(app),
            Command::CompareMachines => match self.wanted(&app.found_machine.machine) {
                Ok(wanted) => return MachineComparison::open(app, wanted),
                Err(wrong) => Err(wrong),
            },
            Command::Toggle => {
                self.wrong = self.mark().err();
                return Response::STAY;
            }
            _ => {
                self.at = moved(self.at, 1 + self.saved().len(), PAGE, command);
                return Response::STAY;
            }
        };
        match done {
            Ok(()) => {
                self.is_done = true;
                Response::CLOSE
            }
            Err(wrong) => {
                self.wrong = Some(wrong);
                Response::STAY
            }
        }
    }

    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        match self.list(app).row_at(at).filter(|_| gesture == Gesture::Down) {
            Some(row) if row == self.at => self.press(app, Command::Enter),
            Some(row) => {
                self.at = row;
                Response::STAY
            }
            None => Response::Ignored,
        }
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Response {
        if let Action::MachinesListed(listed) = answer {
            match listed {
                Ok(entries) => self.entries = Some(entries),
                Err(wrong) => (self.entries, self.wrong) = (Some(Vec::new()), Some(wrong)),
            }
        }
        Response::STAY
    }

    fn area(&self, app: &App) -> Rect {
        let rows = u16::try_from(self.saved().len()).unwrap_or(u16::MAX).saturating_add(7);
        let most = app.panels.regions.screen.height.saturating_sub(4).max(9);
        app.panels.regions.overlay(page::WIDTH.min(78), rows.clamp(9, most))
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        let theme = app.theme;
        panel::overlay(buffer, self.area(app), "Saved machines", "Enter opens, j joins, Esc back", theme);
        let list = self.list(app);
        for (place, at) in list.rows() {
            let chosen = at == self.at;
            let ink = list::ink(place, chosen, theme, buffer);
            let mut writer = RowWriter::new(buffer, place, 0);
            writer.put(if chosen { "▸ " } else { "  " }, ink);
            writer.put(if self.marked.contains(&at) { "● " } else { "  " }, ink);
            match at.checked_sub(1).and_then(|at| self.saved().get(at)) {
                None => {
                    let here = app.found_machine.machine.to_string();
                    let long = "machine at start";
                    let short = width(long) + 2 + width(&here) > writer.room();
                    writer.put(if short { "at start" } else { long }, ink).skip(2);
                    let here = shortened(&here, writer.room());
                    writer.put(&here, theme.ink(Hue::Dim));
                }
                Some((name, Ok(machine))) => {
                    writer.put(name, ink).skip(2).put(&machine.to_string(), theme.ink(Hue::Dim));
                }
                Some((name, Err(why))) => {
                    writer.put(name, ink).put("  ✗ ", theme.ink(Hue::Over)).put(why, theme.ink(Hue::Over));
                }
            }
        }
        let (hue, text) = match (self.wrong.as_deref(), &self.entries) {
            (Some(wrong), _) => (Hue::Over, wrong),
            (None, None) => (Hue::Dim, "Reading…"),
            (None, Some(entries)) if entries.is_empty() => {
                (Hue::Dim, "No saved machines: press s on the machine screen to save the current one.")
            }
            (None, Some(_)) => {
                (Hue::Dim, "On the command line: --machine NAME plans for one, --join NAME adds its GPUs.")
            }
        };
        sentence(text, Rect { y: list.area.bottom(), height: 2, ..list.area }, theme.ink(hue), buffer);
    }
}

/// The field for the name under which the machine is saved.
#[derive(Debug, Default)]
pub(super) struct NameField {
    entry: TextEntry,
}

impl Screen for NameField {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Field, Scope::Everywhere]
    }

    fn message(&self) -> Option<&str> {
        self.entry.wrong.as_deref()
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        match command {
            Command::Enter => {
                self.entry.wrong = None;
                let name = self.entry.input.value().trim().to_owned();
                // stays open until the machine is saved
                Response::Stay(vec![Effect::SaveMachine { name, machine: Arc::clone(&app.request.machine) }])
            }
            Command::Back => Response::CLOSE,
            _ => Response::Ignored,
        }
    }

    fn accepts_text(&self) -> bool {
        true
    }

    fn text(&mut self, _: &mut App, text: Text<'_>) -> Response {
        self.entry.edit(text);
        Response::STAY
    }

    fn answer(&mut self, app: &mut App, answer: Action) -> Response {
        match answer {
            Action::MachineSaved(Ok(_)) => return Response::CLOSE,
            // said in the field
            Action::MachineSaved(Err(wrong)) => (self.entry.wrong, app.notice) = (Some(wrong), None),
            _ => {}
        }
        Response::STAY
    }

    fn area(&self, app: &App) -> Rect {
        app.panels.regions.overlay(60, 7)
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        let theme = app.theme;
        let inner = panel::overlay(buffer, self.area(app), "Save this machine", "Enter saves, Esc back", theme);
        let hint = "a name, for --machine NAME";
        field::draw(&self.entry.input, hint, Rect { height: 1, ..inner }, theme, buffer);
        let below = Rect { y: inner.y + 2, height: inner.height.saturating_sub(2), ..inner };
        let machine = app.request.machine.to_string();
        let wrong = self.entry.wrong.as_deref();
        let (hue, text) = wrong.map_or((Hue::Dim, machine.as_str()), |wrong| (Hue::Over, wrong));
        sentence(text, below, theme.ink(hue), buffer);
    }
}
