//! Two engines side by side for the same model, machine and settings, with the differences marked.

use ratatui::buffer::Buffer;

use super::compare::{self, CompareView, PlanColumn};
use crate::tui::app::App;
use crate::tui::app::engine_compare::EngineComparison;
use crate::tui::widget::panel;

/// Draws the page.
pub fn draw(app: &App, page: &EngineComparison, buffer: &mut Buffer) {
    let Some(plan) = &app.plan else { return };
    let columns = [
        PlanColumn { title: app.choice().to_string(), plan: Ok(plan), speeds: app.speeds.as_ref() },
        PlanColumn {
            title: page.choice.to_string(),
            plan: page.plan.as_deref().map_err(Clone::clone),
            speeds: page.speeds.as_ref(),
        },
    ];
    let place = app.regions.overlay(u16::MAX, compare::height(&columns, app.regions.screen.width).saturating_add(2));
    let right_title = "←→ engine, Enter applies";
    let inner = panel::overlay(buffer, place, "Compare engines", right_title, app.theme);
    compare::draw(&columns, CompareView { chosen: Some(1), scroll: page.scroll }, inner, app.theme, buffer);
}
