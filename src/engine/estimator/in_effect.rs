//! The settings in effect, by the rules that Ollama up to 0.24 applies before it plans.
//! Source: `server/routes.go`, `server/sched.go`, `llm/server.go` and `llm/memory.go`, Ollama, August 2025 and May 2026.

use super::header::{ModelFacts, OllamaRelease};
use crate::engine::id::EngineError;
use crate::engine::request::{self, RequestedSizes, ResolvedSettings};
use crate::machine::{Backend, Gpu, Machine};
use crate::model::Model;
use crate::settings::{CacheType, FlashAttn, Settings};
use crate::units::{Bytes, Tokens};

/// `envconfig.ContextLength` of the older release
const DEFAULT_CONTEXT: u64 = 4096;
/// Minimum context of gpt-oss on machines with [`HIGH_VRAM`], in the older release.
const GPT_OSS_CONTEXT: u64 = 8192;
/// `lowVRAMThreshold`
const HIGH_VRAM: Bytes = Bytes::gib(20);

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
    let mut wanted = RequestedSizes::of(settings, model, release, default_context)?;
    if !settings.raw {
        if older {
            wanted.ctx = raise_for_gpt_oss(wanted.ctx, model, machine, settings.gpu_overhead, &mut notes);
        }
        let vision = traits.vision || (older && settings.projector.is_some());
        wanted.ctx = request::context_in_bounds(wanted.ctx, model, release, vision, &mut notes);
        if !older {
            wanted.batch = request::batch_within(wanted.batch, wanted.ctx, &mut notes);
        }
        wanted.parallel = request::sequences(wanted.parallel, traits.one_sequence, traits.embedding, &mut notes);
    }
    if older {
        // part of the estimate itself, so raw settings do not change it
        wanted.batch = request::batch_within(wanted.batch, wanted.ctx, &mut notes);
    } else if traits.embedding && wanted.batch < wanted.ctx {
        wanted.batch = wanted.ctx;
        notes.push(format!(
            "batch raised to {}: an embedding model processes the whole context at once",
            Tokens(wanted.ctx)
        ));
    }
    let requested = request::layers_on_gpus(settings.gpu_layers, model);
    let gpus = request::considers_gpus(requested, settings, machine, &mut notes);
    let asked_cache = request::cache_type(settings, release.engine())?;
    let (flash_attn, cache) = if settings.raw {
        (settings.flash_attn, asked_cache.unwrap_or(CacheType::F16))
    } else {
        let seen = if gpus || older { machine.gpus.as_slice() } else { &[] };
        let flash = flash_attention(model, facts, seen, settings.flash_attn, &mut notes);
        (flash, request::cache_in_effect(asked_cache, flash, &mut notes))
    };
    let settings = wanted.in_effect(cache, flash_attn, requested);
    Ok(ResolvedSettings { settings, requested, gpus, notes })
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
    } else if let Some(gpu) = gpus.iter().find(too_old).filter(|_| !older && model.architecture == "gemma4") {
        Some(format!("gemma4 needs compute capability 7.5, and {} is older", gpu.name))
    } else {
        None
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
    use crate::settings::{Context, GpuLayers};

    fn ask(
        release: OllamaRelease,
        model: &Model,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<ResolvedSettings, EngineError> {
        resolve_settings(model, &ModelFacts::of(model, release)?, machine, settings)
    }

    fn ctx(tokens: u64) -> Settings {
        Settings { ctx: Context::Tokens(tokens), ..Settings::default() }
    }

    fn has_note(effect: &ResolvedSettings, words: &str) -> bool {
        effect.notes.iter().any(|note| note.contains(words))
    }

    mod up_to_0_24 {
        use super::*;

        fn ask(model: &Model, machine: &Machine, settings: &Settings) -> Result<ResolvedSettings, EngineError> {
            super::ask(OllamaRelease::May2026, model, machine, settings)
        }

        fn asked(model: &Model, settings: &Settings) -> ResolvedSettings {
            ask(model, &card(), settings).unwrap_or_else(|error| panic!("{error}"))
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
                assert_eq!(
                    asked(&model(architecture, &[]), &Settings { raw: true, ..four.clone() }).settings.parallel,
                    4
                );
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
                let settings =
                    Settings { cache_type_k: Some(ty), cache_type_v: Some(ty), flash_attn, raw, ..ctx(4096) };
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
    }

    mod up_to_0_11 {
        use super::*;
        use crate::model::Projector;

        fn ask(model: &Model, machine: &Machine, settings: &Settings) -> Result<ResolvedSettings, EngineError> {
            super::ask(OllamaRelease::August2025, model, machine, settings)
        }

        fn asked(model: &Model, settings: &Settings) -> ResolvedSettings {
            ask(model, &card(), settings).unwrap_or_else(|error| panic!("{error}"))
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
            assert_eq!(asked(&model("gptoss", &[]), &ctx(5000)).settings.ctx, 8192);
            assert_eq!(asked(&model("gptoss", &[]), &ctx(9000)).settings.ctx, 9000);
        }

        #[test]
        fn a_context_is_kept_within_its_bounds() {
            let trained = model("llama", &[("context_length", Value::U32(8192))]);
            assert_eq!(asked(&trained, &ctx(10_000)).settings.ctx, 8192);
            assert_eq!(asked(&trained, &ctx(1)).settings.ctx, 4);
            let sees = model("gemma3", &[("vision.block_count", Value::U32(2))]);
            assert_eq!(asked(&sees, &ctx(5)).settings.ctx, 2048);
            let projector = Settings { projector: Projector::sized(Bytes::mib(600)), ..ctx(5) };
            assert_eq!(asked(&trained, &projector).settings.ctx, 2048);
            assert_eq!(asked(&trained, &Settings { raw: true, ..ctx(10_000) }).settings.ctx, 10_000);
        }

        #[test]
        fn the_batch_never_exceeds_the_context_even_raw() {
            for raw in [false, true] {
                let settings = Settings { raw, ..ctx(100) };
                let effect = asked(&model("llama", &[]), &settings);
                assert_eq!((effect.settings.batch, effect.settings.ubatch), (100, 100));
                // an embedding model's batch is not raised in this release
                let embeds = model("bert", &[("pooling_type", Value::U32(1))]);
                let settings = Settings { raw, ..ctx(2048) };
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
    }
}
