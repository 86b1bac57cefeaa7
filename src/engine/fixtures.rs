//! Small models and machines for the engines' own tests.

use crate::gguf::{Array, ElementType, Elements, Endian, Header, Value};
use crate::machine::{Backend, Gpu, Machine, Origin, Os, Ram};
use crate::model::Model;
use crate::units::Bytes;

/// A model with 16 heads of length 64, and `more` keys.
pub(super) fn model(architecture: &str, more: &[(&str, Value)]) -> Model {
    let tokens = Array { len: 32_000, range: 0..0, elements: Elements::Unread(ElementType::String) };
    let own = |key: &str| format!("{architecture}.{key}").into_boxed_str();
    let mut entries: Vec<(Box<str>, Value)> = vec![
        ("general.architecture".into(), Value::String(architecture.into())),
        ("tokenizer.ggml.tokens".into(), Value::Array(tokens)),
        (own("block_count"), Value::U32(4)),
        (own("embedding_length"), Value::U32(1024)),
        (own("attention.head_count"), Value::U32(16)),
    ];
    entries.extend(more.iter().map(|(key, value)| (own(key), value.clone())));
    let metadata = entries.into_iter().collect();
    Model::from_header(
        Header {
            version: 3,
            endian: Endian::NATIVE,
            metadata,
            tensors: Vec::new(),
            data_start: 0,
            misplaced: None,
            notes: Vec::new(),
        },
        "toy",
    )
    .unwrap()
}

pub(super) fn gpu(backend: Backend, total: Bytes) -> Gpu {
    Gpu {
        name: "a card".to_owned(),
        backend,
        total,
        free: total,
        integrated: false,
        compute: Some((8, 6)),
        driver_major: Some(12),
        computer: None,
        vulkan: None,
        listed: crate::machine::Listed::default(),
        dedicated: None,
        driver_memory: None,
        display: None,
        link: None,
    }
}

pub(super) fn machine(gpus: Vec<Gpu>) -> Machine {
    let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(50), swap_free: Bytes::ZERO, bandwidth: None };
    Machine {
        disk: None,
        os: Os::for_gpus(&gpus),
        cpu: crate::machine::Cpu::default(),
        gpus,
        ram,
        origin: Origin::Described,
        drivers: crate::machine::Drivers::default(),
    }
}

pub(super) fn card() -> Machine {
    machine(vec![gpu(Backend::Cuda, Bytes::gib(24))])
}
