//! Models and machines for tests.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use plimsoll::hardware::{CollectorResult, Detected};
use plimsoll::machine::{Backend, Gpu, Machine, Origin, Os, Ram};
use plimsoll::model::Model;
use plimsoll::source::Package;
use plimsoll::tui::action::Action;
use plimsoll::units::Bytes;

use crate::support;

/// A model of `tests/models`.
pub fn model(name: &str) -> Model {
    let mut header = support::model(name);
    // the note that a description has no weights is no help here
    header.notes.clear();
    Model::from_header(header, name).unwrap()
}

/// A model of `tests/models` without projector or tag parameters, read once.
pub fn package(name: &'static str) -> Package {
    static READ: LazyLock<Mutex<HashMap<&str, Package>>> = LazyLock::new(Mutex::default);
    READ.lock().unwrap().entry(name).or_insert_with(|| model(name).into()).clone()
}

/// Qwen3 235B A22B, made from the description of Qwen3 30B A3B.
pub fn qwen3_235b() -> Model {
    let small: serde_json::Value = serde_json::from_str(&support::model_json("qwen3-30b-a3b")).unwrap();
    let mut kv = small["kv"].clone();
    for (key, value) in [
        ("block_count", 94),
        ("embedding_length", 4096),
        ("feed_forward_length", 12_288),
        ("attention.head_count", 64),
        ("expert_feed_forward_length", 1536),
    ] {
        kv[format!("qwen3moe.{key}")] = serde_json::json!(["u32", value]);
    }
    kv["general.name"] = serde_json::json!(["string", "Qwen3 235B A22B"]);
    let vocabulary = small["n_vocab"].as_u64().unwrap();
    let mut tensors = vec![
        serde_json::json!(["token_embd.weight", "q4_K", [4096, vocabulary]]),
        serde_json::json!(["output_norm.weight", "f32", [4096]]),
        serde_json::json!(["output.weight", "q6_K", [4096, vocabulary]]),
    ];
    for block in 0..94 {
        for (name, ty, dims) in [
            ("attn_norm", "f32", vec![4096]),
            ("attn_q", "q4_K", vec![4096, 8192]),
            ("attn_k", "q4_K", vec![4096, 512]),
            ("attn_v", "q6_K", vec![4096, 512]),
            ("attn_output", "q4_K", vec![8192, 4096]),
            ("attn_k_norm", "f32", vec![128]),
            ("attn_q_norm", "f32", vec![128]),
            ("ffn_norm", "f32", vec![4096]),
            ("ffn_gate_inp", "f32", vec![4096, 128]),
            ("ffn_gate_exps", "q4_K", vec![4096, 1536, 128]),
            ("ffn_down_exps", if block % 8 == 0 { "q6_K" } else { "q4_K" }, vec![1536, 4096, 128]),
            ("ffn_up_exps", "q4_K", vec![4096, 1536, 128]),
        ] {
            tensors.push(serde_json::json!([format!("blk.{block}.{name}.weight"), ty, dims]));
        }
    }
    let description = serde_json::json!({ "kv": kv, "n_vocab": vocabulary, "tensors": tensors });
    let mut header = crate::support::description::header(&description.to_string()).unwrap();
    header.notes.clear();
    Model::from_header(header, "qwen3-235b").unwrap()
}

/// `count` cards of `gib` GiB, with some memory in use, and `ram` GiB of main memory.
pub fn machine(count: usize, name: &str, gib: u64, ram: u64) -> Machine {
    let gpu = |index: u64| Gpu {
        free: Bytes(Bytes::gib(gib).0 - Bytes::mib(430 + 150 * index).0),
        compute: Some((8, 6)),
        driver_major: Some(13),
        ..Gpu::of(name, Backend::Cuda, Bytes::gib(gib))
    };
    Machine {
        disk: None,
        os: Os::Linux,
        cpu: plimsoll::machine::Cpu::default(),
        gpus: (0..count as u64).map(gpu).collect(),
        ram: Ram { total: Bytes::gib(ram), free: Bytes::gib(ram * 7 / 8), swap_free: Bytes::gib(2), bandwidth: None },
        origin: Origin::Described,
        drivers: plimsoll::machine::Drivers::default(),
    }
}

/// The action that reports `machine` as detected.
pub fn detected(machine: Machine, tried: &[(&'static str, &str)]) -> Action {
    let tried =
        tried.iter().map(|&(collector, outcome)| CollectorResult { collector, outcome: outcome.to_owned() }).collect();
    Action::Detected(Box::new(Detected { machine, facts: Vec::new(), processes: Vec::new(), tried }))
}

/// One RTX 3090 and 64 GiB.
pub fn one_gpu() -> Machine {
    machine(1, "RTX 3090", 24, 64)
}
