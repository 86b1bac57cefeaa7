use super::super::traits;
use super::*;
use crate::engine::fixtures::{card, gpu, machine, model};
use crate::gguf::Value;
use crate::settings::{Context, GpuLayers};
use crate::units::Bytes;

fn ask(model: &Model, machine: &Machine, settings: &Settings) -> Result<ResolvedSettings, EngineError> {
    let traits = ArchitectureTraits::of(model, &traits::facts(model));
    resolve_settings(model, traits, machine, settings)
}

fn asked(model: &Model, settings: &Settings) -> ResolvedSettings {
    ask(model, &card(), settings).unwrap_or_else(|error| panic!("{error}"))
}

fn ctx(tokens: u64) -> Settings {
    Settings { ctx: Context::Tokens(tokens), ..Settings::default() }
}

fn has_note(effect: &ResolvedSettings, words: &str) -> bool {
    effect.notes.iter().any(|note| note.contains(words))
}

#[test]
fn the_default_context_follows_the_memory_of_all_gpus() {
    let llama = model("llama", &[]);
    for (gibibytes, overhead, context) in [
        (&[8][..], 0, 4096),
        (&[], 0, 4096),
        (&[23], 0, 32_768),
        (&[23], 1, 4096),
        (&[12, 12], 0, 32_768),
        (&[24, 24], 0, 262_144),
        (&[24, 24], 1, 32_768),
        (&[47], 0, 262_144),
        // less than the overhead: the difference wraps, as in Ollama
        (&[1], 2, 262_144),
    ] {
        let gpus = gibibytes.iter().map(|&n| gpu(Backend::Cuda, Bytes::gib(n))).collect();
        let settings = Settings { gpu_overhead: Bytes::gib(overhead), ..Settings::default() };
        let effect = ask(&llama, &machine(gpus), &settings).unwrap();
        assert_eq!(effect.settings.ctx, context, "{gibibytes:?} less {overhead}");
    }
}

#[test]
fn the_context_is_kept_within_its_bounds() {
    let trained = [("context_length", Value::U32(8192))];
    let llama = model("llama", &trained);
    let seeing = model("gemma3", &[&trained[..], &[("vision.block_count", Value::U32(2))]].concat());
    for (model, asked_for, context, note) in [
        (&llama, 4096, 4096, ""),
        (&llama, 8193, 8192, "context lowered to"),
        (&llama, 1 << 40, 8192, "context lowered to"),
        (&llama, 0, 4, "context raised to 4"),
        (&llama, 3, 4, "context raised to 4"),
        (&seeing, 100, 2048, "vision model"),
    ] {
        let effect = asked(model, &ctx(asked_for));
        assert_eq!(effect.settings.ctx, context, "{asked_for}");
        assert_eq!(effect.notes.is_empty(), note.is_empty() && context >= 512, "{:?}", effect.notes);
        assert!(note.is_empty() || has_note(&effect, note), "{:?}", effect.notes);
        let raw = asked(model, &Settings { raw: true, ..ctx(asked_for) });
        assert_eq!((raw.settings.ctx, raw.notes.len()), (asked_for, 0));
    }
    let max = Settings { ctx: Context::Max, ..Settings::default() };
    assert_eq!(asked(&llama, &max).settings.ctx, 8192);
    assert!(matches!(ask(&model("llama", &[]), &card(), &max), Err(EngineError::Settings(_))));
    // a key of another type than u32 counts as missing
    let odd = model("llama", &[("context_length", Value::U64(8192))]);
    assert_eq!(asked(&odd, &ctx(100_000)).settings.ctx, 100_000);
}

#[test]
fn the_batch_depends_on_the_context() {
    let batch = |n| Settings { batch: Some(n), ..ctx(1024) };
    let llama = model("llama", &[]);
    let embedding = model("bert", &[("pooling_type", Value::U32(1))]);
    assert_eq!(asked(&llama, &ctx(1024)).settings.batch, 512);
    assert_eq!(asked(&llama, &batch(2048)).settings.batch, 1024);
    assert_eq!(asked(&llama, &Settings { raw: true, ..batch(2048) }).settings.batch, 2048);
    assert_eq!(asked(&embedding, &batch(64)).settings.batch, 1024);
    assert_eq!(asked(&embedding, &Settings { raw: true, ..batch(64) }).settings.batch, 1024);
    assert_eq!(asked(&embedding, &Settings { raw: true, ..batch(2048) }).settings.batch, 2048);
}

#[test]
fn a_batch_or_parallelism_of_zero_is_refused() {
    let llama = model("llama", &[]);
    for settings in [
        Settings { batch: Some(0), ..Settings::default() },
        Settings { parallel: Some(0), raw: true, ..Settings::default() },
    ] {
        assert!(matches!(ask(&llama, &card(), &settings), Err(EngineError::Settings(_))));
    }
}

#[test]
fn some_models_serve_one_sequence_at_a_time() {
    let four = Settings { parallel: Some(4), ..ctx(4096) };
    let effect = asked(&model("llama", &[]), &four);
    assert_eq!((effect.settings.parallel, effect.settings.ctx_total), (4, 16_384));
    for architecture in ["mllama", "qwen3vl", "qwen35moe", "qwen3next", "lfm2", "nemotron_h_omni"] {
        let effect = asked(&model(architecture, &[]), &four);
        assert_eq!((effect.settings.parallel, effect.settings.ctx_total), (1, 4096), "{architecture}");
        assert!(has_note(&effect, "parallel lowered to 1"));
        assert_eq!(asked(&model(architecture, &[]), &Settings { raw: true, ..four.clone() }).settings.parallel, 4);
    }
    assert_eq!(asked(&model("llama", &[("pooling_type", Value::U32(1))]), &four).settings.parallel, 1);
}

#[test]
fn flash_attention_depends_on_model_and_request() {
    use FlashAttn::{Auto, Off, On};
    let uneven = [("attention.key_length", Value::U32(192)), ("attention.value_length", Value::U32(128))];
    let embedding = [("pooling_type", Value::U32(1))];
    let effect = |model: &Model, asked_for| {
        let settings = Settings { flash_attn: asked_for, ..ctx(4096) };
        asked(model, &settings).settings.flash_attn
    };
    for (architecture, keys, auto, on) in [
        ("llama", &[][..], Auto, On),
        ("gemma2", &[], Auto, Off),
        ("grok", &[], Auto, Off),
        ("deepseek2", &uneven, Off, Off),
        ("qwen3", &[], On, On),
        ("qwen3next", &uneven, On, On),
        ("gemma3n", &[], Off, On),
        ("bert", &embedding, Off, Off),
        ("llama", &uneven, Auto, Off),
    ] {
        let model = model(architecture, keys);
        assert_eq!(effect(&model, Auto), auto, "{architecture}");
        assert_eq!(effect(&model, On), on, "{architecture}");
        assert_eq!(effect(&model, Off), Off, "{architecture}");
    }
}

#[test]
fn one_gpu_without_flash_attention_turns_it_off() {
    let old_driver = Gpu { driver_major: Some(6), ..gpu(Backend::Cuda, Bytes::gib(8)) };
    let jetson = Gpu { compute: Some((7, 2)), ..gpu(Backend::Cuda, Bytes::gib(8)) };
    let volta = Gpu { compute: Some((7, 0)), ..gpu(Backend::Cuda, Bytes::gib(8)) };
    let good = gpu(Backend::Cuda, Bytes::gib(8));
    let (qwen, gemma) = (model("qwen3", &[]), model("gemma4", &[]));
    for (model, other, flash) in [
        (&qwen, good.clone(), FlashAttn::On),
        (&qwen, gpu(Backend::Metal, Bytes::gib(8)), FlashAttn::On),
        (&qwen, gpu(Backend::Vulkan, Bytes::gib(8)), FlashAttn::On),
        (&qwen, volta.clone(), FlashAttn::On),
        (&qwen, old_driver, FlashAttn::Off),
        (&qwen, jetson.clone(), FlashAttn::Off),
        (&qwen, gpu(Backend::Sycl, Bytes::gib(8)), FlashAttn::Off),
        (&gemma, good.clone(), FlashAttn::On),
        (&gemma, volta, FlashAttn::Off),
        (&gemma, gpu(Backend::Rocm, Bytes::gib(8)), FlashAttn::On),
    ] {
        let effect = ask(model, &machine(vec![good.clone(), other]), &ctx(4096)).unwrap();
        assert_eq!(effect.settings.flash_attn, flash);
        assert_eq!(has_note(&effect, "flash attention is off"), flash == FlashAttn::Off);
    }
    // with no layer on GPUs, their support does not matter
    let on_cpu = Settings { gpu_layers: GpuLayers::Count(0), ..ctx(4096) };
    let effect = ask(&qwen, &machine(vec![jetson]), &on_cpu).unwrap();
    assert_eq!((effect.gpus, effect.settings.flash_attn), (false, FlashAttn::On));
    assert!(asked(&qwen, &Settings { raw: true, ..on_cpu }).gpus);
}

#[test]
fn a_quantised_cache_needs_flash_attention() {
    use CacheType::{Bf16, F16, F32, Q4_0, Q5_1, Q8_0};
    let cache = |model: &Model, ty, flash_attn, raw| {
        let settings = Settings { cache_type_k: Some(ty), cache_type_v: Some(ty), flash_attn, raw, ..ctx(4096) };
        asked(model, &settings).settings.cache_type_k
    };
    let (llama, qwen) = (model("llama", &[]), model("qwen3", &[]));
    for (model, flash, ty, in_effect) in [
        (&llama, FlashAttn::On, Q8_0, Q8_0),
        (&llama, FlashAttn::Auto, Q8_0, F16),
        (&llama, FlashAttn::Off, Q4_0, F16),
        (&llama, FlashAttn::On, Q5_1, F16),
        (&llama, FlashAttn::On, F32, F16),
        (&llama, FlashAttn::On, Bf16, F16),
        (&qwen, FlashAttn::Auto, Q4_0, Q4_0),
        (&qwen, FlashAttn::Off, Q4_0, F16),
        (&qwen, FlashAttn::Off, F16, F16),
    ] {
        assert_eq!(cache(model, ty, flash, false), in_effect, "{ty} {flash:?}");
        assert_eq!(cache(model, ty, flash, true), ty, "{ty} {flash:?}, raw");
    }
    let settings = Settings { cache_type_k: Some(Q8_0), cache_type_v: Some(Q4_0), ..Settings::default() };
    assert!(matches!(ask(&llama, &card(), &settings), Err(EngineError::Settings(_))));
    let settings = Settings { cache_type_k: Some(Q8_0), flash_attn: FlashAttn::On, ..ctx(4096) };
    assert_eq!(asked(&llama, &settings).settings.cache_type_v, Q8_0);
}
