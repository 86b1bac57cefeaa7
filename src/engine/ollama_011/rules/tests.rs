use super::*;
use crate::engine::fixtures::{card, gpu, machine, model};
use crate::engine::graph_size::ModelFacts;
use crate::gguf::Value;
use crate::machine::Backend;
use crate::model::Projector;
use crate::settings::{Context, GpuLayers};

fn ask(model: &Model, machine: &Machine, settings: &Settings) -> Result<ResolvedSettings, EngineError> {
    resolve_settings(model, ArchitectureTraits::of(model, &ModelFacts::of(model, RELEASE).unwrap()), machine, settings)
}

fn asked(model: &Model, settings: &Settings) -> ResolvedSettings {
    ask(model, &card(), settings).unwrap_or_else(|error| panic!("{error}"))
}

fn has_note(effect: &ResolvedSettings, words: &str) -> bool {
    effect.notes.iter().any(|note| note.contains(words))
}

fn quantised(flash_attn: FlashAttn) -> Settings {
    let q8_0 = Some(CacheType::Q8_0);
    Settings { cache_type_k: q8_0, cache_type_v: q8_0, flash_attn, ..Settings::default() }
}

#[test]
fn the_default_context_is_fixed_except_for_gpt_oss() {
    let two = |gibibytes| machine(vec![gpu(Backend::Cuda, Bytes::gib(gibibytes)); 2]);
    for (architecture, machine, context) in [
        ("llama", two(40), 4096),
        ("gpt-oss", two(10), 8192),
        ("gptoss", two(10), 8192),
        ("gpt-oss", two(9), 4096),
        ("gpt-oss", Machine { gpus: Vec::new(), ..card() }, 4096),
    ] {
        let effect = ask(&model(architecture, &[]), &machine, &Settings::default()).unwrap();
        assert_eq!(effect.settings.ctx, context, "{architecture}");
    }
    // the overhead is subtracted on each GPU
    let overhead = Settings { gpu_overhead: Bytes::mib(1), ..Settings::default() };
    assert_eq!(ask(&model("gptoss", &[]), &two(10), &overhead).unwrap().settings.ctx, 4096);
    // a larger request is kept, a smaller one is raised
    let tokens = |n| Settings { ctx: Context::Tokens(n), ..Settings::default() };
    assert_eq!(asked(&model("gptoss", &[]), &tokens(5000)).settings.ctx, 8192);
    assert_eq!(asked(&model("gptoss", &[]), &tokens(9000)).settings.ctx, 9000);
}

#[test]
fn a_context_is_kept_within_its_bounds() {
    let trained = model("llama", &[("context_length", Value::U32(8192))]);
    let tokens = |n| Settings { ctx: Context::Tokens(n), ..Settings::default() };
    assert_eq!(asked(&trained, &tokens(10_000)).settings.ctx, 8192);
    assert_eq!(asked(&trained, &tokens(1)).settings.ctx, 4);
    let sees = model("gemma3", &[("vision.block_count", Value::U32(2))]);
    assert_eq!(asked(&sees, &tokens(5)).settings.ctx, 2048);
    let projector = Settings { projector: Projector::sized(Bytes::mib(600)), ..tokens(5) };
    assert_eq!(asked(&trained, &projector).settings.ctx, 2048);
    assert_eq!(asked(&trained, &Settings { raw: true, ..tokens(10_000) }).settings.ctx, 10_000);
}

#[test]
fn the_batch_never_exceeds_the_context_even_raw() {
    for raw in [false, true] {
        let settings = Settings { ctx: Context::Tokens(100), raw, ..Settings::default() };
        let effect = asked(&model("llama", &[]), &settings);
        assert_eq!((effect.settings.batch, effect.settings.ubatch), (100, 100));
        // an embedding model's batch is not raised in this release
        let embeds = model("bert", &[("pooling_type", Value::U32(1))]);
        let settings = Settings { ctx: Context::Tokens(2048), raw, ..Settings::default() };
        assert_eq!(asked(&embeds, &settings).settings.batch, 512);
    }
}

#[test]
fn some_models_serve_one_sequence() {
    let four = Settings { parallel: Some(4), ..Settings::default() };
    let embeds = model("bert", &[("pooling_type", Value::U32(1))]);
    for (model, parallel) in
        [(model("llama", &[]), 4), (model("mllama", &[]), 1), (embeds, 1), (model("qwen3vl", &[]), 4)]
    {
        assert_eq!(asked(&model, &four).settings.parallel, parallel, "{}", model.architecture);
    }
}

#[test]
fn flash_attention_is_off_by_default() {
    for architecture in ["llama", "gemma3", "gptoss", "qwen3"] {
        let effect = asked(&model(architecture, &[]), &quantised(FlashAttn::Auto));
        assert_eq!(effect.settings.flash_attn, FlashAttn::Off, "{architecture}");
        assert_eq!(effect.settings.cache_type_k, CacheType::F16);
        assert!(has_note(&effect, "q8_0 needs flash attention"));
    }
    let effect = asked(&model("gemma2", &[]), &quantised(FlashAttn::On));
    assert_eq!((effect.settings.flash_attn, effect.settings.cache_type_v), (FlashAttn::On, CacheType::Q8_0));
}

#[test]
fn flash_attention_needs_every_gpu_and_the_model() {
    let old_driver = Gpu { driver_major: Some(6), ..gpu(Backend::Cuda, Bytes::gib(8)) };
    let with = |gpu: Gpu| machine(vec![self::gpu(Backend::Cuda, Bytes::gib(8)), gpu]);
    for (machine, on) in [
        (with(gpu(Backend::Rocm, Bytes::gib(8))), true),
        (with(gpu(Backend::Vulkan, Bytes::gib(8))), false),
        (with(gpu(Backend::Sycl, Bytes::gib(8))), false),
        (with(old_driver), false),
        (machine(vec![gpu(Backend::Metal, Bytes::gib(8))]), true),
        (machine(Vec::new()), true),
    ] {
        let effect = ask(&model("llama", &[]), &machine, &quantised(FlashAttn::On)).unwrap();
        assert_eq!(effect.settings.flash_attn == FlashAttn::On, on, "{machine:?}");
        assert_eq!(has_note(&effect, "flash attention is off: a card does not support it"), !on);
    }
    let uneven = model("llama", &[("attention.key_length", Value::U32(128))]);
    assert!(has_note(&asked(&uneven, &quantised(FlashAttn::On)), "the model does not support it"));
}

#[test]
fn without_layers_on_gpus_none_is_considered_unless_raw() {
    let none = Settings { gpu_layers: GpuLayers::Count(0), ..Settings::default() };
    assert!(!asked(&model("llama", &[]), &none).gpus);
    assert!(asked(&model("llama", &[]), &Settings { raw: true, ..none }).gpus);
    let all = Settings { gpu_layers: GpuLayers::All, ..Settings::default() };
    assert_eq!(asked(&model("llama", &[]), &all).requested, Some(5));
}

#[test]
fn impossible_settings_are_refused() {
    let llama = model("llama", &[]);
    let (k, v) = (Some(CacheType::F16), Some(CacheType::Q8_0));
    for settings in [
        Settings { parallel: Some(0), ..Settings::default() },
        Settings { batch: Some(0), ..Settings::default() },
        Settings { ctx: Context::Max, ..Settings::default() },
        Settings { cache_type_k: k, cache_type_v: v, ..Settings::default() },
    ] {
        assert!(matches!(ask(&llama, &card(), &settings), Err(EngineError::Settings(_))), "{settings:?}");
    }
}
