//! Complete plans of engine `ollama-0.24`: reasons, reserves, notes, and refusals.

use plimsoll::engine::PreparedModel;
use plimsoll::engine::{self, EngineError, EngineId};
use plimsoll::gguf::{Header, Value};
use plimsoll::machine::{Backend, Machine, Os};
use plimsoll::model::Model;
use plimsoll::plan::{GraphUse, Plan, Verdict, Why};
use plimsoll::settings::{Context, GpuLayers, Settings};
use plimsoll::units::Bytes;
use rstest::rstest;

use crate::fixtures::{card, cards, machine, model};
use crate::support;

/// A model with one key changed or removed.
fn altered(name: &str, key: &str, value: Option<Value>) -> Model {
    let header = support::model(name);
    let kept = header.metadata.iter().filter(|(name, _)| *name != key);
    let metadata =
        kept.map(|(key, value)| (key.into(), value.clone())).chain(value.map(|value| (key.into(), value))).collect();
    Model::from_header(Header { metadata, ..header }, name).unwrap()
}

fn plan(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Plan {
    engine::plan(EngineId::Ollama024, model, machine, settings).unwrap()
}

fn ctx(tokens: u64) -> Settings {
    Settings { ctx: Context::Tokens(tokens), ..Settings::default() }
}

fn has_note(plan: &Plan, words: &str) -> bool {
    plan.notes.iter().any(|note| note.contains(words))
}

#[test]
fn every_layer_has_a_reason_for_its_device() {
    let llama = model("llama3.1-8b");
    let layers = |count| Settings { gpu_layers: GpuLayers::Count(count), ..ctx(8192) };

    let all = plan(&llama, &cards(&[24]), &ctx(8192));
    assert_eq!((all.verdict, all.offloaded, all.graph.used), (Verdict::Gpu, 33, GraphUse::Full));
    for layer in &all.layers {
        let Why::Fits { needed, room } = layer.why else { panic!("{:?}", layer.why) };
        assert_eq!(needed, layer.weights + layer.cache);
        assert!(room >= needed);
    }

    let split = plan(&llama, &cards(&[5]), &ctx(8192));
    assert_eq!((split.verdict, split.graph.used), (Verdict::Split, GraphUse::Partial));
    assert_eq!(split.layers[32].why, Why::OutputDropped);
    let Why::NoRoom { needed, room, device: 0 } = split.layers[0].why else { panic!("{:?}", split.layers[0].why) };
    assert!(room < needed && needed == split.layers[0].weights + split.layers[0].cache);

    let none = plan(&llama, &cards(&[]), &ctx(8192));
    assert_eq!(none.verdict, Verdict::Cpu);
    assert!(none.layers.iter().all(|layer| layer.why == Why::NoGpu && layer.device == 0));
    assert!(has_note(&none, "without mmap: there is no GPU"));

    let some = plan(&llama, &cards(&[24]), &layers(10));
    let reasons: Vec<_> = some.layers.iter().map(|layer| layer.why == Why::NotAskedFor).collect();
    assert_eq!(reasons, [vec![true; 22], vec![false; 10], vec![true]].concat());

    let forced = plan(&llama, &cards(&[3]), &layers(99));
    assert_eq!((forced.offloaded, forced.verdict), (33, Verdict::DoesNotFit));
    assert_eq!(forced.layers[0].why, Why::AskedFor);
    assert!(matches!(forced.layers[32].why, Why::Fits { .. }));

    let zero = plan(&llama, &cards(&[24]), &layers(0));
    assert!(zero.layers.iter().all(|layer| layer.why == Why::NotAskedFor));
    assert!(has_note(&zero, "no GPU is used") && zero.gpus()[0].reserves.is_empty());
    let raw = plan(&llama, &cards(&[24]), &Settings { raw: true, ..layers(0) });
    assert!(!has_note(&raw, "no GPU is used") && raw.offloaded == 0);
}

#[test]
fn each_gpu_reserves_what_the_engine_asks_for() {
    let llama = model("llama3.1-8b");
    let mut gpus = vec![card(Backend::Cuda, Bytes::gib(24)); 3];
    gpus[0].integrated = true;
    let settings = Settings { adapters: Bytes::mib(300), gpu_overhead: Bytes::gib(1), ..ctx(8192) };
    let plan = plan(&llama, &machine(gpus), &settings);
    let reserves = |gpu: usize| -> Vec<_> {
        plan.gpus()[gpu].reserves.iter().map(|reserve| (reserve.name, reserve.bytes)).collect()
    };
    let block = plan.layers[0].weights + plan.layers[0].cache;
    let common = [("minimum memory", Bytes::mib(457)), ("one-layer buffer", block), ("GPU overhead", Bytes::gib(1))];
    assert_eq!(reserves(0), common);
    assert_eq!(reserves(1), [&common[..], &[("adapters", Bytes::mib(300))]].concat());
    assert_eq!(reserves(2), common);
    assert_eq!(plan.gpus()[2].layers.len(), 33, "the one without the adapters has the most room");
}

#[test]
fn metal_has_no_extra_cost_for_a_split() {
    let llama = model("llama3.1-8b");
    let machine = machine(vec![card(Backend::Metal, Bytes::gib(4))]);
    let plan = plan(&llama, &machine, &ctx(8192));
    assert_eq!((machine.os, plan.graph.used), (Os::MacOs, GraphUse::Partial));
    assert_eq!(plan.graph.partial.bytes, plan.graph.full.own);
    assert_ne!(plan.graph.partial.bytes, plan.graph.partial.own);
    assert!(plan.graph.why.contains("Metal"), "{}", plan.graph.why);
    assert_eq!(plan.gpus()[0].reserves[0].bytes, Bytes::mib(512));
}

#[test]
fn architectures_without_a_formula_say_so() {
    let plan = plan(&model("qwen3-8b"), &cards(&[24]), &ctx(8192));
    assert_eq!((plan.graph.full.own, plan.graph.used), (Bytes::ZERO, GraphUse::Full));
    assert!(plan.graph.why.contains("no full size for this architecture"), "{}", plan.graph.why);
    assert!(has_note(&plan, "runs qwen3 in its own engine"));
}

#[test]
fn unsupported_options_are_named() {
    let settings = Settings { ubatch: Some(256), swa_full: true, tensor_split: vec![1.0], ..ctx(8192) };
    assert_eq!(EngineId::Ollama024.ignored(&settings), ["--ubatch", "--swa-full", "--tensor-split"]);
    assert!(EngineId::Ollama024.ignored(&ctx(1)).is_empty());
    assert!(has_note(&plan(&model("llama"), &cards(&[]), &settings), "--swa-full is ignored"));
}

#[rstest]
#[case::no_tokens("llama", "tokenizer.ggml.tokens", None)]
#[case::tokens_are_no_list("llama", "tokenizer.ggml.tokens", Some(Value::U32(32_000)))]
#[case::blocks_in_another_type("llama", "llama.block_count", Some(Value::U64(4)))]
#[case::division_by_zero_heads("mixtral8x7b", "llama.attention.head_count", Some(Value::U32(0)))]
fn missing_requirements_are_named(#[case] name: &str, #[case] key: &str, #[case] value: Option<Value>) {
    let error =
        engine::plan(EngineId::Ollama024, &altered(name, key, value).into(), &cards(&[24]), &ctx(8192)).unwrap_err();
    let EngineError::Model(sentence) = &error else { panic!("{error:?}") };
    assert!(sentence.contains(key), "{sentence}");
}

#[rstest]
#[case::zero_gpus(cards(&[]), ctx(8192))]
#[case::a_gpu_without_memory(cards(&[0]), ctx(8192))]
#[case::a_gpu_without_memory_forced(cards(&[0]), Settings { gpu_layers: GpuLayers::All, ..ctx(8192) })]
#[case::sixty_four_gpus(cards(&[1; 64]), ctx(8192))]
#[case::context_0(cards(&[24]), ctx(0))]
#[case::context_1(cards(&[24]), ctx(1))]
#[case::context_2_to_40(cards(&[24]), ctx(1 << 40))]
fn odd_settings_still_plan(#[case] machine: Machine, #[case] settings: Settings, #[values(false, true)] raw: bool) {
    let settings = Settings { raw, ..settings };
    let plan = plan(&model("llama3.1-8b"), &machine, &settings);
    assert_eq!((plan.devices.len(), plan.layers.len()), (machine.gpus.len() + 1, 33));
    assert_eq!(plan.totals.weights, plan.layers.iter().map(|layer| layer.weights).sum());
}

#[test]
fn an_impossible_context_is_refused_with_its_numbers() {
    let plan = plan(&model("llama3.1-8b"), &cards(&[24]), &Settings { raw: true, ..ctx(1 << 40) });
    assert_eq!(plan.verdict, Verdict::DoesNotFit);
    let refusal = plan.refusal.as_ref().unwrap();
    assert!(refusal.contains(&plan.cpu().asked().to_string()) && refusal.contains("50.0 GiB"), "{refusal}");
}
