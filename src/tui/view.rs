//! The planner's panels, drawn from [`App`].
//!
//! ```text
//!  plimsoll  Llama 3.1 8B · Q4_K_M · 8.0 B · 4.6 GiB        Ollama ≤ 0.24       RTX 3090 · 64 GiB   ? help   header
//!                    on GPU       ≈ tok/s     when full   VRAM ctx   headroom                               figures
//!  ▲ Layers in RAM  27 of 33    58 (41–70)    44 (33–52)     24 576   -410 MiB
//! ╭ Knobs ────────────── knobs ╮╭ Layers ──────────────────────────────────────────────────────── layers ╮
//! │▸ context    ├━━━●──┊┄┤ 8192││ ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁                            █  │
//! │  parallel   ├●──────┊┤    1││ ████████████████████████████████████████                            █  │
//! │  …                         ││ └─ RAM ─┘└────────────── GPU0 ──────────┘                           out│
//! ╰────────────────────────────╯╰─────────────────────────────────────────────────────────────────────────╯
//! ╭ Graph ────────────── graph ╮╭ Memory ──────────────────────────────────────────────────────── memory ╮
//! │  full      ████      560 MiB││ GPU0 RTX 3090 ██ weights ███▓▓ cache ▓▓▒▒░░·········  21.9 of 24.0 GiB │
//! │  partial   ██████    669 MiB│╰─────────────────────────────────────────────────────────────────────────╯
//! │  attention scores    512 MiB│╰─────────────────────────────────────────────────────────────────────────╯
//! ─ Verdict ───────────────────────────────────────────────────────────────────────────────────── verdict ─
//!  At 65 536 tokens, f16 KV: 6 of 33 layers are in RAM.
//!  F2  --ctx 24576  all in VRAM  ≈ 130 tok/s  40 960 tokens less
//! ↑↓ knob  ←→ change  ⇧←→ fine  m max that fits  …                                                      footer
//! ```
//!
//! The layout is in [`super::regions`]; what is shown over it in `screens`.

pub mod figure;
pub mod footer;
pub mod graph;
pub mod header;
mod knobs;
pub mod layers;
pub mod memory;
pub mod peaks;
pub mod verdict;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::App;
use super::keymap::Scope;
use super::regions::{MIN_SCREEN, Panel};
use super::theme::{Hue, backdrop};
use super::widget::row_writer::{RowWriter, wrap};

/// Draws the planner's panels; `scopes` are those of the active keys.
pub fn panels(app: &App, scopes: &[Scope], buffer: &mut Buffer) {
    knobs::draw(app, buffer);
    if app.panels.visible(Panel::Layers) {
        layers::draw(app, buffer);
    }
    if app.panels.visible(Panel::Memory) {
        memory::draw(app, buffer);
    }
    if app.panels.visible(Panel::Graph) {
        graph::draw(app, buffer);
    }
    tabs(app, buffer);
    if app.request.is_planning() {
        // what they show is the plan before
        for area in [app.panels.regions.layers, app.panels.regions.memory, app.panels.regions.graph] {
            backdrop::dim(buffer, area, app.theme);
        }
    }
    verdict::draw_figures(app, app.panels.regions.figures, buffer);
    let form = verdict::Form::of(app.panels.regions.shape);
    verdict::draw_in(app, app.panels.regions.verdict, form, scopes, buffer);
}

/// The tabs of panels that share an area; the visible one is highlighted.
fn tabs(app: &App, buffer: &mut Buffer) {
    for (panel, place) in app.panels.regions.tabs() {
        let ink = if panel == app.panels.lower { app.theme.bold(Hue::Focus) } else { app.theme.ink(Hue::Dim) };
        RowWriter::new(buffer, place, 0).put(" ", ink).put(panel.title(), ink).put(" ", ink);
    }
}

/// Draws the message on a screen that is too small.
pub fn too_small(app: &App, buffer: &mut Buffer) {
    let area = buffer.area;
    let now =
        format!("This terminal is {}×{} cells.", app.panels.regions.screen.width, app.panels.regions.screen.height);
    let wanted = format!("plimsoll needs {}×{}. Enlarge it, or quit with q.", MIN_SCREEN.0, MIN_SCREEN.1);
    let lines: Vec<String> = wrap(&format!("{wanted} {now}"), area.width);
    let top = area.height.saturating_sub(lines.len() as u16) / 2;
    for (row, line) in (top..).zip(&lines) {
        let row = Rect { y: area.y.saturating_add(row), height: u16::from(row < area.height), ..area };
        RowWriter::new(buffer, row, 0).put(line, app.theme.ink(Hue::Text));
    }
}
