//! A remote file as a byte source, fetched in ranges that follow the parser's hints.

use std::io;

use super::cancel::{CancelHandle, cancellable};
use super::client::{Client, HttpRequest};
use super::error::WireError;
use super::piece::{FetchResult, FullResponse, RemoteFileInfo, fetch};
use crate::gguf::ByteSource;
use crate::source::progress::{Progress, ProgressCallback};

/// Read-ahead beyond the parser's hint: fewer requests, for less than a mebibyte of waste.
const AHEAD: u64 = 768 << 10;
/// Maximum length of a header; the longest published ones have some 30 MB.
const MAX_HEADER: u64 = 256 << 20;
/// Maximum bytes per request, as a malicious header may announce any length.
const MAX_PIECE: u64 = 8 << 20;

/// A file on a server, of which only the header is fetched.
pub struct RemoteFile<'w> {
    client: Client,
    request: HttpRequest,
    bytes: Vec<u8>,
    known: RemoteFileInfo,
    /// End of the header, as the parser estimates it.
    expected: u64,
    ended: bool,
    whole: Option<FullResponse>,
    ignores_ranges: bool,
    on_progress: &'w mut ProgressCallback<'w>,
    before: Progress,
    cancel: CancelHandle,
}

impl<'w> RemoteFile<'w> {
    /// The file that `request` requests; nothing is fetched yet.
    pub fn new(
        client: &Client,
        request: HttpRequest,
        on_progress: &'w mut ProgressCallback<'w>,
        before: Progress,
    ) -> Self {
        Self {
            client: client.clone(),
            request,
            bytes: Vec::new(),
            known: RemoteFileInfo::default(),
            expected: 0,
            ended: false,
            whole: None,
            ignores_ranges: false,
            on_progress,
            before,
            cancel: CancelHandle::default(),
        }
    }

    /// Fetches the first bytes. Returns true if the cached copy with validator `kept` is still valid.
    ///
    /// # Errors
    /// If the request fails.
    pub fn begin(&mut self, kept: Option<&str>) -> Result<bool, WireError> {
        let unchanged = self.fetch_up_to(0, kept)?;
        // a server may send the same bytes again instead of a 304
        Ok(unchanged || (kept.is_some() && self.known.validator.as_deref() == kept))
    }

    /// Length of the whole file, if reported.
    pub fn total(&self) -> Option<u64> {
        self.known.total
    }

    /// The bytes fetched so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The server's validator: `ETag` or `Last-Modified`.
    pub fn validator(&self) -> Option<&str> {
        self.known.validator.as_deref()
    }

    /// Whether the server ignores ranges, so that reading stopped in the middle of the file.
    pub fn ignores_ranges(&self) -> bool {
        self.ignores_ranges
    }

    /// Fetches at least up to byte `at`, unless the file ends before. Returns true if the cached copy is still valid.
    fn fetch_up_to(&mut self, at: u64, kept: Option<&str>) -> Result<bool, WireError> {
        let start = self.bytes.len() as u64;
        if at >= MAX_HEADER {
            return Err(WireError::LongHeader { limit: MAX_HEADER });
        }
        let ahead = at.max(self.expected.min(start + MAX_PIECE)).max(start).saturating_add(AHEAD);
        let end = self.known.total.map_or(ahead, |total| ahead.min(total)).max(start + 1);
        let (client, request, known) = (self.client.clone(), self.request.clone(), self.known.clone());
        let (whole, cancel, kept) = (self.whole.take(), self.cancel.clone(), kept.map(str::to_owned));
        let before = Progress { done: self.before.done.saturating_add(start), ..self.before };
        let outcome = cancellable(self.on_progress, before, &self.cancel, move || {
            fetch(&client, &request, start..end, known, whole, kept.as_deref(), &cancel)
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
        // without a stated length, the size is known at the end
        self.known.total.or(self.ended.then_some(self.bytes.len() as u64))
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        while offset >= self.bytes.len() as u64 && !self.ended {
            self.fetch_up_to(offset, None)?;
        }
        Ok(usize::try_from(offset).ok().and_then(|at| self.bytes.get(at..)).unwrap_or_default())
    }

    fn expect(&mut self, end: u64) {
        self.expected = end;
    }
}
