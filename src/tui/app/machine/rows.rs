//! What can be changed of each row.

use crate::engine::{EngineId, ReserveSetting};
use crate::machine::file::MAX_MEMORY;
use crate::machine::what_if::{GpuChange, GpuSlot};
use crate::settings::Settings;
use crate::tui::app::App;
use crate::units::Bytes;

/// What llama-server's fit leaves free on each GPU where nothing is said (`common/arg.cpp`, 0.1.161).
const FIT_TARGET: Bytes = Bytes::mib(1024);

/// A row of the machine screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineRow {
    /// A GPU, by its seat: index into [`crate::machine::what_if::WhatIf::slots`].
    Gpu(usize),
    /// A place for another one.
    Add,
    /// Main memory.
    Ram,
    /// What holds for every GPU.
    Every,
}

/// Something that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceSetting {
    /// The GPU is used.
    Used,
    /// Which card it is.
    Card,
    /// What is free of a GPU.
    Free,
    /// What is kept for the desktop.
    Desktop,
    /// What is kept for another model.
    Other,
    /// All of main memory.
    Total,
    /// What is free of it.
    RamFree,
    /// Free swap space.
    Swap,
    /// `OLLAMA_GPU_OVERHEAD`
    Overhead,
    /// `--fit-target`
    FitTarget,
}

impl MachineRow {
    /// What can be changed of it, where `engine` decides.
    pub fn lines(self, engine: EngineId) -> &'static [DeviceSetting] {
        match self {
            Self::Gpu(_) => &[
                DeviceSetting::Used,
                DeviceSetting::Card,
                DeviceSetting::Free,
                DeviceSetting::Desktop,
                DeviceSetting::Other,
            ],
            Self::Add => &[],
            Self::Ram => &[DeviceSetting::Total, DeviceSetting::RamFree, DeviceSetting::Swap],
            Self::Every => match engine.facts().reserve_setting {
                ReserveSetting::FitTarget => &[DeviceSetting::FitTarget],
                ReserveSetting::Overhead => &[DeviceSetting::Overhead],
            },
        }
    }
}

impl DeviceSetting {
    /// Its title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Card => "card",
            Self::Free | Self::RamFree => "free",
            Self::Desktop => "for desktop",
            Self::Other => "for other model",
            Self::Total => "total",
            Self::Swap => "free swap",
            Self::Overhead | Self::FitTarget => "kept free",
        }
    }
}

impl App {
    /// The GPU at a seat.
    pub fn slot(&self, slot: usize) -> Option<GpuSlot> {
        self.what_if.slots(&self.found_machine.machine).into_iter().nth(slot)
    }

    /// The size at `line` of `row`, for lines that are sizes.
    pub fn machine_size(&self, row: MachineRow, line: DeviceSetting) -> Option<Bytes> {
        let slot = || match row {
            MachineRow::Gpu(slot) => self.slot(slot),
            _ => None,
        };
        let ram = self.machine.ram;
        match line {
            DeviceSetting::Used | DeviceSetting::Card => None,
            DeviceSetting::Free => slot().map(|slot| slot.free),
            DeviceSetting::Desktop => slot().map(|slot| slot.change.desktop),
            DeviceSetting::Other => slot().map(|slot| slot.change.other),
            DeviceSetting::Total => Some(ram.total),
            DeviceSetting::RamFree => Some(ram.free),
            DeviceSetting::Swap => Some(ram.swap_free),
            DeviceSetting::Overhead => Some(self.settings.gpu_overhead),
            DeviceSetting::FitTarget => Some(self.settings.fit_target.unwrap_or(FIT_TARGET)),
        }
    }

    /// The most that `line` of `row` can be.
    pub(super) fn machine_most(&self, row: MachineRow, line: DeviceSetting) -> Option<Bytes> {
        match (row, line) {
            (MachineRow::Gpu(slot), _) => self.slot(slot).map(|slot| slot.gpu.total),
            (_, DeviceSetting::RamFree) => Some(self.machine.ram.total),
            _ => Some(MAX_MEMORY),
        }
    }

    /// Sets it, as one step that can be undone.
    pub(super) fn set_machine_size(&mut self, row: MachineRow, line: DeviceSetting, size: Bytes) {
        match line {
            DeviceSetting::Used | DeviceSetting::Card => {}
            DeviceSetting::Free => self.change_slot(row, |change| change.free = Some(size)),
            DeviceSetting::Desktop => self.change_slot(row, |change| change.desktop = size),
            DeviceSetting::Other => self.change_slot(row, |change| change.other = size),
            DeviceSetting::Total => self.change_machine(|what_if, _| what_if.ram.total = Some(size)),
            DeviceSetting::RamFree => self.change_machine(|what_if, _| what_if.ram.free = Some(size)),
            DeviceSetting::Swap => self.change_machine(|what_if, _| what_if.ram.swap = Some(size)),
            DeviceSetting::Overhead => self.change_settings(Settings { gpu_overhead: size, ..self.settings.clone() }),
            DeviceSetting::FitTarget => {
                self.change_settings(Settings { fit_target: Some(size), ..self.settings.clone() });
            }
        }
    }

    /// Changes the GPU of `row`, where it is one, as one step that can be undone.
    pub(super) fn change_slot(&mut self, row: MachineRow, set: impl FnOnce(&mut GpuChange)) {
        let MachineRow::Gpu(slot) = row else { return };
        self.change_machine(|what_if, here| {
            if let Some(change) = what_if.change(slot, here) {
                set(change);
            }
        });
    }
}
