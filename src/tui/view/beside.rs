//! Two engines side by side: the same model, machine and knobs, with what differs marked.

use ratatui::buffer::Buffer;

use super::compare::{self, Column, View};
use crate::tui::app::App;
use crate::tui::app::beside::Beside;
use crate::tui::widget::panel;

/// Draws the page.
pub fn draw(app: &App, page: &Beside, buffer: &mut Buffer) {
    let Some(plan) = &app.plan else { return };
    let columns = [
        Column { title: app.choice().to_string(), plan: Ok(plan) },
        Column { title: page.choice.to_string(), plan: page.plan.as_deref().map_err(Clone::clone) },
    ];
    let place = app.regions.overlay(u16::MAX, compare::height(&columns, app.regions.screen.width).saturating_add(2));
    let aside = "←→ engine, Enter applies";
    let inner = panel::overlay(buffer, place, "Compare engines", aside, app.theme);
    compare::draw(&columns, View { chosen: Some(1), scroll: page.scroll }, inner, app.theme, buffer);
}
