//! Choosing a card: by name, by size, or described in full.

use tui_input::Input;

use super::{MachinePrompt, MachineScreen, moved};
use crate::machine::presets::{self, Preset};
use crate::machine::spec::MachineSpec;
use crate::machine::what_if::RamChange;
use crate::tui::action::Command;
use crate::tui::app::App;
use crate::units::Bytes;

/// Cards whose memory is so near to a size that was typed are offered with it: a 24th is what drivers keep and makers
/// round.
const NEAR: u64 = 24;

/// The state of the page.
#[derive(Clone, Debug)]
pub struct CardPicker {
    /// The GPU whose place the card takes; none for one more.
    pub slot: Option<usize>,
    /// What was typed.
    pub input: Input,
    /// Index into [`CardPicker::choices`].
    pub at: usize,
}

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CardChoice {
    /// A GPU of which only the size is known.
    Size(Bytes),
    /// One that is known by name.
    Card(&'static Preset),
}

impl CardPicker {
    pub(super) fn new(slot: Option<usize>) -> Self {
        Self { slot, input: Input::default(), at: 0 }
    }

    /// What was typed is a size with a unit.
    fn size(&self) -> Option<Bytes> {
        let text = self.input.value().trim();
        let unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
        text.parse().ok().filter(|size| unit && *size >= Bytes::mib(1))
    }

    /// What fits what was typed: a size, then the cards of about that size, or those whose names hold its letters.
    pub fn choices(&self) -> Vec<CardChoice> {
        let Some(size) = self.size() else {
            return presets::matching(self.input.value()).into_iter().map(CardChoice::Card).collect();
        };
        let near = |preset: &&Preset| preset.total().0.abs_diff(size.0) <= size.0 / NEAR;
        [CardChoice::Size(size)].into_iter().chain(presets::all().iter().filter(near).map(CardChoice::Card)).collect()
    }

    /// The chosen one as `--gpu` would have it; what was typed where nothing fits it.
    fn wanted(&self) -> String {
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
            Command::Enter => match self.put(&cards) {
                Ok(slot) => {
                    screen.row = slot;
                    return;
                }
                Err(wrong) => screen.wrong = Some(wrong),
            },
            _ => cards.at = moved(cards.at, cards.choices().len().saturating_sub(1), command),
        }
        screen.asking = MachinePrompt::Card(cards);
    }

    /// Puts the chosen card where it is to go, and the memory of a system with it; returns its seat.
    fn put(&mut self, cards: &CardPicker) -> Result<usize, String> {
        let described = MachineSpec::read(&[cards.wanted()], None)?;
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
