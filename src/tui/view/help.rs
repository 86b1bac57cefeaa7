//! Every key, from the one table.

use ratatui::buffer::Buffer;

use super::page::{Page, WIDTH};
use crate::tui::app::App;
use crate::tui::keymap::Scope;
use crate::tui::theme::Hue;

/// Draws the page, in two columns where there is room.
pub fn draw(app: &App, scroll: u16, buffer: &mut Buffer) {
    let page = if app.regions.screen.width >= WIDTH {
        let (mut left, mut right) = (Page::half(app), Page::half(app));
        rest(&mut right);
        for scope in Scope::ALL {
            let shorter = if left.height() <= right.height() { &mut left } else { &mut right };
            keys(app, scope, shorter);
        }
        Page::beside(left, right)
    } else {
        let mut page = Page::new(app);
        for scope in Scope::ALL {
            keys(app, scope, &mut page);
            // the planner's keys are its last; those of other pages can wait
            if scope == Scope::Plan {
                rest(&mut page);
            }
        }
        page
    };
    page.draw(app, "Keys", scroll, buffer);
}

fn keys(app: &App, scope: Scope, page: &mut Page) {
    page.heading(scope.heading());
    for binding in scope.bindings() {
        page.pair(&binding.names(), 9, binding.says, app.theme.ink(Hue::Text));
    }
}

fn rest(page: &mut Page) {
    page.heading("Mouse");
    page.text("Drag a slider; click what you want to see; the wheel turns the knob under it. The first line opens the model, the engine, the machine or this help.", Hue::Text);
    page.heading("Signs");
    page.text("● set by you", Hue::Text);
    page.text("○ left to the engine", Hue::Text);
    page.text("→ what the engine makes of auto", Hue::Text);
    page.text("┊ the most that keeps all layers on GPU", Hue::Text);
    page.text("┄ beyond it: layers leave the GPUs", Hue::Text);
    page.text("╵ a layer leaves the GPUs there", Hue::Text);
    page.text("◇ the engine's own rules change there", Hue::Text);
    page.text("◆ held: suggestions leave it alone", Hue::Text);
    page.text("▲▼ just changed", Hue::Text);
    page.text("0 1 R under a layer: GPU0, GPU1, RAM", Hue::Text);
    page.text("/ layers of one column on several", Hue::Text);
    page.text("✓ every layer is on GPUs, and it fits", Hue::Text);
    page.text("◐ so it counts, but weights run from RAM", Hue::Text);
    page.text("▲ layers are in RAM", Hue::Text);
    page.text("✗ it does not fit", Hue::Text);
    page.text("≈ taller than is drawn", Hue::Text);
}
