//! The card picker: by name, by size, or by a full description.

use tui_input::Input;

use super::{MachinePrompt, MachineScreen, PAGE};
use crate::machine::presets::{self, Preset};
use crate::machine::spec::MachineSpec;
use crate::machine::what_if::RamChange;
use crate::tui::action::Command;
use crate::tui::app::App;
use crate::tui::screen::moved;
use crate::units::Bytes;

/// A typed size matches cards whose memory differs by at most a 24th, which allows for drivers' reserves and rounding.
const NEAR: u64 = 24;

/// The state of the card picker.
#[derive(Clone, Debug)]
pub struct CardPicker {
    /// The slot of the GPU to replace; none to add one.
    pub slot: Option<usize>,
    /// The typed text.
    pub input: Input,
    /// Index into [`CardPicker::choices`].
    pub at: usize,
}

/// An entry of the list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CardChoice {
    /// A GPU with just a size.
    Size(Bytes),
    /// A known card.
    Card(&'static Preset),
}

impl CardPicker {
    pub(super) fn new(slot: Option<usize>) -> Self {
        Self { slot, input: Input::default(), at: 0 }
    }

    /// The typed text as a size, if it has a unit.
    fn size(&self) -> Option<Bytes> {
        let text = self.input.value().trim();
        let unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
        text.parse().ok().filter(|size| unit && *size >= Bytes::mib(1))
    }

    /// The matches of the typed text: a size and the cards of about that size, or cards by name.
    pub fn choices(&self) -> Vec<CardChoice> {
        let Some(size) = self.size() else {
            return presets::matching(self.input.value()).into_iter().map(CardChoice::Card).collect();
        };
        let near = |preset: &&Preset| preset.total().0.abs_diff(size.0) <= size.0 / NEAR;
        [CardChoice::Size(size)].into_iter().chain(presets::all().iter().filter(near).map(CardChoice::Card)).collect()
    }

    /// The selected card as a `--gpu` value; the typed text if nothing matches.
    fn spec_text(&self) -> String {
        match self.choices().get(self.at) {
            Some(CardChoice::Card(preset)) => preset.name.clone(),
            Some(CardChoice::Size(_)) | None => self.input.value().trim().to_owned(),
        }
    }
}

impl App {
    pub(super) fn press_on_cards(&mut self, screen: &mut MachineScreen, mut cards: CardPicker, command: Command) {
        match command {
            Command::Back => return,
            Command::Enter => match self.insert_card(&cards) {
                Ok(slot) => {
                    screen.row = slot;
                    return;
                }
                Err(wrong) => screen.wrong = Some(wrong),
            },
            _ => cards.at = moved(cards.at, cards.choices().len(), PAGE, command),
        }
        screen.prompt = MachinePrompt::Card(cards);
    }

    /// Puts the selected card into its slot, with the RAM of its system if it has one. Returns the slot.
    fn insert_card(&mut self, cards: &CardPicker) -> Result<usize, String> {
        let described = MachineSpec::read(&[cards.spec_text()], None)?;
        let Some(gpu) = described.gpus.and_then(|gpus| gpus.into_iter().next()) else {
            return Err("That is not a GPU: d removes one.".to_owned());
        };
        let assumed = match described.ram {
            _ if described.notes.is_empty() => None,
            None => Some(format!("{}: {} of {} assumed free.", gpu.name, gpu.free, gpu.total)),
            Some(ram) => Some(format!("{} comes with {} of RAM, {} assumed free.", gpu.name, ram.total, ram.free)),
        };
        let mut slot = Err(String::new());
        self.change_machine(|what_if, here| {
            slot = match cards.slot.and_then(|slot| Some((slot, what_if.change(slot, here)?))) {
                Some((slot, change)) => {
                    (change.card, change.free, change.off) = (Some(gpu), None, false);
                    Ok(slot)
                }
                None => what_if.add(gpu, here),
            };
            if let (Ok(_), Some(ram)) = (&slot, described.ram) {
                what_if.ram = RamChange { total: Some(ram.total), free: Some(ram.free), swap: Some(ram.swap_free) };
            }
        });
        self.notice = assumed.filter(|_| slot.is_ok());
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let cards = CardPicker { input: Input::new(text.to_owned()), ..CardPicker::new(None) };
        let name = |choice| match choice {
            CardChoice::Size(size) => format!("a GPU of {size}"),
            CardChoice::Card(preset) => preset.name.clone(),
        };
        cards.choices().into_iter().map(name).collect()
    }

    #[test]
    fn cards_are_found_by_name_and_by_size() {
        assert_eq!(names("").len(), presets::all().len());
        assert_eq!(names("5090").first().map(String::as_str), Some("RTX 5090"));
        let of_24 = names("24GiB");
        assert_eq!(of_24.first().map(String::as_str), Some("a GPU of 24.0 GiB"));
        assert!(of_24.iter().any(|name| name == "RTX 4090") && of_24.iter().all(|name| name != "RTX 5090"));
        assert!(names("Voodoo 2").is_empty());
    }
}
