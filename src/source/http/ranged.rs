//! A remote file as a byte source, fetched in ranges that follow the parser's hints.

use std::io;
use std::io::Read;
use std::ops::Range;
use std::time::Instant;

use ureq::BodyReader;

use super::{CancelHandle, Client, HttpRequest, HttpResponse, Url, WireError, cancellable};
use crate::budget::Spend;
use crate::gguf::ByteSource;
use crate::source::progress::{Progress, ProgressCallback};
use crate::text::is_printable;
use crate::units::Bytes;

/// Maximum length of a header; the longest published ones have some 30 MB.
const MAX_HEADER: u64 = 128 << 20;
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
    /// What is read ahead of it.
    ahead: u64,
    ended: bool,
    whole: Option<FullResponse>,
    ignores_ranges: bool,
    on_progress: &'w mut ProgressCallback<'w>,
    before: Progress,
    cancel: CancelHandle,
}

impl<'w> RemoteFile<'w> {
    /// The file that `request` requests; nothing is fetched yet. So much is read ahead of the parser's hint: fewer requests, for
    /// some waste.
    pub fn new(
        client: &Client,
        request: HttpRequest,
        on_progress: &'w mut ProgressCallback<'w>,
        before: Progress,
        ahead: Bytes,
    ) -> Self {
        Self {
            client: client.clone(),
            request,
            bytes: Vec::new(),
            known: RemoteFileInfo::default(),
            expected: 0,
            ahead: ahead.0,
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

    /// Fetches at least up to byte `at`, unless the file ends before. Brings a byte or notes the end, unless it returns true:
    /// the cached copy is still valid.
    fn fetch_up_to(&mut self, at: u64, kept: Option<&str>) -> Result<bool, WireError> {
        let start = self.bytes.len() as u64;
        if at >= MAX_HEADER {
            return Err(WireError::LongHeader { limit: MAX_HEADER });
        }
        let ahead = at.max(self.expected.min(start + MAX_PIECE)).max(start).saturating_add(self.ahead);
        let end = self.known.total.map_or(ahead, |total| ahead.min(total)).max(start + 1);
        let fetch = Fetch {
            client: self.client.clone(),
            request: self.request.clone(),
            range: start..end,
            kept: kept.map(str::to_owned),
            cancel: self.cancel.clone(),
            known: self.known.clone(),
            whole: self.whole.take(),
            bytes: Vec::new(),
            ended: false,
            unchanged: false,
        };
        let before = Progress { done: self.before.done.saturating_add(start), ..self.before };
        let fetched = cancellable(self.on_progress, before, &self.cancel, move || fetch.run())??;
        if fetched.unchanged {
            return Ok(true);
        }
        self.bytes.extend_from_slice(&fetched.bytes);
        self.ended = fetched.ended || fetched.bytes.is_empty();
        self.known = fetched.known;
        self.ignores_ranges |= fetched.whole.is_some();
        self.whole = fetched.whole;
        Ok(false)
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
struct RemoteFileInfo {
    /// Its length, if reported.
    total: Option<u64>,
    /// Its `ETag`, or else `Last-Modified`.
    validator: Option<String>,
    /// Its address after redirects.
    place: Option<Url>,
}

/// A response with the whole file from a server that does not support ranges; `at` is the read position.
struct FullResponse {
    reader: BodyReader<'static>,
    at: u64,
}

/// The bytes of a range, which are fetched on a thread of their own.
struct Fetch {
    client: Client,
    request: HttpRequest,
    range: Range<u64>,
    /// The validator of a cached copy.
    kept: Option<String>,
    cancel: CancelHandle,
    known: RemoteFileInfo,
    /// The rest of the response if the server ignores ranges.
    whole: Option<FullResponse>,
    bytes: Vec<u8>,
    /// Whether the file ends here.
    ended: bool,
    /// Whether the cached copy is still valid (304).
    unchanged: bool,
}

impl Fetch {
    /// Fetches the range, with retries.
    ///
    /// # Errors
    /// If that fails, or other bytes arrive.
    fn run(mut self) -> Result<Self, WireError> {
        let client = self.client.clone();
        let mut retry = client.retry();
        loop {
            let before = self.bytes.len();
            let Err(error) = self.step() else { return Ok(self) };
            self.whole = None;
            // a signed address may have expired: retry from the original one
            let place = self.known.place.take();
            let stale = matches!(error, WireError::Status { status: 401 | 403 | 404 | 410, .. });
            if place.is_some_and(|place| stale && place != self.request.url) {
                continue;
            }
            retry.after(client.with_timeout(error), self.bytes.len() > before, &self.cancel)?;
        }
    }

    /// Offset of the next byte in the file.
    fn at(&self) -> u64 {
        self.range.start + self.bytes.len() as u64
    }

    /// Reads up to the end of the range.
    fn read_on(&mut self, body: &mut BodyReader<'static>, url: &Url) -> Result<(), WireError> {
        let left = self.range.end - self.at();
        self.client.read_up_to(body, left, &mut self.bytes, url, &self.cancel)
    }

    fn step(&mut self) -> Result<(), WireError> {
        let start = self.at();
        if let Some(mut whole) = self.whole.take_if(|whole| whole.at == start) {
            let url = self.known.place.clone().unwrap_or_else(|| self.request.url.clone());
            self.read_on(&mut whole.reader, &url)?;
            return self.go_on_with(whole.reader, &url);
        }
        let mut asked = self.request.clone();
        if let Some(place) = &self.known.place {
            // a token is only sent to the origin of the original address
            asked.bearer = asked.bearer.filter(|_| place.same_origin(&self.request.url));
            asked.fields.retain(|(name, _)| *name != "authorization" || place.same_origin(&self.request.url));
            asked.url = place.clone();
        }
        asked.fields.push(("range", format!("bytes={start}-{}", self.range.end - 1)));
        let kept = self.kept.as_ref().filter(|kept| start == 0 && kept.contains('"'));
        let asks_for_changes = kept.is_some();
        asked.fields.extend(kept.map(|etag| ("if-none-match", etag.clone())));
        let response = self.client.send(&asked)?;
        check_encoding(&response)?;
        let validator = response.field("etag").or_else(|| response.field("last-modified")).map(str::to_owned);
        if let (206 | 200, Some(before), Some(now)) = (response.status, &self.known.validator, &validator)
            && before != now
        {
            return Err(WireError::Changed { url: response.url });
        }
        match response.status {
            // only an answer to the question whether a cached copy is still valid
            304 if asks_for_changes => {
                self.unchanged = true;
                Ok(())
            }
            206 => self.partial(response, validator),
            200 => self.all(response, validator),
            416 => {
                let field = response.field("content-range").unwrap_or_default();
                let total = field.strip_prefix("bytes */").and_then(|total| total.parse::<u64>().ok());
                // the file ends before the range
                match total.or(self.known.total).unwrap_or(start) {
                    total if total <= start => {
                        self.known.total = Some(total);
                        self.ended = true;
                        Ok(())
                    }
                    _ => Err(response.refusal()),
                }
            }
            _ => Err(response.refusal()),
        }
    }

    /// A 206: the requested range, or its beginning.
    fn partial(&mut self, response: HttpResponse, validator: Option<String>) -> Result<(), WireError> {
        let start = self.at();
        let field = response.field("content-range").unwrap_or_default().to_owned();
        let other = |url: Url| WireError::OtherBytes { url, asked: start, found: found(&field) };
        let Some((first, last, total)) = content_range(&field) else { return Err(other(response.url)) };
        let after = last.checked_add(1).filter(|after| total.is_none_or(|total| *after <= total));
        let Some(after) = after.filter(|_| first == start && last >= first) else { return Err(other(response.url)) };
        if let (Some(before), Some(now)) = (self.known.total, total)
            && before != now
        {
            return Err(WireError::Changed { url: response.url });
        }
        let url = response.url;
        self.known = RemoteFileInfo {
            total: total.or(self.known.total),
            validator: validator.or(self.known.validator.take()),
            place: Some(url.clone()),
        };
        let promised = after.min(self.range.end);
        let mut reader = response.body.into_reader();
        self.client.read_up_to(&mut reader, promised - start, &mut self.bytes, &url, &self.cancel)?;
        let at = self.at();
        let broken = || WireError::Broken { host: url.host().to_owned(), tries: 1, at };
        if at < promised {
            return Err(broken());
        }
        // reading to the end of the body lets the connection be reused
        if reader.read(&mut [0]).is_ok_and(|more| more > 0) {
            drop(reader);
        }
        self.ended = self.known.total.is_some_and(|total| at >= total);
        // the server sent less than requested: fetch the rest next
        if after < self.range.end && !self.ended && at > start { Err(broken()) } else { Ok(()) }
    }

    /// A 200: the whole file, which is read only up to the end of the range.
    fn all(&mut self, response: HttpResponse, validator: Option<String>) -> Result<(), WireError> {
        let start = self.at();
        let total = response.field("content-length").and_then(|total| total.parse().ok());
        let url = response.url;
        let validator = validator.or(self.known.validator.take());
        self.known = RemoteFileInfo { total, validator, place: Some(url.clone()) };
        let mut reader = response.body.into_reader();
        let mut passed = Vec::new();
        self.client.read_up_to(&mut reader, start, &mut passed, &url, &self.cancel)?;
        if passed.len() as u64 == start {
            self.read_on(&mut reader, &url)?;
        }
        self.go_on_with(reader, &url)
    }

    /// Keeps the rest of a whole file; its end before the stated length is a broken connection.
    fn go_on_with(&mut self, reader: BodyReader<'static>, url: &Url) -> Result<(), WireError> {
        let at = self.at();
        self.ended = at < self.range.end;
        self.whole = Some(FullResponse { reader, at });
        match self.known.total.filter(|total| self.ended && at < *total) {
            Some(_) => Err(WireError::Broken { host: url.host().to_owned(), tries: 1, at }),
            None => Ok(()),
        }
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

impl Client {
    /// Appends `count` bytes of `body` to `bytes`, fewer only if it ends.
    ///
    /// # Errors
    /// If the connection breaks, times out, is too slow, or the conversation's budget is spent; bytes read so far are kept.
    pub(super) fn read_up_to(
        &self,
        body: &mut BodyReader<'static>,
        count: u64,
        bytes: &mut Vec<u8>,
        url: &Url,
        cancel: &CancelHandle,
    ) -> Result<(), WireError> {
        let exceeded = WireError::exceeded(url);
        let mut left = count;
        let mut buffer = vec![0; 64 << 10];
        let (mut since, mut fresh) = (Instant::now(), 0);
        while left > 0 {
            if cancel.is_cancelled() {
                return Err(WireError::Cancelled);
            }
            self.budget.time().map_err(exceeded)?;
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let at = bytes.len() as u64;
            let n =
                body.read(&mut buffer[..room]).map_err(|error| WireError::of_io(error, url.host().to_owned(), at))?;
            if n == 0 {
                return Ok(());
            }
            bytes.extend_from_slice(&buffer[..n]);
            cancel.add_received(n);
            self.budget.take(Spend::Bytes, n as u64).map_err(exceeded)?;
            left -= n as u64;
            fresh += n as u64;
            let took = since.elapsed();
            if took >= self.timeouts.slow && left > 0 {
                if fresh < self.timeouts.slowest {
                    return Err(WireError::Slow { host: url.host().to_owned(), bytes: fresh, after: took });
                }
                (since, fresh) = (Instant::now(), 0);
            }
        }
        Ok(())
    }
}
