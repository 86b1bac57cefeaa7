//! The settings in effect.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{CacheType, FlashAttn, LlamaProgram, LoadMode, Pooling, Release};
use crate::units::Bytes;

/// The knobs after the engine's rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InEffect {
    /// Tokens of context as the engine's own option counts them: per sequence for Ollama, in total for llama.cpp.
    pub ctx: u64,
    /// Tokens of context per sequence.
    pub ctx_per_sequence: u64,
    /// Tokens of context over all sequences.
    pub ctx_total: u64,
    /// Sequences at once.
    pub parallel: u64,
    /// Logical batch, in tokens.
    pub batch: u64,
    /// Physical batch, in tokens.
    pub ubatch: u64,
    /// Type of the K cache.
    pub cache_type_k: CacheType,
    /// Type of the V cache.
    pub cache_type_v: CacheType,
    /// Flash attention; `Auto` where the engine leaves it open until the model is loaded.
    pub flash_attn: FlashAttn,
    /// Requested layers on GPUs; -1 if the engine chose.
    pub gpu_layers: i64,
    /// Whether all sequences share one KV cache; none for engines without that choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_unified: Option<bool>,
    /// Tokens whose logits one ubatch computes; none for engines without that choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<u64>,
    /// How embeddings are pooled; none where none are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<Pooling>,
    /// The program of llama.cpp, where it is none that a server starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<LlamaProgram>,
    /// Layers whose experts are kept in RAM by request; none for engines without that choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_cpu_moe: Option<u64>,
    /// Most tokens of an image; none without a projector that reads images of many sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_max_tokens: Option<u64>,
    /// Release of llama.cpp that was planned for; none for engines that do not run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<Release>,
    /// Build of llama.cpp, where it is known more closely than by its release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<u64>,
    /// How tokens are drafted, as `--spec-type` has it; none if they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_type: Option<String>,
    /// Tokens drafted at most by a model; none if none drafts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_draft_n_max: Option<u64>,
    /// How weights are read into RAM; none for engines without that choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_mode: Option<LoadMode>,
    /// What llama-server's prompt cache may grow to in RAM; none for engines without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_ram: Option<Bytes>,
    /// Checkpoints that llama-server keeps per sequence at most; none for engines without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ctx_checkpoints: Option<u64>,
    /// Who set a value, by its key, where it was not the request: `by VRAM, 24.0 GiB in all`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<&'static str, String>,
}
