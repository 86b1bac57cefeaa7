//! The vision part of a model, which the older release counts in addition to the text layers.
//! Source: `fs/ggml/ggml.go`, `VisionGraphSize`, Ollama, August 2025.

use super::expr::product;
use super::keys::OllamaKeys;
use super::letters::{
    CHANNELS, E_VISION, H_VISION, IMAGE, Letter, LetterValues, PADDED, PATCH, PATCHES, PIXELS, TILES,
};
use super::model_facts::ModelFacts;
use super::rule::{GraphRule, branch, max, part};
use super::{NOTHING, division};
use crate::engine::id::EngineError;
use crate::model::{Model, TensorGroup};
use crate::plan::{GraphSize, Symbol};
use crate::units::Bytes;

/// mllama: an image is split into tiles, with attention between all patches of all tiles.
static MLLAMA: GraphRule = max(&[branch(
    "vision",
    &[
        part("positions", product!(8)),
        part("pixels", product!(IMAGE, IMAGE, CHANNELS, TILES)),
        part("embeddings", product!(E_VISION, PATCHES, TILES)),
        part("activations", product!(9, E_VISION, PADDED, TILES)),
        part("attention scores", product!(PADDED, TILES, PADDED, TILES, H_VISION)),
    ],
)])
.times(4);

/// gemma3 and mistral3.
static GEMMA3: GraphRule = max(&[branch(
    "vision",
    &[
        part("pixels", product!(IMAGE, IMAGE, CHANNELS)),
        part("embeddings", product!(E_VISION, PATCH)),
        part("attention scores", product!(PATCHES, PATCHES, H_VISION)),
    ],
)])
.times(4);

/// qwen25vl: by the number of pixels of the largest image.
static QWEN25VL: GraphRule = max(&[branch(
    "vision",
    &[
        part("pixels", product!(PIXELS, CHANNELS)),
        part("normalised pixels", product!(PIXELS, CHANNELS)),
        part("patches", product!(PATCHES, CHANNELS, PATCH, PATCH)),
        part("attention scores", product!(PATCHES, PATCHES, H_VISION)),
        part("embeddings", product!(E_VISION, PATCHES)),
    ],
)])
.times(4);

/// Pixels of qwen25vl's largest image if missing in the header: 1280 patches of 28 by 28.
const DEFAULT_PIXELS: u64 = 28 * 28 * 1280;

/// The vision part of a model.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Vision {
    /// Bytes of its weights.
    pub weights: Bytes,
    /// Its compute graph; no branches if none is counted.
    pub graph: GraphSize,
    /// The letters of the graph's formula.
    pub legend: Vec<Symbol>,
    /// The header has no patch size, so no graph is counted.
    pub unknown_patch: bool,
}

impl Vision {
    /// No vision part.
    pub const fn none() -> Self {
        Self { weights: Bytes::ZERO, graph: NOTHING, legend: Vec::new(), unknown_patch: false }
    }

    /// The vision part of `model`, if it has one.
    ///
    /// # Errors
    /// If a formula divides by zero, as for the text part.
    pub fn of(model: &Model, facts: &ModelFacts) -> Result<Self, EngineError> {
        let keys = OllamaKeys { model, release: facts.release };
        let mut vision = Self::none();
        if keys.number("vision.block_count") == 0 {
            return Ok(vision);
        }
        let own = model
            .tensors(TensorGroup::Projector)
            .filter(|tensor| &*tensor.name == "v" || tensor.name.starts_with("v."));
        vision.weights = own.map(|tensor| Bytes(facts.release.tensor_bytes(tensor))).sum();
        if keys.number("vision.patch_size") == 0 {
            vision.unknown_patch = true;
            return Ok(vision);
        }
        let rule = match model.architecture.as_str() {
            "mllama" => &MLLAMA,
            "gemma3" | "mistral3" => &GEMMA3,
            "qwen25vl" => &QWEN25VL,
            _ => return Ok(vision),
        };
        let values = values(&keys);
        vision.graph = rule.size(&values).map_err(|zero| division(zero, model, facts))?;
        let mut letters = Vec::new();
        rule.letters(&mut |letter| letters.push(letter));
        vision.legend =
            Letter::ALL.iter().filter(|letter| letters.contains(letter)).map(|&letter| values.symbol(letter)).collect();
        Ok(vision)
    }
}

fn values(keys: &OllamaKeys<'_>) -> LetterValues {
    let (image, patch) = (keys.number("vision.image_size"), keys.number("vision.patch_size"));
    let pixels = keys.number_or("vision.max_pixels", DEFAULT_PIXELS);
    let per_side = image.checked_div(patch).unwrap_or(0);
    let class = u64::from(keys.model.tensor("v.class_embd").is_some());
    let patches = match keys.model.architecture.as_str() {
        "qwen25vl" => pixels.checked_div(patch.wrapping_mul(patch)).unwrap_or(0),
        _ => per_side.wrapping_mul(per_side).wrapping_add(class),
    };
    let mut values = LetterValues::default();
    for (letter, value) in [
        (Letter::Image, image),
        (Letter::Patch, patch),
        (Letter::Channels, keys.number("vision.num_channels")),
        (Letter::Pixels, pixels),
        (Letter::Patches, patches),
        // a multiple of 8 also gets 8 more, as in Ollama
        (Letter::Padded, patches.wrapping_add(8 - patches % 8)),
        (Letter::Tiles, keys.number("vision.max_num_tiles")),
        (Letter::Hvision, keys.number("vision.attention.head_count")),
        (Letter::Evision, keys.number("vision.embedding_length")),
    ] {
        values.set(letter, value);
    }
    values
}
