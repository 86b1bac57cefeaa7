//! Complete plans of engine `ollama`: those of llama.cpp with Ollama's decisions.

use std::sync::OnceLock;

use plimsoll::engine::PreparedModel;
use plimsoll::engine::{self, EngineId};
use plimsoll::machine::{Backend, Gpu, Machine};
use plimsoll::model::Projector;
use plimsoll::plan::{Confidence, DevicePlan, Plan, Totals, Verdict};
use plimsoll::settings::{CacheType, Context, FlashAttn, GpuLayers, OllamaVersion, Release, Settings};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use rstest::rstest;

use crate::fixtures::{card, cards, machine, model};

fn ctx(tokens: u64) -> Settings {
    Settings { ctx: Context::Tokens(tokens), ..Settings::default() }
}

fn plan(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Plan {
    engine::plan(EngineId::Ollama, model, machine, settings).unwrap()
}

fn bytes(device: &DevicePlan) -> [Bytes; 3] {
    [device.weights, device.cache, device.graph]
}

#[rstest]
#[case("llama3.1-8b", &[24], 2, 8192, 1024)]
#[case("llama3.1-8b", &[6], 1, 16_384, 512)]
#[case("qwen3-30b-a3b", &[16], 1, 8192, 512)]
#[case("gemma3-27b", &[12, 12], 1, 4096, 512)]
#[case("mamba-2.8b", &[], 1, 4096, 512)]
fn the_plan_is_that_of_llama_cpp_with_ollamas_options(
    #[case] name: &str,
    #[case] gibibytes: &[u64],
    #[case] parallel: u64,
    #[case] tokens: u64,
    #[case] batch: u64,
) {
    let (model, machine) = (model(name), cards(gibibytes));
    let ollama = plan(&model, &machine, &Settings { parallel: Some(parallel), ..ctx(tokens) });
    let set_by_user = Settings {
        parallel: Some(parallel),
        batch: Some(batch),
        ubatch: Some(batch),
        release: Some(OllamaVersion::V0_33.release()),
        build: OllamaVersion::V0_33.llama_cpp_build(),
        ..ctx(tokens * parallel)
    };
    let llama = engine::plan(EngineId::LlamaCpp, &model, &machine, &set_by_user).unwrap();
    let both = |plan: &Plan| plan.devices.iter().map(bytes).collect::<Vec<_>>();
    assert_eq!(both(&ollama), both(&llama));
    assert_eq!((ollama.offloaded, ollama.verdict, ollama.totals), (llama.offloaded, llama.verdict, llama.totals));
    let effect = &ollama.settings;
    assert_eq!((effect.ctx, effect.batch.min(batch), effect.gpu_layers), (tokens, effect.ubatch, -1));
    // what llama-server keeps free is noted, and no other decision is attributed to Ollama
    assert!(ollama.gpus().iter().all(|gpu| gpu.reserved() == Bytes::gib(1)));
}

/// Compute buffers that 0.1.154 (August 2026) reserves by Ollama's own settings, on the device and in RAM.
#[rstest]
#[case("qwen3-8b", 32_768, [268_456_064, 100_687_904])]
#[case("qwen3-8b", 4096, [104_867_968, 20_983_840])]
#[case("llama3.1-8b", 32_768, [293_621_888, 100_687_904])]
#[case("gpt-oss-20b", 32_768, [251_695_232, 93_364_256])]
fn figures_are_those_of_the_llama_cpp_that_ollama_ships(
    #[case] name: &str,
    #[case] tokens: u64,
    #[case] graphs: [u64; 2],
) {
    let plan = plan(&model(name), &cards(&[24]), &ctx(tokens));
    assert_eq!(plan.devices.iter().map(|device| device.graph.0).collect::<Vec<_>>(), graphs);
    assert_eq!((plan.settings.release, plan.settings.build), (Some(Release::EarlyAugust2026), Some(10_488)));
    assert_eq!(plan.confidence, Confidence::Exact, "{:?}", plan.uncertainties);
    assert!(plan.notes.iter().any(|note| note.starts_with("Ollama 0.33 ships llama.cpp b10488")), "{:?}", plan.notes);
}

#[rstest]
#[case("0.30.8", None, Release::August2026, Confidence::Modelled, "ships llama.cpp b9509, which is planned")]
#[case("0.32.3", None, Release::August2026, Confidence::Exact, "ships llama.cpp b10091, which is planned")]
#[case("0.32.6", None, Release::EarlyAugust2026, Confidence::Exact, "ships llama.cpp b10242, which is planned")]
#[case(
    "0.35",
    None,
    Release::November2026,
    Confidence::Modelled,
    "not known here, after 0.34.0 with a llama.cpp of b10864 or before"
)]
#[case("0.33", Some(Release::November2026), Release::November2026, Confidence::Exact, "b11434), as asked")]
fn each_version_is_planned_with_its_llama_cpp_or_the_release_nearest_to_it(
    #[case] version: &str,
    #[case] asked: Option<Release>,
    #[case] release: Release,
    #[case] confidence: Confidence,
    #[case] note: &str,
) {
    let mut settings = Settings { release: asked, ..ctx(8192) };
    settings.ollama.version = version.parse().unwrap();
    let plan = plan(&model("llama3.1-8b"), &cards(&[24]), &settings);
    assert_eq!((plan.settings.release, plan.confidence), (Some(release), confidence), "{:?}", plan.uncertainties);
    assert_eq!(plan.notes.iter().filter(|said| said.contains(note)).count(), 1, "{:?}", plan.notes);
}

/// What changed between releases is in the plan of a build or not, and none of these builds lies within such a change.
#[rstest]
fn figures_of_a_known_build_are_exact(
    #[values("deepseek-v2-lite", "gemma-4-e2b", "qwen3-coder-next", "nemotron-3-nano-30b-a3b")] name: &str,
) {
    let plan = plan(&model(name), &cards(&[80]), &ctx(4096));
    assert_eq!((plan.settings.release, plan.settings.build), (Some(Release::EarlyAugust2026), Some(10_488)));
    assert_eq!(plan.confidence, Confidence::Exact, "{:?}", plan.uncertainties);
}

#[test]
fn an_unused_gpu_is_still_listed() {
    let plan = plan(&model("llama3.1-8b"), &cards(&[12, 24]), &ctx(4096));
    assert_eq!((plan.devices.len(), plan.verdict), (3, Verdict::Gpu));
    assert_eq!((bytes(&plan.devices[0]), plan.devices[0].reserved()), ([Bytes::ZERO; 3], Bytes::ZERO));
    assert_eq!((plan.devices[1].id.as_str(), plan.devices[1].layers.len()), ("GPU1", 33));
    assert!(plan.notes.iter().any(|note| note.starts_with("1 of 2 GPUs: ")), "{:?}", plan.notes);
}

#[test]
fn ollama_ps_counts_only_gpus_with_all_layers_on_gpu() {
    let llama = model("llama3.1-8b");
    let full = plan(&llama, &cards(&[24]), &ctx(8192));
    let ollama_ps = full.ollama_ps.unwrap();
    // each of three log lines is rounded to hundredths of a MiB
    assert!(ollama_ps.size.0.abs_diff(full.totals.gpu.0) <= 3 * 10_486, "{ollama_ps:?}");
    assert_eq!(ollama_ps.processor_column(), "100% GPU");

    let split = plan(&llama, &cards(&[5]), &ctx(8192));
    assert_eq!(split.verdict, Verdict::Split);
    let ollama_ps = split.ollama_ps.unwrap();
    assert!(ollama_ps.vram < ollama_ps.size && ollama_ps.processor_column().ends_with(" CPU/GPU"));
    // what is in RAM is counted too
    assert!(ollama_ps.size.0.abs_diff(split.totals.all.0) < Bytes::mib(16).0, "{ollama_ps:?} {:?}", split.totals);

    let none = plan(&llama, &cards(&[]), &ctx(8192));
    assert_eq!(none.ollama_ps.unwrap().processor_column(), "100% CPU");
}

#[test]
fn ollama_ps_counts_only_the_sliding_window_cache() {
    let plan = plan(&model("gemma3-27b"), &cards(&[48]), &ctx(32_768));
    let ollama_ps = plan.ollama_ps.unwrap();
    assert_eq!(ollama_ps.processor_column(), "100% GPU");
    // five of six layers have a sliding window of 1024 tokens; the cache of the others is far larger
    assert!(plan.totals.gpu - ollama_ps.size > Bytes::gib(1), "{ollama_ps:?} {:?}", plan.totals);
}

fn models() -> &'static [PreparedModel] {
    static MODELS: OnceLock<Vec<PreparedModel>> = OnceLock::new();
    MODELS.get_or_init(|| ["llama3.2-1b", "qwen2.5-0.5b", "gemma3-4b", "mamba-2.8b"].map(model).into())
}

fn any_machine() -> impl Strategy<Value = Machine> {
    let gpu = (0..=48u64 << 30, 0.0..=1.0f64, select(&Backend::ALL[..]), any::<bool>());
    let gpu = gpu.prop_map(|(total, free, backend, integrated)| Gpu {
        free: Bytes((total as f64 * free) as u64),
        integrated,
        ..gpu_of(backend, total)
    });
    proptest::collection::vec(gpu, 0..=4).prop_map(machine)
}

fn gpu_of(backend: Backend, total: u64) -> Gpu {
    card(backend, Bytes(total))
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let ctx = prop_oneof![
        Just(Context::Auto),
        Just(Context::Max),
        (0..=1u64 << 17).prop_map(Context::Tokens),
        select(vec![0, 1, 1 << 40, u64::MAX]).prop_map(Context::Tokens),
    ];
    let layers = prop_oneof![
        3 => Just(GpuLayers::Auto),
        1 => Just(GpuLayers::All),
        1 => (0..40u64).prop_map(GpuLayers::Count),
        1 => Just(GpuLayers::Count(u64::MAX)),
    ];
    let batch = prop_oneof![Just(None), (0..=4096u64).prop_map(Some), Just(Some(u64::MAX))];
    let flash = select(vec![FlashAttn::Auto, FlashAttn::On, FlashAttn::Off]);
    let knobs = (ctx, 0..=8u64, batch, select(&CacheType::ALL[..]), layers, flash, 0..=2u64 << 30);
    (knobs, any::<[bool; 2]>()).prop_map(
        |((ctx, parallel, batch, cache, gpu_layers, flash_attn, projector), [spread, raw])| Settings {
            ctx,
            parallel: Some(parallel),
            batch,
            cache_type_k: Some(cache),
            cache_type_v: Some(cache),
            flash_attn,
            gpu_layers,
            projector: Projector::sized(Bytes(projector)),
            spread,
            raw,
            ..Settings::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_layer_has_one_device_and_the_parts_sum_to_the_whole(
        model in select(models()), machine in any_machine(), settings in any_settings(),
    ) {
        let Ok(plan) = engine::plan(EngineId::Ollama, &model, &machine, &settings) else { return Ok(()) };
        prop_assert_eq!(plan.devices.len(), machine.gpus.len() + 1);
        prop_assert_eq!(plan.layers.len(), model.block_count() + 1);
        for (index, device) in plan.devices.iter().enumerate() {
            let own: Vec<usize> = plan.layers.iter().filter(|layer| layer.device == index).map(|layer| layer.index).collect();
            prop_assert_eq!(&device.layers, &own);
            if let Some(gpu) = machine.gpus.get(index) {
                prop_assert_eq!((&device.id, device.total, device.free), (&format!("GPU{index}"), gpu.total, gpu.free));
            }
        }
        let on_gpus: usize = plan.gpus().iter().map(|gpu| gpu.layers.len()).sum();
        prop_assert_eq!(on_gpus, plan.offloaded);
        prop_assert_eq!(plan.totals, Totals::of(&plan.devices));
        prop_assert_eq!(plan.totals.gpu + plan.totals.cpu, plan.totals.all);
        prop_assert_eq!(plan.totals.weights + plan.totals.cache + plan.totals.graph, plan.totals.all);
        let ollama_ps = plan.ollama_ps.unwrap();
        prop_assert!(ollama_ps.vram <= ollama_ps.size);
    }
}
