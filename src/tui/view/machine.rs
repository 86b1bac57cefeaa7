//! The machine screen.
//!
//! ```text
//! ╭▸Machine ─ 2 of 3 GPUs on ─────────── devices ╮╭ RTX 3090 ───────────────────────────────── details ╮
//! │   device             total       free        ││ ▸ used              ●  yes                         │
//! │ ▸ GPU0 ● RTX 3090    24.0 GiB    22.9 GiB    ││   card              RTX 3090                       │
//! │        ○ RTX 3060    12.0 GiB    11.0 GiB off││   free              22.9 GiB  as detected          │
//! │        + add a GPU                           ││   for desktop       0 MiB                          │
//! │   RAM    system RAM  64.0 GiB    56.0 GiB    ││                                                    │
//! ╰──────────────────────────────────────────────╯│ NVML · driver 570 · PCI …                          │
//! ╭ Memory ──────────────────────────── memory ──╮│ How engines treat CUDA …                           │
//! ╰──────────────────────────────────────────────╯╰────────────────────────────────────────────────────╯
//! ╭ Verdict ─────────────────────────────────────────────────────────────────────────────── verdict ╮
//! ```

mod cards;
mod compare;
mod details;
mod saved;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{memory, verdict};
use crate::machine::short_name;
use crate::machine::what_if::GpuSlot;
use crate::tui::app::machine::{MachinePrompt, MachineRow, MachineScreen, Pane};
use crate::tui::app::{App, Detection};
use crate::tui::regions::machine::{MachineRegions, shown};
use crate::tui::screen::Screen;
use crate::tui::theme::{Hue, Theme, backdrop};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, shortened, width};
use crate::units::Bytes;

/// Width of a size and of a state, with their gaps.
const SIZE: u16 = 10;
const STATE: u16 = 9;

/// Draws everything between header and footer.
pub fn draw(app: &App, screen: &MachineScreen, buffer: &mut Buffer) {
    let rows = app.machine_rows();
    let places = MachineRegions::of(&app.regions, rows.len());
    draw_devices(app, screen, &rows, places.devices, buffer);
    details::draw(app, screen, places.details, buffer);
    if places.memory.height > 4 {
        memory::draw_in(app, places.memory, false, buffer);
    }
    verdict::draw_in(app, places.verdict, &[], buffer);
    if !matches!(screen.prompt, MachinePrompt::Nothing | MachinePrompt::Size(_)) {
        backdrop::dim(buffer, app.theme);
        let shown: &dyn Screen = screen;
        shown.draw_footer(app, buffer);
    }
    match &screen.prompt {
        MachinePrompt::Nothing | MachinePrompt::Size(_) => {}
        MachinePrompt::Card(cards) => cards::draw(app, cards, screen.wrong.as_deref(), buffer),
        MachinePrompt::Name(input) => saved::draw_name(app, input, screen.wrong.as_deref(), buffer),
        MachinePrompt::Compare(compare) => compare::draw(app, compare, buffer),
        MachinePrompt::Saved(saved) => saved::draw(app, saved, screen.wrong.as_deref(), buffer),
    }
}

fn draw_devices(app: &App, screen: &MachineScreen, rows: &[MachineRow], area: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let slots = app.what_if.slots(&app.found_machine.machine);
    let used = slots.iter().filter(|slot| !slot.change.off).count();
    let right_title = match (&app.what_if.replacement, slots.len()) {
        _ if app.found_machine.detection == Detection::Running => "detecting GPUs…".to_owned(),
        (Some(named), _) => format!("saved as '{}'", named.name),
        (None, 0) => "no GPU".to_owned(),
        (None, all) if used == all => format!("{all} GPU{}", if all == 1 { "" } else { "s" }),
        (None, all) => format!("{used} of {all} GPUs on"),
    };
    let focused = screen.pane == Pane::Devices && matches!(screen.prompt, MachinePrompt::Nothing);
    let inner = panel::frame(buffer, area, "Machine", &right_title, focused, theme);
    draw_row(inner, 0, ["", "device", "total", "free", ""], theme, Hue::Dim, buffer);
    let list = Rect { y: inner.y + 1, height: inner.height.saturating_sub(1), ..inner };
    let mut number = 0;
    let texts: Vec<_> = rows
        .iter()
        .map(|&row| {
            let slot = if let MachineRow::Gpu(at) = row { slots.get(at) } else { None };
            let id = slot.filter(|slot| !slot.change.off).map(|_| {
                number += 1;
                format!("GPU{}", number - 1)
            });
            texts(app, row, slot, id)
        })
        .collect();
    for (y, at) in shown(screen.row, rows.len(), list.height) {
        let Some([id, name, total, free, state]) = texts.get(at) else { continue };
        let chosen = at == screen.row;
        if chosen {
            let row = Rect { y: list.y + y, height: 1, ..list };
            buffer.set_style(row.intersection(buffer.area), theme.selected());
        }
        let hue = if chosen && focused { Hue::Focus } else { Hue::Text };
        let marked = format!("{} {id}", if chosen { '▸' } else { ' ' });
        draw_row(list, y, [&marked, name, total, free, state], theme, hue, buffer);
    }
}

/// The texts of a row: id, name, total, free, state.
fn texts(app: &App, row: MachineRow, slot: Option<&GpuSlot>, id: Option<String>) -> [String; 5] {
    let ram = app.machine.ram;
    let changed = |is: bool| if is { "changed" } else { "" }.to_owned();
    match (row, slot) {
        (MachineRow::Gpu(_), Some(slot)) => {
            let switch = if slot.change.off { "○" } else { "●" };
            let computer = slot.gpu.computer.as_ref().map(|name| format!(" @{name}")).unwrap_or_default();
            let shared = if slot.gpu.integrated { " · in RAM" } else { "" };
            let name = format!("{switch} {}{computer}{shared}", short_name(&slot.gpu.name));
            let state = slot.state().unwrap_or_default().to_owned();
            [id.unwrap_or_default(), name, slot.gpu.total.to_string(), slot.gpu.free.to_string(), state]
        }
        (MachineRow::Ram, _) => {
            let state = changed(app.what_if.ram != crate::machine::what_if::RamChange::default());
            ["RAM".to_owned(), "  system RAM".to_owned(), ram.total.to_string(), ram.free.to_string(), state]
        }
        (MachineRow::Every, _) => {
            let kept =
                app.machine_size(MachineRow::Every, MachineRow::Every.lines(app.engine)[0]).unwrap_or(Bytes::ZERO);
            let name = "  kept free on each GPU".to_owned();
            ["each".to_owned(), name, String::new(), kept.to_string(), String::new()]
        }
        (MachineRow::Add | MachineRow::Gpu(_), _) => {
            [String::new(), "+ add a GPU".to_owned(), String::new(), String::new(), String::new()]
        }
    }
}

fn draw_row(area: Rect, row: u16, cells: [&str; 5], theme: Theme, hue: Hue, buffer: &mut Buffer) {
    let [id, name, total, free, state] = cells;
    let ink = if hue == Hue::Focus { theme.bold(hue) } else { theme.ink(hue) };
    let mut writer = RowWriter::new(buffer, area, row);
    let end = writer.x() + writer.room();
    let names = Rect { width: area.width.saturating_sub(2 * SIZE + STATE), ..area };
    let mut named = RowWriter::new(buffer, names, row);
    named.skip(1).put(id, ink).to(area.x + 8);
    let name = shortened(name, named.room());
    named.put(&name, ink);
    for (text, from) in [(total, 2 * SIZE + STATE), (free, SIZE + STATE)] {
        let start = end.saturating_sub(from) + SIZE.saturating_sub(width(text));
        writer = RowWriter::new(buffer, area, row);
        writer.to(start).put(text, ink);
    }
    writer = RowWriter::new(buffer, area, row);
    writer.to(end.saturating_sub(STATE - 2)).put(state, theme.ink(if state == "off" { Hue::Dim } else { Hue::Cache }));
}
