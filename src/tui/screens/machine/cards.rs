//! The card picker: by name, by size, or by a full description.

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};

use super::PAGE;
use crate::machine::Machine;
use crate::machine::presets::{self, Preset};
use crate::machine::spec::MachineSpec;
use crate::machine::what_if::RamChange;
use crate::tui::action::{Command, Gesture};
use crate::tui::app::App;
use crate::tui::keymap::Scope;
use crate::tui::screen::{Response, Screen, moved};
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::field::{self, Text, TextEntry};
use crate::tui::widget::list::{self, ListRows};
use crate::tui::widget::row_writer::{RowWriter, sentence, width};
use crate::tui::widget::{page, panel};
use crate::units::Bytes;

/// A typed size matches cards whose memory differs by at most a 24th, which allows for drivers' reserves and rounding.
const NEAR: u64 = 24;

/// The state of the card picker.
#[derive(Debug)]
pub(super) struct CardPicker {
    /// The slot of the GPU to replace; none to add one.
    slot: Option<usize>,
    /// The typed text, and why it was rejected.
    entry: TextEntry,
    /// The names of the machine's cards, which stand first until something is typed.
    own: Vec<String>,
    /// Index into [`CardPicker::choices`].
    at: usize,
    /// The row of the GPU, once it is chosen.
    pub(super) row: Option<usize>,
}

/// An entry of the list.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CardChoice {
    /// A GPU with just a size.
    Size(Bytes),
    /// A known card.
    Card(&'static Preset),
}

impl CardPicker {
    /// To replace the GPU in `slot`, or to add one to `machine`.
    pub(super) fn of(slot: Option<usize>, machine: &Machine) -> Self {
        let own = machine.gpus.iter().map(|gpu| gpu.name.clone()).collect();
        Self { slot, entry: TextEntry::default(), own, at: 0, row: None }
    }

    /// The typed text as a size, if it has a unit.
    fn size(&self) -> Option<Bytes> {
        let text = self.entry.input.value().trim();
        let unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
        text.parse().ok().filter(|size| unit && *size >= Bytes::mib(1))
    }

    /// The matches of the typed text: a size and the cards of about that size, or cards by name.
    fn choices(&self) -> Vec<CardChoice> {
        let Some(size) = self.size() else {
            let typed = self.entry.input.value();
            let mut cards = presets::matching(typed);
            cards.sort_by_key(|card| !typed.is_empty() || !self.own.iter().any(|own| own == card.name));
            return cards.into_iter().map(CardChoice::Card).collect();
        };
        let near = |preset: &&Preset| preset.total().0.abs_diff(size.0) <= size.0 / NEAR;
        [CardChoice::Size(size)].into_iter().chain(presets::all().iter().filter(near).map(CardChoice::Card)).collect()
    }

    /// The selected card as a `--gpu` value; the typed text if nothing matches.
    fn spec_text(&self) -> String {
        match self.choices().get(self.at) {
            Some(CardChoice::Card(preset)) => preset.name.to_owned(),
            Some(CardChoice::Size(_)) | None => self.entry.input.value().trim().to_owned(),
        }
    }

    /// Puts the selected card into its slot, with the RAM of its system if it has one. Returns the slot.
    fn insert(&self, app: &mut App) -> Result<usize, String> {
        let described = MachineSpec::read(&[self.spec_text()], None)?;
        let Some(gpu) = described.gpus.and_then(|gpus| gpus.into_iter().next()) else {
            return Err("That is not a GPU: d removes one.".to_owned());
        };
        let assumed = match described.ram {
            _ if described.notes.is_empty() => None,
            None => Some(format!("{}: {} of {} assumed free.", gpu.name, gpu.free, gpu.total)),
            Some(ram) => Some(format!("{} comes with {} of RAM, {} assumed free.", gpu.name, ram.total, ram.free)),
        };
        let mut slot = Err(String::new());
        app.change_machine(|what_if, here| {
            slot = match self.slot.and_then(|slot| Some((slot, what_if.change(slot, here)?))) {
                Some((slot, change)) => {
                    (change.card, change.free, change.off) = (Some(gpu), None, false);
                    Ok(slot)
                }
                None => what_if.add(gpu, here),
            };
            if let (Ok(_), Some(ram)) = (&slot, described.ram) {
                let (total, free, swap) = (Some(ram.total), Some(ram.free), Some(ram.swap_free));
                what_if.ram = RamChange { total, free, swap, bandwidth: None };
            }
        });
        app.notice = assumed.filter(|_| slot.is_ok());
        slot
    }

    /// The list, with `count` choices.
    fn list(&self, app: &App, count: usize) -> ListRows {
        let inner = self.area(app).inner(Margin::new(2, 1));
        let below = Rect { y: inner.y + 2, height: inner.height.saturating_sub(2), ..inner };
        ListRows::showing(self.at, count, below)
    }
}

impl Screen for CardPicker {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::CardPicker, Scope::Everywhere]
    }

    fn message(&self) -> Option<&str> {
        self.entry.wrong.as_deref()
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        self.entry.wrong = None;
        match command {
            Command::Help => return Response::Ignored,
            Command::Back => return Response::CLOSE,
            Command::Enter => match self.insert(app) {
                Ok(row) => {
                    self.row = Some(row);
                    return Response::CLOSE;
                }
                Err(wrong) => self.entry.wrong = Some(wrong),
            },
            _ => self.at = moved(self.at, self.choices().len(), PAGE, command),
        }
        Response::STAY
    }

    fn accepts_text(&self) -> bool {
        true
    }

    fn text(&mut self, _: &mut App, text: Text<'_>) -> Response {
        self.entry.edit(text);
        self.at = 0;
        Response::STAY
    }

    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        // a message stands in place of the list
        if gesture != Gesture::Down || self.entry.wrong.is_some() {
            return Response::Ignored;
        }
        match self.list(app, self.choices().len()).row_at(at) {
            Some(row) if row == self.at => self.press(app, Command::Enter),
            Some(row) => {
                self.at = row;
                Response::STAY
            }
            None => Response::Ignored,
        }
    }

    fn area(&self, app: &App) -> Rect {
        app.panels
            .regions
            .overlay(page::WIDTH.min(78), app.panels.regions.screen.height.saturating_sub(4).clamp(14, 30))
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        let theme = app.theme;
        let title = if self.slot.is_some() { "Replace this card" } else { "Add a GPU" };
        let inner = panel::overlay(buffer, self.area(app), title, "Enter applies, Esc back", theme);
        let hints = ["a name, a size such as 24GiB, or total=24GiB,free=22GiB,…", "a name, or a size such as 24GiB"];
        // plus the prompt sign and the cursor
        let hint = hints.into_iter().find(|hint| width(hint) + 3 <= inner.width).unwrap_or_default();
        field::draw(&self.entry.input, hint, Rect { height: 1, ..inner }, theme, buffer);
        let choices = self.choices();
        let list = self.list(app, choices.len());
        if let Some(wrong) = &self.entry.wrong {
            sentence(wrong, list.area, theme.ink(Hue::Over), buffer);
        } else if choices.is_empty() {
            let text = "No known card matches. Enter uses the typed text as --gpu does.";
            sentence(text, list.area, theme.ink(Hue::Dim), buffer);
        } else {
            for ((place, at), choice) in list.rows().zip(choices.into_iter().skip(list.first)) {
                choice.draw(at == self.at, place, theme, buffer);
            }
        }
    }
}

impl CardChoice {
    fn draw(self, chosen: bool, row: Rect, theme: Theme, buffer: &mut Buffer) {
        let (ink, dim) = (list::ink(row, chosen, theme, buffer), theme.ink(Hue::Dim));
        let mark = if chosen { "▸ " } else { "  " };
        let mut writer = RowWriter::new(buffer, row, 0);
        match self {
            Self::Size(size) => {
                writer.put(mark, ink).put(&format!("a GPU of {size}"), ink).put("  CUDA, all free", dim);
            }
            Self::Card(preset) => {
                writer
                    .right(&format!("{:>6} GB/s", preset.gbps), dim)
                    .right(&format!("{:>8}", preset.backend.name()), dim)
                    .right(&format!("{:>11}", preset.total().to_string()), ink)
                    .put(mark, ink)
                    .put(preset.name, ink);
                if preset.integrated {
                    writer.put("  shares RAM", dim);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let here = MachineSpec::read(&["RTX 4090".to_owned()], None).unwrap().gpus.unwrap();
        let own = here.iter().map(|gpu| gpu.name.clone()).collect();
        let mut cards = CardPicker { slot: None, entry: TextEntry::default(), own, at: 0, row: None };
        cards.entry.edit(Text::Pasted(&crate::tui::pasted::Pasted::of(text)));
        let name = |choice| match choice {
            CardChoice::Size(size) => format!("a GPU of {size}"),
            CardChoice::Card(preset) => preset.name.to_owned(),
        };
        cards.choices().into_iter().map(name).collect()
    }

    #[test]
    fn cards_are_found_by_name_and_by_size() {
        assert_eq!(names("").len(), presets::all().len());
        assert_eq!(names("").first().map(String::as_str), Some("RTX 4090"), "another one of the machine's");
        assert_eq!(names("5090").first().map(String::as_str), Some("RTX 5090"));
        let of_24 = names("24GiB");
        assert_eq!(of_24.first().map(String::as_str), Some("a GPU of 24.0 GiB"));
        assert!(of_24.iter().any(|name| name == "RTX 4090") && of_24.iter().all(|name| name != "RTX 5090"));
        assert!(names("Voodoo 2").is_empty());
    }
}
