//! Keys of the user's own: `[keys]` in the configuration file gives commands further keys.

use ratatui::crossterm::event::{KeyCode, KeyModifiers};

use super::{Binding, Key, Keymap, Scope};
use crate::tui::action::Command;

impl Keymap {
    /// The map in which the command of this name has `keys` too. A key that another command has in the same place is
    /// taken from it if that one keeps another; else it stays there, which is an error in the command's own place.
    ///
    /// # Errors
    /// One sentence: no such command or key, or why it cannot have the key.
    pub fn with(&self, command: &str, keys: &[&str]) -> Result<Self, String> {
        let command = named(command)?;
        let mut bindings = self.bindings.to_vec();
        for text in keys {
            let key = key(text)?;
            let places: Vec<usize> = (0..bindings.len()).filter(|at| bindings[*at].command == command).collect();
            let typed = |at: &usize| matches!(bindings[*at].scope, Scope::Field | Scope::Models | Scope::Everywhere);
            if key.types_a_character() && places.iter().any(typed) {
                return Err(format!(
                    "'{text}' is typed where {} is a command: take one with Ctrl, or an F key",
                    name(command)
                ));
            }
            for (nth, place) in places.into_iter().enumerate() {
                let scope = bindings[place].scope;
                let holds = |other: &Binding| other.command != command && other.keys.contains(&key);
                let holder = bindings.iter_mut().find(|other| other.scope == scope && holds(other));
                match holder {
                    Some(holder) if holder.keys.len() == 1 && nth == 0 => {
                        let (who, scope) = (name(holder.command), scope.heading());
                        return Err(format!(
                            "'{text}' is the only key of {who} in '{scope}': give {who} another one before"
                        ));
                    }
                    Some(holder) if holder.keys.len() == 1 => continue,
                    Some(holder) => holder.keys.to_mut().retain(|held| *held != key),
                    None => {}
                }
                let own = &mut bindings[place].keys;
                if !own.contains(&key) {
                    // the newest first: that is the one which is shown in hints
                    own.to_mut().insert(0, key);
                }
            }
        }
        Ok(Self { bindings: bindings.into() })
    }
}

/// The name of a command in the configuration file: `max-in-vram`.
pub fn name(command: Command) -> String {
    let mut name = String::new();
    for letter in format!("{command:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn named(text: &str) -> Result<Command, String> {
    let commands = || super::KEYS.iter().map(|binding| binding.command);
    commands().find(|command| name(*command) == text.trim()).ok_or_else(|| {
        let near = commands().map(name).min_by_key(|name| strsim::osa_distance(name, text));
        let near = near.filter(|name| strsim::osa_distance(name, text) * 2 <= name.len());
        let near = near.map(|near| format!(": did you mean '{near}'?")).unwrap_or_default();
        format!("'{text}' is no command{near}; 'plimsoll config --example' lists them")
    })
}

/// Keys by the names that are shown, and by words.
const NAMED: [(&str, KeyCode); 18] = [
    ("up", KeyCode::Up),
    ("↑", KeyCode::Up),
    ("down", KeyCode::Down),
    ("↓", KeyCode::Down),
    ("left", KeyCode::Left),
    ("←", KeyCode::Left),
    ("right", KeyCode::Right),
    ("→", KeyCode::Right),
    ("pgup", KeyCode::PageUp),
    ("pgdn", KeyCode::PageDown),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("space", KeyCode::Char(' ')),
    ("delete", KeyCode::Delete),
    ("backspace", KeyCode::Backspace),
];

/// The key of this name: `x`, `X`, `F5`, `Ctrl-x`, `Alt-x`, `Shift-Left`, `PgUp`, `Space`.
fn key(text: &str) -> Result<Key, String> {
    let unknown = || format!("'{text}' is no key: write x, X, F5, Ctrl-x, Alt-x, Shift-Left, PgUp, Space …");
    let (mut rest, mut modifiers) = (text.trim(), KeyModifiers::NONE);
    let prefixes = [
        ("ctrl-", KeyModifiers::CONTROL),
        ("alt-", KeyModifiers::ALT),
        ("shift-", KeyModifiers::SHIFT),
        ("⇧", KeyModifiers::SHIFT),
    ];
    while let Some((after, modifier)) = prefixes.iter().find_map(|(prefix, modifier)| {
        let start = rest.get(..prefix.len())?;
        start.eq_ignore_ascii_case(prefix).then(|| (&rest[prefix.len()..], *modifier))
    }) {
        (rest, modifiers) = (after, modifiers | modifier);
    }
    let mut letters = rest.chars();
    let code = match (letters.next(), letters.next()) {
        (Some(letter), None) if !letter.is_control() && !NAMED.iter().any(|(name, _)| *name == rest) => {
            KeyCode::Char(letter)
        }
        _ => {
            let named = NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(rest)).map(|(_, code)| *code);
            let number = || rest.strip_prefix(['F', 'f'])?.parse().ok().filter(|number| (1..=24).contains(number));
            named.or_else(|| number().map(KeyCode::F)).ok_or_else(unknown)?
        }
    };
    match (code, modifiers) {
        (KeyCode::Tab, KeyModifiers::SHIFT) => Ok(super::key(KeyCode::BackTab)),
        // capitals imply it
        (KeyCode::Char(letter), KeyModifiers::SHIFT) if letter.is_ascii_alphabetic() => {
            Ok(super::letter(letter.to_ascii_uppercase()))
        }
        (KeyCode::Char(letter), modifiers) if modifiers.contains(KeyModifiers::CONTROL) => {
            Ok(Key(KeyCode::Char(letter.to_ascii_lowercase()), modifiers))
        }
        (code, modifiers) => Ok(Key(code, modifiers)),
    }
}

/// Every command by its name, with what it does where that is said first.
pub fn commands() -> Vec<(String, &'static str)> {
    let mut commands: Vec<(String, &'static str)> = Vec::new();
    for binding in super::KEYS {
        let name = name(binding.command);
        if !commands.iter().any(|(known, _)| *known == name) {
            commands.push((name, binding.description));
        }
    }
    commands
}

impl Key {
    const fn types_a_character(self) -> bool {
        matches!(self.0, KeyCode::Char(_)) && !self.1.intersects(KeyModifiers::CONTROL.union(KeyModifiers::ALT))
    }
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyEvent;

    use super::*;

    fn pressed(keymap: &Keymap, code: KeyCode, modifiers: KeyModifiers, scope: Scope) -> Option<Command> {
        keymap.command(KeyEvent::new(code, modifiers), &[scope])
    }

    #[test]
    fn keys_are_read_as_they_are_shown() {
        for binding in super::super::KEYS {
            for shown in binding.keys.iter() {
                let read = key(&shown.name()).unwrap();
                assert_eq!((read.name(), read), (shown.name(), *shown));
            }
        }
        assert_eq!(key("ctrl-X").unwrap(), super::super::ctrl('x'));
        assert_eq!(key("Shift-Tab").unwrap(), super::super::key(KeyCode::BackTab));
        assert_eq!(key("shift-a").unwrap(), super::super::letter('A'));
        assert_eq!(key("-").unwrap(), super::super::letter('-'));
        for wrong in ["", "F0", "F99", "Hyper-x", "Ctrl-", "xy"] {
            assert!(key(wrong).unwrap_err().contains("is no key"), "{wrong}");
        }
    }

    #[test]
    fn every_command_has_a_name_of_its_own() {
        let commands = commands();
        for (name, _) in &commands {
            assert_eq!(&super::name(named(name).unwrap()), name);
        }
        assert!(commands.len() > 60 && commands.iter().any(|(name, _)| name == "max-in-vram"));
        assert!(named("max-vram").unwrap_err().contains("did you mean 'max-in-vram'?"));
    }

    #[test]
    fn a_further_key_stands_first_and_the_usual_one_stays() {
        let keymap = Keymap::default().with("export", &["F9", "X"]).unwrap();
        for code in [KeyCode::F(9), KeyCode::Char('X'), KeyCode::Char('x')] {
            assert_eq!(pressed(&keymap, code, KeyModifiers::NONE, Scope::Plan), Some(Command::Export));
        }
        assert_eq!(keymap.key_for(Command::Export, &[Scope::Plan]).as_deref(), Some("X"));
    }

    #[test]
    fn a_key_is_taken_from_what_keeps_another() {
        let refused = Keymap::default().with("undo", &["x"]).unwrap_err();
        assert!(refused.contains("only key of export"), "{refused}");
        let keymap = Keymap::default().with("export", &["F9"]).and_then(|keymap| keymap.with("undo", &["x"])).unwrap();
        let press = |code| pressed(&keymap, code, KeyModifiers::NONE, Scope::Plan);
        assert_eq!((press(KeyCode::Char('x')), press(KeyCode::F(9))), (Some(Command::Undo), Some(Command::Export)));
        let teach = pressed(&keymap, KeyCode::Char('x'), KeyModifiers::NONE, Scope::Teach);
        assert_eq!(teach, Some(Command::RemoveOp), "the only key of another command stays");
    }

    #[test]
    fn what_is_typed_into_fields_is_no_key() {
        assert!(Keymap::default().with("quit-at-once", &["z"]).unwrap_err().contains("is typed"));
        assert!(Keymap::default().with("quit-at-once", &["Ctrl-q"]).is_ok());
    }
}
