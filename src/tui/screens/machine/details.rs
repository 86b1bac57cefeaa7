//! The selected device: its settings, and below them how its values were obtained and how engines treat its backend.

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};
use ratatui::style::Modifier;

use super::cards::CardPicker;
use super::{MachineRow, MachineScreen, Pane, notes, slots};
use crate::engine::{EngineId, ReserveSetting};
use crate::machine::file::MAX_MEMORY;
use crate::machine::presets::{self, Preset};
use crate::machine::spec::ram_bandwidth;
use crate::machine::what_if::{self, GpuChange, GpuSlot, RamChange};
use crate::machine::{Gpu, Origin};
use crate::settings::Settings;
use crate::speed::work::AssumedRam;
use crate::tui::action::Command;
use crate::tui::app::{App, LiveMemory};
use crate::tui::planner::knobs::next_multiple;
use crate::tui::screen::Response;
use crate::tui::theme::Hue;
use crate::tui::widget::field::TextEntry;
use crate::tui::widget::list::{self, ListRows};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::RowWriter;
use crate::units::Bytes;

/// Steps and fine steps of sizes.
const STEP: Bytes = Bytes::gib(1);
const FINE: Bytes = Bytes::mib(128);

/// llama-server's default `--fit-target`, kept free on each GPU (`common/arg.cpp`, 0.1.161).
const FIT_TARGET: Bytes = Bytes::mib(1024);

/// Width of a setting's title.
const TITLE: u16 = 20;

/// A setting of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceSetting {
    /// Whether the GPU is used.
    Used,
    /// The card.
    Card,
    /// Free memory of a GPU.
    Free,
    /// Memory reserved for the desktop.
    Desktop,
    /// Memory reserved for another model.
    Other,
    /// How it is connected.
    Link,
    /// Total RAM.
    Total,
    /// Free RAM.
    RamFree,
    /// Free swap space.
    Swap,
    /// Bandwidth of RAM.
    Bandwidth,
    /// `OLLAMA_GPU_OVERHEAD`
    Overhead,
    /// `--fit-target`
    FitTarget,
}

impl MachineRow {
    /// The settings of the row under `engine`.
    pub(super) fn lines(self, engine: EngineId) -> &'static [DeviceSetting] {
        use DeviceSetting::{
            Bandwidth, Card, Desktop, FitTarget, Free, Link, Other, Overhead, RamFree, Swap, Total, Used,
        };
        match self {
            Self::Gpu(_) => &[Used, Card, Free, Desktop, Other, Link],
            Self::Add => &[],
            Self::Ram => &[Total, RamFree, Swap, Bandwidth],
            Self::Every => match engine.facts().reserve_setting {
                ReserveSetting::FitTarget => &[FitTarget],
                ReserveSetting::Overhead => &[Overhead],
            },
        }
    }

    /// The GPU of the row; none for other rows.
    fn slot(self, app: &App) -> Option<GpuSlot> {
        let Self::Gpu(slot) = self else { return None };
        slots(app).into_iter().nth(slot)
    }

    /// Changes the GPU of the row as one undo step; no-op for other rows.
    fn change(self, app: &mut App, set: impl FnOnce(&mut GpuChange)) {
        let Self::Gpu(slot) = self else { return };
        app.change_machine(|what_if, here| what_if.change(slot, here).map_or((), set));
    }

    /// Switches the GPU on or off.
    pub(super) fn toggle(self, app: &mut App) {
        self.change(app, |change| change.off = !change.off);
    }

    /// Removes the GPU.
    pub(super) fn remove(self, app: &mut App) {
        let Self::Gpu(slot) = self else { return };
        app.change_machine(|what_if, here| what_if.remove(slot, here));
    }

    /// Takes the changes of the row back.
    pub(super) fn restore(self, app: &mut App) {
        match self {
            Self::Gpu(slot) => app.change_machine(|what_if, here| what_if.restore(slot, here)),
            Self::Ram => app.change_machine(|what_if, _| what_if.ram = RamChange::default()),
            Self::Every => {
                let settings = Settings { gpu_overhead: Bytes::ZERO, fit_target: None, ..app.request.settings.clone() };
                app.change_settings(settings);
            }
            Self::Add => {}
        }
    }
}

impl DeviceSetting {
    const fn title(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Card => "card",
            Self::Free | Self::RamFree => "free",
            Self::Desktop => "for desktop",
            Self::Other => "for other model",
            Self::Total => "total",
            Self::Swap => "free swap",
            Self::Link => "link",
            Self::Bandwidth => "bandwidth",
            Self::Overhead | Self::FitTarget => "kept free",
        }
    }

    /// The size that `row` has of it; none for other settings.
    pub(super) fn size(self, app: &App, row: MachineRow) -> Option<Bytes> {
        let ram = app.request.machine.ram;
        match self {
            Self::Used | Self::Card | Self::Link | Self::Bandwidth => None,
            Self::Free => row.slot(app).map(|slot| slot.free),
            Self::Desktop => row.slot(app).map(|slot| slot.change.desktop),
            Self::Other => row.slot(app).map(|slot| slot.change.other),
            Self::Total => Some(ram.total),
            Self::RamFree => Some(ram.free),
            Self::Swap => Some(ram.swap_free),
            Self::Overhead => Some(app.request.settings.gpu_overhead),
            Self::FitTarget => Some(app.request.settings.fit_target.unwrap_or(FIT_TARGET)),
        }
    }

    /// The largest size that `row` can have of it.
    fn max(self, app: &App, row: MachineRow) -> Bytes {
        match (row.slot(app), self) {
            (Some(slot), _) => slot.gpu.total,
            (None, Self::RamFree) => app.request.machine.ram.total,
            (None, _) => MAX_MEMORY,
        }
    }

    /// Sets its size of `row` as one undo step.
    fn set(self, app: &mut App, row: MachineRow, size: Bytes) {
        match self {
            Self::Used | Self::Card | Self::Link | Self::Bandwidth => {}
            Self::Free => row.change(app, |change| change.free = Some(size)),
            Self::Desktop => row.change(app, |change| change.desktop = size),
            Self::Other => row.change(app, |change| change.other = size),
            Self::Total => app.change_machine(|what_if, _| what_if.ram.total = Some(size)),
            Self::RamFree => app.change_machine(|what_if, _| what_if.ram.free = Some(size)),
            Self::Swap => app.change_machine(|what_if, _| what_if.ram.swap = Some(size)),
            Self::Overhead => app.change_settings(Settings { gpu_overhead: size, ..app.request.settings.clone() }),
            Self::FitTarget => app.change_settings(Settings { fit_target: Some(size), ..app.request.settings.clone() }),
        }
    }

    /// Sets what was typed for `row`.
    fn enter(self, app: &mut App, row: MachineRow, text: &str) -> Result<(), String> {
        match self {
            Self::Link => {
                let link = text.parse()?;
                row.change(app, |change| change.link = Some(link));
            }
            Self::Bandwidth => {
                let bandwidth = ram_bandwidth(text)?;
                app.change_machine(|what_if, _| what_if.ram.bandwidth = Some(bandwidth));
            }
            _ => self.set(app, row, what_if::size(self.title(), text, Some(self.max(app, row)))?),
        }
        Ok(())
    }

    /// What may be typed for it.
    const fn example(self) -> &'static str {
        match self {
            Self::Link => "pcie4 x8, 25GB/s, …",
            Self::Bandwidth => "2x5600, 80GB/s, …",
            _ => "24GiB, 512MiB, …",
        }
    }

    /// Its value, and where that comes from.
    fn value(self, app: &App, row: MachineRow, slot: Option<&GpuSlot>) -> (String, String) {
        let size = self.size(app, row).unwrap_or(Bytes::ZERO).to_string();
        let described = app.found_machine.what_if.base(&app.found_machine.machine).origin == Origin::Described;
        let as_it_is = if described { "as specified" } else { "as detected" };
        let ram = app.found_machine.what_if.ram;
        let from = |stated: bool| if stated { "set here" } else { as_it_is }.to_owned();
        match (self, slot) {
            (Self::Used, Some(slot)) if slot.change.off => ("no".to_owned(), "Space switches it on".to_owned()),
            (Self::Used, _) => ("yes".to_owned(), String::new()),
            (Self::Card, Some(slot)) => {
                let from = if slot.change.card.is_some() { "chosen here" } else { as_it_is };
                (format!("{}, {}", slot.gpu.name, slot.gpu.total), from.to_owned())
            }
            (Self::Free, Some(slot)) => {
                let followed = !described && app.found_machine.live == LiveMemory::On && slot.change.card.is_none();
                let from = match (&slot.change.free, preset(slot)) {
                    (Some(_), _) => "set here".to_owned(),
                    (None, Some(share)) => format!("assumed: {share:.0} % of total"),
                    (None, None) if followed => "live, from its driver".to_owned(),
                    (None, None) if described && is_assumed(&slot.gpu) => {
                        let share = 100.0 * slot.gpu.free.0 as f64 / slot.gpu.total.0.max(1) as f64;
                        format!("assumed: {share:.0} % of total")
                    }
                    (None, None) => as_it_is.to_owned(),
                };
                (size, from)
            }
            (Self::Link, Some(slot)) => match (slot.gpu.link, presets::of_gpu(&slot.gpu.name, slot.gpu.total)) {
                _ if slot.gpu.integrated => ("none".to_owned(), "its memory is RAM".to_owned()),
                (Some(link), _) => (link.to_string(), from(slot.change.link.is_some())),
                (None, Some(preset)) => (preset.link().to_string(), "assumed".to_owned()),
                (None, None) => ("unknown".to_owned(), String::new()),
            },
            (Self::Bandwidth, _) => app.request.machine.ram.bandwidth.map_or_else(
                || {
                    let assumed = AssumedRam::of(&app.request.machine);
                    (assumed.bandwidth.to_string(), format!("assumed: {}", assumed.kind))
                },
                |bandwidth| (bandwidth.to_string(), from(ram.bandwidth.is_some())),
            ),
            (Self::Total, _) => (size, from(ram.total.is_some())),
            (Self::RamFree, _) => (size, from(ram.free.is_some())),
            (Self::Swap, _) => (size, from(ram.swap.is_some())),
            (Self::Overhead, _) => (size, "OLLAMA_GPU_OVERHEAD, kept free on each GPU".to_owned()),
            (Self::FitTarget, _) => (size, "--fit-target, left free on each GPU".to_owned()),
            (Self::Card | Self::Desktop | Self::Other | Self::Free | Self::Link, _) => (size, String::new()),
        }
    }
}

/// Whether what is free is exactly what is assumed where nothing is stated.
fn is_assumed(gpu: &Gpu) -> bool {
    let preset = presets::find(&gpu.name).map(Preset::gpu);
    let share = preset.map_or(presets::FREE_VRAM, |preset| preset.free.0 as f64 / preset.total.0.max(1) as f64);
    gpu.free != gpu.total && gpu.free.0.abs_diff((gpu.total.0 as f64 * share) as u64) <= 1
}

/// The percentage of memory assumed free for a preset card.
fn preset(slot: &GpuSlot) -> Option<f64> {
    let card = slot.change.card.as_ref()?;
    presets::find(&card.name).filter(|preset| preset.gpu() == *card).map(|preset| preset.free * 100.0)
}

impl MachineScreen {
    fn setting(&self, app: &App, row: MachineRow) -> Option<DeviceSetting> {
        row.lines(app.request.engine).get(self.line).copied()
    }

    /// Changes the selected setting of `row`.
    pub(super) fn press_on_setting(&mut self, app: &mut App, row: MachineRow, command: Command) -> Response {
        let Some(setting) = self.setting(app, row) else { return Response::STAY };
        match (setting, command) {
            (DeviceSetting::Used, Command::Enter | Command::Less | Command::More) => row.toggle(app),
            (DeviceSetting::Card, Command::Enter) => {
                let slot = if let MachineRow::Gpu(slot) = row { Some(slot) } else { None };
                return Response::over(CardPicker::of(slot, &app.request.machine));
            }
            (_, Command::Enter) => self.typing = Some(TextEntry::default()),
            _ => {
                let (step, up) = match command {
                    Command::Less => (STEP, false),
                    Command::More => (STEP, true),
                    Command::FineLess => (FINE, false),
                    Command::FineMore => (FINE, true),
                    _ => return Response::STAY,
                };
                if let Some(now) = setting.size(app, row) {
                    let size = Bytes(next_multiple(now.0, step.0, up)).min(setting.max(app, row));
                    setting.set(app, row, size);
                }
            }
        }
        Response::STAY
    }

    /// Takes a key in the field for a size.
    pub(super) fn press_on_size(&mut self, app: &mut App, entry: TextEntry, command: Command) -> Response {
        let row = self.device(app);
        match (command, self.setting(app, row)) {
            (Command::Enter, Some(setting)) => {
                if let Err(wrong) = setting.enter(app, row, entry.input.value()) {
                    self.typing = Some(TextEntry { wrong: Some(wrong), ..entry });
                }
                Response::STAY
            }
            (Command::Enter | Command::Back, _) => Response::STAY,
            _ => {
                self.typing = Some(entry);
                Response::Ignored
            }
        }
    }
}

/// What the pane shows.
pub(super) struct Details {
    row: MachineRow,
    slot: Option<GpuSlot>,
    notes: Vec<(Hue, String)>,
    area: Rect,
    /// The settings, a blank, and the notes.
    list: ListRows,
}

impl Details {
    /// The device that is selected on `screen`, in `area`.
    pub(super) fn of(app: &App, screen: &MachineScreen, area: Rect) -> Self {
        let row = screen.device(app);
        let (slot, inner) = (row.slot(app), area.inner(Margin::new(1, 1)));
        let notes = notes::of(app, row, slot.as_ref(), inner.width.saturating_sub(2));
        let settings = row.lines(app.request.engine).len();
        let count = settings + usize::from(settings > 0) + notes.len();
        let first = usize::from(screen.scroll).min(count.saturating_sub(usize::from(inner.height)));
        Self { row, slot, notes, area, list: ListRows { area: inner, first, count } }
    }

    /// The setting at this position.
    pub(super) fn line_at(&self, app: &App, at: Position) -> Option<usize> {
        self.list.row_at(at).filter(|&line| line < self.row.lines(app.request.engine).len())
    }

    /// Draws the pane.
    pub(super) fn draw(&self, app: &App, screen: &MachineScreen, buffer: &mut Buffer) {
        let theme = app.theme;
        let title = match (&self.slot, self.row) {
            (Some(slot), _) => slot.gpu.name.as_str(),
            (None, MachineRow::Ram) => "System RAM",
            (None, MachineRow::Every) => "All GPUs",
            (None, MachineRow::Add | MachineRow::Gpu(_)) => "New GPU",
        };
        let focused = screen.pane == Pane::Details;
        panel::frame(buffer, self.area, title, "", focused, theme);
        let (settings, ListRows { area: inner, first, count }) = (self.row.lines(app.request.engine), self.list);
        for (place, at) in self.list.rows() {
            if let Some(&setting) = settings.get(at) {
                let typing = screen.typing.as_ref().filter(|_| at == screen.line);
                self.draw_setting(app, setting, (focused && at == screen.line, typing), place, buffer);
            } else if let Some((hue, text)) = at.checked_sub(count - self.notes.len()).and_then(|at| self.notes.get(at))
            {
                let ink = if *hue == Hue::Focus { theme.bold(Hue::Text) } else { theme.ink(*hue) };
                RowWriter::new(buffer, place, 0).skip(1).put(text, ink);
            }
        }
        let last = (first + usize::from(inner.height)).min(count);
        if last - first < count {
            let edge = Rect { y: self.area.bottom().saturating_sub(1), height: 1, ..self.area };
            let ink = theme.ink(if focused { Hue::Focus } else { Hue::Border });
            let more = format!(" {} to {last} of {count}, PgDn ", first + 1);
            RowWriter::new(buffer, edge, 0).right("─╯", ink).right(&more, theme.ink(Hue::Dim));
        }
    }

    fn draw_setting(
        &self,
        app: &App,
        setting: DeviceSetting,
        (chosen, typing): (bool, Option<&TextEntry>),
        place: Rect,
        buffer: &mut Buffer,
    ) {
        let theme = app.theme;
        let ink = list::ink(place, chosen, theme, buffer);
        let mut writer = RowWriter::new(buffer, place, 0);
        writer.put(if chosen { " ▸ " } else { "   " }, ink).put(setting.title(), ink).to(place.x + TITLE + 1);
        if let Some(entry) = typing {
            writer.put(entry.input.value(), theme.bold(Hue::Focus));
            writer.put(" ", theme.ink(Hue::Text).add_modifier(Modifier::REVERSED));
            writer.skip(1).put(setting.example(), theme.ink(Hue::Dim));
        } else {
            let (value, from) = setting.value(app, self.row, self.slot.as_ref());
            writer.put(&value, ink).skip(2).put(&from, theme.ink(Hue::Dim));
        }
    }
}
