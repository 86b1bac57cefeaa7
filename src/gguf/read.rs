//! The parser: one pass over magic, counts, metadata and tensor descriptions; and shards joined.

use std::collections::HashSet;

use super::error::{Field, GgufError, QuotedName};
use super::ggml_type::GgmlType;
use super::source::{ByteSource, Cursor, Endian, HeaderLimits};
use super::value::{Array, ElementType, Elements, Value};
use super::{Header, Metadata, Tensor, foreign};
use crate::units::Bytes;

/// `GGUF_DEFAULT_ALIGNMENT` in ggml/include/gguf.h (llama-cpp-sys-2 0.1.161).
pub(super) const DEFAULT_ALIGNMENT: u64 = 32;
/// `GGML_MAX_DIMS` in ggml/include/ggml.h (same version).
const MAX_DIMS: u32 = 4;
/// Ollama's number for mxfp4, before ggml assigned 39: `fs/ggml/type.go`, Ollama 0.11.
const OLD_MXFP4: u32 = 4;
/// Typical bytes of a tensor description: a name such as `blk.0.attn_norm.weight`, one dimension, type and offset.
const TENSOR_BYTES: u64 = 54;

/// Reads the header at the beginning of `source`.
///
/// # Errors
/// If the bytes are not a valid GGUF header, exceed `limits`, or cannot be read.
pub fn read(source: &mut dyn ByteSource, limits: &HeaderLimits) -> Result<Header, GgufError> {
    foreign::check(source)?;
    let mut reader = Reader { cursor: Cursor::new(source, limits), limits, notes: Vec::new(), follow: 0 };
    let version = reader.version()?;
    let offset = reader.cursor.at();
    let tensor_count = reader.count(Field::TensorCount, limits.tensors)?;
    let key_count = reader.count(Field::KeyCount, limits.keys)?;
    // minimum bytes: name length, dimension count, type and offset; key length, one letter, type and value
    reader.cursor.need_each(Field::Tensors(tensor_count), tensor_count, 24)?;
    reader.cursor.need_each(Field::Keys(key_count), key_count, 14)?;
    reader.follow = tensor_count.saturating_mul(TENSOR_BYTES);
    reader.cursor.follow = reader.follow;
    let (metadata, alignment) = reader.metadata(key_count)?;
    reader.cursor.expect(0);
    let tensors = reader.tensors(tensor_count, alignment, &metadata)?;
    let data_start = reader
        .cursor
        .at()
        .checked_next_multiple_of(alignment)
        .ok_or_else(|| GgufError::Overflow { field: Field::TensorCount.to_string(), offset })?;
    reader.note_missing_data(data_start, &tensors)?;
    let misplaced = misplaced(&tensors, alignment);
    let tensors = tensors.into_iter().map(|placed| placed.tensor).collect();
    let endian = reader.cursor.endian;
    Ok(Header { version, endian, metadata, tensors, data_start, misplaced, notes: reader.notes })
}

/// The first tensor whose data do not follow those before (`gguf_init_from_reader` in `gguf.cpp`, llama-cpp-sys-2 0.1.161).
fn misplaced(tensors: &[TensorOffset], alignment: u64) -> Option<String> {
    let mut expected: u64 = 0;
    let mut before: Option<&Tensor> = None;
    for TensorOffset { tensor, start } in tensors {
        if *start != expected {
            // the Python package gguf 0.19.0 counts two numbers of four bytes in a block, and ggml two of two
            let hint = match before {
                Some(before) if before.ty == GgmlType::Q8_1 => {
                    format!(", as {} before it has blocks of 40 bytes, where those of Q8_1 have 36", before.name)
                }
                _ => String::new(),
            };
            return Some(format!(
                "the tensor {} begins at byte {start} of the data, not at {expected}{hint}",
                tensor.name
            ));
        }
        expected = start.saturating_add(tensor.bytes.0).checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        before = Some(tensor);
    }
    None
}

/// An integer of another size than four bytes; larger ones than an `i64` holds become that.
fn integer(cursor: &mut Cursor<'_>, field: Field<'_>, kind: ElementType) -> Result<i64, GgufError> {
    Ok(match kind {
        ElementType::U8 => cursor.u8(field)?.into(),
        ElementType::I8 => cursor.i8(field)?.into(),
        ElementType::U16 => cursor.u16(field)?.into(),
        ElementType::I16 => cursor.i16(field)?.into(),
        ElementType::I64 => cursor.i64(field)?,
        _ => i64::try_from(cursor.u64(field)?).unwrap_or(i64::MAX),
    })
}

/// A tensor and the offset of its data from the start of all tensor data.
struct TensorOffset {
    tensor: Tensor,
    start: u64,
}

struct Reader<'s> {
    cursor: Cursor<'s>,
    limits: &'s HeaderLimits,
    notes: Vec<String>,
    /// Estimated bytes of all tensor descriptions.
    follow: u64,
}

impl<'s> Reader<'s> {
    /// Magic and version. As in llama.cpp, a version whose low half is zero means the other byte order.
    fn version(&mut self) -> Result<u32, GgufError> {
        self.cursor.endian = match &self.cursor.take::<4>(Field::Version)? {
            b"GGUF" => Endian::Little,
            b"FUGG" => Endian::Big,
            other => return Err(foreign::not_gguf(other)),
        };
        let mut version = self.cursor.u32(Field::Version)?;
        if version != 0 && version.trailing_zeros() >= 16 {
            self.cursor.endian = if self.cursor.endian == Endian::Little { Endian::Big } else { Endian::Little };
            version = version.swap_bytes();
        }
        match version {
            2 | 3 => Ok(version),
            0 | 100.. => Err(GgufError::Version {
                version,
                advice: "does not exist: the header is damaged; download the file again",
            }),
            1 => Err(GgufError::Version {
                version,
                advice: "is too old for this program and for llama.cpp: download or convert the model again",
            }),
            _ => Err(GgufError::Version {
                version,
                advice: "is newer than 3, the latest known to this version: update plimsoll",
            }),
        }
    }

    fn count(&mut self, field: Field<'_>, limit: u64) -> Result<u64, GgufError> {
        self.cursor.length(field, limit)
    }

    fn metadata(&mut self, count: u64) -> Result<(Metadata, u64), GgufError> {
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        let mut alignment = DEFAULT_ALIGNMENT;
        for index in 0..count {
            let offset = self.cursor.at();
            let key = self.cursor.name(Field::KeyLength(index), Field::Key(index), self.limits.name)?;
            if !seen.insert(key.clone()) {
                return Err(GgufError::Duplicate { field: format!("key '{}'", QuotedName(&key)), offset });
            }
            let offset = self.cursor.at();
            let number = self.cursor.u32(Field::ValueType(&key))?;
            let kind = ElementType::from_id(number)
                .ok_or_else(|| GgufError::value_type(Field::ValueType(&key), offset, number))?;
            let offset = self.cursor.at();
            let value = self.value(&key, kind)?;
            if &*key == "general.alignment" {
                alignment = power_of_two(&value, offset)?;
            }
            entries.push((key, value));
        }
        Ok((entries.into_iter().collect(), alignment))
    }

    fn value(&mut self, key: &str, kind: ElementType) -> Result<Value, GgufError> {
        let field = Field::Value(key);
        Ok(match kind {
            ElementType::U8 => Value::U8(self.cursor.u8(field)?),
            ElementType::I8 => Value::I8(self.cursor.i8(field)?),
            ElementType::U16 => Value::U16(self.cursor.u16(field)?),
            ElementType::I16 => Value::I16(self.cursor.i16(field)?),
            ElementType::U32 => Value::U32(self.cursor.u32(field)?),
            ElementType::I32 => Value::I32(self.cursor.i32(field)?),
            ElementType::F32 => Value::F32(self.cursor.f32(field)?),
            ElementType::U64 => Value::U64(self.cursor.u64(field)?),
            ElementType::I64 => Value::I64(self.cursor.i64(field)?),
            ElementType::F64 => Value::F64(self.cursor.f64(field)?),
            ElementType::Bool => Value::Bool(self.bool(key)?),
            ElementType::String => self.string(key)?,
            ElementType::Array => Value::Array(self.array(key, 1)?),
        })
    }

    /// Any byte but zero is true, as in llama.cpp and Ollama; the format allows only 0 and 1.
    fn bool(&mut self, key: &str) -> Result<bool, GgufError> {
        let byte = self.cursor.u8(Field::Value(key))?;
        if byte > 1 {
            self.note(format!("Key '{}' holds {byte} instead of 0 or 1; it is read as true.", QuotedName(key)));
        }
        Ok(byte != 0)
    }

    fn string(&mut self, key: &str) -> Result<Value, GgufError> {
        let len = self.cursor.length(Field::StringLength(key), self.limits.string)?;
        let start = self.cursor.at();
        if len > self.limits.kept_string {
            self.cursor.skip(Field::Value(key), len)?;
            return Ok(Value::LongString(start..self.cursor.at()));
        }
        let bytes = self.cursor.bytes(Field::Value(key), len)?;
        let text = String::from_utf8(bytes).unwrap_or_else(|error| {
            self.note(format!("The text of key '{}' is not UTF-8; unreadable parts are shown as �.", QuotedName(key)));
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        Ok(Value::String(text.into_boxed_str()))
    }

    fn array(&mut self, key: &str, depth: u32) -> Result<Array, GgufError> {
        let offset = self.cursor.at();
        if depth > self.limits.depth {
            let (value, limit) = (depth.into(), self.limits.depth.into());
            return Err(GgufError::Budget { field: Field::ArrayDepth(key).to_string(), offset, value, limit });
        }
        let number = self.cursor.u32(Field::ArrayType(key))?;
        let kind =
            ElementType::from_id(number).ok_or_else(|| GgufError::value_type(Field::ArrayType(key), offset, number))?;
        let len = self.cursor.length(Field::ArrayLength(key), self.limits.elements)?;
        let least = self.cursor.need_each(Field::Value(key), len, kind.least_width())?;
        if kind.width().is_none() {
            self.cursor.step(len)?;
        }
        // the array of tokens is followed by one of their types, four bytes each
        match key {
            "tokenizer.ggml.tokens" => self.cursor.follow = self.follow.saturating_add(len.saturating_mul(4)),
            "tokenizer.ggml.token_type" => self.cursor.follow = self.follow,
            _ => {}
        }
        self.cursor.expect(least);
        let start = self.cursor.at();
        let wanted = depth == 1 && len <= self.limits.kept_elements && !key.starts_with("tokenizer.");
        let elements = match kind {
            ElementType::U32 if wanted => Elements::U32(self.elements(key, len, Cursor::u32)?),
            ElementType::I32 if wanted => Elements::I32(self.elements(key, len, Cursor::i32)?),
            ElementType::F32 if wanted => Elements::F32(self.elements(key, len, Cursor::f32)?),
            ElementType::F64 if wanted => Elements::F64(self.elements(key, len, Cursor::f64)?),
            ElementType::U8
            | ElementType::I8
            | ElementType::U16
            | ElementType::I16
            | ElementType::U64
            | ElementType::I64
                if wanted =>
            {
                Elements::Integers(kind, self.elements(key, len, |cursor, field| integer(cursor, field, kind))?)
            }
            ElementType::Bool if wanted => {
                self.cursor.keep(len)?;
                Elements::Bool((0..len).map(|_| self.bool(key)).collect::<Result<_, _>>()?)
            }
            ElementType::String => {
                self.cursor.skip_strings(key, len, self.limits.string)?;
                Elements::Unread(kind)
            }
            ElementType::Array => {
                for _ in 0..len {
                    self.array(key, depth + 1)?;
                }
                Elements::Unread(kind)
            }
            _ => {
                self.cursor.skip(Field::Value(key), least)?;
                Elements::Unread(kind)
            }
        };
        Ok(Array { len, range: start..self.cursor.at(), elements })
    }

    /// Reads `len` elements; `len` has been checked against the file and the limits.
    fn elements<T>(
        &mut self,
        key: &str,
        len: u64,
        read: impl Fn(&mut Cursor<'s>, Field<'_>) -> Result<T, GgufError>,
    ) -> Result<Vec<T>, GgufError> {
        self.cursor.keep(len.saturating_mul(size_of::<T>() as u64))?;
        (0..len).map(|_| read(&mut self.cursor, Field::Value(key))).collect()
    }

    fn tensors(&mut self, count: u64, alignment: u64, metadata: &Metadata) -> Result<Vec<TensorOffset>, GgufError> {
        let own_mxfp4 = writes_mxfp4_as_4(metadata);
        let mut tensors = Vec::new();
        let mut seen = HashSet::new();
        for index in 0..count {
            let offset = self.cursor.at();
            let name = self.cursor.name(Field::TensorNameLength(index), Field::TensorName(index), self.limits.name)?;
            if !seen.insert(name.clone()) {
                return Err(GgufError::Duplicate { field: format!("tensor '{}'", QuotedName(&name)), offset });
            }
            tensors.push(self.tensor(name, alignment, own_mxfp4)?);
        }
        Ok(tensors)
    }

    fn tensor(&mut self, name: Box<str>, alignment: u64, own_mxfp4: bool) -> Result<TensorOffset, GgufError> {
        let offset = self.cursor.at();
        let dim_count = self.cursor.u32(Field::DimCount(&name))?;
        if dim_count > MAX_DIMS {
            return Err(GgufError::Dims { tensor: name.into(), offset, dims: dim_count });
        }
        let (dims, elements) = self.dims(&name, dim_count)?;
        let offset = self.cursor.at();
        let number = self.cursor.u32(Field::TensorType(&name))?;
        let old_mxfp4 = number == OLD_MXFP4 && own_mxfp4;
        let ty = match GgmlType::from_id(number) {
            Some(ty) => ty,
            None if old_mxfp4 => GgmlType::Mxfp4,
            None => return Err(GgufError::TensorType { tensor: name.into(), offset, number }),
        };
        let row = dims.first().copied().unwrap_or(1);
        if !row.is_multiple_of(ty.block()) {
            return Err(GgufError::Row { tensor: name.into(), offset, row, ty });
        }
        let too_big = |field: Field<'_>, offset| GgufError::Overflow { field: field.to_string(), offset };
        let bytes = ty.bytes(elements).filter(|bytes| i64::try_from(*bytes).is_ok());
        let bytes = bytes.ok_or_else(|| too_big(Field::Elements(&name), offset))?;
        let offset = self.cursor.at();
        let start = self.cursor.u64(Field::TensorOffset(&name))?;
        if start.checked_add(bytes).is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(too_big(Field::TensorOffset(&name), offset));
        }
        if !start.is_multiple_of(alignment) {
            return Err(GgufError::Unaligned { tensor: name.into(), offset, start, alignment });
        }
        Ok(TensorOffset { tensor: Tensor { name, dims, ty, bytes: Bytes(bytes), old_mxfp4 }, start })
    }

    /// Elements per dimension and in total, below 2^63 as in llama.cpp.
    fn dims(&mut self, tensor: &str, count: u32) -> Result<(Vec<u64>, u64), GgufError> {
        let mut dims = Vec::with_capacity(MAX_DIMS as usize);
        let mut elements: u64 = 1;
        for index in 0..count {
            let offset = self.cursor.at();
            let dim = self.cursor.u64(Field::Dim(tensor, index))?;
            elements = i64::try_from(dim)
                .ok()
                .and_then(|_| elements.checked_mul(dim))
                .filter(|product| i64::try_from(*product).is_ok())
                .ok_or_else(|| GgufError::Overflow { field: Field::Dim(tensor, index).to_string(), offset })?;
            dims.push(dim);
        }
        Ok((dims, elements))
    }

    /// Notes an incomplete file, which is no error: planning needs only the header.
    fn note_missing_data(&mut self, data_start: u64, tensors: &[TensorOffset]) -> Result<(), GgufError> {
        let Some(size) = self.cursor.size() else { return Ok(()) };
        let end = tensors.iter().map(|placed| placed.start.saturating_add(placed.tensor.bytes.0)).max().unwrap_or(0);
        let end = data_start
            .checked_add(end)
            .ok_or_else(|| GgufError::Overflow { field: Field::TensorCount.to_string(), offset: self.cursor.at() })?;
        if end > size && !tensors.is_empty() {
            self.note(format!(
                "The file is {} shorter than its tensors: the download is incomplete. The plan is still valid, as \
                 it needs only the header.",
                Bytes(end - size)
            ));
        }
        Ok(())
    }

    /// Adds a note; limited so that a malicious header cannot create many.
    fn note(&mut self, note: String) {
        const MAX_NOTES: usize = 16;
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

fn power_of_two(value: &Value, offset: u64) -> Result<u64, GgufError> {
    match *value {
        Value::U32(alignment) if alignment.is_power_of_two() => Ok(alignment.into()),
        _ => Err(GgufError::alignment(offset, value.kind(), value.as_u64())),
    }
}

/// Ollama wrote gpt-oss with [`OLD_MXFP4`]; in other models the number means a removed type.
fn writes_mxfp4_as_4(metadata: &Metadata) -> bool {
    matches!(metadata.get("general.architecture").and_then(Value::as_str), Some("gptoss" | "gpt-oss"))
}

/// The `split.*` keys of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Counted from zero.
    pub index: u64,
    /// Number of shards; two or more.
    pub count: u64,
    /// Number of tensors over all shards, if stated.
    pub tensors: Option<u64>,
}

impl Shard {
    /// Reads the `split.*` keys; none if the file is not split.
    ///
    /// # Errors
    /// If the keys are not counts, contradict each other, or exceed `limits`.
    pub fn of(metadata: &Metadata, limits: &HeaderLimits) -> Result<Option<Self>, GgufError> {
        let Some(count) = number(metadata, "split.count")?.filter(|count| *count > 1) else { return Ok(None) };
        let index = number(metadata, "split.no")?.unwrap_or(0);
        if count > limits.shards {
            return Err(GgufError::Split(format!(
                "key 'split.count' says {count} shards, more than the limit of {}: the header is damaged or forged",
                limits.shards
            )));
        }
        if index >= count {
            return Err(GgufError::Split(format!(
                "key 'split.no' says that this is shard {} of {count}: the file was split incorrectly; split it again",
                index.saturating_add(1)
            )));
        }
        Ok(Some(Self { index, count, tensors: number(metadata, "split.tensors.count")? }))
    }
}

fn number(metadata: &Metadata, key: &'static str) -> Result<Option<u64>, GgufError> {
    metadata
        .get(key)
        .map(|value| {
            value.as_u64().ok_or_else(|| GgufError::SplitKey {
                field: format!("key '{key}'"),
                found: value.as_i64().map_or_else(|| format!("of type {}", value.kind()), |n| n.to_string()),
            })
        })
        .transpose()
}

/// The name of a shard's file: `stem-00001-of-00003.gguf`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardName {
    /// The part before the numbers.
    pub stem: String,
    /// Counted from zero.
    pub index: u64,
    /// Number of shards.
    pub count: u64,
}

impl ShardName {
    /// Parses a file name; none if it is not that of a shard.
    pub fn parse(name: &str) -> Option<Self> {
        let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| (text.len() >= 5).then(|| text.parse::<u64>().ok()).flatten();
        let (number, count) = (digits(number)?, digits(count)?);
        (1..=count).contains(&number).then(|| Self { stem: stem.to_owned(), index: number - 1, count })
    }

    /// The name of the shard with another index.
    pub fn sibling(&self, index: u64) -> String {
        format!("{}-{:05}-of-{:05}.gguf", self.stem, index.saturating_add(1), self.count)
    }
}

/// Merges the headers of all shards, in order. The metadata is that of the first shard, without its `split.*` keys.
///
/// # Errors
/// If the shards do not belong to one model.
pub fn join(shards: Vec<Header>, limits: &HeaderLimits) -> Result<Header, GgufError> {
    let count = shards.len() as u64;
    let mut joined: Option<Header> = None;
    let mut claimed = None;
    for (index, shard) in (0..).zip(shards) {
        let place = Shard::of(&shard.metadata, limits)?;
        let Some(place) = place.filter(|place| place.index == index && place.count == count) else {
            let found = place.map_or_else(|| "whole".to_owned(), |p| format!("shard {} of {}", p.index + 1, p.count));
            return Err(GgufError::Split(format!(
                "shard {} of {count} says that it is {found}: the files belong to different models; download all \
                 shards again",
                index + 1
            )));
        };
        if index > 0 && place.tensors.is_some() && claimed != place.tensors {
            return Err(GgufError::Split(format!(
                "shard {} of {count} states {} tensors in total, unlike the first shard: the files belong to \
                 different models; download all shards again",
                index + 1,
                place.tensors.unwrap_or_default()
            )));
        }
        match &mut joined {
            None => {
                claimed = place.tensors;
                joined = Some(shard);
            }
            Some(whole) => {
                whole.tensors.extend(shard.tensors);
                whole.misplaced = whole.misplaced.take().or(shard.misplaced);
                whole
                    .notes
                    .extend(shard.notes.into_iter().map(|note| format!("Shard {} of {count}: {note}", index + 1)));
            }
        }
    }
    let mut whole = joined.ok_or_else(|| GgufError::Split("a model without shards: name a file".to_owned()))?;
    let tensors = whole.tensors.len() as u64;
    if let Some(claimed) = claimed.filter(|claimed| *claimed != tensors) {
        return Err(GgufError::Split(format!(
            "the {count} shards hold {tensors} tensors, but key 'split.tensors.count' says {claimed}: download all \
             shards again"
        )));
    }
    if tensors > limits.tensors {
        return Err(GgufError::Split(format!(
            "the {count} shards hold {tensors} tensors, more than the limit of {}: the headers are damaged or forged",
            limits.tensors
        )));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = whole.tensors.iter().find(|tensor| !seen.insert(&*tensor.name)) {
        return Err(GgufError::Split(format!(
            "tensor '{}' is in two shards: the files belong to different models; download all shards again",
            QuotedName(&twice.name)
        )));
    }
    whole.metadata = whole.metadata.without("split.");
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::ShardName;

    #[test]
    fn shard_names_are_parsed() {
        let name = ShardName::parse("a-b-00002-of-00003.gguf").unwrap();
        assert_eq!((name.stem.as_str(), name.index, name.count), ("a-b", 1, 3));
        assert_eq!(name.sibling(0), "a-b-00001-of-00003.gguf");
        for none in
            ["a.gguf", "a-00004-of-00003.gguf", "a-00000-of-00003.gguf", "a-2-of-3.gguf", "a-00001-of-00003.bin", ""]
        {
            assert_eq!(ShardName::parse(none), None, "{none}");
        }
    }
}
