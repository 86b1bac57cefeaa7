//! The layers that the runner loads on each GPU: one range per GPU, in proportion to the estimate's counts.
//! Source: `llm/server.go`, `createGPULayers`, Ollama, August 2025.

use std::ops::Range;

/// A range of layers for each GPU in `split`; together they are the last `count` blocks, plus the output layer if
/// `count` exceeds the blocks. Shares are compared in float32, as in Ollama.
pub(super) fn gpu_layer_ranges(split: &[usize], blocks: usize, count: usize) -> Vec<Range<usize>> {
    let all: usize = split.iter().sum();
    let start = blocks.saturating_sub(count);
    let stop = start.saturating_add(count).min(blocks + 1);
    let mut before = 0;
    let mut next = start;
    let mut runs = Vec::with_capacity(split.len());
    for &layers in split {
        before += layers;
        let share = before as f32 / all as f32;
        let first = next;
        while next < stop && ((next - start) as f32 / (stop - start) as f32) < share {
            next += 1;
        }
        runs.push(first..next);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(split: &[usize], blocks: usize, count: usize) -> Vec<(usize, usize)> {
        gpu_layer_ranges(split, blocks, count).into_iter().map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn each_gpu_gets_one_range() {
        assert_eq!(ends(&[33], 32, 33), [(0, 33)]);
        assert_eq!(ends(&[17, 16], 32, 33), [(0, 17), (17, 33)]);
        assert_eq!(ends(&[5, 0, 5], 32, 10), [(22, 27), (27, 27), (27, 32)]);
    }

    #[test]
    fn the_output_layer_is_loaded_only_with_every_block() {
        assert_eq!(ends(&[21], 32, 21), [(11, 32)]);
        // more than the model has
        assert_eq!(ends(&[3], 4, 999), [(0, 5)]);
    }

    #[test]
    fn gpus_without_layers_get_an_empty_range() {
        assert_eq!(ends(&[0, 0], 32, 10), [(22, 22), (22, 22)]);
        assert!(ends(&[], 32, 10).is_empty());
    }
}
