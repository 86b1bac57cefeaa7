//! A position in a source of bytes, and how numbers and texts are taken from it.

use super::error::{Field, GgufError};
use super::limits::HeaderLimits;
use super::source::ByteSource;

/// The order of bytes in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Endian {
    Little,
    Big,
}

impl Endian {
    /// Eight bytes as a number.
    pub(super) const fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }
}

/// Reads forward through a source; every read is checked against what is left.
pub(super) struct Cursor<'s> {
    source: &'s mut dyn ByteSource,
    size: Option<u64>,
    at: u64,
    /// Bytes of names, strings and elements that may still be kept.
    keep: Budget,
    /// Elements that may still be passed one by one.
    steps: Budget,
    pub endian: Endian,
    /// Bytes of the header that are expected after the value that is read.
    pub follow: u64,
}

/// What may be used of something over a whole header.
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

/// Defines a method that takes one number.
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

    /// The byte that is read next.
    pub fn at(&self) -> u64 {
        self.at
    }

    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Refuses a `field` that needs more bytes from here on than there are.
    pub fn need(&self, field: Field<'_>, needed: u64) -> Result<(), GgufError> {
        match self.size.map(|size| size.saturating_sub(self.at)) {
            Some(left) if left < needed => Err(self.cut(field, needed, left)),
            _ => Ok(()),
        }
    }

    /// Refuses a `field` that declares `count` things of at least `width` bytes each, more than there are bytes.
    pub fn need_each(&self, field: Field<'_>, count: u64, width: u64) -> Result<u64, GgufError> {
        let needed = count
            .checked_mul(width)
            .filter(|needed| self.at.checked_add(*needed).is_some())
            .ok_or_else(|| GgufError::Overflow { field: field.to_string(), offset: self.at })?;
        self.need(field, needed)?;
        Ok(needed)
    }

    /// Tells the source that `bytes` are to be passed, and then what follows them.
    pub fn expect(&mut self, bytes: u64) {
        self.source.expect(self.at.saturating_add(bytes).saturating_add(self.follow));
    }

    /// Takes `bytes` from what may still be kept.
    pub fn keep(&mut self, bytes: u64) -> Result<(), GgufError> {
        self.keep.take(bytes, Field::Kept, self.at)
    }

    /// Takes `count` from the elements that may still be passed one by one.
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
                return Err(self.cut(field, needed, done as u64));
            }
            let n = rest.len().min(window.len());
            rest[..n].copy_from_slice(&window[..n]);
            done += n;
        }
        self.at += needed;
        Ok(())
    }

    /// Passes over `bytes` without touching them.
    pub fn skip(&mut self, field: Field<'_>, bytes: u64) -> Result<(), GgufError> {
        self.need(field, bytes)?;
        let end = self
            .at
            .checked_add(bytes)
            .ok_or_else(|| GgufError::Overflow { field: field.to_string(), offset: self.at })?;
        // where the size is not known, the last byte must show itself
        if self.size.is_none() && bytes > 0 && window(self.source, end - 1)?.is_empty() {
            return Err(self.cut(field, bytes, 0));
        }
        self.at = end;
        Ok(())
    }

    /// Passes over `count` strings, each a length and so many bytes, of at most `limit` each.
    pub fn skip_strings(&mut self, key: &str, mut count: u64, limit: u64) -> Result<(), GgufError> {
        let (start, all) = (self.at, count);
        while count > 0 {
            self.expect(strings_to_come(self.at - start, all - count, count));
            let (strings, bytes) = whole_strings(window(self.source, self.at)?, count, limit, self.endian);
            self.at += bytes;
            count -= strings;
            // the next one does not lie in this window as a whole, or is refused: slowly, with all checks
            if strings == 0 {
                let bytes = self.length(Field::StringLength(key), limit)?;
                self.skip(Field::Value(key), bytes)?;
                count -= 1;
            }
        }
        Ok(())
    }

    /// A u64 that says how many, of at most `limit`.
    pub fn length(&mut self, field: Field<'_>, limit: u64) -> Result<u64, GgufError> {
        let offset = self.at;
        let value = self.u64(field)?;
        if value > limit {
            return Err(GgufError::Budget { field: field.to_string(), offset, value, limit });
        }
        Ok(value)
    }

    /// The bytes of a string of `len` bytes, to be kept.
    pub fn bytes(&mut self, field: Field<'_>, len: u64) -> Result<Vec<u8>, GgufError> {
        self.need(field, len)?;
        self.keep(len)?;
        let overflow = |_| GgufError::Overflow { field: field.to_string(), offset: self.at };
        let mut bytes = vec![0; usize::try_from(len).map_err(overflow)?];
        self.fill(field, &mut bytes)?;
        Ok(bytes)
    }

    /// A name: its `length`, at most `limit` and not zero, then UTF-8 text.
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

    fn cut(&self, field: Field<'_>, needed: u64, left: u64) -> GgufError {
        GgufError::Truncated { field: field.to_string(), offset: self.at, needed, left }
    }
}

fn window(source: &mut dyn ByteSource, at: u64) -> Result<&[u8], GgufError> {
    source.window(at).map_err(|error| GgufError::reading(at, error))
}

/// How many bytes `count` strings will take, a little less rather than more, where `passed` others took `bytes`.
fn strings_to_come(bytes: u64, passed: u64, count: u64) -> u64 {
    // fewer tell nothing about the rest: then each has its length and one letter
    const TELLING: u64 = 1 << 10;
    match bytes.checked_div(passed) {
        Some(_) if passed >= TELLING => (count as f64 * (bytes as f64 / passed as f64) * 0.95) as u64,
        _ => count.saturating_mul(9),
    }
}

/// How many of at most `count` strings lie whole at the beginning of `window`, and in how many bytes.
fn whole_strings(window: &[u8], count: u64, limit: u64, endian: Endian) -> (u64, u64) {
    let longest = limit.min(window.len() as u64);
    let (mut strings, mut at) = (0, 0);
    let mut expected = 0;
    while strings < count {
        let Some(length) = window.get(at..).and_then(<[u8]>::first_chunk::<8>) else { break };
        let length = endian.u64(*length);
        // a tokenizer has long runs of equal lengths: stepping on by the expected one, a processor need not wait for
        // each length before it looks for the next
        if length != expected {
            if length > longest {
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
