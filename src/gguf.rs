//! Parses untrusted GGUF bytes into a [`Header`]: metadata and tensor descriptions, never weights.
//!
//! [`read()`] makes one pass over a [`ByteSource`] and checks every number against the remaining bytes and against
//! [`HeaderLimits`] before using it. [`read::join`] merges the headers of the shards of a split file. [`write::write`]
//! writes headers.

mod error;
mod foreign;
mod fork_type;
mod ggml_type;
pub mod read;
mod source;
mod value;
pub mod write;

use std::borrow::Cow;

use crate::text;
use crate::units::Bytes;

pub use error::GgufError;
pub use foreign::check;
pub use fork_type::ForkType;
pub use ggml_type::GgmlType;
pub use ggml_type::{FileType, NotAFileType, file_type_name};
pub use read::read;
pub use source::Endian;
pub use source::HeaderLimits;
pub use source::{ByteSource, HeaderOnly};
pub use value::{Array, ElementType, Elements, Value};

/// The part of a GGUF file before the tensor data; for a split file, of all shards together.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// 2 or 3.
    pub version: u32,
    /// Byte order of its numbers; files are written for the computers that read them.
    pub endian: Endian,
    /// Keys and values in file order.
    pub metadata: Metadata,
    /// Tensors in file order; shards one after the other.
    pub tensors: Vec<Tensor>,
    /// Byte offset of the tensor data in the first shard.
    pub data_start: u64,
    /// The first tensor that does not begin where the one before ends, as part of a sentence; llama.cpp refuses such
    /// files.
    pub misplaced: Option<String>,
    /// Oddities that do not prevent reading, one sentence each.
    pub notes: Vec<String>,
}

impl Header {
    /// Bytes to whose multiples the data of every tensor is padded.
    pub fn alignment(&self) -> u64 {
        let alignment = self.metadata.get("general.alignment").and_then(Value::as_u64);
        alignment.unwrap_or(read::DEFAULT_ALIGNMENT).max(1)
    }

    /// The same with every name and string on one line, as [`text::one_line`]: for all that is shown.
    #[must_use]
    pub fn printable(mut self) -> Self {
        let clean = |text: &mut Box<str>| {
            if let Cow::Owned(cleaned) = text::one_line(text) {
                *text = cleaned.into();
            }
        };
        for (key, value) in &mut self.metadata.entries {
            clean(key);
            if let Value::String(text) = value {
                clean(text);
            }
        }
        self.tensors.iter_mut().for_each(|tensor| clean(&mut tensor.name));
        self
    }

    /// Size of the whole file: the header, and the tensors with their padding.
    pub fn file_bytes(&self) -> Bytes {
        let alignment = self.alignment();
        let padded = |bytes: Bytes| bytes.0.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        let tensors = self.tensors.iter().map(|tensor| padded(tensor.bytes));
        Bytes(tensors.fold(self.data_start, u64::saturating_add))
    }
}

/// Keys and values in file order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    entries: Vec<(Box<str>, Value)>,
}

impl Metadata {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(name, _)| &**name == key).map(|(_, value)| value)
    }

    /// The value of `key`, to be changed.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.entries.iter_mut().find(|(name, _)| &**name == key).map(|(_, value)| value)
    }

    /// Sets `key`, behind all others if it is new.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        match self.get_mut(key) {
            Some(known) => *known = value,
            None => self.entries.push((key.into(), value)),
        }
    }

    /// Keys and values in file order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (&**key, value))
    }

    /// Removes the keys that begin with `prefix`.
    fn without(mut self, prefix: &str) -> Self {
        self.entries.retain(|(key, _)| !key.starts_with(prefix));
        self
    }
}

impl FromIterator<(Box<str>, Value)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (Box<str>, Value)>>(entries: I) -> Self {
        Self { entries: entries.into_iter().collect() }
    }
}

/// A tensor's description.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// `blk.0.attn_q.weight`
    pub name: Box<str>,
    /// Elements per dimension, fastest first; at most four.
    pub dims: Vec<u64>,
    /// Data type.
    pub ty: GgmlType,
    /// Size of its data.
    pub bytes: Bytes,
    /// Whether it is MXFP4 with type number 4, as Ollama wrote it before ggml assigned 39.
    pub old_mxfp4: bool,
}

impl Tensor {
    /// Its elements, or the largest number where there are more.
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(1, |product, &dim| product.saturating_mul(dim))
    }
}
