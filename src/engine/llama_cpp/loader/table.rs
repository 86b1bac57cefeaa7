//! The table of what llama.cpp's loader asks for, read line by line.

use crate::gguf::ElementType;
use crate::model::expression::{self, Words};

const TABLE: &str = include_str!("../../../../assets/llama-cpp-loader.txt");

/// What architectures ask for.
#[derive(Clone, Copy, Debug)]
pub struct Section<'t> {
    text: &'t str,
}

impl Section<'static> {
    /// What is asked of every file.
    pub fn of_all() -> Option<Self> {
        Self::of("*")
    }

    /// What this architecture asks for; none if that is not known.
    pub fn of(architecture: &str) -> Option<Self> {
        let mut rest = TABLE;
        while let Some(begin) = rest.find("\n[") {
            let (names, after) = rest[begin + 2..].split_once("]\n")?;
            let end = after.find("\n[").unwrap_or(after.len());
            if names.split_whitespace().any(|name| name == architecture) {
                return Some(Self { text: &after[..end] });
            }
            rest = &after[end..];
        }
        None
    }

    /// Its lines, in order.
    pub fn lines(self) -> impl Iterator<Item = Line<'static>> {
        self.text.lines().filter_map(Line::read)
    }
}

/// A line.
#[derive(Clone, Debug)]
pub enum Line<'t> {
    /// Keys that must be of a type.
    Keys {
        /// The type.
        ty: KeyType<'t>,
        /// Their names.
        keys: &'t str,
        /// When they are read.
        condition: Option<&'t str>,
    },
    /// Keys that must not be 0.
    Positive(&'t str),
    /// Words that must be equal.
    Same(&'t str),
    /// Begins tensors.
    Group(Group<'t>),
    /// Tensors of one shape.
    Asked(Asked<'t>),
    /// Other tensors are asked for too.
    More,
}

impl<'t> Line<'t> {
    fn read(line: &'t str) -> Option<Self> {
        let (text, condition) = match line.split_once(" if ") {
            Some((text, condition)) => (text, Some(condition.trim())),
            None => (line, None),
        };
        if let Some(asked) = text.strip_prefix("  ") {
            let (dimensions, names) = asked.split_once(": ")?;
            return Some(Self::Asked(Asked { dimensions: dimensions.split_whitespace().collect(), names }));
        }
        let range = match text.trim() {
            "" => return None,
            "more" => return Some(Self::More),
            "model" => Some(Range::Model),
            "blocks" => Some(Range::Blocks),
            "mtp" => Some(Range::Mtp),
            "all" => Some(Range::All),
            "some" => Some(Range::Some),
            _ => None,
        };
        if let Some(range) = range {
            return Some(Self::Group(Group { range, condition }));
        }
        let (kind, keys) = text.split_once(": ")?;
        Some(match kind {
            "positive" => Self::Positive(keys),
            "same" => Self::Same(keys),
            _ => Self::Keys { ty: KeyType::read(kind)?, keys, condition },
        })
    }
}

/// The names of a line, and whether each must be there.
pub fn names(text: &str) -> impl Iterator<Item = (&str, bool)> {
    text.split_whitespace().map(|name| name.strip_suffix('?').map_or((name, true), |name| (name, false)))
}

/// The key that a word of `same` stands for.
pub fn key_of(word: &str) -> &str {
    match word {
        "rope" => "rope.dimension_count",
        "key" => "attention.key_length",
        "value" => "attention.value_length",
        other => other,
    }
}

/// The type of a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyType<'t> {
    /// Of a value, or of each element.
    pub element: ElementType,
    /// Whether it may be a list.
    pub list: ListType<'t>,
}

/// Which lists a key may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType<'t> {
    /// One value.
    None,
    /// One value, or a list of this length.
    Of(&'t str),
    /// One value, or a list.
    Or,
    /// A list into an array of fixed size.
    Array,
    /// A list of any length; of no flags.
    Vector,
    /// A list of exactly this type.
    Exact,
    /// A list of anything.
    Any,
}

impl<'t> KeyType<'t> {
    fn read(text: &'t str) -> Option<Self> {
        if text == "list" {
            return Some(Self { element: ElementType::U32, list: ListType::Any });
        }
        let (element, list) = text.split_once('[').map_or((text, None), |(element, list)| (element, Some(list)));
        let name = if element == "str" { "string" } else { element };
        let element = ElementType::ALL.into_iter().find(|ty| ty.to_string() == name)?;
        let list = match list {
            None => ListType::None,
            Some("]") => ListType::Array,
            Some("]v") => ListType::Vector,
            Some("]=") => ListType::Exact,
            Some("*]") => ListType::Or,
            Some(length) => ListType::Of(length.strip_suffix(']')?),
        };
        Some(Self { element, list })
    }
}

impl ListType<'_> {
    /// One value is no list.
    pub const fn is_only_list(self) -> bool {
        matches!(self, Self::Array | Self::Vector | Self::Exact | Self::Any)
    }

    /// Refused even where it may be missing.
    pub const fn is_checked(self) -> bool {
        matches!(self, Self::Exact | Self::Any)
    }

    /// Whatever it lists.
    pub const fn is_any(self) -> bool {
        matches!(self, Self::Any)
    }

    /// Whether a list is taken.
    pub const fn may_be_list(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether its length is limited.
    pub const fn is_bounded(self) -> bool {
        matches!(self, Self::Array | Self::Or)
    }

    /// The length that it must have.
    pub fn expected(self, words: &dyn Words) -> Option<u64> {
        let Self::Of(length) = self else { return None };
        u64::try_from(expression::number(length, words)?).ok()
    }

    /// Whether elements of type `found` are taken where `wanted` are: signed and unsigned ones are alike, and flags too
    /// where the array has a fixed size (`get_arr` in `llama-model-loader.cpp`, 0.1.161).
    pub fn takes(self, wanted: ElementType, found: ElementType) -> bool {
        let four = |ty| matches!(ty, ElementType::U32 | ElementType::I32);
        let flags = found == ElementType::Bool && !matches!(self, Self::Vector | Self::Exact);
        wanted == found || self != Self::Exact && four(wanted) && (four(found) || flags)
    }
}

/// Whose tensors follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Group<'t> {
    /// Of which blocks.
    pub range: Range,
    /// When they are asked for.
    pub condition: Option<&'t str>,
}

/// Of which blocks tensors are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Range {
    /// Of none: the model's own.
    #[default]
    Model,
    /// Of every block of the graph.
    Blocks,
    /// Of every MTP block.
    Mtp,
    /// Of both.
    All,
    /// Of blocks that are not told here.
    Some,
}

/// Tensors of one shape.
#[derive(Clone, Debug)]
pub struct Asked<'t> {
    /// Expressions.
    pub dimensions: Vec<&'t str>,
    names: &'t str,
}

/// A tensor that is asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Without block.
    pub name: String,
    /// Its dimensions; none where one is not known.
    pub dims: Vec<Option<i64>>,
    /// Whether it must be there.
    pub required: bool,
}

impl Asked<'_> {
    /// Whether which tensors are asked for depends on those that a block has.
    pub fn depends_on_tensors(&self) -> bool {
        self.names.contains('+')
    }

    /// The tensors of the line with these dimensions; `has`: which of them a file has.
    pub fn tensors(&self, dims: &[Option<i64>], has: &dyn Fn(&str) -> bool) -> Vec<Wanted> {
        let mut all = Vec::new();
        for (name, required) in names(self.names) {
            match name {
                "+qkv" => all.extend(qkv(dims, required, has)),
                "+gate_up_exps" => all.extend(gate_up(dims, required, has)),
                name => {
                    let name = match name.strip_suffix('.') {
                        Some(bare) => bare.to_owned(),
                        None if has_ending(name) => name.to_owned(),
                        None => format!("{name}.weight"),
                    };
                    all.push(Wanted { name, dims: dims.to_vec(), required });
                }
            }
        }
        all
    }
}

fn has_ending(name: &str) -> bool {
    [".bias", ".scale", ".input_scale", ".lora_a", ".lora_b"].iter().any(|ending| name.ends_with(ending))
}

/// `create_tensor_qkv` in `llama-model.cpp`, 0.1.161.
fn qkv(dims: &[Option<i64>], required: bool, has: &dyn Fn(&str) -> bool) -> Vec<Wanted> {
    let [embd, rows @ ..] = dims else { return Vec::new() };
    let [q, k, v] = rows else { return Vec::new() };
    let fused = q.zip(*k).zip(*v).and_then(|((q, k), v)| q.checked_add(k)?.checked_add(v));
    let of = |name: &str, dims: &[Option<i64>], required| Wanted {
        name: format!("attn_{name}"),
        dims: dims.to_vec(),
        required,
    };
    let biases = [of("q.bias", &[*q], false), of("k.bias", &[*k], false), of("v.bias", &[*v], false)];
    if has("attn_qkv.weight") {
        let mut all = vec![of("qkv.weight", &[*embd, fused], false), of("qkv.bias", &[fused], false)];
        if !has("attn_qkv.bias") {
            all.extend(biases);
        }
        return all;
    }
    let weights = [("q.weight", q), ("k.weight", k), ("v.weight", v)];
    weights.map(|(name, rows)| of(name, &[*embd, *rows], required)).into_iter().chain(biases).collect()
}

/// `create_tensor_gate_up_exps` in `llama-model.cpp`, 0.1.161.
fn gate_up(dims: &[Option<i64>], required: bool, has: &dyn Fn(&str) -> bool) -> Vec<Wanted> {
    let [embd, ff, experts] = dims else { return Vec::new() };
    let of = |name: &str, ff, required| Wanted {
        name: format!("ffn_{name}_exps.weight"),
        dims: vec![*embd, ff, *experts],
        required,
    };
    if has("ffn_gate_up_exps.weight") {
        return vec![of("gate_up", ff.and_then(|ff| ff.checked_mul(2)), false)];
    }
    vec![of("gate", *ff, required), of("up", *ff, required)]
}
