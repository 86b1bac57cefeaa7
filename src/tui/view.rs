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
//! The machine has its own screen, `machine`, and so has [`teach`]. Overlays: `help`, `models`, `explain`, `engines`,
//! `engine_compare`, `notes`, `why`, `best`, `sweep`, `matrix`, `compare`, `together`, `verify`,
//! `export`. The layout is in
//! [`super::regions`].

mod best;
pub mod compare;
mod engine_compare;
mod engines;
mod explain;
mod export;
mod figure;
mod footer;
pub mod graph;
pub mod header;
mod help;
mod knobs;
pub mod layers;
pub mod machine;
mod matrix;
pub mod memory;
pub mod models;
mod notes;
mod page;
pub mod peaks;
pub mod sweep;
pub mod teach;
mod together;
mod too_small;
mod verdict;
mod verify;
mod why;

use ratatui::buffer::Buffer;

use super::app::{App, Mode};
use super::regions::{Panel, ScreenLayout};
use super::theme::{Glyphs, Hue, backdrop, glyphs};
use super::widget::row_writer::RowWriter;

/// Draws everything, into a buffer of any size.
pub fn draw(app: &App, buffer: &mut Buffer) {
    if app.regions.shape == ScreenLayout::TooSmall {
        too_small::draw(app, buffer);
    } else if let Mode::Machine(screen) = &app.mode {
        header::draw(app, buffer);
        footer::draw(app, buffer);
        machine::draw(app, screen, buffer);
    } else if let Mode::Teach(page) = &app.mode {
        teach::draw(app, page, buffer);
    } else {
        header::draw(app, buffer);
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
        if matches!(app.mode, Mode::Plan | Mode::Entry(_)) {
            footer::draw(app, buffer);
        }
        if !matches!(app.mode, Mode::Plan | Mode::Entry(_)) {
            backdrop::dim(buffer, app.theme);
            // the page's keys stay readable
            footer::draw(app, buffer);
        }
        match &app.mode {
            Mode::Plan | Mode::Entry(_) | Mode::Machine(_) | Mode::Teach(_) => {}
            Mode::Browse(page) => models::draw(app, page, buffer),
            Mode::Explain(subject, scroll) => explain::draw(app, *subject, *scroll, buffer),
            Mode::Engines(page) => engines::draw(app, page, buffer),
            Mode::EngineCompare(page) => engine_compare::draw(app, page, buffer),
            Mode::Notes(scroll) => notes::draw(app, *scroll, buffer),
            Mode::Why(page) => why::draw(app, page, buffer),
            Mode::Best(page) => best::draw(app, page, buffer),
            Mode::Sweep(page) => sweep::draw(app, page, buffer),
            Mode::Matrix(page) => matrix::draw(app, page, buffer),
            Mode::Compare(page) => compare::pinned(app, *page, buffer),
            Mode::Together(page) => together::draw(app, page, buffer),
            Mode::Verify(page) => verify::draw(app, page, buffer),
            Mode::Export(page) => export::draw(app, page, buffer),
            Mode::Help(scroll) => help::draw(app, *scroll, buffer),
        }
    }
    if app.theme.look.glyphs == Glyphs::Ascii {
        glyphs::to_ascii(buffer);
    }
}

/// The tabs of panels that share an area; the visible one is highlighted.
fn tabs(app: &App, buffer: &mut Buffer) {
    for (panel, place) in app.regions.tabs() {
        let ink = if panel == app.panels.lower { app.theme.bold(Hue::Focus) } else { app.theme.ink(Hue::Dim) };
        RowWriter::new(buffer, place, 0).put(" ", ink).put(panel.title(), ink).put(" ", ink);
    }
}
