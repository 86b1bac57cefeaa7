//! Metadata values.

use std::ops::Range;

use crate::named::named;

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Value {
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
    String(Box<str>),
    /// A string too long to keep: the byte range of its text in the file.
    LongString(Range<u64>),
    Array(Array),
}

impl Value {
    /// The value of a non-negative integer of any type.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::U64(n) => Some(n),
            _ => self.as_i64().and_then(|n| u64::try_from(n).ok()),
        }
    }

    /// The value of an integer of any type, if it fits.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::U8(n) => Some(n.into()),
            Self::I8(n) => Some(n.into()),
            Self::U16(n) => Some(n.into()),
            Self::I16(n) => Some(n.into()),
            Self::U32(n) => Some(n.into()),
            Self::I32(n) => Some(n.into()),
            Self::I64(n) => Some(n),
            Self::U64(n) => i64::try_from(n).ok(),
            _ => None,
        }
    }

    /// The value of a floating-point number of either type.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::F32(x) => Some(x.into()),
            Self::F64(x) => Some(x),
            _ => None,
        }
    }

    /// The value of a bool.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(flag) = *self { Some(flag) } else { None }
    }

    /// A string that was kept.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// An array.
    pub fn as_array(&self) -> Option<&Array> {
        if let Self::Array(array) = self { Some(array) } else { None }
    }

    /// Its type in the file.
    pub fn kind(&self) -> ElementType {
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
            Self::String(_) | Self::LongString(_) => ElementType::String,
            Self::Array(_) => ElementType::Array,
        }
    }
}

/// An array; its elements are only kept if they are numbers or flags that a plan may need.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Number of elements.
    pub len: u64,
    /// Byte range of the elements in the file.
    pub range: Range<u64>,
    /// The elements, or only their type.
    pub elements: Elements,
}

/// Elements of an array.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Elements {
    U32(Vec<u32>),
    I32(Vec<i32>),
    Bool(Vec<bool>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    /// Integers of another size, which converters write although llama.cpp takes none.
    Integers(ElementType, Vec<i64>),
    /// Not kept.
    Unread(ElementType),
}

impl Elements {
    /// Their type in the file.
    pub const fn kind(&self) -> ElementType {
        match self {
            Self::U32(_) => ElementType::U32,
            Self::I32(_) => ElementType::I32,
            Self::Bool(_) => ElementType::Bool,
            Self::F32(_) => ElementType::F32,
            Self::F64(_) => ElementType::F64,
            Self::Integers(kind, _) | Self::Unread(kind) => *kind,
        }
    }

    /// Integers of any type, and flags as 0 and 1.
    pub fn integers(&self) -> Option<Vec<i64>> {
        Some(match self {
            Self::U32(list) => list.iter().map(|number| i64::from(*number)).collect(),
            Self::I32(list) => list.iter().map(|number| i64::from(*number)).collect(),
            Self::Bool(list) => list.iter().map(|flag| i64::from(*flag)).collect(),
            Self::Integers(_, list) => list.clone(),
            Self::F32(_) | Self::F64(_) | Self::Unread(_) => return None,
        })
    }

    /// Floating-point numbers of either type.
    pub fn floats(&self) -> Option<Vec<f64>> {
        Some(match self {
            Self::F32(list) => list.iter().map(|number| f64::from(*number)).collect(),
            Self::F64(list) => list.clone(),
            _ => return None,
        })
    }
}

named! {
    /// Type of a metadata value or of an array's elements, in the order of their numbers: `enum gguf_type` in
    /// ggml/include/gguf.h (llama-cpp-sys-2 0.1.161).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs, reason = "the names say it")]
    pub enum ElementType {
        U8 = "u8",
        I8 = "i8",
        U16 = "u16",
        I16 = "i16",
        U32 = "u32",
        I32 = "i32",
        F32 = "f32",
        Bool = "bool",
        String = "string",
        Array = "array",
        U64 = "u64",
        I64 = "i64",
        F64 = "f64",
    }
}

impl ElementType {
    /// The type with this number in a file.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// Its number in a file.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// Bytes of one value; none if they depend on the value.
    pub const fn width(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }

    /// Minimum bytes of one value: a string begins with its length, an array also with its elements' type.
    pub const fn least_width(self) -> u64 {
        match (self, self.width()) {
            (_, Some(width)) => width,
            (Self::Array, None) => 12,
            (_, None) => 8,
        }
    }
}
