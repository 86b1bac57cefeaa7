//! The settings in effect, by the rules that Ollama up to 0.24 applies before it plans.
//! Source: `server/routes.go`, `server/sched.go`, `llm/server.go` and `llm/memory.go`, Ollama, August 2025 and May 2026.

use super::header::{ModelFacts, OllamaRelease};
use crate::engine::error::EngineError;
use crate::engine::request;
use crate::machine::{Backend, Gpu, Machine};
use crate::model::Model;
use crate::settings::{CacheType, FlashAttn, GpuLayers, InEffect, Settings};
use crate::units::{Bytes, Tokens};

/// `envconfig.ContextLength` of the older release
const DEFAULT_CONTEXT: u64 = 4096;
/// Minimum context of gpt-oss on machines with [`HIGH_VRAM`], in the older release.
const GPT_OSS_CONTEXT: u64 = 8192;
/// `lowVRAMThreshold`
const HIGH_VRAM: Bytes = Bytes::gib(20);

/// The settings in effect, and the adjustments made.
pub(super) struct ResolvedSettings {
    pub settings: InEffect,
    /// Requested layers on GPUs (`num_gpu`); none if the engine chooses.
    pub requested: Option<usize>,
    /// Whether GPUs are considered: not if zero layers were requested on them.
    pub gpus: bool,
    pub notes: Vec<String>,
}

/// The settings in effect on `machine`.
///
/// # Errors
/// If the settings cannot run, or the training context is requested and missing in the header.
pub(super) fn resolve_settings(
    model: &Model,
    facts: &ModelFacts,
    machine: &Machine,
    settings: &Settings,
) -> Result<ResolvedSettings, EngineError> {
    let (release, traits) = (facts.release, facts.traits);
    let older = release == OllamaRelease::August2025;
    let mut notes: Vec<String> = release.too_old_for(&model.architecture).into_iter().collect();
    let default_context =
        || if older { DEFAULT_CONTEXT } else { request::default_context(machine, settings.gpu_overhead) };
    let mut ctx = request::context(settings.ctx, model, release, default_context)?;
    let mut parallel = request::at_least_one(settings.parallel, 1, "--parallel")?;
    let mut batch = request::at_least_one(settings.batch, request::DEFAULT_BATCH, "--batch")?;
    let batch_within = |batch: u64, ctx: u64, notes: &mut Vec<String>| {
        if batch > ctx {
            notes.push(format!("batch lowered to {}: it cannot exceed the context", Tokens(ctx)));
        }
        batch.min(ctx)
    };
    if !settings.raw {
        if older {
            ctx = raise_for_gpt_oss(ctx, model, machine, settings.gpu_overhead, &mut notes);
        }
        let vision = traits.vision || (older && settings.projector.is_some());
        ctx = request::context_in_bounds(ctx, model, release, vision, &mut notes);
        if !older {
            batch = batch_within(batch, ctx, &mut notes);
        }
        parallel = request::sequences(parallel, traits.one_sequence, traits.embedding, &mut notes);
    }
    if older {
        // part of the estimate itself, so raw settings do not change it
        batch = batch_within(batch, ctx, &mut notes);
    } else if traits.embedding && batch < ctx {
        batch = ctx;
        notes.push(format!("batch raised to {}: an embedding model processes the whole context at once", Tokens(ctx)));
    }
    let requested = match settings.gpu_layers {
        GpuLayers::Auto => None,
        GpuLayers::All => Some(model.block_count() + 1),
        GpuLayers::Count(count) => Some(usize::try_from(count).unwrap_or(usize::MAX)),
    };
    let gpus = settings.raw || requested != Some(0);
    if !gpus && !machine.gpus.is_empty() {
        notes.push("no GPU is used: 0 layers on GPU were requested".to_owned());
    }
    let asked_cache = match (settings.cache_type_k, settings.cache_type_v) {
        (Some(k), Some(v)) if k != v => {
            return Err(EngineError::Settings(format!(
                "{} uses one type for K and V: use {k} or {v} for both with --kv-type",
                release.engine()
            )));
        }
        (k, v) => k.or(v).unwrap_or(CacheType::F16),
    };
    let (flash_attn, cache) = if settings.raw {
        (settings.flash_attn, asked_cache)
    } else {
        let seen = if gpus || older { machine.gpus.as_slice() } else { &[] };
        let flash = flash_attention(model, facts, seen, settings.flash_attn, &mut notes);
        (flash, cache_in_effect(asked_cache, flash, &mut notes))
    };
    let settings = InEffect {
        ctx,
        ctx_per_sequence: ctx,
        ctx_total: ctx.wrapping_mul(parallel),
        parallel,
        batch,
        // always equal here
        ubatch: batch,
        cache_type_k: cache,
        cache_type_v: cache,
        flash_attn,
        gpu_layers: requested.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX)),
        ..InEffect::default()
    };
    Ok(ResolvedSettings { settings, requested, gpus, notes })
}

/// Whether Ollama accepts this cache type.
pub const fn supports_cache_type(ty: CacheType) -> bool {
    matches!(ty, CacheType::F16 | CacheType::Q8_0 | CacheType::Q4_0)
}

/// The cache type in effect: a quantised one needs flash attention.
fn cache_in_effect(asked: CacheType, flash: FlashAttn, notes: &mut Vec<String>) -> CacheType {
    if !supports_cache_type(asked) {
        notes.push(format!("the KV cache is f16: Ollama accepts f16, q8_0 and q4_0, not {asked}"));
    } else if asked != CacheType::F16 && flash != FlashAttn::On {
        notes.push(format!("the KV cache is f16: {asked} needs flash attention turned on"));
    } else {
        return asked;
    }
    CacheType::F16
}

/// gpt-oss gets a larger context than requested if the GPUs have enough memory in total.
fn raise_for_gpt_oss(ctx: u64, model: &Model, machine: &Machine, overhead: Bytes, notes: &mut Vec<String>) -> u64 {
    let gpt_oss = matches!(model.architecture.as_str(), "gptoss" | "gpt-oss");
    if !gpt_oss || request::total_vram(machine, overhead) < HIGH_VRAM || ctx >= GPT_OSS_CONTEXT {
        return ctx;
    }
    notes.push(format!(
        "context raised to {}: Ollama does this for gpt-oss on GPUs with 20 GiB or more",
        Tokens(GPT_OSS_CONTEXT)
    ));
    GPT_OSS_CONTEXT
}

/// Flash attention as Ollama sets it: all GPUs and the model must support it. Its own engine has on and off; the
/// llama.cpp runner of the newer release also has auto.
fn flash_attention(
    model: &Model,
    facts: &ModelFacts,
    gpus: &[Gpu],
    asked: FlashAttn,
    notes: &mut Vec<String>,
) -> FlashAttn {
    let ModelFacts { release, traits, .. } = *facts;
    let older = release == OllamaRelease::August2025;
    let wanted = asked == FlashAttn::On || (asked == FlashAttn::Auto && traits.flash_by_default);
    let too_old = |gpu: &&Gpu| gpu.backend == Backend::Cuda && gpu.compute.is_some_and(|compute| compute < (7, 5));
    let obstacle = if !wanted {
        None
    } else if let Some(gpu) = gpus.iter().find(|gpu| !release.supports_flash(gpu)) {
        Some(format!("{} does not support it", gpu.name))
    } else if !traits.supports_flash {
        Some("the model does not support it".to_owned())
    } else {
        let too_old = gpus.iter().find(too_old).filter(|_| !older && model.architecture == "gemma4");
        too_old.map(|gpu| format!("gemma4 needs compute capability 7.5, and {} is older", gpu.name))
    };
    if let Some(obstacle) = &obstacle {
        notes.push(format!("flash attention is off: {obstacle}"));
    }
    if !older && !traits.own_engine && asked == FlashAttn::Auto {
        FlashAttn::Auto
    } else if wanted && obstacle.is_none() {
        FlashAttn::On
    } else {
        FlashAttn::Off
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures::{card, gpu, machine, model};
    use crate::gguf::Value;
    use crate::model::Projector;
    use crate::settings::{Context, GpuLayers};

    const OLDER: OllamaRelease = OllamaRelease::August2025;
    const NEWER: OllamaRelease = OllamaRelease::May2026;

    type Asked = Result<ResolvedSettings, EngineError>;

    fn ask(release: OllamaRelease, model: &Model, machine: &Machine, settings: &Settings) -> Asked {
        resolve_settings(model, &ModelFacts::of(model, release)?, machine, settings)
    }

    fn asked(release: OllamaRelease, model: &Model, settings: &Settings) -> ResolvedSettings {
        ask(release, model, &card(), settings).unwrap_or_else(|error| panic!("{error}"))
    }

    fn ctx(tokens: u64) -> Settings {
        Settings { ctx: Context::Tokens(tokens), ..Settings::default() }
    }

    fn raw(settings: &Settings) -> Settings {
        Settings { raw: true, ..settings.clone() }
    }

    fn has_note(effect: &ResolvedSettings, words: &str) -> bool {
        effect.notes.iter().any(|note| note.contains(words))
    }

    fn embedding() -> Model {
        model("bert", &[("pooling_type", Value::U32(1))])
    }

    #[test]
    fn the_default_context_follows_the_memory_of_all_gpus() {
        for (release, architecture, gibibytes, overhead, context) in [
            (NEWER, "llama", &[8][..], 0, 4096),
            (NEWER, "llama", &[], 0, 4096),
            (NEWER, "llama", &[23], 0, 32_768),
            (NEWER, "llama", &[23], 1, 4096),
            (NEWER, "llama", &[12, 12], 0, 32_768),
            (NEWER, "llama", &[24, 24], 0, 262_144),
            (NEWER, "llama", &[24, 24], 1, 32_768),
            (NEWER, "llama", &[47], 0, 262_144),
            // less than the overhead: the difference wraps, as in Ollama
            (NEWER, "llama", &[1], 2, 262_144),
            // the older release has a fixed one, except for gpt-oss
            (OLDER, "llama", &[40, 40], 0, 4096),
            (OLDER, "gpt-oss", &[10, 10], 0, 8192),
            (OLDER, "gptoss", &[10, 10], 0, 8192),
            (OLDER, "gptoss", &[10, 10], 1, 4096),
            (OLDER, "gpt-oss", &[9, 9], 0, 4096),
            (OLDER, "gpt-oss", &[], 0, 4096),
        ] {
            let gpus = gibibytes.iter().map(|&n| gpu(Backend::Cuda, Bytes::gib(n))).collect();
            let settings = Settings { gpu_overhead: Bytes::gib(overhead), ..Settings::default() };
            let effect = ask(release, &model(architecture, &[]), &machine(gpus), &settings).unwrap();
            assert_eq!(effect.settings.ctx, context, "{architecture} {gibibytes:?} less {overhead}");
        }
        // a larger request is kept, a smaller one is raised
        let gptoss = model("gptoss", &[]);
        assert_eq!(asked(OLDER, &gptoss, &ctx(5000)).settings.ctx, 8192);
        assert_eq!(asked(OLDER, &gptoss, &ctx(9000)).settings.ctx, 9000);
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
            for release in [OLDER, NEWER] {
                let effect = asked(release, model, &ctx(asked_for));
                assert_eq!(effect.settings.ctx, context, "{asked_for}");
                assert_eq!(effect.notes.is_empty(), note.is_empty() && context >= 512, "{:?}", effect.notes);
                assert!(note.is_empty() || has_note(&effect, note), "{:?}", effect.notes);
                let raw = asked(release, model, &raw(&ctx(asked_for)));
                assert_eq!(raw.settings.ctx, asked_for);
                assert!(raw.notes.is_empty() || release == OLDER);
            }
        }
        let projector = Settings { projector: Projector::sized(Bytes::mib(600)), ..ctx(5) };
        assert_eq!(asked(OLDER, &llama, &projector).settings.ctx, 2048);
        let max = Settings { ctx: Context::Max, ..Settings::default() };
        assert_eq!(asked(NEWER, &llama, &max).settings.ctx, 8192);
        // a key of another type than u32 counts as missing
        let odd = model("llama", &[("context_length", Value::U64(8192))]);
        assert_eq!(asked(NEWER, &odd, &ctx(100_000)).settings.ctx, 100_000);
    }

    #[test]
    fn the_batch_depends_on_the_context() {
        let (llama, embedding) = (model("llama", &[]), embedding());
        let batch = |n| Settings { batch: Some(n), ..ctx(1024) };
        for (release, model, settings, expected) in [
            (NEWER, &llama, ctx(1024), 512),
            (NEWER, &llama, batch(2048), 1024),
            (NEWER, &llama, raw(&batch(2048)), 2048),
            (NEWER, &embedding, batch(64), 1024),
            (NEWER, &embedding, raw(&batch(64)), 1024),
            (NEWER, &embedding, raw(&batch(2048)), 2048),
            // the older release limits it even raw, and does not raise that of an embedding model
            (OLDER, &llama, ctx(100), 100),
            (OLDER, &llama, raw(&ctx(100)), 100),
            (OLDER, &embedding, ctx(2048), 512),
            (OLDER, &embedding, raw(&ctx(2048)), 512),
        ] {
            let effect = asked(release, model, &settings).settings;
            assert_eq!((effect.batch, effect.ubatch), (expected, expected));
        }
    }

    #[test]
    fn impossible_settings_are_refused() {
        let (f16, q8_0) = (Some(CacheType::F16), Some(CacheType::Q8_0));
        for settings in [
            Settings { batch: Some(0), ..Settings::default() },
            Settings { parallel: Some(0), raw: true, ..Settings::default() },
            Settings { ctx: Context::Max, ..Settings::default() },
            Settings { cache_type_k: f16, cache_type_v: q8_0, ..Settings::default() },
        ] {
            for release in [OLDER, NEWER] {
                let found = ask(release, &model("llama", &[]), &card(), &settings);
                assert!(matches!(found, Err(EngineError::Settings(_))), "{settings:?}");
            }
        }
    }

    #[test]
    fn some_models_serve_one_sequence_at_a_time() {
        let four = Settings { parallel: Some(4), ..ctx(4096) };
        for (architecture, older, newer) in [
            ("llama", 4, 4),
            ("mllama", 1, 1),
            ("qwen3vl", 4, 1),
            ("qwen35moe", 4, 1),
            ("qwen3next", 4, 1),
            ("lfm2", 4, 1),
            ("nemotron_h_omni", 4, 1),
        ] {
            for (release, parallel) in [(OLDER, older), (NEWER, newer)] {
                let effect = asked(release, &model(architecture, &[]), &four);
                assert_eq!(effect.settings.parallel, parallel, "{architecture}");
                assert_eq!(effect.settings.ctx_total, parallel * 4096, "{architecture}");
                assert_eq!(has_note(&effect, "parallel lowered to 1"), parallel == 1);
                assert_eq!(asked(release, &model(architecture, &[]), &raw(&four)).settings.parallel, 4);
                assert_eq!(asked(release, &embedding(), &four).settings.parallel, 1);
            }
        }
    }

    #[test]
    fn flash_attention_depends_on_model_and_request() {
        use FlashAttn::{Auto, Off, On};
        let uneven = [("attention.key_length", Value::U32(192)), ("attention.value_length", Value::U32(128))];
        let embedding = [("pooling_type", Value::U32(1))];
        let effect = |release, model: &Model, flash_attn| {
            asked(release, model, &Settings { flash_attn, ..ctx(4096) }).settings.flash_attn
        };
        for (architecture, keys, auto, on, older) in [
            ("llama", &[][..], Auto, On, On),
            ("gemma2", &[], Auto, Off, On),
            ("grok", &[], Auto, Off, On),
            ("deepseek2", &uneven, Off, Off, Off),
            ("qwen3", &[], On, On, On),
            ("qwen3next", &uneven, On, On, Off),
            ("gemma3n", &[], Off, On, On),
            ("gptoss", &[], On, On, On),
            ("bert", &embedding, Off, Off, Off),
            ("llama", &uneven, Auto, Off, Off),
        ] {
            let model = model(architecture, keys);
            assert_eq!([Auto, On, Off].map(|asked| effect(NEWER, &model, asked)), [auto, on, Off], "{architecture}");
            assert_eq!([Auto, On, Off].map(|asked| effect(OLDER, &model, asked)), [Off, older, Off], "{architecture}");
        }
    }

    #[test]
    fn one_gpu_without_flash_attention_turns_it_off() {
        let good = gpu(Backend::Cuda, Bytes::gib(8));
        let of = |backend| gpu(backend, Bytes::gib(8));
        let old_driver = Gpu { driver_major: Some(6), ..good.clone() };
        let compute = |major, minor| Gpu { compute: Some((major, minor)), ..good.clone() };
        let jetson = compute(7, 2);
        for (architecture, other, older, newer) in [
            ("qwen3", good.clone(), true, true),
            ("qwen3", of(Backend::Metal), true, true),
            ("qwen3", of(Backend::Rocm), true, true),
            ("qwen3", of(Backend::Vulkan), false, true),
            ("qwen3", of(Backend::Sycl), false, false),
            ("qwen3", compute(7, 0), true, true),
            ("qwen3", old_driver, false, false),
            ("qwen3", jetson.clone(), true, false),
            ("gemma4", good.clone(), true, true),
            ("gemma4", compute(7, 0), true, false),
            ("gemma4", of(Backend::Rocm), true, true),
        ] {
            let on = Settings { flash_attn: FlashAttn::On, ..ctx(4096) };
            for (release, settings, flash) in [(OLDER, &on, older), (NEWER, &on, newer), (NEWER, &ctx(4096), newer)] {
                let machine = machine(vec![good.clone(), other.clone()]);
                let effect = ask(release, &model(architecture, &[]), &machine, settings).unwrap();
                assert_eq!(effect.settings.flash_attn == FlashAttn::On, flash, "{architecture} {other:?}");
                assert_eq!(has_note(&effect, "flash attention is off: "), !flash);
            }
        }
        // with no layer on GPUs, their support does not matter to the newer release
        let on_cpu = Settings { gpu_layers: GpuLayers::Count(0), ..ctx(4096) };
        let effect = ask(NEWER, &model("qwen3", &[]), &machine(vec![jetson]), &on_cpu).unwrap();
        assert_eq!((effect.gpus, effect.settings.flash_attn), (false, FlashAttn::On));
    }

    #[test]
    fn without_layers_on_gpus_none_is_considered_unless_raw() {
        let none = Settings { gpu_layers: GpuLayers::Count(0), ..Settings::default() };
        let all = Settings { gpu_layers: GpuLayers::All, ..Settings::default() };
        for release in [OLDER, NEWER] {
            let asked = |settings: &Settings| asked(release, &model("llama", &[]), settings);
            assert!(!asked(&none).gpus && asked(&raw(&none)).gpus);
            assert_eq!(asked(&all).requested, Some(5));
        }
    }

    #[test]
    fn a_quantised_cache_needs_flash_attention() {
        use CacheType::{Bf16, F16, F32, Q4_0, Q5_1, Q8_0};
        for (release, architecture, flash_attn, ty, in_effect) in [
            (NEWER, "llama", FlashAttn::On, Q8_0, Q8_0),
            (NEWER, "llama", FlashAttn::Auto, Q8_0, F16),
            (NEWER, "llama", FlashAttn::Off, Q4_0, F16),
            (NEWER, "llama", FlashAttn::On, Q5_1, F16),
            (NEWER, "llama", FlashAttn::On, F32, F16),
            (NEWER, "llama", FlashAttn::On, Bf16, F16),
            (NEWER, "qwen3", FlashAttn::Auto, Q4_0, Q4_0),
            (NEWER, "qwen3", FlashAttn::Off, Q4_0, F16),
            (NEWER, "qwen3", FlashAttn::Off, F16, F16),
            (OLDER, "qwen3", FlashAttn::Auto, Q8_0, F16),
            (OLDER, "gemma2", FlashAttn::On, Q8_0, Q8_0),
        ] {
            let settings = Settings { cache_type_k: Some(ty), cache_type_v: Some(ty), flash_attn, ..ctx(4096) };
            let effect = asked(release, &model(architecture, &[]), &settings);
            assert_eq!(effect.settings.cache_type_k, in_effect, "{ty} {flash_attn:?}");
            assert_eq!(effect.notes.is_empty(), ty == in_effect);
            let raw = asked(release, &model(architecture, &[]), &raw(&settings));
            assert_eq!(raw.settings.cache_type_k, ty, "{ty} {flash_attn:?}, raw");
        }
        let settings = Settings { cache_type_k: Some(Q8_0), flash_attn: FlashAttn::On, ..ctx(4096) };
        assert_eq!(asked(NEWER, &model("llama", &[]), &settings).settings.cache_type_v, Q8_0);
    }
}
