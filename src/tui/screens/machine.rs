//! The machine screen: devices on the left, the selected device on the right.
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
//!
//! The card picker, the saved machines and their comparison are screens over it, which give it back.

mod cards;
mod compare;
mod details;
mod notes;
mod saved;

use cards::CardPicker;
use details::Details;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};
use saved::{NameField, SavedMachines};
use std::any::Any;

use crate::machine::short_name;
use crate::machine::what_if::{GpuSlot, RamChange};
use crate::tui::action::{Command, Gesture};
use crate::tui::app::{App, Detection};
use crate::tui::keymap::Scope;
use crate::tui::regions::{MIN_SCREEN, Regions};
use crate::tui::screen::{Cover, Response, Screen, moved};
use crate::tui::theme::{Hue, Theme};
use crate::tui::view::{memory, verdict};
use crate::tui::widget::field::{Text, TextEntry};
use crate::tui::widget::list::{self, ListRows};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, shortened, width};

/// Entries per Page Up and Page Down.
const PAGE: usize = 8;
/// Extra rows of the device list: the frame and the column titles.
const AROUND: u16 = 3;
/// Width of a size and of a state, with their gaps.
const SIZE: u16 = 10;
const STATE: u16 = 9;

/// The state of the screen.
#[derive(Clone, Debug, Default)]
pub struct MachineScreen {
    /// The focused pane.
    pub pane: Pane,
    /// The selected device, from the top.
    pub row: usize,
    /// The selected setting of it, from the top.
    pub line: usize,
    /// Scrolled lines of the notes on the device.
    scroll: u16,
    /// A size being typed for the selected setting.
    typing: Option<TextEntry>,
}

/// The two panes of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    /// The list of devices.
    #[default]
    Devices,
    /// The selected device.
    Details,
}

/// A row of the device list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MachineRow {
    /// A GPU, by its slot: index into [`crate::machine::what_if::WhatIf::slots`].
    Gpu(usize),
    /// The row that adds a GPU.
    Add,
    /// RAM.
    Ram,
    /// Settings for every GPU.
    Every,
}

fn slots(app: &App) -> Vec<GpuSlot> {
    app.found_machine.what_if.slots(&app.found_machine.machine)
}

/// The rows of the device list: the GPUs, a row that adds one, RAM, and settings for all GPUs.
fn rows(app: &App) -> Vec<MachineRow> {
    let gpus = (0..slots(app).len()).map(MachineRow::Gpu);
    gpus.chain([MachineRow::Add, MachineRow::Ram, MachineRow::Every]).collect()
}

impl MachineScreen {
    /// The selected row.
    fn device(&self, app: &App) -> MachineRow {
        let rows = rows(app);
        rows.get(self.row.min(rows.len() - 1)).copied().unwrap_or(MachineRow::Ram)
    }

    /// Clamps the cursor to the present rows.
    fn clamp(&mut self, app: &App) {
        self.row = self.row.min(rows(app).len() - 1);
        let lines = self.device(app).lines(app.request.engine).len();
        self.line = self.line.min(lines.saturating_sub(1));
        if lines == 0 {
            self.pane = Pane::Devices;
        }
    }
}

impl Screen for MachineScreen {
    fn scopes(&self) -> &'static [Scope] {
        if self.accepts_text() { &[Scope::Field, Scope::Everywhere] } else { &[Scope::Machine, Scope::Everywhere] }
    }

    fn cover(&self) -> Cover {
        Cover::Whole
    }

    fn message(&self) -> Option<&str> {
        self.typing.as_ref()?.wrong.as_deref()
    }

    fn missing(&self, _: &App) -> Option<&'static str> {
        None
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        if let Some(entry) = self.typing.take() {
            return self.press_on_size(app, entry, command);
        }
        let device = self.device(app);
        match (command, self.pane) {
            (Command::Help, _) | (Command::Back, Pane::Devices) => return Response::Ignored,
            (Command::Undo, _) => app.undo(),
            (Command::Redo, _) => app.redo(),
            (Command::Freeze, _) => return Response::Stay(app.freeze()),
            (Command::Theme, _) => app.theme = app.theme.next_tone(),
            (Command::Save, _) => return Response::over(NameField::default()),
            (Command::SavedMachines, _) => return SavedMachines::open(),
            (Command::Toggle, _) => device.toggle(app),
            (Command::Remove, _) => device.remove(app),
            (Command::Reset, _) => device.restore(app),
            (Command::PageUp, _) => self.scroll = self.scroll.saturating_sub(4),
            (Command::PageDown, _) => self.scroll = self.scroll.saturating_add(4),
            (Command::Back | Command::NextPanel | Command::PreviousPanel, Pane::Details) => {
                (self.pane, self.line, self.scroll) = (Pane::Devices, 0, 0);
            }
            (Command::NextPanel | Command::PreviousPanel | Command::Enter | Command::More, Pane::Devices)
                if device != MachineRow::Add =>
            {
                (self.pane, self.line) = (Pane::Details, 0);
            }
            (Command::Add, _) | (Command::Enter, Pane::Devices) => {
                return Response::over(CardPicker::of(None, &app.request.machine));
            }
            (_, Pane::Devices) => (self.row, self.scroll) = (moved(self.row, rows(app).len(), PAGE, command), 0),
            (Command::Up | Command::Down | Command::First | Command::Last, Pane::Details) => {
                let lines = device.lines(app.request.engine).len();
                (self.line, self.scroll) = (moved(self.line, lines, PAGE, command), 0);
            }
            (_, Pane::Details) => return self.press_on_setting(app, device, command),
        }
        self.clamp(app);
        Response::STAY
    }

    fn accepts_text(&self) -> bool {
        self.typing.is_some()
    }

    fn text(&mut self, _: &mut App, text: Text<'_>) -> Response {
        self.typing.iter_mut().for_each(|entry| entry.edit(text));
        Response::STAY
    }

    /// A press selects the device or setting at the pointer.
    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        if gesture != Gesture::Down {
            return Response::Ignored;
        }
        if self.typing.is_some() {
            return Response::STAY;
        }
        app.notice = None;
        let rows = rows(app).len();
        let places = MachineRegions::of(&app.panels.regions, rows);
        if let Some(row) = places.list(self.row, rows).row_at(at) {
            (self.pane, self.row, self.line, self.scroll) = (Pane::Devices, row, 0, 0);
        } else if places.details.contains(at)
            && let Some(line) = Details::of(app, self, places.details).line_at(app, at)
        {
            (self.pane, self.line) = (Pane::Details, line);
        }
        Response::STAY
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        self.draw_with_focus(app, self.pane == Pane::Devices, buffer);
    }

    fn draw_behind(&self, app: &App, buffer: &mut Buffer) {
        self.draw_with_focus(app, false, buffer);
    }

    fn uncovered(&mut self, closed: &dyn Screen) {
        let closed: &dyn Any = closed;
        if let Some(row) = closed.downcast_ref::<CardPicker>().and_then(|picker| picker.row) {
            self.row = row;
        }
        if closed.downcast_ref::<SavedMachines>().is_some_and(|list| list.is_done) {
            *self = Self::default();
        }
    }
}

/// The parts of the screen. Parts without room are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MachineRegions {
    /// The device list.
    devices: Rect,
    /// The selected device.
    details: Rect,
    /// Memory by device, if there is room.
    memory: Rect,
    /// The verdict.
    verdict: Rect,
}

impl MachineRegions {
    /// The layout with `rows` devices.
    fn of(regions: &Regions, rows: usize) -> Self {
        let (screen, none) = (regions.screen, Rect::ZERO);
        if screen.width < MIN_SCREEN.0 || screen.height < MIN_SCREEN.1 {
            return Self { devices: none, details: none, memory: none, verdict: none };
        }
        let below = match screen.height {
            36.. => 5,
            24.. => 3,
            _ => 2,
        };
        let [body, verdict] = Layout::vertical([Constraint::Fill(1), Constraint::Length(below)]).areas(regions.body());
        let top = |height: u16| Layout::vertical([Constraint::Length(height), Constraint::Fill(1)]);
        let wanted = u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(AROUND);
        if screen.width < 120 || screen.height < 28 {
            let [devices, details] = top(wanted.min(body.height / 2)).areas(body);
            return Self { devices, details, memory: none, verdict };
        }
        let left = Constraint::Length((screen.width * 9 / 20).max(60));
        let [left, details] = Layout::horizontal([left, Constraint::Fill(1)]).areas(body);
        let [devices, memory] = top(wanted.clamp(9, left.height / 2)).areas(left);
        Self { devices, details, memory, verdict }
    }

    /// The device list below its titles, with device `chosen` of `count` selected.
    fn list(&self, chosen: usize, count: usize) -> ListRows {
        let inner = self.devices.inner(Margin::new(1, 1));
        let below = Rect { y: inner.y + 1, height: inner.height.saturating_sub(1), ..inner };
        ListRows::showing(chosen, count, below)
    }
}

impl MachineScreen {
    /// Draws everything between header and footer.
    fn draw_with_focus(&self, app: &App, on_devices: bool, buffer: &mut Buffer) {
        let rows = rows(app);
        let places = MachineRegions::of(&app.panels.regions, rows.len());
        self.draw_devices(app, &rows, &places, on_devices, buffer);
        Details::of(app, self, places.details).draw(app, self, buffer);
        if places.memory.height > 4 {
            memory::draw_in(app, places.memory, false, buffer);
        }
        let form = if places.verdict.height > 3 { verdict::Form::Frame } else { verdict::Form::Bare };
        verdict::draw_in(app, places.verdict, form, &[], buffer);
    }

    fn draw_devices(
        &self,
        app: &App,
        rows: &[MachineRow],
        places: &MachineRegions,
        focused: bool,
        buffer: &mut Buffer,
    ) {
        let (theme, slots) = (app.theme, slots(app));
        let used = slots.iter().filter(|slot| !slot.change.off).count();
        let right_title = match (&app.found_machine.what_if.replacement, slots.len()) {
            _ if app.found_machine.detection == Detection::Running => "detecting GPUs…".to_owned(),
            (Some(named), _) => format!("saved as '{}'", named.name),
            (None, 0) => "no GPU".to_owned(),
            (None, all) if used == all => format!("{all} GPU{}", if all == 1 { "" } else { "s" }),
            (None, all) => format!("{used} of {all} GPUs on"),
        };
        let inner = panel::frame(buffer, places.devices, "Machine", &right_title, focused, theme);
        draw_row(inner, ["", "device", "total", "free", ""], theme, Hue::Dim, buffer);
        let mut ids = 0..;
        let texts: Vec<_> = rows
            .iter()
            .map(|&row| {
                let slot = if let MachineRow::Gpu(at) = row { slots.get(at) } else { None };
                let id = slot.filter(|slot| !slot.change.off).and_then(|_| ids.next());
                row.texts(app, slot, id.map(|id| format!("GPU{id}")))
            })
            .collect();
        for (place, at) in places.list(self.row, rows.len()).rows() {
            let Some([id, name, total, free, state]) = texts.get(at) else { continue };
            let chosen = at == self.row;
            list::ink(place, chosen, theme, buffer);
            let hue = if chosen && focused { Hue::Focus } else { Hue::Text };
            let marked = format!("{} {id}", if chosen { '▸' } else { ' ' });
            draw_row(place, [&marked, name, total, free, state], theme, hue, buffer);
        }
    }
}

impl MachineRow {
    /// Its texts: id, name, total, free, state. `slot` is the GPU's, and `id` what it is called if it is used.
    fn texts(self, app: &App, slot: Option<&GpuSlot>, id: Option<String>) -> [String; 5] {
        let ram = app.request.machine.ram;
        match (self, slot) {
            (Self::Gpu(_), Some(slot)) => {
                let switch = if slot.change.off { "○" } else { "●" };
                let computer = slot.gpu.computer.as_ref().map(|name| format!(" @{name}")).unwrap_or_default();
                let shared = if slot.gpu.integrated { " · in RAM" } else { "" };
                let name = format!("{switch} {}{computer}{shared}", short_name(&slot.gpu.name));
                let state = slot.state().unwrap_or_default().to_owned();
                [id.unwrap_or_default(), name, slot.gpu.total.to_string(), slot.gpu.free.to_string(), state]
            }
            (Self::Ram, _) => {
                let state = if app.found_machine.what_if.ram == RamChange::default() { "" } else { "changed" };
                ["RAM", "  system RAM", &ram.total.to_string(), &ram.free.to_string(), state].map(str::to_owned)
            }
            (Self::Every, _) => {
                let kept =
                    self.lines(app.request.engine).first().and_then(|line| line.size(app, self)).unwrap_or_default();
                ["each", "  kept free on each GPU", "", &kept.to_string(), ""].map(str::to_owned)
            }
            (Self::Add | Self::Gpu(_), _) => ["", "+ add a GPU", "", "", ""].map(str::to_owned),
        }
    }
}

fn draw_row(row: Rect, cells: [&str; 5], theme: Theme, hue: Hue, buffer: &mut Buffer) {
    let [id, name, total, free, state] = cells;
    let ink = if hue == Hue::Focus { theme.bold(hue) } else { theme.ink(hue) };
    let names = Rect { width: row.width.saturating_sub(2 * SIZE + STATE), ..row };
    let mut named = RowWriter::new(buffer, names, 0);
    named.skip(1).put(id, ink).to(row.x + 8);
    let name = shortened(name, named.room());
    named.put(&name, ink);
    let end = row.intersection(buffer.area).right();
    for (text, from) in [(total, 2 * SIZE + STATE), (free, SIZE + STATE)] {
        let start = end.saturating_sub(from) + SIZE.saturating_sub(width(text));
        RowWriter::new(buffer, row, 0).to(start).put(text, ink);
    }
    let ink = theme.ink(if state == "off" { Hue::Dim } else { Hue::Cache });
    RowWriter::new(buffer, row, 0).to(end.saturating_sub(STATE - 2)).put(state, ink);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_fill_the_screen_and_stay_apart(columns in 60u16..300, rows in 20u16..100, devices in 1usize..300) {
            let regions = Regions::of(columns, rows, 6);
            let places = MachineRegions::of(&regions, devices);
            let parts = [places.devices, places.details, places.memory, places.verdict];
            for (i, a) in parts.iter().enumerate() {
                prop_assert_eq!(a.intersection(regions.screen), *a);
                for b in &parts[i + 1..] {
                    prop_assert!(a.intersection(*b).is_empty(), "{a:?} and {b:?} overlap");
                }
            }
            let filled: u32 = parts.iter().map(|part| u32::from(part.width) * u32::from(part.height)).sum();
            prop_assert_eq!(filled, u32::from(columns) * u32::from(regions.body().height));
            prop_assert!(places.devices.height > AROUND && places.details.height >= 7);
        }
    }
}
