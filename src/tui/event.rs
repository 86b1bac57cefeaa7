//! Terminal events, and the actions they mean in the present mode.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind};

use super::action::{Action, Gesture};
use super::host::Host;

/// The action of a terminal's `event`; most events have none.
pub fn action(event: &Event, host: &Host) -> Option<Action> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => from_key(*key, host),
        // terminals send the Enter key's character for the end of a line
        Event::Paste(text) => Some(Action::Paste(text.replace("\r\n", "\n").replace('\r', "\n"))),
        Event::Resize(columns, rows) => Some(Action::Resize(*columns, *rows)),
        Event::Mouse(mouse) => {
            let gesture = match mouse.kind {
                MouseEventKind::Down(MouseButton::Left) => Gesture::Down,
                MouseEventKind::Drag(MouseButton::Left) => Gesture::Drag,
                MouseEventKind::Up(MouseButton::Left) => Gesture::Up,
                MouseEventKind::ScrollUp => Gesture::WheelUp,
                MouseEventKind::ScrollDown => Gesture::WheelDown,
                _ => return None,
            };
            Some(Action::Mouse(gesture, mouse.column, mouse.row))
        }
        _ => None,
    }
}

fn from_key(key: KeyEvent, host: &Host) -> Option<Action> {
    let app = &host.app;
    if let (None, KeyCode::Char(letter), KeyModifiers::NONE) = (host.screens.last(), key.code, key.modifiers)
        && app.begins_a_value(letter)
    {
        return Some(Action::Type(key));
    }
    if let Some(command) = app.preferences.keys.command(key, host.scopes()) {
        return Some(Action::Press(command));
    }
    let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
    let starts_a_number = plain && matches!(key.code, KeyCode::Char('1'..='9'));
    let starts_a_value = host.screens.is_empty() && app.panels.accepts_numbers() && starts_a_number;
    (host.accepts_text() || starts_a_value).then_some(Action::Type(key))
}
