//! Reasons to refuse a layout.
//! Source: `llm/server.go`, `verifyLayout`, Ollama, May 2026.

use std::fmt;

use super::{Layout, LayoutTask};
use crate::machine::Os;
use crate::units::Bytes;

/// Why Ollama would not load a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum LayoutRefusal {
    /// All layers were required on GPUs.
    NotFull { placed: usize, all: usize },
    /// All layers were required on GPUs, and the rest does not even fit in RAM.
    NotFullNorInRam { needed: u64, free: u64 },
    /// The part in RAM exceeds free RAM and swap.
    TooLargeForRam { needed: u64, free: u64, swap: u64 },
}

impl fmt::Display for LayoutRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotFull { placed, all } => {
                write!(f, "all layers are required on GPU, but only {placed} of {all} fit")
            }
            Self::NotFullNorInRam { needed, free } => write!(
                f,
                "all layers are required on GPU, but {} is left for RAM, where only {} is free",
                Bytes(needed),
                Bytes(free)
            ),
            Self::TooLargeForRam { needed, free, swap: 0 } => {
                write!(f, "{} would have to go to RAM, where {} is free", Bytes(needed), Bytes(free))
            }
            Self::TooLargeForRam { needed, free, swap } => write!(
                f,
                "{} would have to go to RAM, where {} is free, including {} of swap",
                Bytes(needed),
                Bytes(free.wrapping_add(swap)),
                Bytes(swap)
            ),
        }
    }
}

/// Bytes in RAM and on GPUs, as counted in this round.
pub(super) struct MemorySums {
    cpu: u64,
    gpu: u64,
}

impl MemorySums {
    /// `graphs`: the number of tried GPUs with a reserved graph.
    pub fn of(task: &LayoutTask<'_>, layout: &Layout, graphs: u64) -> Self {
        let mut sums = Self { cpu: 0, gpu: graphs.wrapping_mul(task.graph) };
        for (&layer, place) in task.layers.iter().zip(&layout.gpu_of) {
            let side = if place.is_some() { &mut sums.gpu } else { &mut sums.cpu };
            *side = side.wrapping_add(layer);
        }
        sums
    }
}

pub(super) fn refusal(
    task: &LayoutTask<'_>,
    layout: &Layout,
    sums: &MemorySums,
    requested: Option<usize>,
) -> Option<LayoutRefusal> {
    let ram = task.machine.ram;
    let (placed, all) = (layout.offloaded(), task.layers.len());
    if task.require_full {
        let short = placed < all && requested.is_none_or(|requested| placed < requested);
        if short && !task.machine.gpus.is_empty() {
            return Some(LayoutRefusal::NotFull { placed, all });
        }
        if sums.cpu > ram.free.0 {
            return Some(LayoutRefusal::NotFullNorInRam { needed: sums.cpu, free: ram.free.0 });
        }
    }
    let (free, swap) = (ram.free.0, ram.swap_free.0);
    let too_large = task.machine.os != Os::MacOs && sums.cpu > free.wrapping_add(swap);
    too_large.then_some(LayoutRefusal::TooLargeForRam { needed: sums.cpu, free, swap })
}

/// On macOS, a model larger than all memory gets no GPU in the next round.
pub(super) fn exceeds_unified_memory(task: &LayoutTask<'_>, sums: &MemorySums) -> bool {
    task.machine.os == Os::MacOs && sums.gpu > task.machine.ram.total.0
}
