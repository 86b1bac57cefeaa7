//! One piece of a file: asked for by its range, resumed where it broke, checked for being what was asked.

use std::io::Read;
use std::ops::Range;
use std::time::Instant;

use ureq::BodyReader;

use super::cancel::CancelHandle;
use super::client::{Client, HttpRequest, HttpResponse};
use super::error::WireError;
use super::retry::{Retry, Timeouts};
use super::url::Url;

/// What is known of a file on a server.
#[derive(Clone, Debug, Default)]
pub(super) struct RemoteFileInfo {
    /// Its length, where the server tells.
    pub total: Option<u64>,
    /// Its `ETag`, else the date of its last change.
    pub validator: Option<String>,
    /// Where its bytes came from, after redirects.
    pub place: Option<Url>,
}

/// An answer that brings the whole file, because the server does not know ranges.
pub(super) struct FullResponse {
    reader: BodyReader<'static>,
    at: u64,
}

/// What came of asking for a piece.
pub(super) struct Piece {
    pub bytes: Vec<u8>,
    pub known: RemoteFileInfo,
    /// Where the server ignores ranges: the rest of its answer.
    pub whole: Option<FullResponse>,
    /// The file ends here.
    pub ended: bool,
}

/// How a piece can end before its bytes.
pub(super) enum FetchResult {
    Bytes(Box<Piece>),
    /// The server says that what was kept is still right.
    Unchanged,
}

/// Fetches the bytes of `range` of what `ask` names. `kept` is the validator of a copy that would do as well.
///
/// # Errors
/// When they cannot be had, or others come.
pub(super) fn fetch(
    client: &Client,
    ask: &HttpRequest,
    range: Range<u64>,
    known: RemoteFileInfo,
    whole: Option<FullResponse>,
    kept: Option<&str>,
    line: &CancelHandle,
) -> Result<FetchResult, WireError> {
    let mut piece = Piece { bytes: Vec::new(), known, whole, ended: false };
    let mut retry = Retry::new(client.timeouts());
    loop {
        let before = piece.bytes.len();
        match step(client, ask, &range, &mut piece, kept, line) {
            Ok(PieceState::Done) => return Ok(FetchResult::Bytes(Box::new(piece))),
            Ok(PieceState::Unchanged) => return Ok(FetchResult::Unchanged),
            Err(error) => {
                piece.whole = None;
                // a signed address may have run out: the next try goes by the first one
                let place = piece.known.place.take();
                let stale = matches!(error, WireError::Status { status: 401 | 403 | 404 | 410, .. });
                if place.is_some_and(|place| stale && place != ask.url) {
                    continue;
                }
                retry.after(client.timed(error), piece.bytes.len() > before, line)?;
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
    ask: &HttpRequest,
    range: &Range<u64>,
    piece: &mut Piece,
    kept: Option<&str>,
    line: &CancelHandle,
) -> Result<PieceState, WireError> {
    let start = range.start + piece.bytes.len() as u64;
    if let Some(whole) = piece.whole.as_mut().filter(|whole| whole.at == start) {
        let url = piece.known.place.as_ref().unwrap_or(&ask.url);
        let before = piece.bytes.len();
        let read = read_up_to(&mut whole.reader, range.end - start, &mut piece.bytes, client.timeouts(), url, line);
        let read_now = (piece.bytes.len() - before) as u64;
        whole.at += read_now;
        read?;
        piece.ended = whole.at < range.end;
        let url = url.clone();
        return cut_short(piece, range, &url);
    }
    let mut asked = ask.clone();
    if let Some(place) = &piece.known.place {
        // a token is for the address that a person named, or its own host
        asked.bearer = asked.bearer.filter(|_| place.same_origin(&ask.url));
        asked.fields.retain(|(name, _)| *name != "authorization" || place.same_origin(&ask.url));
        asked.url = place.clone();
    }
    asked.fields.push(("range", format!("bytes={start}-{}", range.end - 1)));
    if let Some(etag) = kept.filter(|kept| start == 0 && kept.contains('"')) {
        asked.fields.push(("if-none-match", etag.to_owned()));
    }
    let answer = client.send(&asked)?;
    check_encoding(&answer)?;
    let validator = answer.field("etag").or_else(|| answer.field("last-modified")).map(str::to_owned);
    if let (206 | 200, Some(before), Some(now)) = (answer.status, &piece.known.validator, &validator)
        && before != now
    {
        return Err(WireError::Changed { url: answer.url });
    }
    match answer.status {
        304 => Ok(PieceState::Unchanged),
        206 => partial(client.timeouts(), answer, validator, range, piece, line),
        200 => all(client.timeouts(), answer, validator, range, piece, line),
        416 => {
            let field = answer.field("content-range").unwrap_or_default();
            let total = field.strip_prefix("bytes */").and_then(|total| total.parse::<u64>().ok());
            // the file ends before what was asked for
            match total.or(piece.known.total).unwrap_or(start) {
                total if total <= start => {
                    piece.known.total = Some(total);
                    piece.ended = true;
                    Ok(PieceState::Done)
                }
                _ => Err(answer.refusal()),
            }
        }
        _ => Err(answer.refusal()),
    }
}

/// A 206: the range that was asked for, or the beginning of it.
fn partial(
    timeouts: &Timeouts,
    answer: HttpResponse,
    validator: Option<String>,
    range: &Range<u64>,
    piece: &mut Piece,
    line: &CancelHandle,
) -> Result<PieceState, WireError> {
    let start = range.start + piece.bytes.len() as u64;
    let field = answer.field("content-range").unwrap_or_default().to_owned();
    let other = |url: Url| WireError::OtherBytes { url, asked: start, found: found(&field) };
    let Some((first, last, total)) = content_range(&field) else { return Err(other(answer.url)) };
    if first != start || last < first || total.is_some_and(|total| last >= total) {
        return Err(other(answer.url));
    }
    if let (Some(before), Some(now)) = (piece.known.total, total)
        && before != now
    {
        return Err(WireError::Changed { url: answer.url });
    }
    let promised = (last + 1).min(range.end) - start;
    let url = answer.url.clone();
    piece.known = RemoteFileInfo {
        total: total.or(piece.known.total),
        validator: validator.or(piece.known.validator.take()),
        place: Some(url.clone()),
    };
    let mut reader = answer.body.into_reader();
    let before = piece.bytes.len() as u64;
    read_up_to(&mut reader, promised, &mut piece.bytes, timeouts, &url, line)?;
    let got = piece.bytes.len() as u64 - before;
    if got < promised {
        return Err(WireError::Broken { host: url.host().to_owned(), tries: 1, at: start + got });
    }
    // at the end of its body a connection goes back to serve the next request
    if reader.read(&mut [0]).is_ok_and(|more| more > 0) {
        drop(reader);
    }
    piece.ended = piece.known.total.is_some_and(|total| start + got >= total);
    // fewer than asked, and more there are: the rest is asked for next
    if last + 1 < range.end && !piece.ended && got > 0 {
        return Err(WireError::Broken { host: url.host().to_owned(), tries: 1, at: start + got });
    }
    Ok(PieceState::Done)
}

/// A 200: the whole file from its beginning, of which only the piece is read.
fn all(
    timeouts: &Timeouts,
    answer: HttpResponse,
    validator: Option<String>,
    range: &Range<u64>,
    piece: &mut Piece,
    line: &CancelHandle,
) -> Result<PieceState, WireError> {
    let start = range.start + piece.bytes.len() as u64;
    let total = answer.field("content-length").and_then(|total| total.parse().ok());
    let url = answer.url.clone();
    piece.known =
        RemoteFileInfo { total, validator: validator.or(piece.known.validator.take()), place: Some(url.clone()) };
    let mut reader = answer.body.into_reader();
    let mut passed = Vec::new();
    read_up_to(&mut reader, start, &mut passed, timeouts, &url, line)?;
    let before = piece.bytes.len() as u64;
    if passed.len() as u64 == start {
        read_up_to(&mut reader, range.end - start, &mut piece.bytes, timeouts, &url, line)?;
    }
    let at = start + piece.bytes.len() as u64 - before;
    piece.ended = at < range.end;
    piece.whole = Some(FullResponse { reader, at });
    cut_short(piece, range, &url)
}

/// An end before the promised length is a broken connection.
fn cut_short(piece: &Piece, range: &Range<u64>, url: &Url) -> Result<PieceState, WireError> {
    let at = range.start + piece.bytes.len() as u64;
    match piece.known.total.filter(|total| piece.ended && at < *total) {
        Some(_) => Err(WireError::Broken { host: url.host().to_owned(), tries: 1, at }),
        None => Ok(PieceState::Done),
    }
}

/// `bytes 0-99/1000`: the first byte, the last, and how many there are where it tells.
fn content_range(field: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, total) = field.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?, total))
}

fn found(field: &str) -> String {
    let text: String = field.chars().filter(|c| !c.is_control()).take(60).collect();
    if text.is_empty() { "unspecified".to_owned() } else { text }
}

fn check_encoding(answer: &HttpResponse) -> Result<(), WireError> {
    match answer.field("content-encoding").filter(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        Some(encoding) => Err(WireError::Compressed { url: answer.url.clone(), encoding: found(encoding) }),
        None => Ok(()),
    }
}

/// Reads at most `count` bytes of `body` behind `bytes`: fewer only where it ends.
///
/// # Errors
/// When the connection breaks, falls silent, or is so slow that it had better been given up; what was read stays.
pub(super) fn read_up_to(
    body: &mut BodyReader<'static>,
    count: u64,
    bytes: &mut Vec<u8>,
    timeouts: &Timeouts,
    url: &Url,
    line: &CancelHandle,
) -> Result<(), WireError> {
    let mut left = count;
    let mut buffer = vec![0; 64 << 10];
    let (mut since, mut fresh) = (Instant::now(), 0);
    while left > 0 {
        if line.is_cancelled() {
            return Err(WireError::Cancelled);
        }
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let at = bytes.len() as u64;
        let n = body.read(&mut buffer[..room]).map_err(|error| WireError::of_io(error, url.host().to_owned(), at))?;
        if n == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&buffer[..n]);
        line.add_received(n);
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
