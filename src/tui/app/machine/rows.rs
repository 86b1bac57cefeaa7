//! The settings of each row of the machine screen.

use crate::engine::{EngineId, ReserveSetting};
use crate::machine::file::MAX_MEMORY;
use crate::machine::what_if::{GpuChange, GpuSlot};
use crate::settings::Settings;
use crate::tui::app::App;
use crate::units::Bytes;

/// llama-server's default `--fit-target`, kept free on each GPU (`common/arg.cpp`, 0.1.161).
const FIT_TARGET: Bytes = Bytes::mib(1024);

/// A row of the machine screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineRow {
    /// A GPU, by its slot: index into [`crate::machine::what_if::WhatIf::slots`].
    Gpu(usize),
    /// The row that adds a GPU.
    Add,
    /// RAM.
    Ram,
    /// Settings for every GPU.
    Every,
}

/// A setting of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceSetting {
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
    /// Total RAM.
    Total,
    /// Free RAM.
    RamFree,
    /// Free swap space.
    Swap,
    /// `OLLAMA_GPU_OVERHEAD`
    Overhead,
    /// `--fit-target`
    FitTarget,
}

impl MachineRow {
    /// The settings of the row under `engine`.
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
    /// The GPU in a slot.
    pub fn slot(&self, slot: usize) -> Option<GpuSlot> {
        self.what_if.slots(&self.found_machine.machine).into_iter().nth(slot)
    }

    /// The size of setting `line` of `row`; none for other settings.
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

    /// The maximum of setting `line` of `row`.
    pub(super) fn machine_max(&self, row: MachineRow, line: DeviceSetting) -> Option<Bytes> {
        match (row, line) {
            (MachineRow::Gpu(slot), _) => self.slot(slot).map(|slot| slot.gpu.total),
            (_, DeviceSetting::RamFree) => Some(self.machine.ram.total),
            _ => Some(MAX_MEMORY),
        }
    }

    /// Sets a size as one undo step.
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

    /// Changes the GPU of `row` as one undo step; no-op for other rows.
    pub(super) fn change_slot(&mut self, row: MachineRow, set: impl FnOnce(&mut GpuChange)) {
        let MachineRow::Gpu(slot) = row else { return };
        self.change_machine(|what_if, here| {
            if let Some(change) = what_if.change(slot, here) {
                set(change);
            }
        });
    }
}
