//! The key table, read by dispatch, the footer, the help screen and the README; with the keys that the user adds.

mod rebound;
mod table;

use std::borrow::Cow;
use std::sync::Arc;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::action::Command;

pub use rebound::commands;
pub use table::KEYS;

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The alternative keys.
    pub keys: Cow<'static, [Key]>,
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

/// The keys of all commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap {
    bindings: Arc<[Binding]>,
}

impl Default for Keymap {
    fn default() -> Self {
        Self { bindings: KEYS.into() }
    }
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

impl Keymap {
    /// The bindings of `scope`, in the order of the table.
    pub fn bindings(&self, scope: Scope) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().filter(move |binding| binding.scope == scope)
    }

    fn here<'a>(&'a self, scopes: &'a [Scope]) -> impl Iterator<Item = &'a Binding> {
        scopes.iter().flat_map(|scope| self.bindings(*scope))
    }

    /// The command of `event` where `scopes` are active; earlier scopes take precedence.
    pub fn command(&self, event: KeyEvent, scopes: &[Scope]) -> Option<Command> {
        let wanted = Key::of(event);
        self.here(scopes).find(|binding| binding.keys.contains(&wanted)).map(|binding| binding.command)
    }

    /// The name of the first key for `command` where `scopes` are active.
    pub fn key_for(&self, command: Command, scopes: &[Scope]) -> Option<String> {
        let binding = self.here(scopes).find(|binding| binding.command == command);
        binding.and_then(|binding| binding.keys.first()).map(|key| key.name())
    }

    /// The footer where `scopes` are active: keys and words in the order of the table, for commands that `mean` something.
    pub fn footer(&self, scopes: &[Scope], mean: impl Fn(Command) -> bool) -> Vec<FooterWord> {
        let mut words: Vec<FooterWord> = Vec::new();
        let here: Vec<&Binding> = self.here(scopes).collect();
        for (at, binding) in here.iter().enumerate().filter(|(_, binding)| mean(binding.command)) {
            // skip keys that an earlier scope gives another command
            let nearer = here.iter().take(at).filter(|other| other.scope != binding.scope);
            if nearer.flat_map(|other| other.keys.iter()).any(|key| binding.keys.first() == Some(key)) {
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
}

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub KeyCode, pub KeyModifiers);

pub(super) const fn key(code: KeyCode) -> Key {
    Key(code, KeyModifiers::NONE)
}

pub(super) const fn letter(c: char) -> Key {
    key(KeyCode::Char(c))
}

pub(super) const fn shift(code: KeyCode) -> Key {
    Key(code, KeyModifiers::SHIFT)
}

pub(super) const fn ctrl(c: char) -> Key {
    Key(KeyCode::Char(c), KeyModifiers::CONTROL)
}

impl Key {
    /// The key of `event`. Capitals and other shifted characters already imply shift, and terminals differ in whether
    /// they add the modifier.
    pub fn of(event: KeyEvent) -> Self {
        let modifiers = event.modifiers & (KeyModifiers::SHIFT | KeyModifiers::CONTROL | KeyModifiers::ALT);
        match event.code {
            KeyCode::Char(_) | KeyCode::BackTab if modifiers == KeyModifiers::SHIFT => key(event.code),
            code => Self(code, modifiers),
        }
    }

    /// The name shown on the screen.
    pub fn name(self) -> String {
        let name = match self.0 {
            KeyCode::Up => "↑".to_owned(),
            KeyCode::Down => "↓".to_owned(),
            KeyCode::Left => "←".to_owned(),
            KeyCode::Right => "→".to_owned(),
            KeyCode::PageUp => "PgUp".to_owned(),
            KeyCode::PageDown => "PgDn".to_owned(),
            KeyCode::Home => "Home".to_owned(),
            KeyCode::End => "End".to_owned(),
            KeyCode::Enter => "Enter".to_owned(),
            KeyCode::Esc => "Esc".to_owned(),
            KeyCode::Tab => "Tab".to_owned(),
            KeyCode::BackTab => return "⇧Tab".to_owned(),
            KeyCode::Char(' ') => "Space".to_owned(),
            KeyCode::Char(c) if self.1.contains(KeyModifiers::CONTROL) => {
                return format!("Ctrl-{}", c.to_ascii_uppercase());
            }
            KeyCode::Char(c) if self.1.contains(KeyModifiers::ALT) => return format!("Alt-{c}"),
            KeyCode::Char(c) => return c.to_string(),
            KeyCode::F(number) => format!("F{number}"),
            other => format!("{other:?}"),
        };
        if self.1.contains(KeyModifiers::SHIFT) { format!("⇧{name}") } else { name }
    }
}

/// Where a key binding is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// On every screen.
    Everywhere,
    /// On the planner, with any focus.
    Plan,
    /// On the planner, with the focus on the knobs.
    Knobs,
    /// On the planner, with the focus on a panel with a list.
    Lists,
    /// While text is typed.
    Field,
    /// On the machine screen.
    Machine,
    /// In the card picker.
    CardPicker,
    /// In the list of saved machines.
    SavedMachines,
    /// In the model browser.
    Models,
    /// In lists of suggestions or engines.
    Suggestions,
    /// On the sweep page.
    Sweep,
    /// On the matrix page.
    Matrix,
    /// On the compare page.
    Compare,
    /// On the page of a log beside its plan.
    Verify,
    /// On the page of what runs.
    Watch,
    /// On the page of several models.
    Together,
    /// On the export page.
    Export,
    /// On the placement screen.
    Placement,
    /// On the pages of a layer and of a device.
    Details,
    /// On the pages of where a number comes from.
    Explain,
    /// On the pages of the teach screen.
    Teach,
    /// On overlays.
    Page,
}

impl Scope {
    /// The heading in the help.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Everywhere => "Everywhere",
            Self::Plan => "Planner",
            Self::Knobs => "Knobs",
            Self::Lists => "Layers, memory, compute",
            Self::Field => "Text input",
            Self::Machine => "Machine",
            Self::CardPicker => "Choosing a card",
            Self::SavedMachines => "Saved machines",
            Self::Models => "Models",
            Self::Suggestions => "Suggestions, engines",
            Self::Sweep => "Sweep",
            Self::Matrix => "Matrix",
            Self::Compare => "Compare",
            Self::Verify => "Planned and observed",
            Self::Watch => "What runs",
            Self::Together => "Several models",
            Self::Export => "Export",
            Self::Placement => "Placement",
            Self::Details => "A layer, a device",
            Self::Explain => "Where a number comes from",
            Self::Teach => "Teach",
            Self::Page => "Pop-up pages",
        }
    }

    /// Every scope, in the order of the help.
    pub const ALL: [Self; 22] = [
        Self::Knobs,
        Self::Lists,
        Self::Plan,
        Self::Suggestions,
        Self::Sweep,
        Self::Matrix,
        Self::Compare,
        Self::Verify,
        Self::Watch,
        Self::Together,
        Self::Export,
        Self::Placement,
        Self::Details,
        Self::Explain,
        Self::Machine,
        Self::CardPicker,
        Self::SavedMachines,
        Self::Teach,
        Self::Models,
        Self::Field,
        Self::Page,
        Self::Everywhere,
    ];
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
        let footer = Keymap::default().footer(&[Scope::Knobs], |_| true);
        assert_eq!((footer[0].keys.as_str(), footer[0].hint.word), ("↑↓", "knob"));
        assert_eq!((footer[2].keys.as_str(), footer[2].hint.word), ("⇧←→", "fine"));
    }

    #[test]
    fn keys_are_named_in_active_scopes_only() {
        let keymap = Keymap::default();
        assert_eq!(keymap.key_for(Command::Notes, &[Scope::Knobs, Scope::Plan]).as_deref(), Some("n"));
        assert_eq!(keymap.key_for(Command::Notes, &[Scope::Machine, Scope::Everywhere]), None);
    }

    #[test]
    fn the_nearer_scope_wins() {
        let esc = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
        assert_eq!(Keymap::default().command(esc, &[Scope::Field, Scope::Everywhere]), Some(Command::Back));
        let up = KeyEvent::new(KeyCode::Up, KeyModifiers::NONE);
        assert_eq!(Keymap::default().command(up, &[Scope::Field]), None);
    }

    #[test]
    fn a_capital_is_one_key_with_and_without_the_modifier() {
        for modifiers in [KeyModifiers::NONE, KeyModifiers::SHIFT] {
            let press = |code| Keymap::default().command(KeyEvent::new(code, modifiers), &[Scope::Machine]);
            assert_eq!(press(KeyCode::Char('T')), Some(Command::Theme));
            assert_eq!(press(KeyCode::Char('+')), Some(Command::Add));
            assert_eq!(press(KeyCode::BackTab), Some(Command::PreviousPanel));
        }
        let with_control = KeyModifiers::SHIFT | KeyModifiers::CONTROL;
        assert_eq!(
            Keymap::default().command(KeyEvent::new(KeyCode::Char('c'), with_control), &[Scope::Everywhere]),
            None
        );
    }
}
