//! The values of a template's words, in one block of one model.

use serde_json::Value as Json;

use super::CatalogueEntry;

/// Tokens per compressed position where neighbouring windows overlap (`models/deepseek4.cpp`, 0.1.161).
const OVERLAPPING: u64 = 4;

/// What the rows of the table of n-grams are padded to a multiple of (`configuration_qwen4_exp.py` of transformers).
const NGRAM_ROWS: u64 = 128;

/// The predefined words, in the order of [`TemplateValues`].
const SHORT: [&str; 23] = [
    "embd",
    "vocab",
    "ff",
    "heads",
    "kv_heads",
    "key",
    "value",
    "key_mla",
    "value_mla",
    "rope",
    "expert_ff",
    "shared_ff",
    "moe",
    "dense",
    "slides",
    "nextn",
    "recurrent",
    "attends",
    "overlaps",
    "hashed",
    "ngrams",
    "ngram_rows",
    "block",
];

/// A word of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A literal.
    Number(u64),
    /// An index into [`SHORT`].
    Short(usize),
    /// A metadata key, or a mark of the model.
    Named(&'static str),
}

impl Word {
    pub(super) fn read(text: &'static str) -> Self {
        match (text.parse(), SHORT.iter().position(|&short| short == text)) {
            (Ok(number), _) => Self::Number(number),
            (_, Some(index)) => Self::Short(index),
            _ => Self::Named(text),
        }
    }
}

/// The values of [`SHORT`] in one block; outside of blocks, those of the first block.
pub(super) struct TemplateValues<'e> {
    entry: &'e CatalogueEntry,
    short: [Option<u64>; SHORT.len()],
}

impl<'e> TemplateValues<'e> {
    pub(super) fn new(entry: &'e CatalogueEntry, block: u64) -> Self {
        let number = |key: &str| entry.number(key, block);
        let or_one = |key: &str| number(key).unwrap_or(1);
        let or_none = |key: &str| number(key).unwrap_or(0);

        let (embd, ff, heads) =
            (number("embedding_length"), number("feed_forward_length"), number("attention.head_count"));
        let kv_heads = number("attention.head_count_kv").or(heads);
        let slides = number("attention.sliding_window_pattern").unwrap_or(0);
        let head = |key: &str| {
            let sliding = number(&format!("{key}_swa")).filter(|_| slides > 0);
            let even = || embd?.checked_div(heads.filter(|&heads| heads > 0)?);
            sliding.or_else(|| number(key)).or_else(even)
        };
        let (key, value) = (head("attention.key_length"), head("attention.value_length"));
        let expert_ff = number("expert_feed_forward_length").or(ff);
        let shared = expert_ff.map(|ff| ff.saturating_mul(or_none("expert_shared_count").max(1)));

        let last = or_none("block_count") - or_none("nextn_predict_layers").min(or_none("block_count"));
        let nextn = block >= last;
        let moe = or_none("expert_count") > 0
            && block >= or_none("leading_dense_block_count")
            && (block + 1).is_multiple_of(or_one("interleave_moe_layer_step"))
            && number("moe_every_n_layers").is_none_or(|every| block % every.max(1) == 1);
        // interval of attention blocks, by default 4 (src/models/qwen3next.cpp)
        let interval = number("full_attention_interval").unwrap_or(4);
        let recurrent = !nextn && !(block + 1).is_multiple_of(interval);

        let flag = |flag: bool| Some(u64::from(flag));
        let short = [
            embd,
            Some(entry.vocab),
            ff,
            heads,
            kv_heads,
            key,
            value,
            number("attention.key_length_mla").or(key),
            number("attention.value_length_mla").or(value),
            number("rope.dimension_count").or(key),
            expert_ff,
            number("expert_shared_feed_forward_length").or(shared),
            flag(moe),
            flag(!moe),
            Some(slides),
            flag(nextn),
            flag(recurrent),
            flag(!recurrent),
            flag(number("attention.compress_ratios") == Some(OVERLAPPING)),
            flag(block < or_none("hash_layer_count")),
            flag(entry.numbers("ple.layers").any(|layer| layer == block)),
            Some(entry.numbers("ple.head_vocab_sizes").sum::<u64>().next_multiple_of(NGRAM_ROWS)),
            Some(block),
        ];
        Self { entry, short }
    }

    /// The value of `word`; none if undefined. Marks of the model are 1.
    pub(super) fn of(&self, word: Word) -> Option<u64> {
        match word {
            Word::Number(number) => Some(number),
            Word::Short(index) => self.short.get(index).copied().flatten(),
            Word::Named(name) if self.entry.marks.iter().any(|mark| mark == name) => Some(1),
            Word::Named(name) => self.entry.number(name, self.short.last().copied().flatten().unwrap_or(0)),
        }
    }
}

impl CatalogueEntry {
    /// The hyperparameter `key` of `block`, which selects the element of a list. `true` is 1; fractions are truncated.
    pub(super) fn number(&self, key: &str, block: u64) -> Option<u64> {
        let value = match self.keys.get(key)? {
            Json::Array(values) => values.get(usize::try_from(block).ok()?)?,
            value => value,
        };
        match value {
            Json::Bool(flag) => Some(u64::from(*flag)),
            value => value.as_u64().or_else(|| value.as_f64().map(|number| number as u64)),
        }
    }

    /// The hyperparameter `key` as a list of numbers; empty if it is none.
    fn numbers(&self, key: &str) -> impl Iterator<Item = u64> {
        self.keys.get(key).and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_u64)
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.number("block_count", 0).unwrap_or(0)
    }
}
