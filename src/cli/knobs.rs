//! Settings from options; options that the engine ignores are reported.

use super::args::KnobArgs;
use super::environment::{self, Variables};
use crate::settings::Settings;
use crate::units::Bytes;

/// The settings from `knobs` and, for knobs not given, Ollama's variables; with notes.
pub(super) fn settings(knobs: &KnobArgs, variables: Variables<'_>) -> (Settings, Vec<String>) {
    let others = &knobs.others;
    let mut settings = Settings {
        ctx: knobs.ctx.unwrap_or_default(),
        parallel: knobs.parallel,
        batch: knobs.batch,
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
        fit_target: others.fit_target,
        fit_ctx: others.fit_ctx,
        gpu_overhead: knobs.gpu_overhead.unwrap_or(Bytes::ZERO),
        adapters: Bytes::ZERO,
        projector: Bytes::ZERO,
        spread: knobs.spread,
        require_full: knobs.require_full,
        n_cpu_moe: others.n_cpu_moe,
        release: others.release,
        raw: knobs.raw_settings,
    };
    let mut notes = Vec::new();
    if !knobs.raw_settings {
        notes.extend(environment::fill(&mut settings, knobs, variables));
    }
    notes.extend(ignored_flags(knobs));
    (settings, notes)
}

/// Options that are not part of the settings and ignored by the engine, one sentence each. Engines report ignored
/// settings.
fn ignored_flags(knobs: &KnobArgs) -> Vec<String> {
    let engine = knobs.engine;
    let others = &knobs.others;
    let mut notes = Vec::new();
    if others.mmproj.is_some() && !engine.facts().counts_projectors {
        notes.push(format!("--mmproj is ignored: {engine} does not plan projectors"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::args::OtherKnobArgs;
    use super::*;
    use crate::engine::EngineId;
    use crate::gguf::FileType;
    use crate::settings::{CacheType, Context, FlashAttn, GpuLayers, Outputs, Release};

    const NO_VARIABLES: Variables<'static> = &|_| None;

    #[test]
    fn every_flag_reaches_the_settings() {
        let knobs = KnobArgs {
            engine: EngineId::Ollama024,
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
            others: OtherKnobArgs {
                kv_unified: true,
                no_kv_offload: true,
                no_op_offload: true,
                swa_full: true,
                tensor_split: vec![3.0, 1.0],
                outputs: Some(Outputs::Ubatch),
                fit_target: Some(Bytes::gib(1)),
                fit_ctx: Some(4096),
                n_cpu_moe: Some(3),
                mmproj: Some("mmproj.gguf".into()),
                release: Some(Release::August2026),
                quant: Some(FileType::Q8_0),
            },
        };
        let expected = Settings {
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
            fit_target: Some(Bytes::gib(1)),
            fit_ctx: Some(4096),
            gpu_overhead: Bytes::mib(512),
            adapters: Bytes::ZERO,
            projector: Bytes::ZERO,
            spread: true,
            require_full: true,
            n_cpu_moe: Some(3),
            release: Some(Release::August2026),
            raw: true,
        };
        let (settings, notes) = settings(&knobs, NO_VARIABLES);
        assert_eq!(settings, expected);
        // only --mmproj, which is not in the settings, has a note
        assert_eq!(notes.len(), 1, "{notes:#?}");
    }

    #[test]
    fn raw_settings_ignore_the_environment() {
        let variables: Variables<'_> = &|name| (name == "OLLAMA_NUM_PARALLEL").then(|| "4".to_owned());
        let raw = KnobArgs { raw_settings: true, ..KnobArgs::default() };
        assert_eq!(settings(&raw, variables).0.parallel, None);
        assert_eq!(settings(&KnobArgs::default(), variables).0.parallel, Some(4));
    }

    #[test]
    fn k_and_v_cache_types_can_differ() {
        let knobs = KnobArgs { cache_type_k: Some(CacheType::Q8_0), ..KnobArgs::default() };
        let (settings, notes) = settings(&knobs, NO_VARIABLES);
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Q8_0), None));
        assert!(notes.is_empty());
    }
}
