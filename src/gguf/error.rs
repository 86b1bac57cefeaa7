//! Errors of the parser: what is wrong, where, and what to do.

use std::fmt;
use std::io;

use super::ggml_type::GgmlType;
use super::value::ElementType;
use crate::text;

/// Why a file is refused. `field` names the part of the header (`the value of key 'llama.block_count'`), `offset` is
/// its byte offset in the file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names say it")]
pub enum GgufError {
    #[error("the file is empty: its download failed or never started; download it again")]
    Empty,
    #[error("this is not a GGUF file but {what}; {advice}")]
    NotGguf { what: String, advice: &'static str },
    #[error("GGUF version {version} at byte 4 {advice}")]
    Version { version: u32, advice: &'static str },
    #[error(
        "the file ends inside {field}: {needed} bytes are needed from byte {offset}, but only {left} are left; \
         download the file again, its header is incomplete"
    )]
    Truncated { field: String, offset: u64, needed: u64, left: u64 },
    #[error("{field} at byte {offset} is {value}, more than the limit of {limit}: the header is damaged or forged")]
    Budget { field: String, offset: u64, value: u64, limit: u64 },
    #[error("{field} at byte {offset} exceeds 2^63: the header is damaged or forged")]
    Overflow { field: String, offset: u64 },
    #[error("{field} at byte {offset} is not UTF-8 text: the header is damaged; download the file again")]
    InvalidUtf8 { field: String, offset: u64 },
    #[error("{field} at byte {offset} is empty: the header is damaged; download the file again")]
    EmptyName { field: String, offset: u64 },
    #[error("{field} at byte {offset} occurs twice: convert the model again, llama.cpp rejects this file too")]
    Duplicate { field: String, offset: u64 },
    #[error("{field} at byte {offset} has type {number}, which GGUF does not define (0 to 12): the header is damaged")]
    ValueType { field: String, offset: u64, number: u32 },
    #[error("tensor '{}' at byte {offset} has data type {number}{}", QuotedName(.tensor), format_advice(*.number))]
    TensorType { tensor: String, offset: u64, number: u32 },
    #[error("tensor '{}' at byte {offset} has {dims} dimensions, but ggml supports at most four: the header is damaged", QuotedName(.tensor))]
    Dims { tensor: String, offset: u64, dims: u32 },
    #[error(
        "tensor '{}' at byte {offset} has rows of {row} elements, not a multiple of the block size {} of {ty}: the \
         header is damaged",
        QuotedName(.tensor),
        .ty.block()
    )]
    Row { tensor: String, offset: u64, row: u64, ty: GgmlType },
    #[error("tensor '{}' at byte {offset} has data at {start}, not a multiple of the alignment {alignment}: the header is damaged", QuotedName(.tensor))]
    Unaligned { tensor: String, offset: u64, start: u64, alignment: u64 },
    #[error(
        "key 'general.alignment' at byte {offset} must be a u32 power of two but is {found}: convert the model again"
    )]
    Alignment { offset: u64, found: String },
    #[error("{field} must be a non-negative number but is {found}: the file was split incorrectly; split it again")]
    SplitKey { field: String, found: String },
    #[error("{0}")]
    Split(String),
    #[error("reading at byte {offset} failed: {error}")]
    Read { offset: u64, error: io::Error },
    #[error("stopped by the user")]
    Cancelled,
}

fn format_advice(number: u32) -> String {
    match GgmlType::removed(number) {
        Some(was) => format!(", formerly {was}: download or convert the model again"),
        None => ", which this version does not know: update plimsoll, or download the file again if it may be damaged"
            .into(),
    }
}

/// A part of a header; displayed in error messages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field<'a> {
    Version,
    TensorCount,
    KeyCount,
    /// The descriptions of all tensors, with their number.
    Tensors(u64),
    /// All keys and values, with their number.
    Keys(u64),
    /// The key with this index.
    Key(u64),
    KeyLength(u64),
    ValueType(&'a str),
    Value(&'a str),
    ArrayLength(&'a str),
    ArrayType(&'a str),
    ArrayDepth(&'a str),
    StringLength(&'a str),
    /// The name of the tensor with this index.
    TensorName(u64),
    TensorNameLength(u64),
    DimCount(&'a str),
    Dim(&'a str, u32),
    Elements(&'a str),
    TensorType(&'a str),
    TensorOffset(&'a str),
    Kept,
    Steps,
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Version => write!(f, "the version"),
            Self::TensorCount => write!(f, "the number of tensors"),
            Self::KeyCount => write!(f, "the number of metadata keys"),
            Self::Tensors(count) => write!(f, "the descriptions of its {count} tensors"),
            Self::Keys(count) => write!(f, "its {count} metadata keys"),
            Self::KeyLength(index) => write!(f, "the length of metadata key {index}"),
            Self::Key(index) => write!(f, "metadata key {index}"),
            Self::ValueType(key) | Self::Value(key) => write!(f, "the value of key '{}'", QuotedName(key)),
            Self::ArrayLength(key) => write!(f, "the array length of key '{}'", QuotedName(key)),
            Self::ArrayType(key) => write!(f, "the array of key '{}'", QuotedName(key)),
            Self::ArrayDepth(key) => write!(f, "the nesting depth of arrays of key '{}'", QuotedName(key)),
            Self::StringLength(key) => write!(f, "a string's length in key '{}'", QuotedName(key)),
            Self::TensorName(index) => write!(f, "the name of tensor {index}"),
            Self::TensorNameLength(index) => write!(f, "the length of the name of tensor {index}"),
            Self::DimCount(tensor) => write!(f, "the number of dimensions of tensor '{}'", QuotedName(tensor)),
            Self::Dim(tensor, index) => write!(f, "dimension {index} of tensor '{}'", QuotedName(tensor)),
            Self::Elements(tensor) => write!(f, "the size of tensor '{}'", QuotedName(tensor)),
            Self::TensorType(tensor) => write!(f, "the data type of tensor '{}'", QuotedName(tensor)),
            Self::TensorOffset(tensor) => write!(f, "the data offset of tensor '{}'", QuotedName(tensor)),
            Self::Steps => write!(f, "the number of strings and arrays within arrays of the header"),
            Self::Kept => write!(f, "the total size of the header's values"),
        }
    }
}

/// An untrusted name for messages: as [`text::quoted`], truncated to 96 characters.
pub(super) struct QuotedName<'a>(pub &'a str);

impl fmt::Display for QuotedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_CHARS: usize = 96;
        let end = self.0.char_indices().nth(MAX_CHARS).map(|(at, _)| at);
        f.write_str(&text::quoted(self.0.get(..end.unwrap_or(self.0.len())).unwrap_or(self.0)))?;
        if end.is_some() { write!(f, "…") } else { Ok(()) }
    }
}

impl GgufError {
    /// The error of a source at `offset`.
    pub(super) fn reading(offset: u64, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::Interrupted => Self::Cancelled,
            _ => Self::Read { offset, error },
        }
    }

    pub(super) fn value_type(field: Field<'_>, offset: u64, number: u32) -> Self {
        Self::ValueType { field: field.to_string(), offset, number }
    }

    pub(super) fn alignment(offset: u64, kind: ElementType, value: Option<u64>) -> Self {
        let found = match value {
            Some(value) => format!("the {kind} {value}"),
            None => format!("of type {kind}"),
        };
        Self::Alignment { offset, found }
    }
}
