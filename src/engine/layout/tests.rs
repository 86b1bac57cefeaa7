use super::*;
use crate::machine::{Gpu, Origin, Os, Ram};

/// A GPU with `free` MiB for layers, after the minimum memory.
fn gpu(backend: Backend, free: u64) -> Gpu {
    let free = Bytes::mib(free) + minimum_memory(backend);
    Gpu {
        name: "card".to_owned(),
        backend,
        total: free,
        free,
        integrated: false,
        compute: None,
        driver_major: None,
        computer: None,
        vulkan: None,
        listed: crate::machine::Listed::default(),
        dedicated: None,
        driver_memory: None,
    }
}

fn cuda(free: u64) -> Gpu {
    gpu(Backend::Cuda, free)
}

fn machine(gpus: Vec<Gpu>, ram: u64) -> Machine {
    let ram = Ram { total: Bytes::mib(ram), free: Bytes::mib(ram), swap_free: Bytes::ZERO, bandwidth: None };
    Machine {
        disk: None,
        os: Os::Linux,
        cpu: crate::machine::Cpu::default(),
        gpus,
        ram,
        origin: Origin::Described,
        drivers: crate::machine::Drivers::default(),
    }
}

/// Ten layers of 10 MiB; a graph of 25 MiB.
fn task(machine: &Machine) -> LayoutTask<'_> {
    const LAYER: u64 = 10 << 20;
    LayoutTask {
        machine,
        layers: &[LAYER; 10],
        taken: &[],
        overhead: 0,
        graph: 25 << 20,
        requested: None,
        spread: false,
        require_full: false,
    }
}

fn counts(layout: &Layout, gpus: usize) -> Vec<usize> {
    (0..gpus).map(|gpu| layout.gpu_of.iter().filter(|&&place| place == Some(gpu)).count()).collect()
}

#[test]
fn the_graph_is_reserved_in_the_second_round() {
    let enough = machine(vec![cuda(125)], 1000);
    assert_eq!(place(&task(&enough)).offloaded(), 10);
    let short = machine(vec![cuda(124)], 1000);
    let layout = place(&task(&short));
    assert_eq!((layout.offloaded(), layout.without_output), (9, true));
    assert_eq!(layout.gpu_of.last(), Some(&None), "the output layer is given up first");
}

#[test]
fn without_room_for_a_layer_no_gpu_is_tried_and_the_output_layer_is_omitted() {
    let full = machine(vec![cuda(5)], 1000);
    let layout = place(&task(&full));
    assert_eq!((layout.offloaded(), layout.without_output, layout.tried), (0, true, Vec::new()));
}

#[test]
fn the_fewest_possible_gpus_are_used_by_free_memory() {
    let layout = place(&task(&machine(vec![cuda(130), cuda(200)], 1000)));
    assert_eq!((counts(&layout, 2), layout.tried), (vec![0, 10], vec![1]));
    let layout = place(&task(&machine(vec![cuda(80), cuda(90)], 1000)));
    assert_eq!(counts(&layout, 2), [5, 5], "the load is as even as it can be");
}

#[test]
fn spread_uses_all_gpus() {
    let machine = machine(vec![cuda(200), cuda(200)], 1000);
    let layout = place(&LayoutTask { spread: true, ..task(&machine) });
    assert_eq!(counts(&layout, 2), [5, 5]);
}

#[test]
fn one_backend_is_used_at_a_time() {
    let gpus = |rocm| machine(vec![cuda(60), gpu(Backend::Rocm, rocm), cuda(60)], 1000);
    let layout = place(&task(&gpus(50)));
    assert_eq!((counts(&layout, 3), layout.tried_before.len()), (vec![3, 0, 3], 0));
    // the other backend wins once graphs are reserved, and its own graph is not
    let layout = place(&task(&gpus(70)));
    assert_eq!((counts(&layout, 3), layout.tried_before), (vec![0, 7, 0], vec![0, 2]));
}

#[test]
fn integrated_gpus_come_after_discrete_ones_unless_a_number_is_asked_for() {
    let mut shared = cuda(500);
    shared.integrated = true;
    let machine = machine(vec![shared, cuda(65)], 1000);
    let layout = place(&task(&machine));
    assert_eq!(counts(&layout, 2), [6, 4], "the discrete one is filled, the other takes the rest");
    let layout = place(&LayoutTask { requested: Some(10), ..task(&machine) });
    assert_eq!(layout.offloaded(), 10);
    assert!(counts(&layout, 2)[0] > 6, "both fill in proportion to their memory");
}

#[test]
fn a_request_is_forced_unless_a_full_fit_is_required() {
    let machine = machine(vec![cuda(55)], 1000);
    let layout = place(&LayoutTask { requested: Some(8), ..task(&machine) });
    assert_eq!((layout.offloaded(), layout.gpu_of.last()), (8, Some(&None)));
    let layout = place(&LayoutTask { requested: Some(8), require_full: true, ..task(&machine) });
    assert_eq!(layout.refusal, Some(LayoutRefusal::NotFull { placed: 5, all: 10 }));
    let layout = place(&LayoutTask { requested: Some(0), ..task(&machine) });
    assert_eq!((layout.offloaded(), layout.tried.len()), (0, 0));
}

#[test]
fn overhead_and_taken_memory_are_not_used() {
    let machine = machine(vec![cuda(125)], 1000);
    let layout = place(&LayoutTask { taken: &[20 << 20], overhead: 10 << 20, ..task(&machine) });
    assert_eq!(layout.offloaded(), 7);
    let layout = place(&LayoutTask { taken: &[u64::MAX], ..task(&machine) });
    assert_eq!(layout.offloaded(), 0);
}

#[test]
fn layouts_that_ram_cannot_hold_are_refused() {
    let mib = |n: u64| n << 20;
    let mut machine = machine(vec![cuda(85)], 45);
    machine.ram.swap_free = Bytes::mib(4);
    // the first round places eight layers, the second, with the graph reserved, six
    machine.ram.free = Bytes::mib(35);
    let layout = place(&task(&machine));
    assert_eq!(layout.refusal, Some(LayoutRefusal::TooLargeForRam { needed: mib(40), free: mib(35), swap: mib(4) }));
    assert_eq!(layout.offloaded(), 6, "what was tried last is shown");
    machine.os = Os::MacOs;
    assert_eq!(place(&task(&machine)).refusal, None);
    machine.os = Os::Linux;
    machine.ram.free = Bytes::mib(36);
    assert_eq!(place(&task(&machine)).refusal, None);
    machine.gpus.clear();
    let full = LayoutTask { require_full: true, ..task(&machine) };
    assert_eq!(place(&full).refusal, Some(LayoutRefusal::NotFullNorInRam { needed: mib(100), free: mib(36) }));
}

#[test]
fn on_macos_a_model_larger_than_all_memory_gets_no_gpu() {
    let mut machine = machine(vec![gpu(Backend::Metal, 200)], 110);
    machine.os = Os::MacOs;
    let layout = place(&task(&machine));
    // layers alone would fit; with the graph they do not, and the round that finds out is the last
    assert_eq!((layout.offloaded(), layout.requested), (10, None));
    machine.ram.total = Bytes::mib(99);
    let layout = place(&task(&machine));
    assert_eq!((layout.offloaded(), layout.requested, layout.tried_before), (0, Some(0), vec![0]));
}

#[test]
fn refusals_name_their_numbers() {
    let gib = |n: u64| n << 30;
    for (refusal, words) in [
        (LayoutRefusal::NotFull { placed: 3, all: 33 }, "all layers are required on GPU, but only 3 of 33 fit"),
        (
            LayoutRefusal::TooLargeForRam { needed: gib(60), free: gib(50), swap: 0 },
            "60.0 GiB would have to go to RAM, where 50.0 GiB is free",
        ),
        (
            LayoutRefusal::TooLargeForRam { needed: gib(60), free: gib(50), swap: gib(2) },
            "60.0 GiB would have to go to RAM, where 52.0 GiB is free, including 2.0 GiB of swap",
        ),
    ] {
        assert_eq!(refusal.to_string(), words);
    }
}
