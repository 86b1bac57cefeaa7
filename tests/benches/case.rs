//! What benches put to an engine: a model of the tests, and a machine of so many equal cards.

use plimsoll::machine::{Backend, Gpu, Machine, Origin, Os, Ram};
use plimsoll::model::Model;
use plimsoll::units::Bytes;

use crate::support;

pub fn model(name: &str) -> Model {
    Model::from_header(support::model(name), name).unwrap()
}

pub fn machine(gpus: usize, memory: Bytes) -> Machine {
    let gpu = Gpu {
        name: "card".to_owned(),
        backend: Backend::Cuda,
        total: memory,
        free: memory,
        integrated: false,
        compute: Some((8, 6)),
        driver_major: Some(12),
        computer: None,
    };
    Machine {
        os: Os::Linux,
        gpus: vec![gpu; gpus],
        ram: Ram { total: Bytes::gib(512), free: Bytes::gib(500), swap_free: Bytes::ZERO },
        origin: Origin::Described,
    }
}
