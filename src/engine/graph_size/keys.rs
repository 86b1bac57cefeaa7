//! Key lookup of Ollama's estimator: a key of another type than expected counts as missing.
//! Source: `fs/ggml/ggml.go`, `keyValue` and its callers, Ollama, August 2025 and May 2026.

use super::release::OllamaRelease;
use crate::engine::id::EngineError;
use crate::gguf::{ElementType, Elements, Value};
use crate::model::Model;

/// Maximum array length that Ollama reads: `LoadModel(…, 1024)` in `server/sched.go`, Ollama, August 2025 and May 2026.
const MAX_ARRAY: u64 = 1024;

/// Looks up keys in a model's header.
pub(in crate::engine) struct OllamaKeys<'m> {
    /// The model.
    pub model: &'m Model,
    /// The release that reads the header.
    pub release: OllamaRelease,
}

/// Head counts: one per block, or one for all.
pub(in crate::engine) struct HeadCounts {
    /// Negative numbers are wrapped.
    pub list: Vec<u32>,
    /// They are i32 in the file.
    signed: bool,
}

impl HeadCounts {
    /// Minimum and maximum. The older release compares negative numbers before they wrap, the newer one after.
    pub fn extent(&self, release: OllamaRelease) -> (u64, u64) {
        let by_sign = self.signed && release == OllamaRelease::August2025;
        let key = |&number: &u32| if by_sign { i64::from(number.cast_signed()) } else { i64::from(number) };
        let or_zero = |found: Option<u32>| u64::from(found.unwrap_or(0));
        let numbers = || self.list.iter().copied();
        (or_zero(numbers().min_by_key(key)), or_zero(numbers().max_by_key(key)))
    }
}

impl<'m> OllamaKeys<'m> {
    /// A u32, else 0.
    pub fn number(&self, key: &str) -> u64 {
        self.number_or(key, 0)
    }

    /// A u32, else `default`.
    pub fn number_or(&self, key: &str, default: u64) -> u64 {
        match self.model.value(key) {
            Some(&Value::U32(number)) => number.into(),
            _ => default,
        }
    }

    /// One u32, or an array of u32 or i32, else `default`.
    ///
    /// # Errors
    /// When the array is empty or longer than Ollama reads, which makes Ollama fail.
    pub fn numbers_or(&self, key: &str, default: u32) -> Result<HeadCounts, EngineError> {
        let one = |number| Ok(HeadCounts { list: vec![number], signed: false });
        let array = match self.model.value(key) {
            Some(&Value::U32(number)) => return one(number),
            Some(Value::Array(array)) => array,
            _ => return one(default),
        };
        let (list, signed) = match &array.elements {
            Elements::U32(list) => (list.clone(), false),
            Elements::I32(list) => (list.iter().map(|&number| number.cast_unsigned()).collect(), true),
            Elements::Unread(ElementType::U32 | ElementType::I32) => (Vec::new(), false),
            _ => return one(default),
        };
        if list.is_empty() || array.len > MAX_ARRAY {
            return Err(EngineError::Model(format!(
                "key '{}.{key}' holds {} numbers, and {} reads 1 to {MAX_ARRAY}",
                self.model.architecture,
                array.len,
                self.release.engine()
            )));
        }
        Ok(HeadCounts { list, signed })
    }

    /// An array of i32, else empty.
    pub fn signed(&self, key: &str) -> &'m [i32] {
        match self.model.value(key) {
            Some(Value::Array(array)) if array.len <= MAX_ARRAY => match &array.elements {
                Elements::I32(list) => list,
                _ => &[],
            },
            _ => &[],
        }
    }

    /// Whether the key exists, with any type.
    pub fn has(&self, key: &str) -> bool {
        self.model.value(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_head_counts_are_compared_before_or_after_wrapping() {
        let wrapped = u64::from(u32::MAX);
        let heads = |signed| HeadCounts { list: vec![4, u32::MAX, 8], signed };
        assert_eq!(heads(true).extent(OllamaRelease::August2025), (wrapped, 8));
        assert_eq!(heads(true).extent(OllamaRelease::May2026), (4, wrapped));
        assert_eq!(heads(false).extent(OllamaRelease::August2025), (4, wrapped));
    }
}
