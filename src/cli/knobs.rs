//! Settings from options; options that the engine ignores are reported.

use super::args::{KnobArgs, OtherKnobArgs};
use super::environment::{self, Variables};
use crate::engine::EngineId;
use crate::settings::{DraftSettings, MmprojDevice, MmprojOptions, OllamaSettings, Settings};
use crate::units::Bytes;

/// The settings from `knobs` and, for knobs not given, Ollama's variables; with notes.
pub(super) fn settings(knobs: &KnobArgs, engine: EngineId, variables: &Variables) -> (Settings, Vec<String>) {
    let others = &knobs.others;
    let mut settings = Settings {
        ctx: knobs.ctx.unwrap_or_default(),
        parallel: knobs.parallel,
        batch: knobs.batch,
        draft: draft(others),
        quant: others.quant,
        ubatch: knobs.ubatch,
        cache_type_k: knobs.cache_type_k.or(knobs.kv_type),
        cache_type_v: knobs.cache_type_v.or(knobs.kv_type),
        flash_attn: knobs.flash_attn.unwrap_or_default(),
        gpu_layers: knobs.gpu_layers.unwrap_or_default(),
        kv_unified: others.kv_unified,
        no_kv_offload: others.no_kv_offload,
        no_op_offload: others.no_op_offload,
        swa_full: others.swa_full,
        tensor_split: others.tensor_split.clone(),
        outputs: others.outputs.unwrap_or_default(),
        embeddings: others.embeddings,
        reranking: others.reranking,
        pooling: others.pooling,
        program: others.program.unwrap_or_default(),
        fit_target: others.fit_target,
        fit_ctx: others.fit_ctx,
        gpu_overhead: knobs.gpu_overhead.unwrap_or(Bytes::ZERO),
        adapters: Bytes::ZERO,
        projector: None,
        mmproj: MmprojOptions {
            device: if others.no_mmproj_offload { MmprojDevice::Cpu } else { others.mmproj_device.unwrap_or_default() },
            image_min_tokens: others.image_min_tokens,
            image_max_tokens: others.image_max_tokens,
            image: others.image,
        },
        spread: knobs.spread,
        require_full: knobs.require_full,
        n_cpu_moe: others.n_cpu_moe,
        ollama: ollama_settings(knobs),
        release: others.release.map(|nearest| nearest.release),
        build: others.release.and_then(|nearest| nearest.build),
        load_mode: others.load_mode,
        cache_ram: others.cache_ram,
        ctx_checkpoints: others.ctx_checkpoints,
        no_repack: others.no_repack,
        pipeline_refused: None,
        raw: knobs.raw_settings,
    };
    let mut notes = Vec::new();
    if !knobs.raw_settings {
        notes.extend(environment::fill(&mut settings, knobs, engine, variables));
    }
    notes.extend(ignored_flags(knobs, engine));
    (settings, notes)
}

/// The options of drafting.
pub(super) fn draft(knobs: &OtherKnobArgs) -> DraftSettings {
    DraftSettings {
        types: (!knobs.spec_type.is_empty()).then(|| knobs.spec_type.clone()),
        n_max: knobs.spec_draft_n_max,
        gpu_layers: knobs.gpu_layers_draft.unwrap_or_default(),
        cache_type_k: knobs.cache_type_k_draft,
        cache_type_v: knobs.cache_type_v_draft,
        devices: knobs.device_draft.as_ref().map(|list| list.0.clone()),
    }
}

fn ollama_settings(knobs: &KnobArgs) -> OllamaSettings {
    let given = &knobs.ollama;
    OllamaSettings {
        version: given.ollama.unwrap_or_default(),
        endpoint: given.endpoint.unwrap_or_default(),
        shift: given.shift,
        go_template: given.go_template,
        ..OllamaSettings::default()
    }
}

/// Options that are not part of the settings and ignored by the engine, one sentence each. Engines report ignored
/// settings.
fn ignored_flags(knobs: &KnobArgs, engine: EngineId) -> Vec<String> {
    let others = &knobs.others;
    let mut notes = Vec::new();
    if others.mmproj.is_some() && !engine.facts().counts_projectors {
        notes.push(format!("--mmproj is ignored: {engine} does not plan projectors"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::args::{DeviceList, OllamaArgs};
    use super::*;
    use crate::gguf::FileType;
    use crate::settings::{
        CacheType, Context, FlashAttn, GpuLayers, ImageSize, LlamaProgram, LoadMode, Outputs, Pooling, Release,
        SpecType,
    };

    #[test]
    #[allow(clippy::too_many_lines, reason = "one line a flag")]
    fn every_flag_reaches_the_settings() {
        let knobs = KnobArgs {
            engine: None,
            ctx: Some(Context::Tokens(8192)),
            parallel: Some(2),
            batch: Some(256),
            ubatch: Some(128),
            kv_type: Some(CacheType::Q8_0),
            cache_type_k: None,
            cache_type_v: None,
            flash_attn: Some(FlashAttn::On),
            gpu_layers: Some(GpuLayers::Count(20)),
            gpu_overhead: Some(Bytes::mib(512)),
            spread: true,
            require_full: true,
            raw_settings: true,
            ollama: OllamaArgs::default(),
            others: OtherKnobArgs {
                kv_unified: true,
                no_kv_offload: true,
                no_op_offload: true,
                swa_full: true,
                tensor_split: vec![3.0, 1.0],
                outputs: Some(Outputs::Ubatch),
                embeddings: Some(true),
                reranking: true,
                pooling: Some(Pooling::Last),
                program: Some(LlamaProgram::Cli),
                fit_target: Some(Bytes::gib(1)),
                fit_ctx: Some(4096),
                n_cpu_moe: Some(3),
                mmproj: Some("mmproj.gguf".into()),
                no_mmproj: false,
                mmproj_device: None,
                no_mmproj_offload: true,
                image_min_tokens: Some(64),
                image_max_tokens: Some(512),
                image: Some(ImageSize { width: 640, height: 480 }),
                spec_type: vec![SpecType::DraftMtp],
                model_draft: Some("draft.gguf".into()),
                spec_draft_n_max: Some(2),
                gpu_layers_draft: Some(GpuLayers::Count(1)),
                cache_type_k_draft: Some(CacheType::Q8_0),
                cache_type_v_draft: Some(CacheType::Q4_0),
                device_draft: Some(DeviceList(vec![1])),
                release: Some(Release::August2026.into()),
                quant: Some(FileType::Q8_0),
                load_mode: Some(LoadMode::Read),
                cache_ram: Some(Bytes::gib(2)),
                ctx_checkpoints: Some(8),
                no_repack: true,
                repack: false,
            },
        };
        let expected = Settings {
            draft: DraftSettings {
                types: Some(vec![SpecType::DraftMtp]),
                n_max: Some(2),
                gpu_layers: GpuLayers::Count(1),
                cache_type_k: Some(CacheType::Q8_0),
                cache_type_v: Some(CacheType::Q4_0),
                devices: Some(vec![1]),
            },
            ctx: Context::Tokens(8192),
            parallel: Some(2),
            batch: Some(256),
            quant: Some(FileType::Q8_0),
            ubatch: Some(128),
            cache_type_k: Some(CacheType::Q8_0),
            cache_type_v: Some(CacheType::Q8_0),
            flash_attn: FlashAttn::On,
            gpu_layers: GpuLayers::Count(20),
            kv_unified: true,
            no_kv_offload: true,
            no_op_offload: true,
            swa_full: true,
            tensor_split: vec![3.0, 1.0],
            outputs: Outputs::Ubatch,
            embeddings: Some(true),
            reranking: true,
            pooling: Some(Pooling::Last),
            program: LlamaProgram::Cli,
            fit_target: Some(Bytes::gib(1)),
            fit_ctx: Some(4096),
            gpu_overhead: Bytes::mib(512),
            adapters: Bytes::ZERO,
            projector: None,
            mmproj: MmprojOptions {
                device: MmprojDevice::Cpu,
                image_min_tokens: Some(64),
                image_max_tokens: Some(512),
                image: Some(ImageSize { width: 640, height: 480 }),
            },
            spread: true,
            require_full: true,
            n_cpu_moe: Some(3),
            ollama: OllamaSettings::default(),
            release: Some(Release::August2026),
            build: None,
            load_mode: Some(LoadMode::Read),
            cache_ram: Some(Bytes::gib(2)),
            ctx_checkpoints: Some(8),
            no_repack: true,
            pipeline_refused: None,
            raw: true,
        };
        let (settings, notes) = settings(&knobs, EngineId::Ollama024, &Variables::default());
        assert_eq!(settings, expected);
        // only --mmproj, which is not in the settings, has a note
        assert_eq!(notes.len(), 1, "{notes:#?}");
    }

    #[test]
    fn raw_settings_ignore_the_environment() {
        let args = |raw_settings| KnobArgs {
            raw_settings,
            ollama: OllamaArgs {
                server_env: vec![("OLLAMA_NUM_PARALLEL".to_owned(), "4".to_owned())],
                ..OllamaArgs::default()
            },
            ..KnobArgs::default()
        };
        let parallel = |knobs: &KnobArgs| settings(knobs, EngineId::Ollama, &Variables::of(knobs, true)).0.parallel;
        assert_eq!((parallel(&args(true)), parallel(&args(false))), (None, Some(4)));
    }

    #[test]
    fn k_and_v_cache_types_can_differ() {
        let knobs = KnobArgs { cache_type_k: Some(CacheType::Q8_0), ..KnobArgs::default() };
        let (settings, notes) = settings(&knobs, EngineId::Ollama, &Variables::default());
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Q8_0), None));
        assert!(notes.is_empty());
    }
}
