//! Untrusted bytes become a [`Header`]: metadata and tensor descriptions, never weights.
//!
//! [`read`] walks once through a [`ByteSource`] of bytes, whatever that is, and checks every number that it finds against
//! what is left and against [`HeaderLimits`] before it acts on it. [`split::join`] makes one header of the shards of a split
//! file. [`write::write`] goes the other way.

mod cursor;
mod error;
mod file_type;
mod foreign;
mod ggml_type;
mod limits;
mod read;
mod source;
pub mod split;
mod value;
pub mod write;

use crate::units::Bytes;

pub use cursor::Endian;
pub use error::GgufError;
pub use file_type::{FileType, NotAFileType, file_type_name};
pub use foreign::check;
pub use ggml_type::GgmlType;
pub use limits::HeaderLimits;
pub use read::read;
pub use source::{ByteSource, HeaderOnly};
pub use value::{Array, ElementType, Elements, Value};

/// What a GGUF file says of itself before its weights begin. For a split file, all shards together.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// 2 or 3.
    pub version: u32,
    /// Keys and values in file order.
    pub metadata: Metadata,
    /// Tensors in file order; shards one after the other.
    pub tensors: Vec<Tensor>,
    /// Byte offset at which the tensors' data begin, in the first shard.
    pub data_start: u64,
    /// What is odd but no obstacle, one sentence each.
    pub notes: Vec<String>,
}

impl Header {
    /// Bytes of the whole file: what stands before the tensors' data, and each of them up to the next boundary.
    pub fn file_bytes(&self) -> Bytes {
        let alignment = self.metadata.get("general.alignment").and_then(Value::as_u64);
        let alignment = alignment.unwrap_or(read::DEFAULT_ALIGNMENT).max(1);
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

    /// Keys and values in file order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (&**key, value))
    }

    /// All but the keys that begin with `prefix`.
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
    /// Number format.
    pub ty: GgmlType,
    /// Bytes of its data.
    pub bytes: Bytes,
    /// It is MXFP4 under number 4, as Ollama wrote it before ggml gave the format number 39.
    pub old_mxfp4: bool,
}
