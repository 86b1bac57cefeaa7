//! How many layers a set of GPUs holds, and how evenly.
//! Source: `llm/server.go`, `findBestFit` and `greedyFit`, Ollama, May 2026.

use std::ops::Range;

/// A GPU with what it has left for layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct GpuCapacity {
    /// Index in the machine.
    pub gpu: usize,
    /// Bytes for layers.
    pub free: u64,
    /// Belongs to the slower class.
    pub integrated: bool,
}

/// A GPU that was tried, and the layers that it got.
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

/// Forced requests pretend to have so many times the memory.
const FORCED: f32 = 1000.0;
/// How finely the capacity is searched.
const PRECISION: f32 = 1e-6;

/// The most layers that fit on `devices`, class by class, with as even a load as still holds that many. `requested`
/// limits their number; `force` then makes room that is not there. Entries are in the order of their layers.
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

/// Groups of GPUs that are alike in speed, in the order in which each kind first appears.
fn classes(devices: &[GpuCapacity]) -> impl Iterator<Item = Vec<GpuCapacity>> {
    let first = devices.first().is_some_and(|device| device.integrated);
    [first, !first]
        .map(|kind| devices.iter().copied().filter(|device| device.integrated == kind).collect::<Vec<_>>())
        .into_iter()
        .filter(|class| !class.is_empty())
}

/// The smallest share of every GPU's free memory, up to `high`, that holds as many layers as `high` does.
fn balanced(layers: &[u64], devices: &[GpuCapacity], limit: usize, high: f32) -> Vec<GpuAssignment> {
    let (mut low, mut high) = (0.0f32, high);
    let most = count(layers, devices, limit, high);
    while high - low > PRECISION {
        let middle = f32::midpoint(low, high);
        // where float32 is too coarse for the precision, the real program goes on for ever
        if middle <= low || middle >= high {
            break;
        }
        if count(layers, devices, limit, middle) == most {
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

/// From the last layer to the first and from the last GPU to the first: each GPU is filled until the next layer does
/// not fit. Reports every GPU that was tried with its layers.
fn greedy(
    layers: &[u64],
    devices: &[GpuCapacity],
    limit: usize,
    capacity: f32,
    mut report: impl FnMut(usize, Range<usize>),
) {
    let least = layers.len().saturating_sub(limit);
    let mut next = layers.len();
    for device in devices.iter().rev() {
        let end = next;
        let mut free = (device.free as f32 * capacity) as u64;
        while next > least {
            match layers.get(next - 1).and_then(|&layer| free.checked_sub(layer)) {
                Some(left) => free = left,
                None => break,
            }
            next -= 1;
        }
        report(device.gpu, next..end);
        if next <= least {
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
    fn a_gpu_that_was_tried_in_vain_is_an_entry() {
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
        // nothing times a thousand is nothing
        assert_eq!(counts(&best(&[100; 8], &devices(&[0]), Some(8), true)), [(0, 0)]);
    }

    #[test]
    fn the_slower_class_gets_what_is_left() {
        let mut devices = devices(&[50, 50]);
        devices[1].integrated = true;
        assert_eq!(counts(&best(&[10; 8], &devices, None, false)), [(1, 3), (0, 5)]);
    }
}
