//! Writes GGUF headers from a description.

use super::error::GgufError;
use super::ggml_type::GgmlType;
use super::read::{DEFAULT_ALIGNMENT, read};
use super::source::{Endian, HeaderLimits, HeaderOnly};
use super::value::{Array, ElementType, Elements, Value};
use super::{Header, Tensor};

/// A header to be written.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct HeaderSpec {
    /// Keys and values in order.
    pub metadata: Vec<(String, ValueSpec)>,
    /// Name, data type and elements per dimension of each tensor; their data are contiguous.
    pub tensors: Vec<(String, GgmlType, Vec<u64>)>,
}

/// The key of the tokens.
const TOKENS: &str = "tokenizer.ggml.tokens";

/// Bytes of a token without text, which is only its length.
const EMPTY_TOKEN: u64 = 8;

/// So many such tokens move what follows them by a multiple of what tensors are padded to.
const TOKENS_APART: u64 = 32 / EMPTY_TOKEN;

impl HeaderSpec {
    /// That of a header that was read, with tokens and other strings of arrays as empty ones; arrays of numbers that were not kept
    /// are left out, and so are strings that are too long.
    pub fn of(header: &Header) -> Self {
        let metadata = header.metadata.iter().filter_map(|(key, value)| Some((key.to_owned(), ValueSpec::of(value)?)));
        let tensor = |tensor: &Tensor| (tensor.name.to_string(), tensor.ty, tensor.dims.clone());
        Self { metadata: metadata.collect(), tensors: header.tensors.iter().map(tensor).collect() }
    }

    /// The header with so many tokens without text as its last key, of which none but those that padding depends on are
    /// written and read.
    ///
    /// # Errors
    /// If the description contradicts itself.
    pub fn with_tokens(mut self, tokens: u64) -> Result<Header, GgufError> {
        let few = tokens % TOKENS_APART;
        self.metadata.push((TOKENS.to_owned(), ValueSpec::EmptyStrings(few)));
        let bytes = write(&self, Encoding::default());
        let mut header = read(&mut HeaderOnly(&bytes), &HeaderLimits::default())?;
        let further = (tokens - few) * EMPTY_TOKEN;
        if let Some(Value::Array(array)) = header.metadata.get_mut(TOKENS) {
            array.len = tokens;
            array.range.end += further;
        }
        header.data_start += further;
        Ok(header)
    }
}

/// A metadata value to be written.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ValueSpec {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(String),
    /// Values of one type, which is stated because the array may be empty.
    Array(ElementType, Vec<ValueSpec>),
    /// This many empty strings: placeholder tokens of which only the number matters.
    EmptyStrings(u64),
}

/// Version and byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// 2 or 3, which have the same layout.
    pub version: u32,
    /// Byte order.
    pub endian: Endian,
}

impl Default for Encoding {
    fn default() -> Self {
        Self { version: 3, endian: Endian::Little }
    }
}

/// Writes `header` up to the start of the tensor data. Array values are written without checking their type.
pub fn write(header: &HeaderSpec, encoding: Encoding) -> Vec<u8> {
    let mut out = Writer { bytes: b"GGUF".to_vec(), endian: encoding.endian };
    out.u32(encoding.version);
    out.u64(header.tensors.len() as u64);
    out.u64(header.metadata.len() as u64);
    let mut alignment = DEFAULT_ALIGNMENT;
    for (key, value) in &header.metadata {
        out.string(key);
        out.u32(value.kind().id());
        out.value(value);
        if let ("general.alignment", ValueSpec::U32(bytes @ 1..)) = (key.as_str(), value) {
            alignment = u64::from(*bytes);
        }
    }
    let mut offset: u64 = 0;
    for (name, ty, dims) in &header.tensors {
        out.string(name);
        out.u32(dims.len() as u32);
        for dim in dims {
            out.u64(*dim);
        }
        out.u32(ty.id());
        out.u64(offset);
        let elements = dims.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim));
        let end = offset.saturating_add(ty.bytes(elements).unwrap_or(u64::MAX));
        offset = end.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
    }
    let padded = (out.bytes.len() as u64).next_multiple_of(alignment);
    out.bytes.resize(padded as usize, 0);
    out.bytes
}

impl ValueSpec {
    /// That of a value that was read; none where it was not kept.
    fn of(value: &Value) -> Option<Self> {
        fn array<T: Copy>(kind: ElementType, elements: &[T], spec: impl Fn(T) -> ValueSpec) -> ValueSpec {
            ValueSpec::Array(kind, elements.iter().map(|&element| spec(element)).collect())
        }
        Some(match value {
            Value::U8(n) => Self::U8(*n),
            Value::I8(n) => Self::I8(*n),
            Value::U16(n) => Self::U16(*n),
            Value::I16(n) => Self::I16(*n),
            Value::U32(n) => Self::U32(*n),
            Value::I32(n) => Self::I32(*n),
            Value::U64(n) => Self::U64(*n),
            Value::I64(n) => Self::I64(*n),
            Value::F32(x) => Self::F32(*x),
            Value::F64(x) => Self::F64(*x),
            Value::Bool(flag) => Self::Bool(*flag),
            Value::String(text) => Self::String(text.to_string()),
            Value::LongString(_) => return None,
            Value::Array(Array { len, elements, .. }) => match elements {
                Elements::U32(list) => array(ElementType::U32, list, Self::U32),
                Elements::I32(list) => array(ElementType::I32, list, Self::I32),
                Elements::Bool(list) => array(ElementType::Bool, list, Self::Bool),
                Elements::F32(list) => array(ElementType::F32, list, Self::F32),
                Elements::F64(list) => array(ElementType::F64, list, Self::F64),
                Elements::Integers(_, list) => array(ElementType::I64, list, Self::I64),
                Elements::Unread(ElementType::String) => Self::EmptyStrings(*len),
                Elements::Unread(_) => return None,
            },
        })
    }

    fn kind(&self) -> ElementType {
        match self {
            Self::U8(_) => ElementType::U8,
            Self::I8(_) => ElementType::I8,
            Self::U16(_) => ElementType::U16,
            Self::I16(_) => ElementType::I16,
            Self::U32(_) => ElementType::U32,
            Self::I32(_) => ElementType::I32,
            Self::U64(_) => ElementType::U64,
            Self::I64(_) => ElementType::I64,
            Self::F32(_) => ElementType::F32,
            Self::F64(_) => ElementType::F64,
            Self::Bool(_) => ElementType::Bool,
            Self::String(_) => ElementType::String,
            Self::Array(..) | Self::EmptyStrings(_) => ElementType::Array,
        }
    }
}

struct Writer {
    bytes: Vec<u8>,
    endian: Endian,
}

impl Writer {
    fn put<const N: usize>(&mut self, mut little: [u8; N]) {
        if self.endian == Endian::Big {
            little.reverse();
        }
        self.bytes.extend(little);
    }

    fn u32(&mut self, n: u32) {
        self.put(n.to_le_bytes());
    }

    fn u64(&mut self, n: u64) {
        self.put(n.to_le_bytes());
    }

    fn string(&mut self, text: &str) {
        self.u64(text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    fn value(&mut self, value: &ValueSpec) {
        match value {
            ValueSpec::U8(n) => self.put([*n]),
            ValueSpec::I8(n) => self.put(n.to_le_bytes()),
            ValueSpec::U16(n) => self.put(n.to_le_bytes()),
            ValueSpec::I16(n) => self.put(n.to_le_bytes()),
            ValueSpec::U32(n) => self.u32(*n),
            ValueSpec::I32(n) => self.put(n.to_le_bytes()),
            ValueSpec::U64(n) => self.u64(*n),
            ValueSpec::I64(n) => self.put(n.to_le_bytes()),
            ValueSpec::F32(x) => self.put(x.to_le_bytes()),
            ValueSpec::F64(x) => self.put(x.to_le_bytes()),
            ValueSpec::Bool(flag) => self.put([u8::from(*flag)]),
            ValueSpec::String(text) => self.string(text),
            ValueSpec::Array(kind, values) => {
                self.u32(kind.id());
                self.u64(values.len() as u64);
                for value in values {
                    self.value(value);
                }
            }
            ValueSpec::EmptyStrings(count) => {
                self.u32(ElementType::String.id());
                self.u64(*count);
                // each is only its length, zero in either byte order
                self.bytes.resize(self.bytes.len() + 8 * *count as usize, 0);
            }
        }
    }
}
