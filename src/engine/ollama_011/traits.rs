//! Traits of architectures in Ollama up to 0.11.
//! Source: `fs/ggml/ggml.go` and `server/sched.go`, Ollama, August 2025.

use super::super::graph_size::{Letter, ModelFacts, OllamaKeys};
use crate::model::Model;
use crate::settings::CacheType;

/// Architectures that Ollama runs in its own engine; it runs the others in its llama.cpp runner.
const OWN_ENGINE: [&str; 8] = ["gemma3", "gemma3n", "gpt-oss", "gptoss", "llama4", "mistral3", "mllama", "qwen25vl"];

/// The traits of a model that matter to the engine's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "answers to independent questions")]
pub struct ArchitectureTraits {
    /// An embedding model without text generation.
    pub embedding: bool,
    /// It has a built-in vision part, not a separate projector.
    pub vision: bool,
    /// It runs in Ollama's own engine.
    pub own_engine: bool,
    /// It can use flash attention.
    pub supports_flash: bool,
    /// It serves one sequence at a time, whatever is requested.
    pub one_sequence: bool,
}

impl ArchitectureTraits {
    pub(super) fn of(model: &Model, facts: &ModelFacts) -> Self {
        let keys = OllamaKeys { model, release: facts.release };
        let architecture = model.architecture.as_str();
        let embedding = keys.has("pooling_type");
        let (key, value) = (facts.values.get(Letter::Dk), facts.values.get(Letter::Dv));
        Self {
            embedding,
            vision: keys.has("vision.block_count"),
            own_engine: OWN_ENGINE.contains(&architecture),
            supports_flash: !embedding && key != 0 && key == value,
            one_sequence: embedding || architecture == "mllama",
        }
    }
}

/// Bytes per element of a cache as in `GraphSize`: `kvCacheBytesPerElement`, `fs/ggml/ggml.go`.
pub const fn bytes_per_element(ty: CacheType) -> f64 {
    match ty {
        CacheType::Q8_0 => 1.0,
        CacheType::Q4_0 => 0.5,
        _ => 2.0,
    }
}
