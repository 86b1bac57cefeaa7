//! The number of layers that a set of GPUs holds, and their balance.
//! Source: `llm/server.go`, `findBestFit` and `greedyFit`, Ollama, May 2026.

use std::ops::Range;

/// A GPU and its memory left for layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct GpuCapacity {
    /// Index in the machine.
    pub gpu: usize,
    /// Bytes for layers.
    pub free: u64,
    /// An integrated GPU, which is placed last.
    pub integrated: bool,
}

/// A GPU that was tried, and its layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GpuAssignment {
    pub gpu: usize,
    pub layers: Range<usize>,
}

impl GpuAssignment {
    pub fn len(&self) -> usize {
        self.layers.len()
    }
}

/// Memory multiplier for forced requests.
const FORCED: f32 = 1000.0;
/// Precision of the search for the capacity.
const PRECISION: f32 = 1e-6;

/// The maximum number of layers on `devices`, class by class, as evenly balanced as possible. `requested` limits the
/// number; `force` then ignores the available memory. Entries are in layer order.
pub(super) fn best(
    layers: &[u64],
    devices: &[GpuCapacity],
    requested: Option<usize>,
    force: bool,
) -> Vec<GpuAssignment> {
    let mut end = layers.len();
    let mut requested = requested;
    let mut entries = Vec::new();
    for class in classes(devices) {
        let layers = layers.get(..end).unwrap_or_default();
        let high = if requested.is_some() && force { FORCED } else { 1.0 };
        let class_entries = balanced(layers, &class, requested.unwrap_or(usize::MAX), high);
        let count: usize = class_entries.iter().map(GpuAssignment::len).sum();
        end -= count;
        requested = requested.map(|requested| requested - count);
        entries.splice(0..0, class_entries);
    }
    entries
}

/// Discrete and integrated GPUs, the class of the first device first.
fn classes(devices: &[GpuCapacity]) -> impl Iterator<Item = Vec<GpuCapacity>> {
    let first = devices.first().is_some_and(|device| device.integrated);
    [first, !first]
        .map(|kind| devices.iter().copied().filter(|device| device.integrated == kind).collect::<Vec<_>>())
        .into_iter()
        .filter(|class| !class.is_empty())
}

/// Fills with the smallest share of every GPU's free memory, up to `high`, that holds as many layers as `high`.
fn balanced(layers: &[u64], devices: &[GpuCapacity], limit: usize, high: f32) -> Vec<GpuAssignment> {
    let (mut low, mut high) = (0.0f32, high);
    let max_layers = count(layers, devices, limit, high);
    while high - low > PRECISION {
        let middle = f32::midpoint(low, high);
        // where float32 is too coarse for the precision, Ollama loops forever
        if middle <= low || middle >= high {
            break;
        }
        if count(layers, devices, limit, middle) == max_layers {
            high = middle;
        } else {
            low = middle;
        }
    }
    let mut entries = Vec::new();
    greedy(layers, devices, limit, high, |gpu, layers| entries.push(GpuAssignment { gpu, layers }));
    entries.reverse();
    entries
}

fn count(layers: &[u64], devices: &[GpuCapacity], limit: usize, capacity: f32) -> usize {
    let mut placed = 0;
    greedy(layers, devices, limit, capacity, |_, layers| placed += layers.len());
    placed
}

/// Fills GPUs from last to first with layers from last to first, each until the next layer does not fit. Reports every
/// GPU tried with its layers.
fn greedy(
    layers: &[u64],
    devices: &[GpuCapacity],
    limit: usize,
    capacity: f32,
    mut report: impl FnMut(usize, Range<usize>),
) {
    let first = layers.len().saturating_sub(limit);
    let mut next = layers.len();
    for device in devices.iter().rev() {
        let end = next;
        let mut free = (device.free as f32 * capacity) as u64;
        while next > first {
            match layers.get(next - 1).and_then(|&layer| free.checked_sub(layer)) {
                Some(left) => free = left,
                None => break,
            }
            next -= 1;
        }
        report(device.gpu, next..end);
        if next <= first {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(free: &[u64]) -> Vec<GpuCapacity> {
        free.iter().enumerate().map(|(gpu, &free)| GpuCapacity { gpu, free, integrated: false }).collect()
    }

    fn counts(entries: &[GpuAssignment]) -> Vec<(usize, usize)> {
        entries.iter().map(|entry| (entry.gpu, entry.len())).collect()
    }

    #[test]
    fn layers_are_spread_evenly_over_equal_gpus() {
        assert_eq!(counts(&best(&[10; 8], &devices(&[100, 100]), None, false)), [(0, 4), (1, 4)]);
    }

    #[test]
    fn a_gpu_without_layers_is_an_entry_if_tried() {
        assert_eq!(counts(&best(&[10; 2], &devices(&[100, 5]), None, false)), [(0, 2), (1, 0)]);
        assert_eq!(counts(&best(&[10; 2], &devices(&[5]), None, false)), [(0, 0)]);
        assert_eq!(counts(&best(&[], &devices(&[5]), None, false)), [(0, 0)]);
    }

    #[test]
    fn a_request_limits_and_forces() {
        assert_eq!(counts(&best(&[10; 8], &devices(&[100]), Some(3), false)), [(0, 3)]);
        assert_eq!(counts(&best(&[10; 8], &devices(&[25]), Some(3), false)), [(0, 2)]);
        assert_eq!(counts(&best(&[10; 8], &devices(&[25]), Some(3), true)), [(0, 3)]);
        assert_eq!(counts(&best(&[10; 8], &devices(&[25]), Some(0), true)), [(0, 0)]);
        // the factor would have to be 16 or more: the bisection still ends
        assert_eq!(counts(&best(&[100; 8], &devices(&[25]), Some(8), true)), [(0, 8)]);
        // the multiplier does not help without memory
        assert_eq!(counts(&best(&[100; 8], &devices(&[0]), Some(8), true)), [(0, 0)]);
    }

    #[test]
    fn integrated_gpus_get_the_remaining_layers() {
        let mut devices = devices(&[50, 50]);
        devices[1].integrated = true;
        assert_eq!(counts(&best(&[10; 8], &devices, None, false)), [(1, 3), (0, 5)]);
    }
}
