//! A file on a server as a source of bytes: pieces that grow with what the parser expects.

use std::io;

use super::cancel::{CancelHandle, cancellable};
use super::client::{Client, HttpRequest};
use super::error::WireError;
use super::piece::{FetchResult, FullResponse, RemoteFileInfo, fetch};
use crate::gguf::ByteSource;
use crate::source::progress::{Progress, ProgressCallback};

/// Bytes that are asked for beyond what the parser expects: with them, few requests do, and what is read in vain stays
/// under a mebibyte.
const AHEAD: u64 = 768 << 10;
/// The longest header that is fetched; the longest published ones have some 30 MB.
const MAX_HEADER: u64 = 256 << 20;
/// The most that is asked for at once: a forged header may claim much.
const MAX_PIECE: u64 = 8 << 20;

/// A file on a server, of which only the beginning is fetched.
pub struct RemoteFile<'w> {
    client: Client,
    ask: HttpRequest,
    bytes: Vec<u8>,
    known: RemoteFileInfo,
    /// How far the header goes, as far as the parser knows.
    expected: u64,
    ended: bool,
    whole: Option<FullResponse>,
    ignores_ranges: bool,
    watch: &'w mut ProgressCallback<'w>,
    before: Progress,
    line: CancelHandle,
}

impl<'w> RemoteFile<'w> {
    /// A file that `ask` names; nothing is fetched yet.
    pub fn new(client: &Client, ask: HttpRequest, watch: &'w mut ProgressCallback<'w>, before: Progress) -> Self {
        Self {
            client: client.clone(),
            ask,
            bytes: Vec::new(),
            known: RemoteFileInfo::default(),
            expected: 0,
            ended: false,
            whole: None,
            ignores_ranges: false,
            watch,
            before,
            line: CancelHandle::default(),
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
        if at >= MAX_HEADER {
            return Err(WireError::LongHeader { limit: MAX_HEADER });
        }
        let ahead = at.max(self.expected.min(start + MAX_PIECE)).max(start).saturating_add(AHEAD);
        let end = self.known.total.map_or(ahead, |total| ahead.min(total)).max(start + 1);
        let (client, ask, known) = (self.client.clone(), self.ask.clone(), self.known.clone());
        let (whole, line, kept) = (self.whole.take(), self.line.clone(), kept.map(str::to_owned));
        let before = Progress { done: self.before.done.saturating_add(start), ..self.before };
        let outcome = cancellable(self.watch, before, &self.line, move || {
            fetch(&client, &ask, start..end, known, whole, kept.as_deref(), &line)
        })??;
        match outcome {
            FetchResult::Unchanged => Ok(true),
            FetchResult::Bytes(piece) => {
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

impl ByteSource for RemoteFile<'_> {
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
