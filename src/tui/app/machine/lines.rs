//! What can be changed of each row.

use crate::engine::{EngineId, KeepsFree};
use crate::machine::file::LARGEST;
use crate::machine::what_if::{Change, Seat};
use crate::settings::Settings;
use crate::tui::app::App;
use crate::units::Bytes;

/// What llama-server's fit leaves free on each GPU where nothing is said (`common/arg.cpp`, 0.1.161).
const FIT_TARGET: Bytes = Bytes::mib(1024);

/// A row of the machine screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A GPU, by its seat: index into [`crate::machine::what_if::WhatIf::seats`].
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
pub enum Line {
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

impl Row {
    /// What can be changed of it, where `engine` decides.
    pub fn lines(self, engine: EngineId) -> &'static [Line] {
        match self {
            Self::Gpu(_) => &[Line::Used, Line::Card, Line::Free, Line::Desktop, Line::Other],
            Self::Add => &[],
            Self::Ram => &[Line::Total, Line::RamFree, Line::Swap],
            Self::Every => match engine.facts().keeps_free {
                KeepsFree::FitTarget => &[Line::FitTarget],
                KeepsFree::Overhead => &[Line::Overhead],
            },
        }
    }
}

impl Line {
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
    pub fn seat(&self, seat: usize) -> Option<Seat> {
        self.what_if.seats(&self.found_machine.machine).into_iter().nth(seat)
    }

    /// The size at `line` of `row`, for lines that are sizes.
    pub fn machine_size(&self, row: Row, line: Line) -> Option<Bytes> {
        let seat = || match row {
            Row::Gpu(seat) => self.seat(seat),
            _ => None,
        };
        let ram = self.machine.ram;
        match line {
            Line::Used | Line::Card => None,
            Line::Free => seat().map(|seat| seat.free),
            Line::Desktop => seat().map(|seat| seat.change.desktop),
            Line::Other => seat().map(|seat| seat.change.other),
            Line::Total => Some(ram.total),
            Line::RamFree => Some(ram.free),
            Line::Swap => Some(ram.swap_free),
            Line::Overhead => Some(self.settings.gpu_overhead),
            Line::FitTarget => Some(self.settings.fit_target.unwrap_or(FIT_TARGET)),
        }
    }

    /// The most that `line` of `row` can be.
    pub(super) fn machine_most(&self, row: Row, line: Line) -> Option<Bytes> {
        match (row, line) {
            (Row::Gpu(seat), _) => self.seat(seat).map(|seat| seat.gpu.total),
            (_, Line::RamFree) => Some(self.machine.ram.total),
            _ => Some(LARGEST),
        }
    }

    /// Sets it, as one step that can be undone.
    pub(super) fn set_machine_size(&mut self, row: Row, line: Line, size: Bytes) {
        match line {
            Line::Used | Line::Card => {}
            Line::Free => self.change_seat(row, |change| change.free = Some(size)),
            Line::Desktop => self.change_seat(row, |change| change.desktop = size),
            Line::Other => self.change_seat(row, |change| change.other = size),
            Line::Total => self.change_machine(|what_if, _| what_if.ram.total = Some(size)),
            Line::RamFree => self.change_machine(|what_if, _| what_if.ram.free = Some(size)),
            Line::Swap => self.change_machine(|what_if, _| what_if.ram.swap = Some(size)),
            Line::Overhead => self.change_settings(Settings { gpu_overhead: size, ..self.settings.clone() }),
            Line::FitTarget => self.change_settings(Settings { fit_target: Some(size), ..self.settings.clone() }),
        }
    }

    /// Changes the GPU of `row`, where it is one, as one step that can be undone.
    pub(super) fn change_seat(&mut self, row: Row, set: impl FnOnce(&mut Change)) {
        let Row::Gpu(seat) = row else { return };
        self.change_machine(|what_if, here| {
            if let Some(change) = what_if.change(seat, here) {
                set(change);
            }
        });
    }
}
