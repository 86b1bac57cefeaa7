//! What a release of Ollama reads in a header: the same keys, of which it does not always make the same.
//! Source: `fs/ggml/ggml.go`, the methods of `KV` and the head of `GraphSize`, Ollama, August 2025 and May 2026.

use super::formulas::{Letter, LetterValues, Source};
use super::table::{FLASH_BY_DEFAULT, LOADED, OWN_ENGINE};
use crate::engine::backend;
use crate::engine::error::EngineError;
use crate::engine::request::ONE_SEQUENCE;
use crate::gguf::{ElementType, Elements, GgmlType, Tensor, Value};
use crate::machine::Gpu;
use crate::model::{Model, TensorGroup};
use crate::settings::{CacheType, EngineId};

/// A release of Ollama that reads headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum OllamaRelease {
    /// Ollama up to 0.11: commit d5a0d8d904 of 14 August 2025.
    August2025,
    /// Ollama up to 0.24: 24 May 2026.
    May2026,
    /// Ollama from 0.30, which no longer estimates graphs but reads headers like the one before: August 2026.
    August2026,
}

impl OllamaRelease {
    /// The engine that uses it.
    pub const fn engine(self) -> EngineId {
        match self {
            Self::August2025 => EngineId::Ollama011,
            Self::May2026 => EngineId::Ollama024,
            Self::August2026 => EngineId::Ollama,
        }
    }

    /// Bytes of a tensor by Ollama's own table of formats, where `TQ1_0`, `TQ2_0` and newer ones have no size.
    /// Source: `fs/ggml/ggml.go`, `TypeSize`, `BlockSize` and `Size`, Ollama, August 2025 and May 2026.
    pub fn tensor_bytes(self, tensor: &Tensor) -> u64 {
        let (block, bytes) = match tensor.ty {
            GgmlType::Tq1_0 | GgmlType::Tq2_0 | GgmlType::Nvfp4 | GgmlType::Q1_0 | GgmlType::Q2_0 => (1, 0),
            // MXFP4 as format 39 is missing in the list of blocks of 32, so it counts as half a byte per weight plus
            // one per 256
            GgmlType::Mxfp4 if self == Self::August2025 && !tensor.old_mxfp4 => (256, 1 + 256 / 2),
            other => (other.block(), other.block_bytes()),
        };
        elements(tensor).wrapping_mul(bytes) / block
    }

    /// Bytes of tensors.
    pub fn sum<'m>(self, tensors: impl Iterator<Item = &'m Tensor>) -> u64 {
        tensors.map(|tensor| self.tensor_bytes(tensor)).fold(0, u64::wrapping_add)
    }

    /// Bytes per element of a cache: `kvCacheBytesPerElement`, `fs/ggml/ggml.go`.
    pub(super) fn bytes_per_element(self, ty: CacheType) -> f64 {
        match ty {
            CacheType::Q8_0 => 1.0,
            CacheType::Q4_0 => 0.5,
            CacheType::F32 if self != Self::August2025 => 4.0,
            _ => 2.0,
        }
    }

    /// Whether `gpu` has flash attention.
    pub fn supports_flash(self, gpu: &Gpu) -> bool {
        let rules = backend::of(gpu.backend);
        match self {
            Self::August2025 => rules.flash_ollama_011.supports(gpu),
            Self::May2026 | Self::August2026 => rules.flash_ollama_024.supports(gpu),
        }
    }

    /// That it does not know the architecture, as one sentence; none if it does.
    pub(super) fn too_old_for(self, architecture: &str) -> Option<String> {
        (self != Self::August2026 && !LOADED.contain(architecture, self)).then(|| {
            format!(
                "{} does not know the architecture {architecture} and refuses such a file; this is what its estimate says",
                self.engine().title()
            )
        })
    }
}

/// Number of elements of a tensor.
fn elements(tensor: &Tensor) -> u64 {
    tensor.dims.iter().fold(1, |product, &dim| product.wrapping_mul(dim))
}

/// Maximum array length that Ollama reads: `LoadModel(…, 1024)` in `server/sched.go`, Ollama, August 2025 and May 2026.
const MAX_ARRAY: u64 = 1024;

/// Looks up keys in a model's header; a key of another type than expected counts as missing.
pub(in crate::engine) struct OllamaKeys<'m> {
    /// The model.
    pub model: &'m Model,
    /// The release that reads the header.
    pub release: OllamaRelease,
}

/// Head counts: one per block, or one for all.
pub(in crate::engine) struct HeadCounts {
    /// Negative numbers are wrapped.
    list: Vec<u32>,
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

    /// A single number applies to every block; a list that is too short is continued with 1.
    fn per_block(&self, blocks: usize) -> Vec<u64> {
        let rest = if let [single] = self.list.as_slice() { *single } else { 1 };
        (0..blocks).map(|block| self.list.get(block).copied().unwrap_or(rest).into()).collect()
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

/// A model's properties, and the letters that depend only on them.
#[derive(Clone, Debug)]
pub(super) struct ModelFacts {
    /// The release that reads the header.
    pub release: OllamaRelease,
    /// Letters independent of the settings.
    pub values: LetterValues,
    /// Attention heads per block.
    pub heads: Vec<u64>,
    /// KV heads per block.
    pub kv_heads: Vec<u64>,
    /// What the rules of settings depend on.
    pub traits: ModelTraits,
}

impl ModelFacts {
    /// Reads them.
    ///
    /// # Errors
    /// Where Ollama would fail: no tokens, an empty list of heads, a block count of another type than u32.
    pub fn of(model: &Model, release: OllamaRelease) -> Result<Self, EngineError> {
        if model.mlx.is_some() {
            return Err(EngineError::Model(format!(
                "the weights of '{}' are safetensors, which {} does not run: use --engine mlx, or --engine ollama",
                model.name,
                release.engine()
            )));
        }
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

        let mut values = LetterValues::default();
        for &letter in Letter::ALL {
            if let Some(Source::Key(key)) = letter.source() {
                values.set(letter, keys.number(key));
            }
        }
        let head = values.get(Letter::E).checked_div(min).unwrap_or(0);
        for (letter, value) in [
            (Letter::H, max),
            (Letter::Hkv, max_kv),
            (Letter::HkvMin, min_kv),
            (Letter::D, head),
            (Letter::Dk, keys.number_or("attention.key_length", head)),
            (Letter::Dv, keys.number_or("attention.value_length", head)),
            (Letter::V, tokens),
        ] {
            values.set(letter, value);
        }
        let traits = ModelTraits::of(&keys, &values);
        let blocks = model.block_count();
        Ok(Self { release, values, heads: heads.per_block(blocks), kv_heads: kv_heads.per_block(blocks), traits })
    }

    /// Sets the letters that are a tensor's size; false if the file lacks a tensor without which the formula is not
    /// that of the model.
    ///
    /// # Errors
    /// When a tensor has too few dimensions.
    pub fn measure(&self, letters: &[Letter], model: &Model, values: &mut LetterValues) -> Result<bool, EngineError> {
        let in_block = |name: &str| model.tensors(TensorGroup::Block(0)).find(|tensor| &*tensor.name == name);
        for &letter in letters {
            let value = match letter.source() {
                Some(Source::Bytes(name)) => in_block(name).map(|tensor| self.release.tensor_bytes(tensor)),
                Some(Source::Dimension(name, index)) => {
                    in_block(name).map(|tensor| self.dimension(tensor, index)).transpose()?
                }
                Some(Source::Elements(name)) => Some(model.tensor(name).map_or(0, elements)),
                Some(Source::Key(_)) | None => continue,
            };
            let Some(value) = value else { return Ok(false) };
            values.set(letter, value);
        }
        Ok(true)
    }

    fn dimension(&self, tensor: &Tensor, index: usize) -> Result<u64, EngineError> {
        tensor.dims.get(index).copied().ok_or_else(|| {
            EngineError::Model(format!(
                "tensor '{}' has {} dimensions, and {} needs the size of number {}",
                tensor.name,
                tensor.dims.len(),
                self.release.engine(),
                index + 1
            ))
        })
    }
}

/// How a release classifies a model, independent of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "answers to independent questions")]
pub struct ModelTraits {
    /// An embedding model without text generation.
    pub embedding: bool,
    /// It has a built-in vision part, not a separate projector.
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

impl ModelTraits {
    fn of(keys: &OllamaKeys<'_>, values: &LetterValues) -> Self {
        let OllamaKeys { model, release } = *keys;
        let architecture = model.architecture.as_str();
        let embedding = keys.has("pooling_type");
        let (key, value) = (values.get(Letter::Dk), values.get(Letter::Dv));
        let older = release == OllamaRelease::August2025;
        let supports_flash = match architecture {
            "qwen35" | "qwen35moe" | "qwen3next" if !older => true,
            "gemma2" | "grok" if !older => false,
            _ => key != 0 && key == value,
        };
        Self {
            embedding,
            vision: keys.has("vision.block_count"),
            own_engine: OWN_ENGINE.contain(architecture, release),
            supports_flash: supports_flash && !embedding,
            flash_by_default: FLASH_BY_DEFAULT.contain(architecture, release),
            one_sequence: embedding
                || if older { architecture == "mllama" } else { ONE_SEQUENCE.contains(&architecture) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn negative_head_counts_are_compared_before_or_after_wrapping() {
        let wrapped = u64::from(u32::MAX);
        let heads = |signed| HeadCounts { list: vec![4, u32::MAX, 8], signed };
        assert_eq!(heads(true).extent(OllamaRelease::August2025), (wrapped, 8));
        assert_eq!(heads(true).extent(OllamaRelease::May2026), (4, wrapped));
        assert_eq!(heads(false).extent(OllamaRelease::August2025), (4, wrapped));
    }

    #[test]
    fn a_release_says_of_newer_architectures_that_it_refuses_them() {
        let said = |release: OllamaRelease, name: &str| release.too_old_for(name);
        assert_eq!(said(OllamaRelease::August2025, "llama"), None);
        assert_eq!(said(OllamaRelease::May2026, "qwen3next"), None);
        let sentence = said(OllamaRelease::August2025, "qwen3next").unwrap();
        assert!(sentence.starts_with("Ollama ≤ 0.11 does not know the architecture qwen3next"), "{sentence}");
        assert!(said(OllamaRelease::May2026, "hy_v4").is_some() && said(OllamaRelease::May2026, "").is_some());
        assert_eq!(said(OllamaRelease::August2026, "hy_v4"), None);
    }

    #[test]
    fn the_older_release_underestimates_mxfp4_with_the_new_type_number() {
        let tensor = |old_mxfp4| Tensor {
            name: "blk.0.ffn_up_exps.weight".into(),
            dims: vec![256, 10],
            ty: GgmlType::Mxfp4,
            bytes: Bytes(1360),
            old_mxfp4,
        };
        // 17 bytes for 32 weights, or 129 for 256
        assert_eq!(OllamaRelease::August2025.tensor_bytes(&tensor(true)), 1360);
        assert_eq!(OllamaRelease::August2025.tensor_bytes(&tensor(false)), 1290);
        for old in [true, false] {
            assert_eq!(OllamaRelease::May2026.tensor_bytes(&tensor(old)), 1360);
        }
    }
}
