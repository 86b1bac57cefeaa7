//! The list of engines and releases.

use ratatui::buffer::Buffer;

use super::page;
use crate::engine::EngineVersion;
use crate::page::{Hue, Page, Span};
use crate::tui::app::App;
use crate::tui::app::engines::EnginesPage;

/// Draws the list.
pub fn draw(app: &App, engines: &EnginesPage, buffer: &mut Buffer) {
    let mut page = Page::default();
    page.text("The program that places the layers, and its release. Enter applies, Esc cancels.", Hue::Dim);
    page.blank();
    for (place, choice) in EngineVersion::all().into_iter().enumerate() {
        let chosen = place == engines.at;
        let ink = if chosen { Hue::Focus.bold() } else { Hue::Text.into() };
        let difference = engines.difference(choice, app.choice());
        let (said, hue) = match difference {
            _ if choice == app.choice() => ("in use".to_owned(), Hue::Focus),
            Some(other) => (other.in_short(), Hue::Dim),
            None => (String::new(), Hue::Text),
        };
        page.line(vec![
            Span::new(&format!("{} {choice:<24}", if chosen { "▸" } else { " " }), ink),
            Span::new(format!("  {said}").trim_end(), hue),
        ]);
    }
    page.blank();
    if let Some(&choice) = EngineVersion::all().get(engines.at) {
        page.text(&format!("plimsoll {}", choice.options()), Hue::Dim);
        if let Some(other) = engines.difference(choice, app.choice()) {
            page.text(&other.to_string(), Hue::Text);
        }
    }
    page::draw(app, &page, "Engine", 0, None, buffer);
}
