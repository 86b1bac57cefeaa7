//! A remote file as a byte source, fetched in ranges that follow the parser's hints.

use std::io;
use std::io::Read;
use std::ops::Range;
use std::time::Instant;

use ureq::BodyReader;

use super::{CancelHandle, Client, HttpRequest, HttpResponse, Retry, Timeouts, Url, WireError, cancellable};
use crate::gguf::ByteSource;
use crate::source::{Progress, ProgressCallback};
use crate::text::is_printable;

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

/// A server's description of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct RemoteFileInfo {
    /// Its length, if reported.
    pub total: Option<u64>,
    /// Its `ETag`, or else `Last-Modified`.
    pub validator: Option<String>,
    /// Its address after redirects.
    pub place: Option<Url>,
}

/// A response with the whole file from a server that does not support ranges; `at` is the read position.
pub(super) struct FullResponse {
    reader: BodyReader<'static>,
    at: u64,
}

/// The bytes of a range.
pub(super) struct Piece {
    pub bytes: Vec<u8>,
    pub known: RemoteFileInfo,
    /// The rest of the response if the server ignores ranges.
    pub whole: Option<FullResponse>,
    /// Whether the file ends here.
    pub ended: bool,
}

pub(super) enum FetchResult {
    Bytes(Box<Piece>),
    /// The cached copy is still valid (304).
    Unchanged,
}

/// Fetches `range` of the file that `request` requests. `kept` is the validator of a cached copy.
///
/// # Errors
/// If that fails, or other bytes arrive.
pub(super) fn fetch(
    client: &Client,
    request: &HttpRequest,
    range: Range<u64>,
    known: RemoteFileInfo,
    whole: Option<FullResponse>,
    kept: Option<&str>,
    cancel: &CancelHandle,
) -> Result<FetchResult, WireError> {
    let mut piece = Piece { bytes: Vec::new(), known, whole, ended: false };
    let mut retry = Retry::new(client.timeouts());
    loop {
        let before = piece.bytes.len();
        match step(client, request, &range, &mut piece, kept, cancel) {
            Ok(PieceState::Done) => return Ok(FetchResult::Bytes(Box::new(piece))),
            Ok(PieceState::Unchanged) => return Ok(FetchResult::Unchanged),
            Err(error) => {
                piece.whole = None;
                // a signed address may have expired: retry from the original one
                let place = piece.known.place.take();
                let stale = matches!(error, WireError::Status { status: 401 | 403 | 404 | 410, .. });
                if place.is_some_and(|place| stale && place != request.url) {
                    continue;
                }
                retry.after(client.with_timeout(error), piece.bytes.len() > before, cancel)?;
            }
        }
    }
}

enum PieceState {
    Done,
    Unchanged,
}

fn step(
    client: &Client,
    request: &HttpRequest,
    range: &Range<u64>,
    piece: &mut Piece,
    kept: Option<&str>,
    cancel: &CancelHandle,
) -> Result<PieceState, WireError> {
    let start = range.start + piece.bytes.len() as u64;
    if let Some(whole) = piece.whole.as_mut().filter(|whole| whole.at == start) {
        let url = piece.known.place.as_ref().unwrap_or(&request.url);
        let before = piece.bytes.len();
        let read = read_up_to(&mut whole.reader, range.end - start, &mut piece.bytes, client.timeouts(), url, cancel);
        let read_now = (piece.bytes.len() - before) as u64;
        whole.at += read_now;
        read?;
        piece.ended = whole.at < range.end;
        let url = url.clone();
        return check_complete(piece, range, &url);
    }
    let mut asked = request.clone();
    if let Some(place) = &piece.known.place {
        // a token is only sent to the origin of the original address
        asked.bearer = asked.bearer.filter(|_| place.same_origin(&request.url));
        asked.fields.retain(|(name, _)| *name != "authorization" || place.same_origin(&request.url));
        asked.url = place.clone();
    }
    asked.fields.push(("range", format!("bytes={start}-{}", range.end - 1)));
    if let Some(etag) = kept.filter(|kept| start == 0 && kept.contains('"')) {
        asked.fields.push(("if-none-match", etag.to_owned()));
    }
    let response = client.send(&asked)?;
    check_encoding(&response)?;
    let validator = response.field("etag").or_else(|| response.field("last-modified")).map(str::to_owned);
    if let (206 | 200, Some(before), Some(now)) = (response.status, &piece.known.validator, &validator)
        && before != now
    {
        return Err(WireError::Changed { url: response.url });
    }
    match response.status {
        304 => Ok(PieceState::Unchanged),
        206 => partial(client.timeouts(), response, validator, range, piece, cancel),
        200 => all(client.timeouts(), response, validator, range, piece, cancel),
        416 => {
            let field = response.field("content-range").unwrap_or_default();
            let total = field.strip_prefix("bytes */").and_then(|total| total.parse::<u64>().ok());
            // the file ends before the range
            match total.or(piece.known.total).unwrap_or(start) {
                total if total <= start => {
                    piece.known.total = Some(total);
                    piece.ended = true;
                    Ok(PieceState::Done)
                }
                _ => Err(response.refusal()),
            }
        }
        _ => Err(response.refusal()),
    }
}

/// A 206: the requested range, or its beginning.
fn partial(
    timeouts: &Timeouts,
    response: HttpResponse,
    validator: Option<String>,
    range: &Range<u64>,
    piece: &mut Piece,
    cancel: &CancelHandle,
) -> Result<PieceState, WireError> {
    let start = range.start + piece.bytes.len() as u64;
    let field = response.field("content-range").unwrap_or_default().to_owned();
    let other = |url: Url| WireError::OtherBytes { url, asked: start, found: found(&field) };
    let Some((first, last, total)) = content_range(&field) else { return Err(other(response.url)) };
    if first != start || last < first || total.is_some_and(|total| last >= total) {
        return Err(other(response.url));
    }
    if let (Some(before), Some(now)) = (piece.known.total, total)
        && before != now
    {
        return Err(WireError::Changed { url: response.url });
    }
    let promised = (last + 1).min(range.end) - start;
    let url = response.url.clone();
    piece.known = RemoteFileInfo {
        total: total.or(piece.known.total),
        validator: validator.or(piece.known.validator.take()),
        place: Some(url.clone()),
    };
    let mut reader = response.body.into_reader();
    let before = piece.bytes.len() as u64;
    read_up_to(&mut reader, promised, &mut piece.bytes, timeouts, &url, cancel)?;
    let got = piece.bytes.len() as u64 - before;
    if got < promised {
        return Err(WireError::Broken { host: url.host().to_owned(), tries: 1, at: start + got });
    }
    // reading to the end of the body lets the connection be reused
    if reader.read(&mut [0]).is_ok_and(|more| more > 0) {
        drop(reader);
    }
    piece.ended = piece.known.total.is_some_and(|total| start + got >= total);
    // the server sent less than requested: fetch the rest next
    if last + 1 < range.end && !piece.ended && got > 0 {
        return Err(WireError::Broken { host: url.host().to_owned(), tries: 1, at: start + got });
    }
    Ok(PieceState::Done)
}

/// A 200: the whole file, which is read only up to the end of the range.
fn all(
    timeouts: &Timeouts,
    response: HttpResponse,
    validator: Option<String>,
    range: &Range<u64>,
    piece: &mut Piece,
    cancel: &CancelHandle,
) -> Result<PieceState, WireError> {
    let start = range.start + piece.bytes.len() as u64;
    let total = response.field("content-length").and_then(|total| total.parse().ok());
    let url = response.url.clone();
    piece.known =
        RemoteFileInfo { total, validator: validator.or(piece.known.validator.take()), place: Some(url.clone()) };
    let mut reader = response.body.into_reader();
    let mut passed = Vec::new();
    read_up_to(&mut reader, start, &mut passed, timeouts, &url, cancel)?;
    let before = piece.bytes.len() as u64;
    if passed.len() as u64 == start {
        read_up_to(&mut reader, range.end - start, &mut piece.bytes, timeouts, &url, cancel)?;
    }
    let at = start + piece.bytes.len() as u64 - before;
    piece.ended = at < range.end;
    piece.whole = Some(FullResponse { reader, at });
    check_complete(piece, range, &url)
}

/// Treats an end before the stated length as a broken connection.
fn check_complete(piece: &Piece, range: &Range<u64>, url: &Url) -> Result<PieceState, WireError> {
    let at = range.start + piece.bytes.len() as u64;
    match piece.known.total.filter(|total| piece.ended && at < *total) {
        Some(_) => Err(WireError::Broken { host: url.host().to_owned(), tries: 1, at }),
        None => Ok(PieceState::Done),
    }
}

/// Parses `bytes 0-99/1000`: the first byte, the last, and the total, if known.
fn content_range(field: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, total) = field.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?, total))
}

fn found(field: &str) -> String {
    let text: String = field.chars().filter(|c| is_printable(*c)).take(60).collect();
    if text.is_empty() { "unspecified".to_owned() } else { text }
}

fn check_encoding(response: &HttpResponse) -> Result<(), WireError> {
    match response.field("content-encoding").filter(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        Some(encoding) => Err(WireError::Compressed { url: response.url.clone(), encoding: found(encoding) }),
        None => Ok(()),
    }
}

/// Appends `count` bytes of `body` to `bytes`, fewer only if it ends.
///
/// # Errors
/// If the connection breaks, times out, or is too slow; bytes read so far are kept.
pub(super) fn read_up_to(
    body: &mut BodyReader<'static>,
    count: u64,
    bytes: &mut Vec<u8>,
    timeouts: &Timeouts,
    url: &Url,
    cancel: &CancelHandle,
) -> Result<(), WireError> {
    let mut left = count;
    let mut buffer = vec![0; 64 << 10];
    let (mut since, mut fresh) = (Instant::now(), 0);
    while left > 0 {
        if cancel.is_cancelled() {
            return Err(WireError::Cancelled);
        }
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let at = bytes.len() as u64;
        let n = body.read(&mut buffer[..room]).map_err(|error| WireError::of_io(error, url.host().to_owned(), at))?;
        if n == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&buffer[..n]);
        cancel.add_received(n);
        left -= n as u64;
        fresh += n as u64;
        let took = since.elapsed();
        if took >= timeouts.slow && left > 0 {
            if fresh < timeouts.slowest {
                return Err(WireError::Slow { host: url.host().to_owned(), bytes: fresh, after: took });
            }
            (since, fresh) = (Instant::now(), 0);
        }
    }
    Ok(())
}
