//! The machine screen.
//!
//! ```text
//! ╭▸Machine ─ 2 of 3 GPUs used ───────── devices ╮╭ GPU0  RTX 3090 ─────────────────────────── details ╮
//! │   device             in all      free        ││ ▸ used              ●  yes                         │
//! │ ▸ GPU0 ● RTX 3090    24.0 GiB    22.9 GiB    ││   card              RTX 3090                       │
//! │        ○ RTX 3060    12.0 GiB    11.0 GiB off││   free              22.9 GiB  as its driver says   │
//! │        + add a GPU                           ││   for the desktop   0 MiB                          │
//! │   RAM    main memory 64.0 GiB    56.0 GiB    ││                                                    │
//! ╰──────────────────────────────────────────────╯│ told by  NVML · driver 570 · PCI …                 │
//! ╭ Memory ──────────────────────────── memory ──╮│ CUDA in this engine's eyes …                       │
//! ╰──────────────────────────────────────────────╯╰────────────────────────────────────────────────────╯
//! ╭ Verdict ─────────────────────────────────────────────────────────────────────────────── verdict ╮
//! ```

mod cards;
mod details;
mod shelf;
mod versus;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{footer, memory, verdict};
use crate::machine::short_name;
use crate::machine::what_if::Seat;
use crate::tui::app::machine::{Asking, Bench, Pane, Row};
use crate::tui::app::{App, Known};
use crate::tui::regions::machine::{Places, shown};
use crate::tui::theme::{Hue, Theme, veil};
use crate::tui::widget::panel;
use crate::tui::widget::pen::{Pen, shortened, width};
use crate::units::Bytes;

/// Cells of a size and of a state with their gaps.
const SIZE: u16 = 10;
const STATE: u16 = 9;

/// Draws everything between header and footer.
pub fn draw(app: &App, bench: &Bench, buffer: &mut Buffer) {
    let rows = app.machine_rows();
    let places = Places::of(&app.regions, rows.len());
    draw_devices(app, bench, &rows, places.devices, buffer);
    details::draw(app, bench, places.details, buffer);
    if places.memory.height > 4 {
        memory::draw_in(app, places.memory, false, buffer);
    }
    verdict::draw_in(app, places.verdict, buffer);
    if !matches!(bench.asking, Asking::Nothing | Asking::Size(_)) {
        veil::dim(buffer, app.theme);
        footer::draw(app, buffer);
    }
    match &bench.asking {
        Asking::Nothing | Asking::Size(_) => {}
        Asking::Card(cards) => cards::draw(app, cards, bench.wrong.as_deref(), buffer),
        Asking::Name(input) => shelf::draw_name(app, input, bench.wrong.as_deref(), buffer),
        Asking::Versus(versus) => versus::draw(app, versus, buffer),
        Asking::Shelf(shelf) => shelf::draw(app, shelf, bench.wrong.as_deref(), buffer),
    }
}

fn draw_devices(app: &App, bench: &Bench, rows: &[Row], area: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let seats = app.what_if.seats(&app.found_machine.machine);
    let used = seats.iter().filter(|seat| !seat.change.off).count();
    let aside = match (&app.what_if.instead, seats.len()) {
        _ if app.found_machine.known == Known::Asking => "detecting GPUs…".to_owned(),
        (Some(named), _) => format!("saved as '{}'", named.name),
        (None, 0) => "no GPU".to_owned(),
        (None, all) if used == all => format!("{all} GPU{}", if all == 1 { "" } else { "s" }),
        (None, all) => format!("{used} of {all} GPUs on"),
    };
    let focused = bench.pane == Pane::Devices && matches!(bench.asking, Asking::Nothing);
    let inner = panel::frame(buffer, area, "Machine", &aside, focused, theme);
    draw_row(inner, 0, ["", "device", "total", "free", ""], theme, Hue::Dim, buffer);
    let list = Rect { y: inner.y + 1, height: inner.height.saturating_sub(1), ..inner };
    let mut number = 0;
    let texts: Vec<_> = rows
        .iter()
        .map(|&row| {
            let seat = if let Row::Gpu(at) = row { seats.get(at) } else { None };
            let id = seat.filter(|seat| !seat.change.off).map(|_| {
                number += 1;
                format!("GPU{}", number - 1)
            });
            texts(app, row, seat, id)
        })
        .collect();
    for (y, at) in shown(bench.row, rows.len(), list.height) {
        let Some([id, name, total, free, state]) = texts.get(at) else { continue };
        let chosen = at == bench.row;
        if chosen {
            let row = Rect { y: list.y + y, height: 1, ..list };
            buffer.set_style(row.intersection(buffer.area), theme.selected());
        }
        let hue = if chosen && focused { Hue::Focus } else { Hue::Text };
        let marked = format!("{} {id}", if chosen { '▸' } else { ' ' });
        draw_row(list, y, [&marked, name, total, free, state], theme, hue, buffer);
    }
}

/// The cells of a row: id, name, size, free, state.
fn texts(app: &App, row: Row, seat: Option<&Seat>, id: Option<String>) -> [String; 5] {
    let ram = app.machine.ram;
    let changed = |is: bool| if is { "changed" } else { "" }.to_owned();
    match (row, seat) {
        (Row::Gpu(_), Some(seat)) => {
            let switch = if seat.change.off { "○" } else { "●" };
            let computer = seat.gpu.computer.as_ref().map(|name| format!(" @{name}")).unwrap_or_default();
            let shared = if seat.gpu.integrated { " · in RAM" } else { "" };
            let name = format!("{switch} {}{computer}{shared}", short_name(&seat.gpu.name));
            let state = seat.state().unwrap_or_default().to_owned();
            [id.unwrap_or_default(), name, seat.gpu.total.to_string(), seat.gpu.free.to_string(), state]
        }
        (Row::Ram, _) => {
            let state = changed(app.what_if.ram != crate::machine::what_if::RamChange::default());
            ["RAM".to_owned(), "  system RAM".to_owned(), ram.total.to_string(), ram.free.to_string(), state]
        }
        (Row::Every, _) => {
            let kept = app.machine_size(Row::Every, Row::Every.lines(app.engine)[0]).unwrap_or(Bytes::ZERO);
            let name = "  kept free on each GPU".to_owned();
            ["each".to_owned(), name, String::new(), kept.to_string(), String::new()]
        }
        (Row::Add | Row::Gpu(_), _) => {
            [String::new(), "+ add a GPU".to_owned(), String::new(), String::new(), String::new()]
        }
    }
}

fn draw_row(area: Rect, row: u16, cells: [&str; 5], theme: Theme, hue: Hue, buffer: &mut Buffer) {
    let [id, name, total, free, state] = cells;
    let ink = if hue == Hue::Focus { theme.bold(hue) } else { theme.ink(hue) };
    let mut pen = Pen::new(buffer, area, row);
    let end = pen.x() + pen.room();
    let names = Rect { width: area.width.saturating_sub(2 * SIZE + STATE), ..area };
    let mut named = Pen::new(buffer, names, row);
    named.skip(1).put(id, ink).to(area.x + 8);
    let name = shortened(name, named.room());
    named.put(&name, ink);
    for (text, from) in [(total, 2 * SIZE + STATE), (free, SIZE + STATE)] {
        let start = end.saturating_sub(from) + SIZE.saturating_sub(width(text));
        pen = Pen::new(buffer, area, row);
        pen.to(start).put(text, ink);
    }
    pen = Pen::new(buffer, area, row);
    pen.to(end.saturating_sub(STATE - 2)).put(state, theme.ink(if state == "off" { Hue::Dim } else { Hue::Cache }));
}
