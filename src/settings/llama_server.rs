//! Variables of llama-server, which inherits Ollama's environment. Names: `common/arg.cpp`, 0.1.161.

use super::Settings;
use crate::units::Bytes;

/// What the prompt cache may grow to unless `--cache-ram` says otherwise (`common/common.h`, `cache_ram_mib`, 0.1.161).
pub const PROMPT_CACHE: Bytes = Bytes::mib(8192);

/// Checkpoints that it keeps per sequence unless `--ctx-checkpoints` says otherwise (`common/common.h`, `n_ctx_checkpoints`,
/// 0.1.161).
pub const CHECKPOINTS: u64 = 32;

/// The variables for what `settings` ask of llama-server and Ollama has no option for.
pub fn llama_server_variables(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    if settings.cache_type_k != settings.cache_type_v {
        let types =
            [("LLAMA_ARG_CACHE_TYPE_K", settings.cache_type_k), ("LLAMA_ARG_CACHE_TYPE_V", settings.cache_type_v)];
        variables.extend(types.into_iter().filter_map(|(name, ty)| Some((name, ty?.to_string()))));
    }
    if settings.kv_unified {
        variables.push(("LLAMA_ARG_KV_UNIFIED", "1".to_owned()));
    }
    if settings.no_kv_offload {
        variables.push(("LLAMA_ARG_KV_OFFLOAD", "0".to_owned()));
    }
    if settings.swa_full {
        variables.push(("LLAMA_ARG_SWA_FULL", "1".to_owned()));
    }
    if !settings.tensor_split.is_empty() {
        variables.push(("LLAMA_ARG_TENSOR_SPLIT", shares(&settings.tensor_split)));
    }
    if let Some(target) = settings.fit_target {
        variables.push(("LLAMA_ARG_FIT_TARGET", target.0.div_ceil(1 << 20).to_string()));
    }
    if let Some(limit) = settings.cache_ram {
        variables.push(("LLAMA_ARG_CACHE_RAM", limit.0.div_ceil(1 << 20).to_string()));
    }
    if let Some(count) = settings.ctx_checkpoints {
        variables.push(("LLAMA_ARG_CTX_CHECKPOINTS", count.to_string()));
    }
    if settings.no_repack {
        variables.push(("LLAMA_ARG_REPACK", "0".to_owned()));
    }
    if let Some(mode) = settings.load_mode {
        variables.push(("LLAMA_ARG_LOAD_MODE", mode.to_string()));
    }
    if let Some(layers) = settings.n_cpu_moe {
        variables.push(("LLAMA_ARG_N_CPU_MOE", layers.to_string()));
    }
    variables
}

/// `3,1`
pub fn shares(split: &[f64]) -> String {
    split.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
