//! The key table, read by dispatch, the footer, the help screen and the README.

mod key;
mod scope;
mod table;

use ratatui::crossterm::event::KeyEvent;

use super::action::Command;

pub use key::Key;
pub use scope::Scope;
pub use table::KEYS;

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The alternative keys.
    pub keys: &'static [Key],
    /// The command.
    pub command: Command,
    /// Where the keys are active.
    pub scope: Scope,
    /// Short description.
    pub description: &'static str,
    /// The entry in the footer, for important keys.
    pub footer: Option<Hint>,
}

/// An entry of the footer; neighbours with the same word share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The word next to the key.
    pub word: &'static str,
    /// Entries of higher rank are dropped first in narrow footers.
    pub rank: u8,
}

impl Binding {
    /// All its keys as shown on the screen.
    pub fn names(&self) -> String {
        self.keys.iter().map(|key| key.name()).collect::<Vec<_>>().join(" ")
    }
}

/// The command of `event` where `scopes` are active; earlier scopes take precedence.
pub fn command(event: KeyEvent, scopes: &[Scope]) -> Option<Command> {
    let wanted = Key::of(event);
    let mut here = scopes.iter().flat_map(|scope| scope.bindings());
    here.find(|binding| binding.keys.contains(&wanted)).map(|binding| binding.command)
}

/// The name of the first key for `command` where `scopes` are active.
pub fn key_for(command: Command, scopes: &[Scope]) -> Option<String> {
    let mut here = scopes.iter().flat_map(|scope| scope.bindings());
    here.find(|binding| binding.command == command).and_then(|binding| binding.keys.first()).map(|key| key.name())
}

/// An entry of the footer with its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FooterWord {
    /// The names of the keys.
    pub keys: String,
    /// The word and its rank.
    pub hint: Hint,
    /// The command of the last of the keys, for a press with the mouse.
    pub command: Command,
}

/// The footer where `scopes` are active: keys and words in the order of the table, for commands that `mean` something.
pub fn footer(scopes: &[Scope], mean: impl Fn(Command) -> bool) -> Vec<FooterWord> {
    let mut words: Vec<FooterWord> = Vec::new();
    let here: Vec<&Binding> = scopes.iter().flat_map(|scope| scope.bindings()).collect();
    for (at, binding) in here.iter().enumerate().filter(|(_, binding)| mean(binding.command)) {
        // skip keys that an earlier scope gives another command
        let nearer = here.iter().take(at).filter(|other| other.scope != binding.scope);
        if nearer.flat_map(|other| other.keys).any(|key| binding.keys.first() == Some(key)) {
            continue;
        }
        let (Some(hint), Some(first)) = (binding.footer, binding.keys.first()) else { continue };
        let command = binding.command;
        match words.last_mut().filter(|last| last.hint == hint) {
            Some(last) => {
                last.keys.push_str(first.name().trim_start_matches('⇧'));
                last.command = command;
            }
            None => words.push(FooterWord { keys: first.name(), hint, command }),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::{KeyCode, KeyModifiers};

    use super::*;

    #[test]
    fn a_key_has_one_meaning_in_a_place() {
        for (i, a) in KEYS.iter().enumerate() {
            for b in &KEYS[i + 1..] {
                let clash = a.scope == b.scope && a.keys.iter().any(|key| b.keys.contains(key));
                assert!(!clash, "{} and {} share a key in {:?}", a.description, b.description, a.scope);
            }
        }
    }

    #[test]
    fn no_key_is_left_out_of_the_help() {
        assert!(KEYS.iter().all(|binding| Scope::ALL.contains(&binding.scope)));
    }

    #[test]
    fn the_footer_joins_keys_of_one_word() {
        let footer = footer(&[Scope::Knobs], |_| true);
        assert_eq!((footer[0].keys.as_str(), footer[0].hint.word), ("↑↓", "knob"));
        assert_eq!((footer[2].keys.as_str(), footer[2].hint.word), ("⇧←→", "fine"));
    }

    #[test]
    fn keys_are_named_in_active_scopes_only() {
        assert_eq!(key_for(Command::Notes, &[Scope::Knobs, Scope::Plan]).as_deref(), Some("n"));
        assert_eq!(key_for(Command::Notes, &[Scope::Machine, Scope::Everywhere]), None);
    }

    #[test]
    fn the_nearer_scope_wins() {
        let esc = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
        assert_eq!(command(esc, &[Scope::Field, Scope::Everywhere]), Some(Command::Back));
        let up = KeyEvent::new(KeyCode::Up, KeyModifiers::NONE);
        assert_eq!(command(up, &[Scope::Field]), None);
    }

    #[test]
    fn a_capital_is_one_key_with_and_without_the_modifier() {
        for modifiers in [KeyModifiers::NONE, KeyModifiers::SHIFT] {
            let press = |code| command(KeyEvent::new(code, modifiers), &[Scope::Machine]);
            assert_eq!(press(KeyCode::Char('T')), Some(Command::Theme));
            assert_eq!(press(KeyCode::Char('+')), Some(Command::Add));
            assert_eq!(press(KeyCode::BackTab), Some(Command::PreviousPanel));
        }
        let with_control = KeyModifiers::SHIFT | KeyModifiers::CONTROL;
        assert_eq!(command(KeyEvent::new(KeyCode::Char('c'), with_control), &[Scope::Everywhere]), None);
    }
}
