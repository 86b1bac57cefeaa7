//! Traits of architectures in Ollama up to 0.24.
//! Source: `fs/ggml/ggml.go` and `server/sched.go`, Ollama, May 2026.

use super::super::graph_size::{Letter, ModelFacts, OllamaKeys};
use super::super::request::ONE_SEQUENCE;
use crate::model::Model;
use crate::settings::CacheType;

/// Architectures that Ollama runs in its own engine; it runs the others in its llama.cpp runner.
const OWN_ENGINE: [&str; 29] = [
    "bert",
    "deepseek2",
    "deepseekocr",
    "gemma3",
    "gemma3n",
    "gemma4",
    "glm4moelite",
    "glmocr",
    "gpt-oss",
    "gptoss",
    "laguna",
    "lfm2",
    "lfm2moe",
    "llama4",
    "mistral3",
    "mllama",
    "nemotron_h",
    "nemotron_h_moe",
    "nemotron_h_omni",
    "nomic-bert",
    "olmo3",
    "qwen25vl",
    "qwen3",
    "qwen35",
    "qwen35moe",
    "qwen3moe",
    "qwen3next",
    "qwen3vl",
    "qwen3vlmoe",
];

/// Architectures with flash attention by default.
const FLASH_BY_DEFAULT: [&str; 21] = [
    "bert",
    "gemma3",
    "gemma4",
    "glm4moelite",
    "glmocr",
    "gpt-oss",
    "gptoss",
    "lfm2",
    "lfm2moe",
    "mistral3",
    "nemotron_h",
    "nemotron_h_moe",
    "nemotron_h_omni",
    "olmo3",
    "qwen3",
    "qwen35",
    "qwen35moe",
    "qwen3moe",
    "qwen3next",
    "qwen3vl",
    "qwen3vlmoe",
];

/// The traits of a model that matter to the engine's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "answers to independent questions")]
pub struct ArchitectureTraits {
    /// An embedding model without text generation.
    pub embedding: bool,
    /// It has a built-in vision part.
    pub vision: bool,
    /// It runs in Ollama's own engine.
    pub own_engine: bool,
    /// It can use flash attention.
    pub supports_flash: bool,
    /// It uses flash attention by default.
    pub flash_by_default: bool,
    /// It serves one sequence at a time, whatever is requested.
    pub one_sequence: bool,
}

impl ArchitectureTraits {
    pub(in crate::engine) fn of(model: &Model, facts: &ModelFacts) -> Self {
        let keys = OllamaKeys { model, release: facts.release };
        let architecture = model.architecture.as_str();
        let embedding = keys.has("pooling_type");
        let (key, value) = (facts.values.get(Letter::Dk), facts.values.get(Letter::Dv));
        let supports_flash = !embedding
            && match architecture {
                "qwen35" | "qwen35moe" | "qwen3next" => true,
                "gemma2" | "grok" => false,
                _ => key != 0 && key == value,
            };
        Self {
            embedding,
            vision: keys.has("vision.block_count"),
            own_engine: OWN_ENGINE.contains(&architecture),
            supports_flash,
            flash_by_default: FLASH_BY_DEFAULT.contains(&architecture),
            one_sequence: embedding || ONE_SEQUENCE.contains(&architecture),
        }
    }
}

/// Bytes per element of a cache as in `GraphSize`: `kvCacheBytesPerElement`, `fs/ggml/ggml.go`.
pub const fn bytes_per_element(ty: CacheType) -> f64 {
    match ty {
        CacheType::Q8_0 => 1.0,
        CacheType::Q4_0 => 0.5,
        CacheType::F32 => 4.0,
        _ => 2.0,
    }
}

#[cfg(test)]
pub(super) fn facts(model: &Model) -> ModelFacts {
    ModelFacts::of(model, super::super::graph_size::OllamaRelease::May2026).unwrap()
}
