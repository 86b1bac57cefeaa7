//! A line of text being typed.

use ratatui::crossterm::event::KeyCode;
use tui_input::Input;

use crate::tui::host::Text;

/// A value being typed.
#[derive(Clone, Debug, Default)]
pub struct TextEntry {
    /// The text so far.
    pub input: Input,
    /// Where the text comes from.
    pub text: TextOrigin,
    /// Why it was rejected.
    pub wrong: Option<String>,
}

/// Where the text of a field comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextOrigin {
    /// Suggested; the first edit replaces all of it.
    Suggested,
    /// Typed or edited by the user.
    #[default]
    Typed,
}

impl TextEntry {
    /// A field with a suggested `text`.
    pub fn suggested(text: String) -> Self {
        Self { input: Input::new(text), text: TextOrigin::Suggested, wrong: None }
    }

    /// Takes typed or pasted text.
    pub fn edit(&mut self, text: Text<'_>) {
        let writes = match text {
            Text::Typed(key) => matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace | KeyCode::Delete),
            Text::Pasted(_) => true,
        };
        if self.text == TextOrigin::Suggested && writes {
            self.input = Input::default();
        }
        (self.text, self.wrong) = (TextOrigin::Typed, None);
        text.edit(&mut self.input);
    }
}
