//! A text input.
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent};
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use super::row_writer::RowWriter;
use crate::text::is_printable;
use crate::tui::pasted::Pasted;
use crate::tui::theme::{Hue, Theme};

/// Draws `input` in one row, or `hint` if it is empty.
pub fn draw(input: &Input, hint: &str, row: Rect, theme: Theme, buffer: &mut Buffer) {
    let mut writer = RowWriter::new(buffer, row, 0);
    writer.put("› ", theme.bold(Hue::Focus));
    let (start, room) = (writer.x(), writer.room().saturating_sub(1));
    if input.value().is_empty() {
        writer.skip(1).put(hint, theme.ink(Hue::Dim));
    }
    let scroll = input.visual_scroll(usize::from(room));
    let shown: String = input.value().chars().skip(scroll).collect();
    let mut writer = RowWriter::new(buffer, Rect { x: start, width: room, ..row }, 0);
    writer.put(&shown, theme.ink(Hue::Text));
    let cursor = start + (input.visual_cursor().saturating_sub(scroll) as u16).min(room);
    if let Some(cell) = buffer.cell_mut((cursor, row.y)) {
        cell.modifier.insert(Modifier::REVERSED);
    }
}

/// Most characters that a pasted text makes a field have: more than any path.
const LONGEST: usize = 4096;

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

/// Text for a field.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// A typed key.
    Typed(KeyEvent),
    /// Pasted text, of any number of lines.
    Pasted(&'a Pasted),
}

impl Text<'_> {
    /// Edits `input`; of pasted text the first line is appended. Returns whether the text has changed.
    pub fn edit(self, input: &mut Input) -> bool {
        match self {
            Self::Typed(key) => input.handle_event(&Event::Key(key)).is_some_and(|change| change.value),
            Self::Pasted(pasted) => {
                let line = pasted.text.lines().next().unwrap_or_default().chars().filter(|c| is_printable(*c));
                *input = Input::new(input.value().chars().chain(line).take(LONGEST).collect());
                true
            }
        }
    }
}
