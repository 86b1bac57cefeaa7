//! Ollama's prediction of a model's memory before llama-server measures it, used to select GPUs and batch.

use crate::engine::estimator::{OllamaKeys, OllamaRelease};
use crate::engine::id::EngineError;
use crate::model::Model;

/// The prediction with `tokens` of context over all sequences: the file size and an f16 cache with the minimum number
/// of KV heads and the head size for the maximum number of heads. Multiplications wrap as in Ollama.
/// Source: `PredictServerVRAM`, `llm/llama_server.go`, Ollama, August 2026.
///
/// # Errors
/// When a list of heads is empty or too long, which makes Ollama fail.
pub(super) fn predicted(model: &Model, tokens: u64) -> Result<u64, EngineError> {
    let keys = OllamaKeys { model, release: OllamaRelease::August2026 };
    let heads = |key: &str| Ok::<_, EngineError>(keys.numbers_or(key, 1)?.extent(OllamaRelease::August2026));
    let kv_heads = heads("attention.head_count_kv")?.0.max(1);
    let (_, most_heads) = heads("attention.head_count")?;
    let head_size = keys.number("embedding_length").checked_div(most_heads).unwrap_or(0);
    let cache = [keys.number("block_count"), kv_heads, head_size, tokens, 2].into_iter().fold(2, u64::wrapping_mul);
    Ok(model.file_bytes.0.wrapping_add(cache))
}
