//! The tensors of an architecture: a small language of sections, conditions and sums, read from
//! `assets/architectures.txt`, and its words' values in one block of one model.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{CatalogueEntry, CatalogueError};

/// The text of every section, by its name.
static SECTIONS: LazyLock<BTreeMap<&'static str, &'static str>> = LazyLock::new(|| {
    let all = include_str!("../../assets/architectures.txt").split('[').filter_map(|section| section.split_once("]\n"));
    all.collect()
});

struct TemplateLine {
    what: TemplateAction,
    conditions: Vec<Condition>,
}

enum TemplateAction {
    /// Another section's lines.
    Use(Vec<TemplateLine>),
    Tensor {
        /// Whether it occurs in every block.
        in_blocks: bool,
        name: &'static str,
        dims: Vec<Sum>,
    },
}

/// Requires that a word is greater than zero, or, with `holds` false, that it is zero or undefined.
struct Condition {
    word: Word,
    holds: bool,
}

/// `2*key+value`: products, each added or subtracted.
struct Sum(Vec<Product>);

struct Product {
    minus: bool,
    /// Evaluated from the left: each divides (true) or multiplies the result so far.
    factors: Vec<(bool, Word)>,
}

/// Names and dimensions of a model's tensors, those outside of blocks first.
pub(super) fn tensors(entry: &CatalogueEntry) -> Result<Vec<(String, Vec<u64>)>, CatalogueError> {
    let lines = section(&entry.architecture)?;
    let mut tensors = Vec::new();
    for block in std::iter::once(None).chain((0..entry.blocks()).map(Some)) {
        let values = TemplateValues::new(entry, block.unwrap_or(0));
        Expansion { values, block, tensors: &mut tensors }.expand(&lines)?;
    }
    Ok(tensors)
}

/// Expands the template for one block, or for the tensors outside of blocks.
struct Expansion<'e> {
    values: TemplateValues<'e>,
    block: Option<u64>,
    tensors: &'e mut Vec<(String, Vec<u64>)>,
}

impl Expansion<'_> {
    fn expand(&mut self, lines: &[TemplateLine]) -> Result<(), CatalogueError> {
        for line in lines {
            let holds = |it: &Condition| it.holds == self.values.of(it.word).is_some_and(|number| number > 0);
            if !line.conditions.iter().all(holds) {
                continue;
            }
            match &line.what {
                TemplateAction::Use(other) => self.expand(other)?,
                TemplateAction::Tensor { in_blocks, name, dims } if *in_blocks == self.block.is_some() => {
                    let name = self.block.map_or_else(|| (*name).to_owned(), |block| format!("blk.{block}.{name}"));
                    let dims = dims.iter().map(|dim| self.number(dim, &name)).collect::<Result<_, _>>()?;
                    self.tensors.push((name, dims));
                }
                TemplateAction::Tensor { .. } => {}
            }
        }
        Ok(())
    }

    fn number(&self, sum: &Sum, tensor: &str) -> Result<u64, CatalogueError> {
        let error = |what: String| CatalogueError::Tensor { tensor: tensor.to_owned(), what };
        let mut total: u64 = 0;
        for Product { minus, factors } in &sum.0 {
            let mut product: u64 = 1;
            for &(divides, word) in factors {
                let factor = self.values.of(word).ok_or_else(|| error(format!("there is no {word:?}")))?;
                let next = if divides { product.checked_div(factor) } else { product.checked_mul(factor) };
                product = next.ok_or_else(|| error(format!("{word:?} is {factor}")))?;
            }
            let next = if *minus { total.checked_sub(product) } else { total.checked_add(product) };
            total = next.ok_or_else(|| error("its dimensions are not numbers".to_owned()))?;
        }
        Ok(total)
    }
}

/// The lines of a section, with those of the sections that it uses.
fn section(name: &str) -> Result<Vec<TemplateLine>, CatalogueError> {
    let text = SECTIONS.get(name).ok_or_else(|| CatalogueError::Architecture(name.to_owned()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(TemplateLine::read).collect()
}

impl TemplateLine {
    fn read(line: &'static str) -> Result<Self, CatalogueError> {
        let (what, conditions) = line.split_once(" if ").unwrap_or((line, ""));
        let condition = |text: &'static str| match text.strip_prefix('!') {
            Some(word) => Condition { word: Word::read(word), holds: false },
            None => Condition { word: Word::read(text), holds: true },
        };
        let conditions = conditions.split_whitespace().map(condition).collect();
        if let Some(other) = what.strip_prefix("use ") {
            return Ok(Self { what: TemplateAction::Use(section(other.trim())?), conditions });
        }
        let (name, dims) = what.split_once(' ').unwrap_or((what, ""));
        let dims = dims.split_whitespace().map(Sum::read).collect();
        let (in_blocks, name) = name.strip_prefix("*.").map_or((false, name), |name| (true, name));
        Ok(Self { what: TemplateAction::Tensor { in_blocks, name, dims }, conditions })
    }
}

impl Sum {
    fn read(text: &'static str) -> Self {
        let terms = pieces(text, ['+', '-']);
        Self(terms.map(|(sign, term)| Product { minus: sign == Some('-'), factors: factors(term) }).collect())
    }
}

fn factors(term: &'static str) -> Vec<(bool, Word)> {
    pieces(term, ['*', '/']).map(|(sign, word)| (sign == Some('/'), Word::read(word))).collect()
}

/// Splits `text` at `signs`; each piece comes with the sign before it.
fn pieces(text: &'static str, signs: [char; 2]) -> impl Iterator<Item = (Option<char>, &'static str)> {
    let mut before = None;
    text.split_inclusive(signs).map(move |piece| {
        let word = piece.trim_end_matches(signs);
        let sign = before;
        before = piece.chars().last().filter(|last| signs.contains(last));
        (sign, word)
    })
}

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
enum Word {
    /// A literal.
    Number(u64),
    /// An index into [`SHORT`].
    Short(usize),
    /// A metadata key, or a mark of the model.
    Named(&'static str),
}

impl Word {
    fn read(text: &'static str) -> Self {
        match (text.parse(), SHORT.iter().position(|&short| short == text)) {
            (Ok(number), _) => Self::Number(number),
            (_, Some(index)) => Self::Short(index),
            _ => Self::Named(text),
        }
    }
}

/// The values of [`SHORT`] in one block; outside of blocks, those of the first block.
struct TemplateValues<'e> {
    entry: &'e CatalogueEntry,
    short: [Option<u64>; SHORT.len()],
}

impl<'e> TemplateValues<'e> {
    fn new(entry: &'e CatalogueEntry, block: u64) -> Self {
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
    fn of(&self, word: Word) -> Option<u64> {
        match word {
            Word::Number(number) => Some(number),
            Word::Short(index) => self.short.get(index).copied().flatten(),
            Word::Named(name) if self.entry.marks.iter().any(|mark| mark == name) => Some(1),
            Word::Named(name) => self.entry.number(name, self.short.last().copied().flatten().unwrap_or(0)),
        }
    }
}
