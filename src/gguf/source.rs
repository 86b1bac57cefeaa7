//! The parser's interface to files, memory and servers, its limits, and the cursor that heeds both.

use std::io;

use super::error::{Field, GgufError};

/// Random access to bytes.
pub trait ByteSource {
    /// Total number of bytes, if known.
    fn size(&self) -> Option<u64>;

    /// The bytes at `offset`: at least one, unless the source ends there. The source chooses how many. The parser reads
    /// the first bytes twice, to check the magic, and otherwise only moves forward.
    ///
    /// # Errors
    /// I/O errors. [`io::ErrorKind::Interrupted`] means that the user cancelled.
    fn window(&mut self, offset: u64) -> io::Result<&[u8]>;

    /// Hint: the header extends to about byte `end`; remote sources may prefetch.
    fn expect(&mut self, _end: u64) {}
}

/// A whole file in memory.
impl ByteSource for &[u8] {
    fn size(&self) -> Option<u64> {
        Some(self.len() as u64)
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        Ok(usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default())
    }
}

/// A header in memory without the weights; since its size is unknown, it is not reported as incomplete.
pub struct HeaderOnly<'b>(pub &'b [u8]);

impl ByteSource for HeaderOnly<'_> {
    fn size(&self) -> Option<u64> {
        None
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        self.0.window(offset)
    }
}

/// Limits of one header. Declared sizes are checked against them, and against the rest of the file, before anything is
/// allocated or skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderLimits {
    /// Metadata keys.
    pub keys: u64,
    /// Tensors, over all shards.
    pub tensors: u64,
    /// Bytes of a key or of a tensor's name.
    pub name: u64,
    /// Bytes of a string value kept in memory; only the position of a longer one is kept.
    pub kept_string: u64,
    /// Elements of a numeric array kept in memory; only the position of a longer one is kept.
    pub kept_elements: u64,
    /// Bytes of all names, strings and elements kept in memory.
    pub kept_bytes: u64,
    /// Elements of any array.
    pub elements: u64,
    /// Strings and arrays within arrays over the whole header: they have to be skipped one by one.
    pub steps: u64,
    /// Bytes of any string.
    pub string: u64,
    /// Nesting depth of arrays.
    pub depth: u32,
    /// Shards of a split file.
    pub shards: u64,
}

impl Default for HeaderLimits {
    /// At least ten times what published models need: the largest have some 60 keys, under 3,000 tensors, names under
    /// 64 bytes and a million tokens and merges. `elements` and `string` are llama.cpp's own
    /// (`GGUF_MAX_ARRAY_ELEMENTS`, `GGUF_MAX_STRING_LENGTH` in ggml/src/gguf.cpp, llama-cpp-sys-2 0.1.161).
    fn default() -> Self {
        Self {
            keys: 1 << 14,
            tensors: 1 << 17,
            name: 1 << 12,
            kept_string: 1 << 16,
            kept_elements: 1 << 14,
            kept_bytes: 1 << 24,
            elements: 1 << 30,
            steps: 1 << 24,
            string: 1 << 30,
            depth: 4,
            shards: 1 << 10,
        }
    }
}

/// Byte order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Endian {
    Little,
    Big,
}

/// `little`
impl std::fmt::Display for Endian {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Little => "little",
            Self::Big => "big",
        })
    }
}

impl Endian {
    /// That of the computer that this program was built for.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    pub(super) const fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }
}

/// Reads forward through a source; every read is checked against the remaining bytes.
pub(super) struct Cursor<'s> {
    source: &'s mut dyn ByteSource,
    size: Option<u64>,
    at: u64,
    /// Bytes of names, strings and elements that may be kept in memory.
    keep: Budget,
    /// Elements that may be skipped one by one.
    steps: Budget,
    pub endian: Endian,
    /// Estimated bytes of the header after the current value.
    pub follow: u64,
}

/// A limit on a sum over the whole header.
struct Budget {
    limit: u64,
    used: u64,
}

impl Budget {
    fn new(limit: u64) -> Self {
        Self { limit, used: 0 }
    }

    fn take(&mut self, amount: u64, field: Field<'_>, offset: u64) -> Result<(), GgufError> {
        let value = self.used.saturating_add(amount);
        if value > self.limit {
            return Err(GgufError::Budget { field: field.to_string(), offset, value, limit: self.limit });
        }
        self.used = value;
        Ok(())
    }
}

/// Defines methods that read one number.
macro_rules! numbers {
    ($($name:ident: $number:ty;)*) => {$(
        pub fn $name(&mut self, field: Field<'_>) -> Result<$number, GgufError> {
            let bytes = self.take(field)?;
            Ok(match self.endian {
                Endian::Little => <$number>::from_le_bytes(bytes),
                Endian::Big => <$number>::from_be_bytes(bytes),
            })
        }
    )*};
}

impl<'s> Cursor<'s> {
    pub fn new(source: &'s mut dyn ByteSource, limits: &HeaderLimits) -> Self {
        let size = source.size();
        let (keep, steps) = (Budget::new(limits.kept_bytes), Budget::new(limits.steps));
        Self { source, size, at: 0, keep, steps, endian: Endian::Little, follow: 0 }
    }

    numbers! { u8: u8; i8: i8; u16: u16; i16: i16; u32: u32; i32: i32; u64: u64; i64: i64; f32: f32; f64: f64; }

    /// Offset of the next byte.
    pub fn at(&self) -> u64 {
        self.at
    }

    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Checks that `needed` bytes remain for `field`.
    pub fn need(&self, field: Field<'_>, needed: u64) -> Result<(), GgufError> {
        match self.size.map(|size| size.saturating_sub(self.at)) {
            Some(left) if left < needed => Err(self.truncated(field, needed, left)),
            _ => Ok(()),
        }
    }

    /// Checks that `count` elements of at least `width` bytes each remain for `field`; returns their bytes.
    pub fn need_each(&self, field: Field<'_>, count: u64, width: u64) -> Result<u64, GgufError> {
        let needed = count
            .checked_mul(width)
            .filter(|needed| self.at.checked_add(*needed).is_some())
            .ok_or_else(|| GgufError::Overflow { field: field.to_string(), offset: self.at })?;
        self.need(field, needed)?;
        Ok(needed)
    }

    /// Hints to the source that `bytes` and then `follow` bytes will be read.
    pub fn expect(&mut self, bytes: u64) {
        self.source.expect(self.at.saturating_add(bytes).saturating_add(self.follow));
    }

    /// Counts `bytes` against [`HeaderLimits::kept_bytes`].
    pub fn keep(&mut self, bytes: u64) -> Result<(), GgufError> {
        self.keep.take(bytes, Field::Kept, self.at)
    }

    /// Counts `count` elements against [`HeaderLimits::steps`].
    pub fn step(&mut self, count: u64) -> Result<(), GgufError> {
        self.steps.take(count, Field::Steps, self.at)
    }

    /// The next `N` bytes.
    pub fn take<const N: usize>(&mut self, field: Field<'_>) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.fill(field, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `out` with the next bytes.
    pub fn fill(&mut self, field: Field<'_>, out: &mut [u8]) -> Result<(), GgufError> {
        let needed = out.len() as u64;
        self.need(field, needed)?;
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let window = window(self.source, self.at + done as u64)?;
            if window.is_empty() {
                return Err(self.truncated(field, needed, done as u64));
            }
            let n = rest.len().min(window.len());
            rest[..n].copy_from_slice(&window[..n]);
            done += n;
        }
        self.at += needed;
        Ok(())
    }

    /// Skips `bytes` without reading them.
    pub fn skip(&mut self, field: Field<'_>, bytes: u64) -> Result<(), GgufError> {
        self.need(field, bytes)?;
        let end = self
            .at
            .checked_add(bytes)
            .ok_or_else(|| GgufError::Overflow { field: field.to_string(), offset: self.at })?;
        // if the size is unknown, check that the last byte exists
        if self.size.is_none() && bytes > 0 && window(self.source, end - 1)?.is_empty() {
            return Err(self.truncated(field, bytes, 0));
        }
        self.at = end;
        Ok(())
    }

    /// Skips `count` strings of at most `limit` bytes each.
    pub fn skip_strings(&mut self, key: &str, mut count: u64, limit: u64) -> Result<(), GgufError> {
        let (start, all) = (self.at, count);
        while count > 0 {
            self.expect(remaining_string_bytes(self.at - start, all - count, count));
            let (strings, bytes) = whole_strings(window(self.source, self.at)?, count, limit, self.endian);
            self.at += bytes;
            count -= strings;
            // the next string extends beyond this window, or is invalid: skip it with all checks
            if strings == 0 {
                let bytes = self.length(Field::StringLength(key), limit)?;
                self.skip(Field::Value(key), bytes)?;
                count -= 1;
            }
        }
        Ok(())
    }

    /// A count or length of at most `limit`.
    pub fn length(&mut self, field: Field<'_>, limit: u64) -> Result<u64, GgufError> {
        let offset = self.at;
        let value = self.u64(field)?;
        if value > limit {
            return Err(GgufError::Budget { field: field.to_string(), offset, value, limit });
        }
        Ok(value)
    }

    /// The next `len` bytes, which count as kept.
    pub fn bytes(&mut self, field: Field<'_>, len: u64) -> Result<Vec<u8>, GgufError> {
        self.need(field, len)?;
        self.keep(len)?;
        let overflow = |_| GgufError::Overflow { field: field.to_string(), offset: self.at };
        let mut bytes = vec![0; usize::try_from(len).map_err(overflow)?];
        self.fill(field, &mut bytes)?;
        Ok(bytes)
    }

    /// A name: its length, at most `limit` and not zero, then UTF-8 text.
    pub fn name(&mut self, length: Field<'_>, field: Field<'_>, limit: u64) -> Result<Box<str>, GgufError> {
        let offset = self.at;
        let len = self.length(length, limit)?;
        if len == 0 {
            return Err(GgufError::EmptyName { field: field.to_string(), offset });
        }
        let bytes = self.bytes(field, len)?;
        let text = String::from_utf8(bytes).map_err(|_| GgufError::InvalidUtf8 { field: field.to_string(), offset })?;
        Ok(text.into_boxed_str())
    }

    fn truncated(&self, field: Field<'_>, needed: u64, left: u64) -> GgufError {
        GgufError::Truncated { field: field.to_string(), offset: self.at, needed, left }
    }
}

fn window(source: &mut dyn ByteSource, at: u64) -> Result<&[u8], GgufError> {
    source.window(at).map_err(|error| GgufError::reading(at, error))
}

/// Estimated bytes of the remaining `count` strings after `passed` others took `bytes`; rather low than high, so that
/// remote sources do not fetch too much.
fn remaining_string_bytes(bytes: u64, passed: u64, count: u64) -> u64 {
    // too few samples: assume one byte each, after the length of 8 bytes
    const MIN_SAMPLES: u64 = 1 << 10;
    match bytes.checked_div(passed) {
        Some(_) if passed >= MIN_SAMPLES => (count as f64 * (bytes as f64 / passed as f64) * 0.95) as u64,
        _ => count.saturating_mul(9),
    }
}

/// The number of strings, at most `count`, that lie completely at the beginning of `window`, and their bytes.
fn whole_strings(window: &[u8], count: u64, limit: u64, endian: Endian) -> (u64, u64) {
    let max = limit.min(window.len() as u64);
    let (mut strings, mut at) = (0, 0);
    let mut expected = 0;
    while strings < count {
        let Some(length) = window.get(at..).and_then(<[u8]>::first_chunk::<8>) else { break };
        let length = endian.u64(*length);
        // tokenizers have long runs of equal lengths: advancing by a predicted length lets the CPU load the next length
        // before it has compared this one
        if length != expected {
            if length > max {
                break;
            }
            expected = length;
        }
        if expected as usize > window.len() - at - 8 {
            break;
        }
        at += 8 + expected as usize;
        strings += 1;
    }
    (strings, at as u64)
}
