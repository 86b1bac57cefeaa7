//! Errors of the parser: what is wrong, where, and what to do.

use std::fmt;
use std::io;

use crate::text;

/// Why a file is refused. `offset` is a byte offset in the file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SafetensorsError {
    #[error("the file is empty: its download failed or never started; download it again")]
    Empty,
    #[error(
        "the file ends inside {field}: {needed} bytes are needed from byte {offset}, but only {left} are left; download \
         the file again"
    )]
    Truncated { field: String, offset: u64, needed: u64, left: u64 },
    #[error(
        "the length of the header at byte 0 is {length}, more than the limit of {limit}: this is no safetensors file, or it is forged"
    )]
    TooLong { length: u64, limit: u64 },
    #[error("the header at byte 8 does not begin with '{{': this is no safetensors file")]
    NotJson,
    #[error("the header is no valid JSON at byte {offset} ({what}): it is damaged; download the file again")]
    Json { offset: u64, what: String },
    #[error("the header has more than {0} tensors: it is damaged or forged")]
    TooMany(usize),
    #[error("tensor '{}' has data type '{}', which safetensors does not define: update plimsoll, or download the file again if it may be damaged", Quoted(.tensor), Quoted(.dtype))]
    Dtype { tensor: String, dtype: String },
    #[error("tensor '{}' has a shape whose bytes are no whole number below 2^63: the header is damaged", Quoted(.tensor))]
    Shape { tensor: String },
    #[error("tensor '{}' has data from byte {start} to {end} of the data, {} bytes, but its type and shape need {needed}: the header is damaged", Quoted(.tensor), .end.saturating_sub(*.start))]
    Length { tensor: String, start: u64, end: u64, needed: u64 },
    #[error("tensor '{}' has data from byte {start} of the data, where the tensor before it ends at {expected}: the header is damaged", Quoted(.tensor))]
    Gap { tensor: String, start: u64, expected: u64 },
    #[error("the file has {more} bytes after the data of its last tensor, which ends at byte {end}: download it again")]
    Longer { more: u64, end: u64 },
    #[error("reading at byte {offset} failed: {error}")]
    Read { offset: u64, error: io::Error },
    #[error("stopped by the user")]
    Cancelled,
}

/// A tensor's name for messages, cut and cleaned.
struct Quoted<'n>(&'n str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 80;
        let cut: String = self.0.chars().take(SHOWN).collect();
        let more = if cut.len() < self.0.len() { "…" } else { "" };
        write!(f, "{}{more}", text::quoted(&cut))
    }
}
