//! The GPUs used by the estimate: as few of one library as hold the whole model, else those of the library that holds
//! the most.
//! Source: `llm/memory.go`, `pickBestFullFitByLibrary`, `pickBestPartialFitByLibrary` and `PredictServerFit`, Ollama,
//! August 2025.

use super::estimate::{EstimateDevice, EstimateTask, MemoryEstimate, estimate};

/// The chosen estimate.
pub(super) struct PickedGpus {
    pub estimate: MemoryEstimate,
    /// Not all requested layers are on GPUs, and anything less is refused.
    pub refused: bool,
}

/// Picks among `devices`, which are not empty.
pub(super) fn pick(task: &EstimateTask, devices: &[EstimateDevice], spread: bool, require_full: bool) -> PickedGpus {
    let mut last_tried = None;
    for mut group in by_library(devices) {
        // most free memory first; a stable sort
        group.sort_by_key(|device| std::cmp::Reverse(device.free));
        let first = if spread { group.len() } else { 1 };
        for count in first..=group.len() {
            let found = estimate(task, group.get(..count).unwrap_or_default());
            if is_enough(task, &found) {
                return PickedGpus { estimate: found, refused: false };
            }
            last_tried = Some(found);
        }
    }
    if require_full {
        return PickedGpus { estimate: last_tried.unwrap_or_default(), refused: true };
    }
    PickedGpus { estimate: most_bytes(task, devices), refused: false }
}

/// The estimate for the library with the most bytes on GPUs; the first of equals.
fn most_bytes(task: &EstimateTask, devices: &[EstimateDevice]) -> MemoryEstimate {
    let mut best: Option<MemoryEstimate> = None;
    for group in by_library(devices) {
        let found = estimate(task, &group);
        if best.as_ref().is_none_or(|best| found.vram() > best.vram()) {
            best = Some(found);
        }
    }
    best.unwrap_or_default()
}

/// Whether the requested layers fit on the GPUs of one library, and the bytes on it, or on the last library.
pub(super) fn predict(task: &EstimateTask, devices: &[EstimateDevice]) -> (bool, u64) {
    let mut vram = 0;
    for group in by_library(devices) {
        let found = estimate(task, &group);
        vram = found.vram();
        if is_enough(task, &found) {
            return (true, vram);
        }
    }
    (false, vram)
}

fn is_enough(task: &EstimateTask, found: &MemoryEstimate) -> bool {
    let layers = found.layers();
    layers > 0 && layers >= task.requested.unwrap_or(task.layer_count())
}

/// Devices by library, in order of first appearance.
fn by_library(devices: &[EstimateDevice]) -> Vec<Vec<EstimateDevice>> {
    let mut groups: Vec<Vec<EstimateDevice>> = Vec::new();
    for &device in devices {
        let same =
            |group: &&mut Vec<EstimateDevice>| group.first().is_some_and(|first| first.backend == device.backend);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(device),
            None => groups.push(vec![device]),
        }
    }
    groups
}
