//! Reads a header.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use super::dtype::Dtype;
use super::error::SafetensorsError;
use crate::gguf::ByteSource;

/// Largest header, in bytes: the format's own limit (`MAX_HEADER_SIZE`, safetensors 0.8.0).
const MAX_HEADER: u64 = 100_000_000;
/// Most tensors of one file: several times what the largest published files have.
const MAX_TENSORS: usize = 1 << 18;
/// Most dimensions of a tensor.
const MAX_DIMENSIONS: usize = 16;
/// Longest name of a tensor, in bytes.
const MAX_NAME: usize = 1 << 12;
/// Bytes before the text.
const LENGTH: u64 = 8;

/// What a file says of its tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The tensors, by their place.
    pub tensors: Vec<Tensor>,
    /// `__metadata__`
    pub metadata: BTreeMap<String, String>,
    /// Where the data begins, in bytes.
    pub data_start: u64,
    /// Where it ends.
    pub data_end: u64,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, as the file has it.
    pub name: String,
    /// Its type.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Bytes of its data.
    pub bytes: u64,
}

/// Reads the header of a file. The data itself is not read, and need not be there.
///
/// # Errors
/// If the file ends before its header does, or the header contradicts itself or the format.
pub fn read(source: &mut dyn ByteSource) -> Result<Header, SafetensorsError> {
    if source.size() == Some(0) {
        return Err(SafetensorsError::Empty);
    }
    let length = bytes(source, 0, LENGTH, "the length of its header")?;
    let length = length.iter().rev().fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
    if length > MAX_HEADER {
        return Err(SafetensorsError::TooLong { length, limit: MAX_HEADER });
    }
    source.expect(LENGTH + length);
    let text = bytes(source, LENGTH, length, "its header")?;
    of_text(&text)
}

/// Whether a file of `size` bytes can be that of a header: whole, or ended behind its header.
///
/// # Errors
/// If it ends within the data, or goes on behind it.
pub fn check_length(header: &Header, size: u64) -> Result<(), SafetensorsError> {
    if size == header.data_start || size == header.data_end {
        return Ok(());
    }
    if size > header.data_end {
        return Err(SafetensorsError::Longer { more: size - header.data_end, end: header.data_end });
    }
    let mut at = header.data_start;
    let cut = header.tensors.iter().find_map(|tensor| {
        let start = at;
        at = at.saturating_add(tensor.bytes);
        (at > size).then_some((tensor, start))
    });
    let (name, offset, needed) =
        cut.map_or(("", size, 0), |(tensor, start)| (tensor.name.as_str(), start, tensor.bytes));
    let field = format!("the data of tensor '{}'", crate::text::quoted(name));
    Err(SafetensorsError::Truncated { field, offset, needed, left: size.saturating_sub(offset) })
}

/// `count` bytes from `offset` on.
fn bytes(source: &mut dyn ByteSource, offset: u64, count: u64, field: &str) -> Result<Vec<u8>, SafetensorsError> {
    let truncated = |left| SafetensorsError::Truncated { field: field.to_owned(), offset, needed: count, left };
    // before memory is taken for what is not there
    if let Some(size) = source.size().filter(|&size| size < offset + count) {
        return Err(truncated(size.saturating_sub(offset)));
    }
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    let mut read = Vec::new();
    while read.len() < wanted {
        let at = offset + read.len() as u64;
        let window = source.window(at).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => SafetensorsError::Cancelled,
            _ => SafetensorsError::Read { offset: at, error },
        })?;
        if window.is_empty() {
            return Err(truncated(read.len() as u64));
        }
        read.extend_from_slice(&window[..window.len().min(wanted - read.len())]);
    }
    Ok(read)
}

/// The header of its text, which begins at byte 8.
fn of_text(text: &[u8]) -> Result<Header, SafetensorsError> {
    if text.first() != Some(&b'{') {
        return Err(SafetensorsError::NotJson);
    }
    let written: Written = serde_json::from_slice(text).map_err(|error| SafetensorsError::Json {
        offset: LENGTH + place(text, error.line(), error.column()),
        what: crate::text::one_line(&error.to_string()).into_owned(),
    })?;
    if written.tensors.len() > MAX_TENSORS {
        return Err(SafetensorsError::TooMany(MAX_TENSORS));
    }
    let mut places = Vec::with_capacity(written.tensors.len());
    for (name, WrittenTensor { dtype, shape, data_offsets: [start, end] }) in written.tensors {
        let Some(known) = Dtype::named(&dtype) else { return Err(SafetensorsError::Dtype { tensor: name, dtype }) };
        let needed = known.bytes(&shape).filter(|_| shape.len() <= MAX_DIMENSIONS);
        let Some(needed) = needed else { return Err(SafetensorsError::Shape { tensor: name }) };
        if end.checked_sub(start) != Some(needed) {
            return Err(SafetensorsError::Length { tensor: name, start, end, needed });
        }
        places.push((start, end, Tensor { name, dtype: known, shape, bytes: needed }));
    }
    places.sort_by_key(|(start, end, _)| (*start, *end));
    let mut expected = 0;
    let mut tensors = Vec::with_capacity(places.len());
    for (start, end, tensor) in places {
        if start != expected {
            return Err(SafetensorsError::Gap { tensor: tensor.name, start, expected });
        }
        expected = end;
        tensors.push(tensor);
    }
    let data_start = LENGTH + text.len() as u64;
    Ok(Header { tensors, metadata: written.metadata, data_start, data_end: data_start.saturating_add(expected) })
}

/// The offset of a line and column, both counted from 1.
fn place(text: &[u8], line: usize, column: usize) -> u64 {
    let lines = text.split_inclusive(|&byte| byte == b'\n').take(line.saturating_sub(1));
    (lines.map(<[u8]>::len).sum::<usize>() + column.saturating_sub(1)) as u64
}

/// The text's dictionary.
#[derive(Default)]
struct Written {
    tensors: Vec<(String, WrittenTensor)>,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct WrittenTensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Dictionary;

        impl<'de> Visitor<'de> for Dictionary {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a dictionary of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Written, A::Error> {
                let mut written = Written::default();
                let mut seen = HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name.len() > MAX_NAME {
                        return Err(A::Error::custom(format!("a name has {} bytes, more than {MAX_NAME}", name.len())));
                    }
                    if name == "__metadata__" {
                        written.metadata = map.next_value()?;
                        continue;
                    }
                    if written.tensors.len() > MAX_TENSORS {
                        return Err(A::Error::custom(format!("more than {MAX_TENSORS} tensors")));
                    }
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format!("tensor '{name}' occurs twice")));
                    }
                    written.tensors.push((name, map.next_value()?));
                }
                Ok(written)
            }
        }

        deserializer.deserialize_map(Dictionary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str, data: usize) -> Vec<u8> {
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    const TWO: &str = r#"{"__metadata__":{"format":"mlx"},"b":{"dtype":"U32","shape":[2,3],"data_offsets":[4,28]},"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]} }"#;

    #[test]
    fn tensors_stand_in_the_order_of_their_data() {
        let bytes = file(TWO, 28);
        let header = read(&mut &bytes[..]).unwrap();
        let names: Vec<_> =
            header.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.dtype, tensor.bytes)).collect();
        assert_eq!(names, [("a", Dtype::Bf16, 4), ("b", Dtype::U32, 24)]);
        assert_eq!((header.data_end, header.metadata["format"].as_str()), (bytes.len() as u64, "mlx"));
        for size in [header.data_start, header.data_end] {
            check_length(&header, size).unwrap();
        }
        let said = |size| check_length(&header, size).unwrap_err().to_string();
        assert!(
            said(header.data_end - 1).contains("inside the data of tensor 'b': 24 bytes are needed"),
            "{}",
            said(header.data_end - 1)
        );
        assert!(said(header.data_end + 9).contains("has 9 bytes after"), "{}", said(header.data_end + 9));
    }

    #[test]
    fn every_cut_of_a_header_is_refused() {
        let bytes = file(TWO, 28);
        for end in 0..8 + TWO.len() {
            let said = read(&mut &bytes[..end]).unwrap_err().to_string();
            assert!(said.contains(if end == 0 { "empty" } else { "ends inside" }), "{end}: {said}");
        }
    }

    #[test]
    fn damaged_headers_are_refused_with_their_place() {
        let said = |text: &str| read(&mut &file(text, 0)[..]).unwrap_err().to_string();
        let tensor = |rest: &str| format!(r#"{{"x":{{{rest}}}}}"#);
        for (text, words) in [
            ("[]".to_owned(), "does not begin with '{'"),
            ("{\"x\":".to_owned(), "at byte 12"),
            (tensor(r#""dtype":"Q4","shape":[1],"data_offsets":[0,1]"#), "data type 'Q4'"),
            (tensor(r#""dtype":"U8","shape":[2],"data_offsets":[0,1]"#), "1 bytes, but its type and shape need 2"),
            (tensor(r#""dtype":"U8","shape":[2],"data_offsets":[5,3]"#), "need 2"),
            (tensor(r#""dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]"#), "below 2^63"),
            (tensor(r#""dtype":"U8","shape":[2],"data_offsets":[1,3]"#), "where the tensor before it ends at 0"),
            (tensor(r#""dtype":"U8","shape":[-2],"data_offsets":[1,3]"#), "no valid JSON"),
            (r#"{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#.to_owned(), "occurs twice"),
        ] {
            let said = said(&text);
            assert!(said.contains(words), "{text}: {said}");
        }
        let long = u64::MAX.to_le_bytes();
        assert!(read(&mut &long[..]).unwrap_err().to_string().contains("more than the limit of 100000000"));
    }
}
