use super::super::pick::{pick, predict};
use super::*;

/// Blocks of 10 bytes, an output layer of 7, graphs of 5 and 3.
fn task(blocks: usize) -> EstimateTask {
    let block = BlockBytes { weights: Some(6), cache: 4 };
    EstimateTask { blocks: vec![block; blocks], output: 7, partial: 5, full: 3, ..EstimateTask::default() }
}

fn gpu(index: usize, free: u64) -> EstimateDevice {
    EstimateDevice { gpu: Some(index), backend: Some(Backend::Cuda), free, minimum: 1 }
}

fn gpus(free: &[u64]) -> Vec<EstimateDevice> {
    free.iter().enumerate().map(|(index, &free)| gpu(index, free)).collect()
}

fn split(found: &MemoryEstimate) -> Vec<usize> {
    found.slots.iter().map(|slot| slot.layers).collect()
}

fn sizes(found: &MemoryEstimate) -> Vec<u64> {
    found.slots.iter().map(|slot| slot.size).collect()
}

#[test]
fn everything_on_one_gpu_takes_the_full_graph() {
    let found = estimate(&task(3), &gpus(&[1000]));
    // minimum, buffer, three blocks, output, full graph
    assert_eq!((found.layers(), found.vram(), found.total()), (4, 1 + 10 + 30 + 7 + 3, 51));
    assert!(found.full_graph);
}

#[test]
fn a_layer_needs_a_byte_more_than_it_takes() {
    // minimum, buffer and the larger graph are 16, three blocks 30, the output layer 7
    assert_eq!(estimate(&task(3), &gpus(&[54])).layers(), 4);
    let found = estimate(&task(3), &gpus(&[53]));
    assert_eq!((found.layers(), found.graph, found.overflow), (3, 5, 7));
    assert_eq!(found.whys[3], Why::NoRoom { needed: Bytes(7), room: Bytes(7), device: 0 });
    let found = estimate(&task(3), &gpus(&[46]));
    // one block less, and the output layer is not tried although it would fit
    assert_eq!((found.layers(), found.slot_of[3], found.overflow), (2, None, 10 + 7));
    assert_eq!(found.total(), found.vram() + 17);
}

#[test]
fn a_gpu_must_have_room_for_two_layers() {
    let minimum = 1 + 5 + 20;
    assert_eq!(estimate(&task(9), &gpus(&[minimum - 1])).layers(), 0);
    let found = estimate(&task(9), &gpus(&[minimum]));
    // reserves count although no block fits
    assert_eq!((found.layers(), sizes(&found), found.vram()), (0, vec![1 + 10], 0));
    assert_eq!(found.total(), 11 + 90 + 7);
    let why = &estimate(&task(9), &gpus(&[minimum - 1])).whys[8];
    assert_eq!(*why, Why::NoRoom { needed: Bytes(10), room: Bytes(9), device: 0 });
}

#[test]
fn several_gpus_get_layers_in_turn_and_the_partial_graph() {
    let found = estimate(&task(5), &gpus(&[1000, 1000]));
    assert_eq!(found.slot_of, [Some(0), Some(1), Some(0), Some(1), Some(0), Some(1)]);
    assert_eq!((split(&found), found.graph), (vec![3, 3], 5));
    assert_eq!(sizes(&found), [1 + 10 + 30 + 5, 1 + 10 + 20 + 7 + 5]);
}

#[test]
fn a_full_gpu_is_not_tried_again() {
    let mut task = task(6);
    task.blocks[4] = BlockBytes { weights: Some(60), cache: 0 };
    let found = estimate(&task, &gpus(&[60]));
    assert_eq!(found.slot_of[..6], [None, None, None, None, None, Some(0)]);
    assert_eq!(found.whys[4], Why::NoRoom { needed: Bytes(60), room: Bytes(34), device: 0 });
    // the next block would fit, but is not tried
    let given_up = |own| Why::GivenUp { device: 0, layer: 4, needed: Bytes(60), room: Bytes(34), own: Bytes(own) };
    assert_eq!(found.whys[3], given_up(10));
    // the output layer
    assert_eq!(found.whys[6], given_up(7));
}

#[test]
fn a_block_without_tensors_counts_like_the_one_before_it() {
    let mut task = task(4);
    task.blocks[3] = BlockBytes { weights: Some(20), cache: 4 };
    task.blocks[2].weights = None;
    assert_eq!(estimate(&task, &gpus(&[1000])).counted, [10, 10, 24, 24]);
    // the last one counts like the buffer: only the cache of the first block if that has no tensors either
    task.blocks[3].weights = None;
    task.blocks[0].weights = None;
    assert_eq!(estimate(&task, &gpus(&[1000])).counted, [10, 10, 4, 4]);
}

#[test]
fn the_request_limits_the_layers() {
    for (requested, layers, slot_of) in
        [(0, 0, [None, None, None]), (1, 1, [None, Some(0), None]), (9, 3, [Some(0), Some(0), Some(0)])]
    {
        let task = EstimateTask { requested: Some(requested), ..task(2) };
        let found = estimate(&task, &gpus(&[1000]));
        assert_eq!((found.layers(), found.slot_of.as_slice()), (layers, slot_of.as_slice()), "{requested}");
    }
}

#[test]
fn a_separate_projector_goes_to_the_first_gpu_with_room() {
    let task = EstimateTask { projector: 100, ..task(1) };
    let found = estimate(&task, &gpus(&[100, 1000]));
    assert_eq!((found.first_usable, found.slots[0].size), (Some(1), 0));
    assert_eq!(found.slots[1].size, 1 + 10 + 100 + 10 + 7 + 5);
    let found = estimate(&task, &gpus(&[100]));
    assert_eq!((found.first_usable, found.overflow), (None, 100 + 10 + 7));
}

#[test]
fn vision_is_placed_with_the_output_layer() {
    let task = EstimateTask { vision_weights: 40, vision_graph: 2, ..task(1) };
    let found = estimate(&task, &gpus(&[1000]));
    assert_eq!(found.vram(), 1 + 10 + 10 + (7 + 40 + 2) + 3);
    let found = estimate(&task, &gpus(&[40]));
    assert_eq!((found.layers(), found.overflow), (1, 49));
}

#[test]
fn ram_is_counted_like_a_gpu_but_holds_no_layers() {
    let ram = EstimateDevice { gpu: None, backend: None, free: 1000, minimum: 0 };
    let found = estimate(&task(3), &[ram]);
    assert_eq!((found.layers(), found.vram(), found.placed), (0, 0, 4));
    assert_eq!(found.total(), 10 + 30 + 7 + 3);
}

#[test]
fn a_model_without_an_output_layer_never_counts_as_fully_offloaded() {
    let task = EstimateTask { output: 0, ..task(2) };
    let found = estimate(&task, &gpus(&[1000]));
    assert_eq!((found.layers(), found.full_graph, &found.whys[2]), (2, true, &Why::Nothing));
    assert_eq!(predict(&task, &gpus(&[1000])), (false, found.vram()));
}

#[test]
fn the_fewest_possible_gpus_are_picked_by_free_memory() {
    let ids = |found: &MemoryEstimate| found.slots.iter().filter_map(|slot| slot.device.gpu).collect::<Vec<_>>();
    let devices = gpus(&[60, 100, 60]);
    assert_eq!(ids(&pick(&task(3), &devices, false, false).estimate), [1]);
    assert_eq!(ids(&pick(&task(9), &devices, false, false).estimate), [1, 0]);
    assert_eq!(ids(&pick(&task(3), &devices, true, false).estimate), [1, 0, 2]);
    // if not everything fits, all GPUs are used, in machine order
    assert_eq!(ids(&pick(&task(90), &devices, false, false).estimate), [0, 1, 2]);
    assert!(pick(&task(90), &devices, false, true).refused);
    assert!(!pick(&task(9), &devices, false, true).refused);
}

#[test]
fn the_library_with_the_most_bytes_is_used_if_none_fits_all() {
    let mut devices = gpus(&[60, 200, 100]);
    devices[1].backend = Some(Backend::Vulkan);
    let library = |task: &EstimateTask| pick(task, &devices, false, false).estimate.slots[0].device.backend;
    assert_eq!(library(&task(3)), Some(Backend::Cuda));
    assert_eq!(library(&task(16)), Some(Backend::Vulkan));
    assert_eq!(library(&task(90)), Some(Backend::Vulkan));
    assert_eq!(library(&EstimateTask { requested: Some(11), ..task(90) }), Some(Backend::Cuda));
    // with no layers on any library, the first
    assert_eq!(library(&EstimateTask { requested: Some(0), ..task(90) }), Some(Backend::Cuda));
}
