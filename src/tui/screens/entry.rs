//! A value being typed for the focused knob, in the knob's row.

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyEvent;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::widgets::{Clear, Widget};

use crate::tui::action::Command;
use crate::tui::app::App;
use crate::tui::keymap::Scope;
use crate::tui::screen::{Cover, Response, Screen};
use crate::tui::theme::Hue;
use crate::tui::widget::field::{Text, TextEntry, TextOrigin};
use crate::tui::widget::row_writer::RowWriter;

/// The field.
#[derive(Debug, Default)]
pub struct ValueEntry {
    entry: TextEntry,
    /// What Enter would choose of a knob with choices, as a sentence.
    says: Option<String>,
}

impl ValueEntry {
    /// With a suggested value.
    pub fn suggested(text: String) -> Self {
        Self { entry: TextEntry::suggested(text), says: None }
    }

    /// With the first key of a value.
    pub fn begun(app: &App, key: KeyEvent) -> Self {
        let mut begun = Self::default();
        begun.edit(app, Text::Typed(key));
        begun
    }

    fn edit(&mut self, app: &App, text: Text<'_>) {
        self.entry.edit(text);
        self.says = self.choice(app);
    }

    /// What Enter would choose.
    fn choice(&self, app: &App) -> Option<String> {
        let (knob, text) = (app.panels.knobs.focus, self.entry.input.value());
        let words = knob.choices().filter(|_| !text.is_empty())?;
        Some(match knob.begun(text, &app.request.bounds) {
            Some(choice) => format!("Enter chooses {choice} for {}, Esc leaves it as it is.", knob.title()),
            None => format!("No value of {} begins with '{text}': it has {}.", knob.title(), words.join(", ")),
        })
    }
}

impl Screen for ValueEntry {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Field, Scope::Everywhere]
    }

    fn cover(&self) -> Cover {
        Cover::Nothing
    }

    fn message(&self) -> Option<&str> {
        self.entry.wrong.as_deref().or(self.says.as_deref())
    }

    fn missing(&self, _: &App) -> Option<&'static str> {
        None
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        if command != Command::Enter {
            return Response::Ignored;
        }
        let text = self.entry.input.value();
        let begun = app.panels.knobs.focus.begun(text, &app.request.bounds);
        match app.set_from_text(begun.unwrap_or(text)) {
            Ok(()) => Response::CLOSE,
            Err(wrong) => {
                self.entry.wrong = Some(wrong);
                Response::STAY
            }
        }
    }

    fn accepts_text(&self) -> bool {
        true
    }

    fn text(&mut self, app: &mut App, text: Text<'_>) -> Response {
        self.edit(app, text);
        Response::STAY
    }

    fn area(&self, app: &App) -> Rect {
        app.panels.knob_row(app.panels.knobs.focus).map_or(Rect::ZERO, |places| places.value)
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        let (entry, theme) = (&self.entry, app.theme);
        let place = self.area(app).intersection(buffer.area);
        let ink = if entry.wrong.is_some() { theme.bold(Hue::Over) } else { theme.bold(Hue::Focus) };
        Clear.render(place, buffer);
        buffer.set_style(place, theme.selected());
        let room = place.width.saturating_sub(2);
        let scroll = entry.input.visual_scroll(usize::from(room));
        let shown: String = entry.input.value().chars().skip(scroll).take(usize::from(room)).collect();
        // a suggested text, which the next letter replaces, is highlighted as a whole
        let ink = if entry.text == TextOrigin::Suggested { ink.add_modifier(Modifier::REVERSED) } else { ink };
        RowWriter::new(buffer, place, 0).skip(1).put(&shown, ink);
        let cursor = place.x + 1 + (entry.input.visual_cursor().saturating_sub(scroll) as u16).min(room);
        if let Some(cell) = buffer.cell_mut((cursor, place.y)) {
            cell.modifier.insert(Modifier::REVERSED);
        }
    }
}
