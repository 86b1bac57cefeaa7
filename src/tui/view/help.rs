//! The help: all keys of the key table.

use ratatui::buffer::Buffer;

use super::page::{self, WIDTH};
use crate::page::{Block, Hue, Page};
use crate::tui::app::App;
use crate::tui::keymap::Scope;

/// Draws the page, in two columns if there is room.
pub fn draw(app: &App, scroll: u16, buffer: &mut Buffer) {
    let mut page = Page::default();
    if app.regions.screen.width >= WIDTH {
        let (mut left, mut right) = (Page::default(), Page::default());
        let height = |page: &Page| page.lines(page::columns(app) / 2 - 1).len();
        rest(&mut right);
        for scope in Scope::ALL {
            let shorter = if height(&left) <= height(&right) { &mut left } else { &mut right };
            keys(scope, shorter);
        }
        page.push(Block::Columns(vec![left, right]));
    } else {
        for scope in Scope::ALL {
            keys(scope, &mut page);
            // the last scope of the planner: those of other pages come after the general remarks
            if scope == Scope::Plan {
                rest(&mut page);
            }
        }
    }
    page::draw(app, &page, "Keys", scroll, None, buffer);
}

fn keys(scope: Scope, page: &mut Page) {
    page.heading(scope.heading());
    for binding in scope.bindings() {
        page.pair(&binding.names(), 9, binding.description, Hue::Text);
    }
}

fn rest(page: &mut Page) {
    page.heading("Mouse");
    page.text(
        "Drag sliders, click anything to open it, scroll over a knob to change it. The top line opens the \
               model, the engine, the machine and this help.",
        Hue::Text,
    );
    page.heading("Symbols");
    page.text("● set by you", Hue::Text);
    page.text("○ auto: chosen by the engine", Hue::Text);
    page.text("→ the value that the engine uses", Hue::Text);
    page.text("┊ largest value with all in VRAM (m)   ╎ with all layers on GPU, experts in RAM (M)", Hue::Text);
    page.text("┄ beyond it, fewer layers on GPU", Hue::Text);
    page.text("╵ threshold: fewer layers on GPU", Hue::Text);
    page.text("◇ threshold: the engine changes a setting", Hue::Text);
    page.text("◆ locked: suggestions do not change it", Hue::Text);
    page.text("▲▼ just changed", Hue::Text);
    page.text("0 1 R device of a layer: GPU0, GPU1, RAM", Hue::Text);
    page.text("/ layers of this column are on several devices", Hue::Text);
    page.text("✓ all in VRAM", Hue::Text);
    page.text("◐ all layers on GPU, parts run from RAM", Hue::Text);
    page.text("▲ some layers in RAM", Hue::Text);
    page.text("✗ does not fit", Hue::Text);
    page.text("≈ column is cut off: taller than shown", Hue::Text);
}
