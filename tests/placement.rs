//! Loads with options that place tensors, choose devices or add to a model, against what llama.cpp measured for them on
//! simulated cards (its own accounting, release 2026-11).

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::machine::{Backend, Cpu, CpuInstructions, Gpu, Machine, Ram};
use plimsoll::plan::{PartKind, Plan};
use plimsoll::settings::{Flag, Settings};
use plimsoll::units::Bytes;
use serde_json::Value;

use crate::fixtures::{self, model};
use crate::support;

/// The options of a question as the command line has them.
fn settings(asked: &Value) -> Settings {
    let mut settings = Settings::default();
    let mut give = |flag: Flag, text: &str| flag.read(&mut settings, text).unwrap();
    let number = |key: &str| asked[key].as_i64().unwrap().to_string();
    for (flag, key) in
        [(Flag::Context, "n_ctx"), (Flag::Parallel, "n_seq_max"), (Flag::Batch, "n_batch"), (Flag::Ubatch, "n_ubatch")]
    {
        give(flag, &number(key));
    }
    for (flag, key) in [
        (Flag::CacheTypeK, "type_k"),
        (Flag::CacheTypeV, "type_v"),
        (Flag::FlashAttn, "flash_attn"),
        (Flag::SplitMode, "split_mode"),
        (Flag::Pooling, "pooling"),
        (Flag::Lora, "lora"),
    ] {
        if let Some(text) = asked[key].as_str() {
            give(flag, text);
        }
    }
    for (flag, key, is_on) in [
        (Flag::KvUnified, "kv_unified", true),
        (Flag::NoKvOffload, "offload_kqv", false),
        (Flag::NoOpOffload, "op_offload", false),
        (Flag::Embeddings, "embeddings", true),
        (Flag::NoHost, "no_host", true),
    ] {
        if asked[key].as_bool() == Some(is_on) {
            give(flag, "true");
        }
    }
    if asked["ngl"].as_i64().unwrap() >= 0 {
        give(Flag::GpuLayers, &number("ngl"));
    }
    if asked["main_gpu"].is_i64() {
        give(Flag::MainGpu, &number("main_gpu"));
    }
    let list = |value: &Value| value.as_array().into_iter().flatten().cloned().collect::<Vec<Value>>();
    for pair in list(&asked["ot"]) {
        let device = pair[1].as_str().unwrap().replace("SIM", "GPU");
        give(Flag::OverrideTensor, &format!("{}={device}", pair[0].as_str().unwrap()));
    }
    let split: Vec<String> = list(&asked["tensor_split"]).iter().map(ToString::to_string).collect();
    if !split.is_empty() {
        give(Flag::TensorSplit, &split.join(","));
    }
    give(Flag::Fit, "off");
    give(Flag::LoadMode, "none");
    settings
}

fn machine(asked: &Value) -> Machine {
    let free = |device: &Value| Bytes(device["free"].as_u64().unwrap());
    let cards = asked["devices"].as_array().unwrap().iter().map(free);
    let gpus = cards.map(|free| Gpu::of("card", Backend::Plain, free)).collect();
    let all = Bytes::gib(2048);
    let ram = Ram { total: all, free: all, swap_free: Bytes::ZERO, bandwidth: None };
    let cpu = Cpu { instructions: CpuInstructions::None, assumed: false };
    Machine { ram, cpu, ..fixtures::machine(gpus) }
}

/// Weights, cache and measured compute buffer per device, RAM last; and what adapters take there.
fn memory(plan: &Plan) -> (Vec<[u64; 3]>, Vec<u64>) {
    let part = |kind| plan.parts.iter().find(|part| part.kind == kind);
    let own = part(PartKind::Model).unwrap();
    let of = |(device, memory): (&plimsoll::plan::DevicePlan, &plimsoll::plan::PartMemory)| {
        let graph = device.graph_measured.unwrap_or(memory.graph);
        [memory.weights.0, memory.cache.0, graph.0]
    };
    let adapters = part(PartKind::Adapters).map(|part| part.devices.iter().map(|memory| memory.weights.0).collect());
    (plan.devices.iter().zip(&own.devices).map(of).collect(), adapters.unwrap_or_default())
}

#[test]
fn loads_take_what_llama_cpp_measures() {
    let mut text = String::new();
    let file = fs::File::open(support::tests().join("placement/loads.jsonl.gz")).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut models = BTreeMap::new();
    let (mut asked, mut refused, mut adapted) = (0, 0, 0);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let name = line["model"].as_str().unwrap().to_owned();
        let model = models.entry(name.clone()).or_insert_with(|| Arc::new(model(&name)));
        let (question, answer) = (&line["in"], &line["out"]);
        let request =
            PlanRequest::new(EngineId::LlamaCpp, Arc::clone(model), Arc::new(machine(question)), settings(question));
        let plan = match request.plan() {
            Ok(plan) => plan,
            Err(error) => {
                assert!(answer["error"].is_string(), "{error}\n{line}");
                refused += 1;
                continue;
            }
        };
        let of = |key: &str| -> Vec<u64> { serde_json::from_value(answer[key].clone()).unwrap() };
        let theirs: Vec<[u64; 3]> =
            of("model").into_iter().zip(of("context")).zip(of("compute")).map(|((a, b), c)| [a, b, c]).collect();
        let (mine, adapters) = memory(&plan);
        assert_eq!(mine, theirs, "{line}");
        if answer["lora_bytes"].is_array() {
            assert_eq!(adapters, of("lora_bytes"), "{line}");
            // where a load takes what is measured: over several GPUs, the devices that the graph code sets matter
            if plan.devices.len() == 2 && plan.devices.iter().all(|device| device.graph_measured.is_none()) {
                let own = plan.parts.iter().find(|part| part.kind == PartKind::Model).unwrap();
                let ready: Vec<u64> = own.devices.iter().map(|memory| memory.graph_ready.0).collect();
                assert_eq!(ready, of("compute_lora"), "{line}");
                adapted += 1;
            }
        }
        asked += 1;
    }
    assert!(asked > 300 && refused < 10 && adapted > 15, "{asked} {refused} {adapted}");
}
