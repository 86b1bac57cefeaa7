//! Keys, and their names on the screen.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

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
            KeyCode::Char(c) => return c.to_string(),
            other => format!("{other:?}"),
        };
        if self.1.contains(KeyModifiers::SHIFT) { format!("⇧{name}") } else { name }
    }
}
