//! The list of engines and releases.

use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};

use super::page::TextPage;
use crate::engine::EngineVersion;
use crate::tui::app::App;
use crate::tui::theme::Hue;

/// Draws the page with entry `at` selected.
pub fn draw(app: &App, at: usize, buffer: &mut Buffer) {
    let theme = app.theme;
    let mut page = TextPage::new(app);
    page.text("The program that places the layers, and its release. Enter applies, Esc cancels.", Hue::Dim);
    page.blank();
    for (place, choice) in EngineVersion::all().into_iter().enumerate() {
        let chosen = place == at;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
        let now = if choice == app.choice() { "  in use" } else { "" };
        page.line(Line::from(vec![
            Span::styled(format!("{} {choice:<24}", if chosen { "▸" } else { " " }), ink),
            Span::styled(now.to_owned(), theme.ink(Hue::Focus)),
        ]));
    }
    page.blank();
    if let Some(choice) = EngineVersion::all().get(at) {
        page.text(&format!("plimsoll {}", choice.options()), Hue::Dim);
    }
    page.draw(app, "Engine", 0, buffer);
}
