//! An HTTP server on the loopback that records requests and counts the bytes it sends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tiny_http::{Header, Response, StatusCode};

/// A request.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub method: String,
    pub path: String,
    pub fields: Vec<(String, String)>,
    pub body: String,
}

impl RecordedRequest {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub fields: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self { status, fields: Vec::new(), body: Vec::new() }
    }

    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::status(200) }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    pub fn to(location: impl Into<String>) -> Self {
        Self::status(302).with("Location", location)
    }
}

/// Serves `bytes` as nginx serves a file: with ranges, an `ETag`, and 304.
pub fn file(seen: &RecordedRequest, bytes: &[u8]) -> Reply {
    let etag =
        format!("\"{:x}-{:x}\"", bytes.len(), bytes.iter().step_by(997).map(|byte| u64::from(*byte)).sum::<u64>());
    if seen.field("if-none-match") == Some(&etag) {
        return Reply::status(304).with("ETag", etag);
    }
    let Some(range) = seen.field("range").and_then(|range| range.strip_prefix("bytes=")) else {
        return Reply::ok(bytes).with("ETag", etag);
    };
    let (first, last) = range.split_once('-').unwrap();
    let first: usize = first.parse().unwrap();
    let last = last.parse().unwrap_or(usize::MAX).min(bytes.len().saturating_sub(1));
    if first >= bytes.len() {
        return Reply::status(416).with("Content-Range", format!("bytes */{}", bytes.len()));
    }
    Reply { status: 206, ..Reply::ok(&bytes[first..=last]) }
        .with("Content-Range", format!("bytes {first}-{last}/{}", bytes.len()))
        .with("ETag", etag)
}

/// A server that stops when it is dropped.
pub struct Server {
    pub url: String,
    inner: Arc<tiny_http::Server>,
    thread: Option<JoinHandle<()>>,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
    sent: Arc<AtomicU64>,
}

impl Server {
    /// Starts a server that replies with `answer`.
    pub fn start(answer: impl Fn(&RecordedRequest) -> Reply + Send + 'static) -> Self {
        Self::slow(Duration::ZERO, answer)
    }

    /// The same, each answer after `latency`.
    pub fn slow(latency: Duration, answer: impl Fn(&RecordedRequest) -> Reply + Send + 'static) -> Self {
        let inner = Arc::new(tiny_http::Server::http("127.0.0.1:0").unwrap());
        let url = format!("http://{}", inner.server_addr().to_ip().unwrap());
        let (seen, sent) = (Arc::<Mutex<Vec<RecordedRequest>>>::default(), Arc::<AtomicU64>::default());
        let (server, all, bytes) = (Arc::clone(&inner), Arc::clone(&seen), Arc::clone(&sent));
        let thread = thread::spawn(move || {
            for mut request in server.incoming_requests() {
                let mut body = String::new();
                request.as_reader().read_to_string(&mut body).unwrap();
                let fields = request.headers().iter().map(|field| (field.field.to_string(), field.value.to_string()));
                let one = RecordedRequest {
                    method: request.method().to_string(),
                    path: request.url().to_owned(),
                    fields: fields.collect(),
                    body,
                };
                let reply = answer(&one);
                all.lock().unwrap().push(one);
                bytes.fetch_add(reply.body.len() as u64, Ordering::Relaxed);
                thread::sleep(latency);
                let header = |(name, value): &(&str, String)| Header::from_bytes(*name, value.as_bytes()).unwrap();
                let headers = reply.fields.iter().map(header).collect();
                let length = reply.body.len();
                let response =
                    Response::new(StatusCode(reply.status), headers, reply.body.as_slice(), Some(length), None);
                // the client may have disconnected
                drop(request.respond(response.with_chunked_threshold(usize::MAX)));
            }
        });
        Self { url, inner, thread: Some(thread), seen, sent }
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<RecordedRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// The number of body bytes sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.inner.unblock();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
