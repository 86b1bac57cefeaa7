//! The tensors of a file: renamed, split, stacked, and in which type.

use std::collections::HashMap;

use super::OriginalError;
use super::family::{Family, MadeRow, Place};
use super::hparams::Hparams;
use crate::gguf::{FileType, GgmlType};
use crate::model::config::words::LayerWords;
use crate::model::expression::{self, Words};
use crate::safetensors::{Dtype, Tensor};

/// Largest size of a dimension, so that what is made of them stays a number.
const MAX_SIZE: u64 = 1 << 40;
/// What stands before names of the language model.
const PREFIXES: [&str; 4] = ["model.", "backbone.", "thinker.", "llm."];
/// What names of other parts begin with, or have in them: of a projector, or of speech. Source: `TextModel.filter_tensors`.
const OTHER_BEGIN: [&str; 10] = [
    "mlp",
    "vit.",
    "vpm.",
    "siglip2.",
    "conformer.",
    "merger.",
    "resampler.",
    "sound_encoder.",
    "sound_projection.",
    "speech_embeddings.",
];
const OTHER_INSIDE: [&str; 16] = [
    "visual.",
    "vision.",
    "audio.",
    "talker.",
    "vision_",
    "audio_",
    "token2wav.",
    "code2wav.",
    "projector.",
    "pre_mm_projector_norm",
    "image_newline",
    "view_seperator",
    "patch_embed",
    "patch_merger.",
    "patch_merge_mlp.",
    "model.connector.",
];
/// What the converter drops of every model.
const UNUSED: [&str; 3] = [".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq"];

/// What is made of a model's tensors.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// Name, type and sizes of each, in the order in which the original's stand.
    pub tensors: Vec<(String, GgmlType, Vec<u64>)>,
    /// The type of most.
    pub file_type: FileType,
    /// What was left out, a sentence each.
    pub notes: Vec<String>,
}

/// A tensor being made.
struct Making {
    name: String,
    dims: Vec<u64>,
    /// Tensors of the original that are stacked in it.
    count: u64,
    stacked: bool,
    packed: bool,
}

/// The tensors of a model.
pub(super) fn made(family: &Family, hparams: &Hparams, blocks: u64, weights: &[Tensor]) -> Result<Made, OriginalError> {
    let mut making: Vec<Making> = Vec::with_capacity(weights.len());
    let mut places: HashMap<String, usize> = HashMap::new();
    let (mut half, mut of_others, mut behind) = (None, 0_usize, 0_usize);
    let depth = hparams.number(family, "depth").unwrap_or(0);
    for tensor in weights {
        let Some(name) = of_language(&tensor.name) else {
            of_others += 1;
            continue;
        };
        if UNUSED.iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        half = half.or(match tensor.dtype {
            Dtype::Bf16 if tensor.shape.len() > 1 => Some(GgmlType::Bf16),
            Dtype::F16 if tensor.shape.len() > 1 => Some(GgmlType::F16),
            _ => None,
        });
        let found = Found::of(&name, depth);
        if found.block.is_some_and(|block| block >= blocks && found.pattern.starts_with("layers.")) {
            behind += 1;
            continue;
        }
        let words = TensorWords::of(hparams.words(family, found.block), tensor);
        let unknown = || OriginalError::Tensor { tensor: tensor.name.clone(), family: family.architecture.to_owned() };
        let (rows, ending) = found.rows(family, &words.inner).ok_or_else(unknown)?;
        let all = elements_of(&tensor.shape);
        let (mut elements, packed) = (0_u64, tensor.dtype == Dtype::U8 && tensor.name.ends_with("_blocks"));
        for row in rows {
            let making_of = words
                .make(row, &found, ending, depth)
                .ok_or_else(|| OriginalError::Shape { tensor: tensor.name.clone(), shape: tensor.shape.clone() })?;
            elements = elements.saturating_add(elements_of(&making_of.dims));
            let place = places.entry(making_of.name.clone()).or_insert(making.len());
            match making.get_mut(*place) {
                Some(before) if before.stacked && before.dims == making_of.dims => before.count += 1,
                Some(_) => return Err(unknown()),
                None => making.push(Making { packed, ..making_of }),
            }
        }
        let expected = if packed { all.saturating_mul(2) } else { all };
        // rows beyond the tokens are cut or added, and nothing else is
        let is_table = name.contains("embed_tokens");
        if !rows.is_empty() && elements != expected && !is_table {
            return Err(OriginalError::Shape { tensor: tensor.name.clone(), shape: tensor.shape.clone() });
        }
    }
    let half = half.unwrap_or(GgmlType::F16);
    let mut tensors: Vec<_> = making.into_iter().map(|making| making.done(family, half)).collect();
    for extra in family.extra.iter().filter(|extra| hparams.holds(family, extra.condition, None)) {
        let words = hparams.words(family, None);
        let dims: Option<Vec<u64>> = extra.dims.split_whitespace().map(|text| words.size(text)).collect();
        tensors.extend(dims.map(|dims| (format!("{}.weight", extra.name), GgmlType::F32, dims)));
    }
    let file_type = if tensors.iter().any(|(_, ty, _)| *ty == GgmlType::Mxfp4) {
        FileType::Mxfp4
    } else if half == GgmlType::Bf16 {
        FileType::Bf16
    } else {
        FileType::F16
    };
    let mut notes = Vec::new();
    if of_others > 0 {
        notes.push(format!("{of_others} tensors for pictures or sound are left out: a projector is a file of its own"));
    }
    if behind > 0 {
        notes.push(format!(
            "{behind} tensors of layers that predict further tokens are left out, as the converter does"
        ));
    }
    Ok(Made { tensors, file_type, notes })
}

/// Numbers of a tensor with these sizes, which a file may claim to be any.
fn elements_of(sizes: &[u64]) -> u64 {
    sizes.iter().fold(1, |all, size| all.saturating_mul(*size))
}

/// A name without what stands before those of the language model; none if it is of another part.
fn of_language(name: &str) -> Option<String> {
    let is_other =
        OTHER_BEGIN.iter().any(|begin| name.starts_with(begin)) || OTHER_INSIDE.iter().any(|part| name.contains(part));
    if is_other {
        return None;
    }
    let name = name.replace("language_model.", "").replace("text_model.", "");
    let mut rest = name.as_str();
    while let Some(inner) = PREFIXES.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = inner;
    }
    Some(rest.to_owned())
}

/// A name as a pattern, with its numbers.
struct Found {
    /// The name with `@` for the first number, and `#` for the second.
    pattern: String,
    block: Option<u64>,
    expert: bool,
}

impl Found {
    /// Of a name; those of layers that predict further tokens stand behind the others.
    fn of(name: &str, depth: u64) -> Self {
        let (name, behind) = match name.strip_prefix("mtp.layers.") {
            Some(rest) => (format!("layers.{rest}"), depth),
            None => (name.to_owned(), 0),
        };
        let (mut block, mut expert) = (None, false);
        let parts = name.split('.').map(|part| match part.parse::<u64>() {
            Ok(number) if block.is_none() => {
                block = Some(number.saturating_add(behind));
                "@"
            }
            Ok(_) if !expert => {
                expert = true;
                "#"
            }
            _ => part,
        });
        let pattern = parts.collect::<Vec<_>>().join(".");
        Self { pattern, block, expert }
    }

    /// What becomes of it, and the ending that its names keep.
    fn rows<'f>(&self, family: &'f Family, words: &LayerWords<'_>) -> Option<(&'f [MadeRow], &'static str)> {
        let row = |pattern: &str| {
            let rows = family.tensors.get(pattern)?;
            rows.iter().rev().find(|row| words.holds(row.condition)).map(|row| row.made.as_slice())
        };
        let whole = row(&self.pattern).map(|rows| (rows, ""));
        let without = |ending: &'static str| Some((row(self.pattern.strip_suffix(ending)?)?, ending));
        whole.or_else(|| without(".weight")).or_else(|| without(".bias"))
    }
}

impl Making {
    /// The tensor as it is written.
    fn done(self, family: &Family, half: GgmlType) -> (String, GgmlType, Vec<u64>) {
        let Self { name, mut dims, count, stacked, packed } = self;
        if stacked {
            dims.push(count);
        }
        let of_block = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        let plain = of_block.map_or(name.as_str(), |(_, name)| name);
        let kept = plain.strip_suffix(".weight").is_none_or(|plain| family.float32.contains(&plain));
        let ty = match () {
            () if packed => GgmlType::Mxfp4,
            () if kept || dims.len() < 2 || name.ends_with("_norm.weight") => GgmlType::F32,
            () => half,
        };
        (name, ty, dims)
    }
}

/// The words of a row: those of a block, and the sizes of a tensor.
struct TensorWords<'a> {
    inner: LayerWords<'a>,
    /// In the order of GGUF.
    dims: Vec<u64>,
}

impl<'a> TensorWords<'a> {
    fn of(inner: LayerWords<'a>, tensor: &Tensor) -> Self {
        Self { inner, dims: tensor.shape.iter().rev().copied().collect() }
    }

    /// A tensor of a row; none if its sizes are none.
    fn make(&self, row: &MadeRow, found: &Found, ending: &str, depth: u64) -> Option<Making> {
        let size = |text: &str| {
            let size = u64::try_from(expression::number(text, self)?).ok()?;
            (1..=MAX_SIZE).contains(&size).then_some(size)
        };
        let dims = match row.dims {
            Some(texts) => texts.split_whitespace().map(size).collect::<Option<Vec<_>>>()?,
            None => self.dims.clone(),
        };
        let is_whole = [".weight", ".bias"].iter().any(|ending| row.name.ends_with(ending));
        let ending = if is_whole { "" } else { ending };
        let name = match (row.place, found.block) {
            (Place::Same, Some(block)) => format!("blk.{block}.{}{ending}", row.name),
            (Place::Behind, _) => format!("blk.{depth}.{}{ending}", row.name),
            _ => format!("{}{ending}", row.name),
        };
        let stacked = found.expert || row.place == Place::Stack;
        Some(Making { name, dims, count: 1, stacked, packed: false })
    }
}

impl Words for TensorWords<'_> {
    fn of(&self, word: &str) -> Option<i64> {
        match word.strip_prefix('d').and_then(|at| at.parse::<usize>().ok()) {
            Some(at) => i64::try_from(*self.dims.get(at)?).ok(),
            None => self.inner.of(word),
        }
    }
}
