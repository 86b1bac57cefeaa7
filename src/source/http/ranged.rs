//! A file on a server as a source of bytes: pieces that grow with what the parser expects.

use std::io;

use super::attend::{Line, attend};
use super::client::{Ask, Client};
use super::error::WireError;
use super::piece::{Known, Outcome, Whole, fetch};
use crate::gguf::Source;
use crate::source::watch::{Progress, Watch};

/// Bytes that are asked for beyond what the parser expects: with them, few requests do, and what is read in vain stays
/// under a mebibyte.
const AHEAD: u64 = 768 << 10;
/// The longest header that is fetched; the longest published ones have some 30 MB.
const LONGEST: u64 = 256 << 20;
/// The most that is asked for at once: a forged header may claim much.
const LARGEST: u64 = 8 << 20;

/// A file on a server, of which only the beginning is fetched.
pub struct RemoteFile<'w> {
    client: Client,
    ask: Ask,
    bytes: Vec<u8>,
    known: Known,
    /// How far the header goes, as far as the parser knows.
    expected: u64,
    ended: bool,
    whole: Option<Whole>,
    ignores_ranges: bool,
    watch: &'w mut Watch<'w>,
    before: Progress,
    line: Line,
}

impl<'w> RemoteFile<'w> {
    /// A file that `ask` names; nothing is fetched yet.
    pub fn new(client: &Client, ask: Ask, watch: &'w mut Watch<'w>, before: Progress) -> Self {
        Self {
            client: client.clone(),
            ask,
            bytes: Vec::new(),
            known: Known::default(),
            expected: 0,
            ended: false,
            whole: None,
            ignores_ranges: false,
            watch,
            before,
            line: Line::default(),
        }
    }

    /// Fetches the first piece, unless the server says that the copy with validator `kept` is still right: then true.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn begin(&mut self, kept: Option<&str>) -> Result<bool, WireError> {
        let unchanged = self.more(0, kept)?;
        // a server may send the same again instead of saying so
        Ok(unchanged || (kept.is_some() && self.known.validator.as_deref() == kept))
    }

    /// Length of the whole file, where the server tells.
    pub fn total(&self) -> Option<u64> {
        self.known.total
    }

    /// What was fetched.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The validator that the server gave: an `ETag`, or the date of the last change.
    pub fn validator(&self) -> Option<&str> {
        self.known.validator.as_deref()
    }

    /// Whether the server sends whole files only, so that reading had to stop in the middle of one.
    pub fn ignores_ranges(&self) -> bool {
        self.ignores_ranges
    }

    /// Fetches at least up to byte `at`, unless the file ends before; true where the copy with validator `kept` is right.
    fn more(&mut self, at: u64, kept: Option<&str>) -> Result<bool, WireError> {
        let start = self.bytes.len() as u64;
        if at >= LONGEST {
            return Err(WireError::LongHeader { limit: LONGEST });
        }
        let ahead = at.max(self.expected.min(start + LARGEST)).max(start).saturating_add(AHEAD);
        let end = self.known.total.map_or(ahead, |total| ahead.min(total)).max(start + 1);
        let (client, ask, known) = (self.client.clone(), self.ask.clone(), self.known.clone());
        let (whole, line, kept) = (self.whole.take(), self.line.clone(), kept.map(str::to_owned));
        let before = Progress { done: self.before.done.saturating_add(start), ..self.before };
        let outcome = attend(self.watch, before, &self.line, move || {
            fetch(&client, &ask, start..end, known, whole, kept.as_deref(), &line)
        })??;
        match outcome {
            Outcome::Unchanged => Ok(true),
            Outcome::Bytes(piece) => {
                self.bytes.extend_from_slice(&piece.bytes);
                self.ended = piece.ended || piece.bytes.is_empty();
                self.known = piece.known;
                self.ignores_ranges |= piece.whole.is_some();
                self.whole = piece.whole;
                Ok(false)
            }
        }
    }
}

impl Source for RemoteFile<'_> {
    fn size(&self) -> Option<u64> {
        // a whole answer without a length ends where it ends
        self.known.total.or(self.ended.then_some(self.bytes.len() as u64))
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        while offset >= self.bytes.len() as u64 && !self.ended {
            self.more(offset, None)?;
        }
        Ok(usize::try_from(offset).ok().and_then(|at| self.bytes.get(at..)).unwrap_or_default())
    }

    fn expect(&mut self, end: u64) {
        self.expected = end;
    }
}
