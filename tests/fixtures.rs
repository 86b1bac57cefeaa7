//! What tests and benches put to an engine: models of the tests, and machines of plain cards.

use plimsoll::engine::PreparedModel;
use plimsoll::machine::{Backend, Gpu, Machine, Origin, Os, Ram};
use plimsoll::model::Model;
use plimsoll::units::Bytes;

use crate::support;

/// A model of `tests/models`, by name.
pub fn model(name: &str) -> PreparedModel {
    Model::from_header(support::model(name), name).unwrap().into()
}

/// A card, all of whose memory is free.
pub fn card(backend: Backend, memory: Bytes) -> Gpu {
    Gpu { compute: Some((8, 6)), driver_major: Some(12), ..Gpu::of("card", backend, memory) }
}

/// A machine with these GPUs and 64 GiB of RAM, 50 GiB of it free.
pub fn machine(gpus: Vec<Gpu>) -> Machine {
    let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(50), swap_free: Bytes::ZERO, bandwidth: None };
    Machine {
        disk: None,
        os: Os::for_gpus(&gpus),
        cpu: plimsoll::machine::Cpu::default(),
        gpus,
        ram,
        origin: Origin::Described,
        drivers: plimsoll::machine::Drivers::default(),
    }
}

/// The same with CUDA cards of these sizes in GiB.
pub fn cards(gibibytes: &[u64]) -> Machine {
    machine(gibibytes.iter().map(|&gib| card(Backend::Cuda, Bytes::gib(gib))).collect())
}

/// `gpus` CUDA cards of one size and 512 GiB of RAM, 500 GiB of it free.
pub fn server(gpus: usize, memory: Bytes) -> Machine {
    let ram = Ram { total: Bytes::gib(512), free: Bytes::gib(500), swap_free: Bytes::ZERO, bandwidth: None };
    Machine { ram, ..machine(vec![card(Backend::Cuda, memory); gpus]) }
}

/// Machines that hold a bit more or less than the model's weights, so that the limit is within the knob's range; then
/// some common ones.
pub fn machines(model: &PreparedModel) -> Vec<Machine> {
    let share = |percent: u64, gpus: u64| Bytes(model.bytes.0 / 100 * percent / gpus + (1 << 30));
    vec![
        server(1, share(130, 1)),
        server(2, share(115, 2)),
        server(4, share(150, 4)),
        server(2, share(80, 2)),
        cards(&[8]),
        cards(&[12]),
        cards(&[16]),
        cards(&[24]),
        cards(&[24, 24]),
        cards(&[24, 12]),
        server(4, Bytes::gib(24)),
        server(1, Bytes::gib(80)),
        server(2, Bytes::gib(80)),
        server(8, Bytes::gib(80)),
    ]
}
