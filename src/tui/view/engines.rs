//! The list of engines and releases.

use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};

use super::page::TextPage;
use crate::engine::EngineVersion;
use crate::tui::app::App;
use crate::tui::app::engines::EnginesPage;
use crate::tui::theme::Hue;

/// Draws the list.
pub fn draw(app: &App, engines: &EnginesPage, buffer: &mut Buffer) {
    let theme = app.theme;
    let mut page = TextPage::new(app);
    page.text("The program that places the layers, and its release. Enter applies, Esc cancels.", Hue::Dim);
    page.blank();
    for (place, choice) in EngineVersion::all().into_iter().enumerate() {
        let chosen = place == engines.at;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
        let difference = engines.difference(choice, app.choice());
        let (said, hue) = match difference {
            _ if choice == app.choice() => ("in use".to_owned(), Hue::Focus),
            Some(other) => (other.in_short(), Hue::Dim),
            None => (String::new(), Hue::Text),
        };
        page.line(Line::from(vec![
            Span::styled(format!("{} {choice:<24}", if chosen { "▸" } else { " " }), ink),
            Span::styled(format!("  {said}").trim_end().to_owned(), theme.ink(hue)),
        ]));
    }
    page.blank();
    if let Some(&choice) = EngineVersion::all().get(engines.at) {
        page.text(&format!("plimsoll {}", choice.options()), Hue::Dim);
        if let Some(other) = engines.difference(choice, app.choice()) {
            page.text(&other.to_string(), Hue::Text);
        }
    }
    page.draw(app, "Engine", 0, buffer);
}
