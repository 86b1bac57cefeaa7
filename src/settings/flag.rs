//! Command-line flags that some engines ignore.

use super::{DraftSettings, LlamaProgram, Outputs, Settings};
use crate::units::Bytes;

/// A flag that sets one of the [`Settings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Flag {
    Ubatch,
    KvUnified,
    NoKvOffload,
    NoOpOffload,
    SwaFull,
    TensorSplit,
    Outputs,
    Embeddings,
    Program,
    FitTarget,
    FitCtx,
    GpuOverhead,
    Adapters,
    Spread,
    RequireFull,
    CpuMoe,
    Drafting,
    LoadMode,
    CacheRam,
    CtxCheckpoints,
    NoRepack,
    Release,
}

impl Flag {
    /// As it is written on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ubatch => "--ubatch",
            Self::KvUnified => "--kv-unified",
            Self::NoKvOffload => "--no-kv-offload",
            Self::NoOpOffload => "--no-op-offload",
            Self::SwaFull => "--swa-full",
            Self::TensorSplit => "--tensor-split",
            Self::Outputs => "--outputs",
            Self::Embeddings => "--embeddings (with --reranking and --pooling)",
            Self::Program => "--program",
            Self::FitTarget => "--fit-target",
            Self::FitCtx => "--fit-ctx",
            Self::GpuOverhead => "--gpu-overhead",
            Self::Adapters => "--adapters",
            Self::Spread => "--spread",
            Self::RequireFull => "--require-full",
            Self::CpuMoe => "--n-cpu-moe",
            Self::Drafting => "drafting (--spec-type and its options)",
            Self::LoadMode => "--load-mode",
            Self::CacheRam => "--cache-ram",
            Self::CtxCheckpoints => "--ctx-checkpoints",
            Self::NoRepack => "--no-repack",
            Self::Release => "--release",
        }
    }

    /// Whether `settings` differ from the default in what this flag sets.
    pub fn is_given(self, settings: &Settings) -> bool {
        match self {
            Self::Ubatch => settings.ubatch.is_some(),
            Self::KvUnified => settings.kv_unified,
            Self::NoKvOffload => settings.no_kv_offload,
            Self::NoOpOffload => settings.no_op_offload,
            Self::SwaFull => settings.swa_full,
            Self::TensorSplit => !settings.tensor_split.is_empty(),
            Self::Outputs => settings.outputs != Outputs::default(),
            Self::Embeddings => settings.embeddings.is_some() || settings.reranking || settings.pooling.is_some(),
            Self::Program => settings.program != LlamaProgram::default(),
            Self::FitTarget => settings.fit_target.is_some(),
            Self::FitCtx => settings.fit_ctx.is_some(),
            Self::GpuOverhead => settings.gpu_overhead > Bytes::ZERO,
            Self::Adapters => settings.adapters > Bytes::ZERO,
            Self::Spread => settings.spread,
            Self::RequireFull => settings.require_full,
            Self::CpuMoe => settings.n_cpu_moe.is_some(),
            Self::Drafting => settings.draft != DraftSettings::default(),
            Self::LoadMode => settings.load_mode.is_some(),
            Self::CacheRam => settings.cache_ram.is_some(),
            Self::CtxCheckpoints => settings.ctx_checkpoints.is_some(),
            Self::NoRepack => settings.no_repack,
            Self::Release => settings.release.is_some(),
        }
    }
}
