//! What llama.cpp's loader asks of a file, and why it would refuse one: `llama_model_loader` and the models' own
//! `load_arch_hparams` and `load_arch_tensors` (`llama-model-loader.cpp`, `llama-model.cpp`, `models/*.cpp`, 0.1.161).
//!
//! The values of such a file are plain, so that a plan can be made; but llama.cpp never loads it. What each architecture
//! asks for is a table, `assets/llama-cpp-loader.txt`, whose first lines explain it.

mod table;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use self::table::{Asked, Group, KeyType, Line, Range, Section};
use super::hparams::Hparams;
use super::weights::split_block;
use crate::gguf::{ElementType, Endian, Header, Tensor, Value};
use crate::model::expression::{self, Words};

/// The most elements of a list of fixed size (`LLAMA_MAX_LAYERS` in `llama-hparams.h`, 0.1.161).
const MAX_ELEMENTS: u64 = 512;

/// Why llama.cpp would refuse a file with this header, as part of a sentence; none if nothing is known that it would
/// refuse. `hparams` are those of the header.
pub(super) fn refusal(header: &Header, hparams: &Hparams) -> Option<String> {
    let architecture = header.metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let file = FileHeader { header, hparams, architecture };
    let sections: Vec<_> = Section::of_all().into_iter().chain(Section::of(architecture)).collect();
    let mut lines = sections.iter().copied().flat_map(Section::lines);
    file.byte_order()
        .or_else(|| file.nested_list())
        .or_else(|| header.misplaced.clone())
        .or_else(|| lines.find_map(|line| file.unmet(&line)))
        .or_else(|| file.tensors(&sections))
}

/// A header and what was read of it.
struct FileHeader<'f> {
    header: &'f Header,
    hparams: &'f Hparams,
    architecture: &'f str,
}

impl FileHeader<'_> {
    fn byte_order(&self) -> Option<String> {
        let foreign = self.header.endian != Endian::NATIVE;
        foreign.then(|| format!("its numbers are {}-endian, and this computer's are not", self.header.endian))
    }

    /// `gguf_init_from_reader` in `gguf.cpp`, 0.1.161.
    fn nested_list(&self) -> Option<String> {
        let of_lists = |value: &Value| {
            value.as_array().is_some_and(|list| list.elements.kind() == ElementType::Array && list.len > 0)
        };
        let (key, _) = self.header.metadata.iter().find(|(_, value)| of_lists(value))?;
        Some(format!("{key} is a list of lists"))
    }

    /// The full name of a key of the table.
    fn key_name(&self, key: &str) -> String {
        key.strip_prefix('/').map_or_else(|| format!("{}.{key}", self.architecture), str::to_owned)
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.header.metadata.get(&self.key_name(key))
    }

    fn words(&self) -> HeaderWords<'_> {
        HeaderWords { file: self, block: 0, has: &|_| None }
    }

    /// Why a line about keys does not hold.
    fn unmet(&self, line: &Line<'_>) -> Option<String> {
        match line {
            Line::Keys { ty, keys, condition } => {
                if condition.is_some_and(|condition| expression::value(condition, &self.words()) != Some(1)) {
                    return None;
                }
                table::names(keys).find_map(|(key, required)| self.wrong_key(*ty, key, required))
            }
            Line::Positive(keys) => {
                let key = table::names(keys)
                    .map(|(key, _)| key)
                    .find(|key| self.value(key).is_none_or(|value| value.as_u64() == Some(0)))?;
                Some(format!("{} is {}", self.key_name(key), if self.value(key).is_some() { "0" } else { "missing" }))
            }
            Line::Same(words) => {
                let sizes: Vec<(&str, i64)> = words
                    .split_whitespace()
                    .filter_map(|word| Some((word, expression::number(word, &self.words())?)))
                    .collect();
                let [(one, first), (other, second)] = sizes[..] else { return None };
                let name = |word| self.key_name(table::key_of(word));
                (first != second)
                    .then(|| format!("{} is {first} and {} is {second}, which must be equal", name(one), name(other)))
            }
            Line::Group(_) | Line::Asked(_) | Line::More => None,
        }
    }

    /// Why a key does not suit its type: `get_key`, `get_key_or_arr`, `get_arr`, `get_arr_n`.
    fn wrong_key(&self, ty: KeyType<'_>, key: &str, required: bool) -> Option<String> {
        let name = self.key_name(key);
        let Some(value) = self.value(key) else { return required.then(|| format!("{name} is missing")) };
        let is = |found: &dyn fmt::Display, wanted: &str| Some(format!("{name} is {found}, not {wanted}"));
        let found = match value {
            Value::Array(list) => format!("a list of {}", list.elements.kind()),
            other => other.kind().to_string(),
        };
        let (element, list) = (ty.element, ty.list);
        match value {
            // optional lists that are none are passed over
            other if list.is_only_list() && !matches!(other, Value::Array(_)) => {
                (required || list.is_checked()).then(|| format!("{name} is {found}, not a list"))
            }
            Value::Array(_) if list.is_any() => None,
            Value::Array(array) if list.may_be_list() => {
                let suits = list.takes(element, array.elements.kind());
                let wanted = list.expected(&self.words());
                match wanted {
                    Some(wanted) if wanted != array.len => {
                        Some(format!("{name} lists {} values, not {wanted}", array.len))
                    }
                    _ if !suits => is(&found, &format!("a list of {element}")),
                    None if list.is_bounded() && array.len > MAX_ELEMENTS => {
                        Some(format!("{name} lists {} values, more than {MAX_ELEMENTS}", array.len))
                    }
                    _ => None,
                }
            }
            other if other.kind() == element => None,
            _ => is(&found, &element.to_string()),
        }
    }

    /// The first tensor that is missing, has another shape or is not asked for.
    fn tensors(&self, sections: &[Section<'static>]) -> Option<String> {
        let mut asked = TensorsAsked::new(self.header, self.hparams);
        let mut lists_all = sections.len() > 1;
        let mut group = Group::default();
        for section in sections {
            for line in section.lines() {
                match line {
                    Line::Group(next) => group = next,
                    Line::Asked(line) => asked.ask(self, group, &line),
                    Line::More => lists_all = false,
                    _ => {}
                }
            }
        }
        asked.wrong(lists_all)
    }

    /// A number, or a flag as 0 or 1.
    fn number(&self, key: &str) -> Option<u64> {
        let value = self.value(key)?;
        value.as_u64().or_else(|| value.as_bool().map(u64::from))
    }

    /// A number of a block, 0 where there is none; none if its list is not read.
    fn of_block(&self, key: &str, il: usize) -> Option<u64> {
        match self.value(key) {
            None => Some(0),
            Some(Value::Array(list)) => {
                let numbers = list.elements.integers()?;
                Some(numbers.get(il).copied().unwrap_or(0).try_into().unwrap_or(0))
            }
            Some(value) => value.as_u64(),
        }
    }
}

/// The words of the table's expressions, as one block has them.
struct HeaderWords<'f> {
    file: &'f FileHeader<'f>,
    block: usize,
    /// Whether the block has a weight of this name.
    has: &'f dyn Fn(&str) -> Option<bool>,
}

impl Words for HeaderWords<'_> {
    fn of(&self, word: &str) -> Option<i64> {
        if let Some(name) = word.strip_prefix("has.") {
            return (self.has)(name).map(i64::from);
        }
        let hparams = self.file.hparams;
        let (word, il) = word.strip_suffix(".i").map_or((word, 0), |word| (word, self.block));
        if il >= hparams.n_layer_all {
            return None;
        }
        let flag = |list: &[bool]| list.get(il).map(|flag| u64::from(*flag));
        let number = match word {
            "embd" => hparams.n_embd,
            "vocab" => Some(hparams.n_vocab).filter(|tokens| *tokens > 0)?,
            "layers" => hparams.n_layer() as u64,
            "all" => self.file.number("block_count")?,
            "heads" => *hparams.n_head.get(il)?,
            "kv_heads" => *hparams.n_head_kv.get(il)?,
            "key" => hparams.head_k(il),
            "value" => hparams.head_v(il),
            "k_gqa" => hparams.k_gqa(il),
            "v_gqa" => hparams.v_gqa(il),
            "ff" => *hparams.n_ff.get(il)?,
            "rope" => hparams.n_rot[usize::from(hparams.is_swa[il])],
            "experts_used" => *hparams.n_expert_used.get(il)?,
            "expert_ff" => self.file.of_block("expert_feed_forward_length", il)?,
            "compress_ratio" => self.file.of_block("attention.compress_ratios", il)?,
            "recurrent" => flag(&hparams.is_recr)?,
            "slides" => flag(&hparams.is_swa)?,
            "indexer" => flag(&hparams.indexer.as_ref()?.is_full)?,
            "ngrams" => u64::from(hparams.ngrams.is_some_and(|table| table.block == il)),
            "mla" => u64::from(hparams.mla.is_some()),
            "key_mla" => hparams.mla.map_or_else(|| hparams.head_k(0), |(key, _)| key),
            "value_mla" => hparams.mla.map_or_else(|| hparams.head_v(0), |(_, value)| value),
            "embd_out" => self.file.number("embedding_length_out").filter(|size| *size > 0).unwrap_or(hparams.n_embd),
            "embd_inp" => hparams.n_embd_inp(),
            "longrope" => u64::from(self.file.value("rope.scaling.type").and_then(Value::as_str) == Some("longrope")),
            "novocab" => {
                let model = self.file.header.metadata.get("tokenizer.ggml.model").and_then(Value::as_str);
                u64::from(matches!(model, Some("none" | "no_vocab")))
            }
            "i" => self.block as u64,
            key => self.file.number(key).unwrap_or(0),
        };
        i64::try_from(number).ok()
    }
}

/// The tensors of a file, and which of them the loader asks for.
struct TensorsAsked<'f> {
    tensors: &'f [Tensor],
    /// By name without block, as the table has it: each with its block, the model-wide one first; of two alike, the last
    /// counts.
    by_name: HashMap<Cow<'f, str>, Vec<(Option<usize>, usize)>>,
    blocks: usize,
    /// The highest block that has a tensor.
    last: usize,
    /// Whether a file has the blocks of the graph at all: some hold MTP blocks alone.
    has_blocks: bool,
    state: Vec<TensorState>,
    missing: Option<String>,
}

/// What the loader makes of a tensor.
#[derive(Clone, Debug, Default)]
enum TensorState {
    #[default]
    NotAsked,
    /// It expects other dimensions.
    Shaped(Vec<u64>),
    Asked,
}

impl<'f> TensorsAsked<'f> {
    fn new(header: &'f Header, hparams: &Hparams) -> Self {
        let mut by_name: HashMap<Cow<'f, str>, Vec<(Option<usize>, usize)>> = HashMap::new();
        let mut last = 0;
        for (index, tensor) in header.tensors.iter().enumerate() {
            let (block, name) = named_as_listed(&tensor.name);
            last = last.max(block.unwrap_or(0));
            by_name.entry(name).or_default().push((block, index));
        }
        for alike in by_name.values_mut() {
            alike.sort_by_key(|(block, _)| *block);
        }
        let blocks = hparams.n_layer();
        let has_blocks = hparams.n_layer_nextn == 0
            || by_name.get("attn_norm.weight").is_some_and(|at| in_block(at, Some(0)).is_some());
        let state = vec![TensorState::default(); header.tensors.len()];
        Self { tensors: &header.tensors, by_name, blocks, last: last.min(1 << 12), has_blocks, state, missing: None }
    }

    /// Marks the tensors that a line of the table asks for.
    fn ask(&mut self, file: &FileHeader<'_>, group: Group<'_>, line: &Asked<'_>) {
        let by_block = group.condition.is_some_and(expression::depends_on_block);
        let all = file.hparams.n_layer_all;
        let blocks = match group.range {
            Range::Model if by_block => 0..all,
            Range::Model => 0..1,
            Range::Blocks => 0..self.blocks,
            Range::Mtp => self.blocks..all,
            Range::All => 0..all,
            Range::Some => 0..self.last + 1,
        };
        let shape_by_block = line.dimensions.iter().any(|text| expression::depends_on_block(text));
        // what is equal in all blocks is found out once
        let wanted_by_block = by_block || shape_by_block || line.depends_on_tensors();
        let (mut holds, mut shape, mut wanted) = (None, None, None);
        let in_blocks = group.range != Range::Model;
        for il in blocks {
            let at = in_blocks.then_some(il);
            let has = |name: &str| Some(self.index(&format!("{name}.weight"), at).is_some());
            let words = HeaderWords { file, block: il, has: &has };
            if by_block || holds.is_none() {
                holds = Some(
                    group
                        .condition
                        .map_or(Some(true), |condition| expression::value(condition, &words).map(|value| value != 0)),
                );
            }
            let condition = holds.flatten();
            if condition == Some(false) {
                continue;
            }
            if shape_by_block || shape.is_none() {
                shape = Some(line.dimensions.iter().map(|text| expression::number(text, &words)).collect::<Vec<_>>());
            }
            let dims = shape.as_deref().unwrap_or_default();
            let requires = condition == Some(true) && self.has_blocks && il < self.blocks && group.range != Range::Some;
            if wanted_by_block || wanted.is_none() {
                wanted = Some(line.tensors(dims, &|name| self.index(name, at).is_some()));
            }
            for wanted in wanted.iter().flatten() {
                self.want(&wanted.name, at, &wanted.dims, requires && wanted.required);
            }
        }
    }

    fn index(&self, name: &str, block: Option<usize>) -> Option<usize> {
        in_block(self.by_name.get(name)?, block)
    }

    fn want(&mut self, name: &str, block: Option<usize>, dims: &[Option<i64>], required: bool) {
        let Some(index) = self.index(name, block) else {
            if required && self.missing.is_none() {
                self.missing = Some(format!("the tensor {} is missing", full_name(name, block)));
            }
            return;
        };
        let tensor = &self.tensors[index];
        let dim = |at: usize| tensor.dims.get(at).copied().unwrap_or(1);
        // a dimension that is not known may be any; a shape that is not known at all has one of these
        let expected: [u64; 4] = std::array::from_fn(|at| match dims.get(at) {
            Some(known) => known.and_then(|known| u64::try_from(known).ok()).unwrap_or_else(|| dim(at)),
            None => 1,
        });
        let suits = dims == [None] || (0..4).all(|at| dim(at) == expected[at]);
        self.state[index] = match std::mem::take(&mut self.state[index]) {
            _ if suits => TensorState::Asked,
            TensorState::NotAsked => TensorState::Shaped(expected[..dims.len().clamp(1, 4)].to_vec()),
            before => before,
        };
    }

    /// What is wrong first, in the order of the file; `lists_all`: the table has all tensors of this architecture.
    fn wrong(self, lists_all: bool) -> Option<String> {
        let times = |dims: &[u64]| dims.iter().map(u64::to_string).collect::<Vec<_>>().join(" × ");
        let shaped = self.tensors.iter().zip(&self.state).find_map(|(tensor, state)| match state {
            TensorState::Shaped(wanted) => Some(format!(
                "the tensor {} is {}, and by the header's keys it must be {}",
                tensor.name,
                times(&tensor.dims),
                times(wanted)
            )),
            _ => None,
        });
        let not_asked = || {
            let of_none = |(_, state): &(&Tensor, &TensorState)| matches!(state, TensorState::NotAsked);
            let mut others = self.tensors.iter().zip(&self.state).filter(of_none);
            let (first, _) = others.next()?;
            Some(match others.count() {
                0 => format!("it does not ask for the tensor {}", first.name),
                more => format!("it does not ask for the tensor {} and {more} more", first.name),
            })
        };
        shaped.or(self.missing).or_else(|| not_asked().filter(|_| lists_all))
    }
}

/// Of tensors with their blocks, ascending, the last of this block.
fn in_block(alike: &[(Option<usize>, usize)], block: Option<usize>) -> Option<usize> {
    let end = alike.partition_point(|(at, _)| *at <= block);
    let (at, index) = *alike[..end].last()?;
    (at == block).then_some(index)
}

/// `blk.3.attn_q.weight` as 3 and `attn_q.weight`, `enc.blk.3.attn_q.weight` as 3 and `enc.*.attn_q.weight`.
fn named_as_listed(name: &str) -> (Option<usize>, Cow<'_, str>) {
    for side in ["enc", "dec"] {
        let rest = name.strip_prefix(side).and_then(|rest| rest.strip_prefix(".blk."));
        let parts = rest.and_then(|rest| rest.split_once('.'));
        if let Some((Ok(block), rest)) = parts.map(|(number, rest)| (number.parse(), rest)) {
            return (Some(block), format!("{side}.*.{rest}").into());
        }
    }
    if name.starts_with("blk.") { split_block(name) } else { (None, name.into()) }
}

/// The reverse of [`named_as_listed`].
fn full_name(name: &str, block: Option<usize>) -> String {
    match block {
        Some(block) if name.contains('*') => name.replacen('*', &format!("blk.{block}"), 1),
        Some(block) => format!("blk.{block}.{name}"),
        None => name.to_owned(),
    }
}
