//! The choice of an engine.

use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};

use super::page::Page;
use crate::engine::EngineId;
use crate::tui::app::App;
use crate::tui::theme::Hue;

/// Draws the page with the engine at place `at` chosen.
pub fn draw(app: &App, at: usize, buffer: &mut Buffer) {
    let theme = app.theme;
    let mut page = Page::new(app);
    page.text("Who decides where the layers go. Enter takes the engine, Esc goes back.", Hue::Dim);
    page.blank();
    for (place, engine) in EngineId::ALL.into_iter().enumerate() {
        let chosen = place == at;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
        let now = if engine == app.engine { "  in use" } else { "" };
        page.line(Line::from(vec![
            Span::styled(format!("{} {:<16}", if chosen { "▸" } else { " " }, engine.title()), ink),
            Span::styled(format!("{}{now}", engine.name()), theme.ink(Hue::Dim)),
        ]));
    }
    page.draw(app, "Engine", 0, buffer);
}
