//! Draws the screen from [`App`].
//!
//! ```text
//!  plimsoll  Llama 3.1 8B · Q4_K_M · 8.0 B · 4.6 GiB        Ollama ≤ 0.24       RTX 3090 · 64 GiB   ? help   header
//! ╭ Knobs ────────────── knobs ╮╭ Layers ──────────────────────────────────────────────────────── layers ╮
//! │▸ context    ├━━━●──┊┄┤ 8192││ ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁                            █  │
//! │  parallel   ├●──────┊┤    1││ ████████████████████████████████████████                            █  │
//! │  …                         ││ └─ RAM ─┘└────────────── GPU0 ──────────┘                           out│
//! ╰────────────────────────────╯╰─────────────────────────────────────────────────────────────────────────╯
//! ╭ Graph ────────────── graph ╮╭ Memory ──────────────────────────────────────────────────────── memory ╮
//! │  full      ████      560 MiB││ GPU0 RTX 3090 ██ weights ███▓▓ cache ▓▓▒▒░░·········  21.9 of 24.0 GiB │
//! │  partial   ██████    669 MiB│╰─────────────────────────────────────────────────────────────────────────╯
//! │  attention scores    512 MiB│╭ Verdict ────────────────────────────────────────────────────── verdict ╮
//! │    4·B·C·H                  ││ Split: 6 of 33 layers run from RAM. A context of 24 576 keeps all.      │
//! ╰────────────────────────────╯╰─────────────────────────────────────────────────────────────────────────╯
//! ↑↓ knob  ←→ change  ⇧←→ fine  m max that fits  …                                                      footer
//! ```
//!
//! The layout is in [`super::regions`]; what is shown over the planner in [`super::screens`].

pub mod figure;
pub mod footer;
pub mod graph;
pub mod header;
mod knobs;
pub mod layers;
pub mod memory;
pub mod peaks;
pub mod teach;
mod too_small;
pub mod verdict;

use ratatui::buffer::Buffer;

use super::app::App;
use super::host::Cover;
use super::regions::{Panel, ScreenLayout};
use super::theme::{Glyphs, Hue, backdrop, glyphs};
use super::widget::row_writer::RowWriter;

/// Draws everything, into a buffer of any size.
pub fn draw(app: &App, buffer: &mut Buffer) {
    let cover = app.screen.as_ref().map_or(Cover::Nothing, |screen| screen.cover());
    if app.regions.shape == ScreenLayout::TooSmall {
        too_small::draw(app, buffer);
    } else {
        header::draw(app, buffer);
        if cover != Cover::Whole {
            panels(app, buffer);
        }
        if cover == Cover::Dimmed {
            backdrop::dim(buffer, app.theme);
        }
        // the screen's keys stay readable
        footer::draw(app, buffer);
        if let Some(screen) = &app.screen {
            screen.draw(app, buffer);
        }
    }
    if app.theme.look.glyphs == Glyphs::Ascii {
        glyphs::to_ascii(buffer);
    }
}

fn panels(app: &App, buffer: &mut Buffer) {
    knobs::draw(app, buffer);
    if app.visible(Panel::Layers) {
        layers::draw(app, buffer);
    }
    if app.visible(Panel::Memory) {
        memory::draw(app, buffer);
    }
    if app.visible(Panel::Graph) {
        graph::draw(app, buffer);
    }
    tabs(app, buffer);
    verdict::draw(app, buffer);
}

/// The tabs of panels that share an area; the visible one is highlighted.
fn tabs(app: &App, buffer: &mut Buffer) {
    for (panel, place) in app.regions.tabs() {
        let ink = if panel == app.panels.lower { app.theme.bold(Hue::Focus) } else { app.theme.ink(Hue::Dim) };
        RowWriter::new(buffer, place, 0).put(" ", ink).put(panel.title(), ink).put(" ", ink);
    }
}
