//! The model properties used by the formulas.
//! Source: `fs/ggml/ggml.go`, the methods of `KV` and the head of `GraphSize`, Ollama, August 2025 and May 2026.

use super::keys::OllamaKeys;
use super::letters::{Letter, LetterValues};
use super::release::OllamaRelease;
use crate::engine::id::EngineError;
use crate::gguf::{ElementType, Value};
use crate::model::Model;

/// A model's properties, and the letters that depend only on them.
#[derive(Clone, Debug)]
pub(in crate::engine) struct ModelFacts {
    /// The release that reads the header.
    pub release: OllamaRelease,
    /// Letters independent of the settings.
    pub values: LetterValues,
    /// Attention heads per block.
    pub heads: Vec<u64>,
    /// KV heads per block.
    pub kv_heads: Vec<u64>,
}

impl ModelFacts {
    /// Reads them.
    ///
    /// # Errors
    /// Where Ollama would fail: no tokens, an empty list of heads, a block count of another type than u32.
    pub fn of(model: &Model, release: OllamaRelease) -> Result<Self, EngineError> {
        let keys = OllamaKeys { model, release };
        let missing = |key: &str, kind: &str| {
            EngineError::Model(format!(
                "the header has no key '{key}' holding {kind}, which {} requires: convert the model again",
                release.engine()
            ))
        };
        if !matches!(model.value("block_count"), Some(Value::U32(_))) {
            return Err(missing(&format!("{}.block_count", model.architecture), "a u32"));
        }
        let tokens = match model.value("tokenizer.ggml.tokens") {
            Some(Value::Array(array)) if array.elements.kind() == ElementType::String => array.len,
            _ => return Err(missing("tokenizer.ggml.tokens", "an array of strings")),
        };
        let heads = keys.numbers_or("attention.head_count", 1)?;
        let kv_heads = keys.numbers_or("attention.head_count_kv", 1)?;
        let (min, max) = heads.extent(release);
        let (min_kv, max_kv) = kv_heads.extent(release);

        let embedding = keys.number("embedding_length");
        let head = embedding.checked_div(min).unwrap_or(0);
        let mut values = LetterValues::default();
        for (letter, value) in [
            (Letter::E, embedding),
            (Letter::H, max),
            (Letter::Hkv, max_kv),
            (Letter::HkvMin, min_kv),
            (Letter::D, head),
            (Letter::Dk, keys.number_or("attention.key_length", head)),
            (Letter::Dv, keys.number_or("attention.value_length", head)),
            (Letter::V, tokens),
            (Letter::Ff, keys.number("feed_forward_length")),
            (Letter::Window, keys.number("attention.sliding_window")),
            (Letter::Dconv, keys.number("ssm.conv_kernel")),
            (Letter::Dstate, keys.number("ssm.state_size")),
            (Letter::Dinner, keys.number("ssm.inner_size")),
            (Letter::Ngroups, keys.number("ssm.group_count")),
        ] {
            values.set(letter, value);
        }
        let blocks = model.block_count();
        Ok(Self { release, values, heads: per_block(&heads.list, blocks), kv_heads: per_block(&kv_heads.list, blocks) })
    }
}

/// A single number applies to every block; a list that is too short is continued with 1.
fn per_block(list: &[u32], blocks: usize) -> Vec<u64> {
    let rest = if let &[single] = list { single } else { 1 };
    (0..blocks).map(|block| list.get(block).copied().unwrap_or(rest).into()).collect()
}
