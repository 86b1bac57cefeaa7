//! HTTP with limited redirects, retries, and a timeout on everything.
//!
//! [`Client`] sends a request and follows its redirects; [`Retry`] decides when to retry; [`RemoteFile`] reads a header
//! by ranges; `cancel` lets the user cancel at any time.

mod ranged;
mod url;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use tracing::debug;
use ureq::http::{HeaderMap, Response};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Proxy};

use super::progress::{Progress, ProgressCallback};
use crate::budget::{Allowance, Budget, Exceeded, Spend};
use crate::text::is_printable;

pub use ranged::RemoteFile;
pub use url::Url;

const MAX_REDIRECTS: u32 = 10;
/// How long the rest of a body is waited for that nobody reads.
const MAX_DRAIN: Duration = Duration::from_secs(1);

/// A token. It is never displayed: there is no `Display`, and `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text`, trimmed; none if it is empty or not valid in a header field.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The address.
    pub url: Url,
    /// Bearer token; it is only sent to the origin of `url`, never to another that it redirects to.
    pub bearer: Option<Secret>,
    /// Further header fields.
    pub fields: Vec<(&'static str, String)>,
    /// A JSON body, which makes the request a POST.
    pub json: Option<String>,
}

impl HttpRequest {
    /// A GET request.
    pub fn get(url: Url) -> Self {
        Self { url, bearer: None, fields: Vec::new(), json: None }
    }
}

/// A response whose body has not been read.
#[derive(Debug)]
pub struct HttpResponse {
    /// The address after all redirects.
    pub url: Url,
    /// Status code.
    pub status: u16,
    fields: HeaderMap,
    body: Body,
}

impl HttpResponse {
    /// The value of a header field, if present and text.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.to_str().ok()
    }

    /// The error for an unexpected status.
    pub fn refusal(&self) -> WireError {
        let code = self.field("x-error-code").map(str::to_owned);
        WireError::Status { url: self.url.clone(), status: self.status, code }
    }
}

/// A small response with its body.
#[derive(Debug)]
pub struct Document {
    /// Status code.
    pub status: u16,
    /// Hugging Face's error code (`X-Error-Code`).
    pub code: Option<String>,
    /// `WWW-Authenticate` of a 401.
    pub challenge: Option<String>,
    /// The address after all redirects.
    pub url: Url,
    /// The body.
    pub bytes: Vec<u8>,
}

/// One conversation with servers: sends requests and reuses connections, within a budget.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    /// Without a proxy, for loopback addresses.
    direct: Agent,
    timeouts: Timeouts,
    budget: Budget,
    /// How often a server was silent for too long, over all requests.
    stalls: Arc<AtomicU32>,
    offline: bool,
    /// The variable of the environment whose proxy is none.
    wrong_proxy: Option<&'static str>,
}

impl Client {
    /// A client that may take [`Allowance::HEADER`] from now on; with the proxies of the environment, or without; one that
    /// is `offline` sends nothing.
    pub fn new(timeouts: Timeouts, proxies: bool, offline: bool) -> Self {
        let agent = |proxy: Option<Proxy>| -> Agent {
            Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .accept_encoding("identity")
                .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
                .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
                .timeout_resolve(Some(timeouts.connect))
                .timeout_connect(Some(timeouts.connect))
                .timeout_recv_response(Some(timeouts.answer))
                .timeout_per_read(Some(timeouts.silence.max(timeouts.answer)))
                .proxy(proxy)
                .build()
                .into()
        };
        let direct = agent(None);
        let agent = if proxies { agent(Proxy::try_from_env()) } else { direct.clone() };
        let wrong_proxy = proxies.then(wrong_proxy).flatten();
        let budget = Budget::new(Allowance::HEADER).sooner(timeouts.whole);
        Self { agent, direct, timeouts, budget, stalls: Arc::default(), offline, wrong_proxy }
    }

    /// The same conversation, of which what comes next takes no more time than `allowed`.
    fn sooner(&self, allowed: Allowance) -> Self {
        Self { budget: self.budget.sooner(allowed.time), ..self.clone() }
    }

    /// Counts the tries of a request.
    pub fn retry(&self) -> Retry<'_> {
        Retry { timeouts: &self.timeouts, budget: &self.budget, stalls: &self.stalls, all: 0, without_progress: 0 }
    }

    /// Sends a request and follows redirects. Any final status is returned, except those of a busy server.
    ///
    /// # Errors
    /// If no response comes, a redirect is not allowed or there are too many, or the server is busy.
    pub fn send(&self, request: &HttpRequest) -> Result<HttpResponse, WireError> {
        let mut url = request.url.clone();
        let mut trusted = true;
        let since = Instant::now();
        for _ in 0..=MAX_REDIRECTS {
            if since.elapsed() > self.timeouts.answer.saturating_mul(2) {
                return Err(WireError::Silent { host: url.host().to_owned(), after: self.timeouts.answer });
            }
            let (parts, body) = self.once(request, &url, trusted)?.into_parts();
            let response = HttpResponse { url, status: parts.status.as_u16(), fields: parts.headers, body };
            if is_busy(response.status) {
                return Err(busy(&response));
            }
            let location = response.field("location").filter(|_| [301, 302, 303, 307, 308].contains(&response.status));
            let Some(location) = location.map(str::to_owned) else { return Ok(response) };
            let from = response.url.clone();
            drain(response.body);
            let Some(next) = from.join(&location) else {
                return Err(WireError::RedirectsAway { url: from, to: shown(&location) });
            };
            if from.is_secure() && !next.is_secure() {
                return Err(WireError::Downgrade { url: from });
            }
            // after leaving its origin, the token is not sent again, even if a redirect leads back
            trusted = trusted && next.same_origin(&request.url);
            url = next;
        }
        Err(WireError::Redirects { url: request.url.clone(), limit: MAX_REDIRECTS })
    }

    fn once(&self, request: &HttpRequest, url: &Url, trusted: bool) -> Result<Response<Body>, WireError> {
        if self.offline {
            return Err(WireError::NotAsked { host: url.host().to_owned() });
        }
        if let Some(variable) = self.wrong_proxy.filter(|_| !url.is_loopback()) {
            return Err(WireError::Proxy { variable });
        }
        let exceeded = WireError::exceeded(url);
        self.budget.take(Spend::Requests, 1).map_err(exceeded)?;
        let left = self.budget.time().map_err(exceeded)?;
        let (since, agent) = (Instant::now(), if url.is_loopback() { &self.direct } else { &self.agent });
        let mut fields = request.fields.clone();
        if let Some(Secret(token)) = request.bearer.as_ref().filter(|_| trusted) {
            fields.push(("authorization", format!("Bearer {token}")));
        }
        // an authorization field is only for the first origin too
        fields.retain(|(name, _)| trusted || *name != "authorization");
        let result = if let Some(json) = &request.json {
            let request = agent.post(url.whole()).config().timeout_global(left).build();
            let request = request.content_type("application/json");
            fields.iter().fold(request, |request, (name, value)| request.header(*name, value)).send(json)
        } else {
            let request = agent.get(url.whole()).config().timeout_global(left).build();
            fields.iter().fold(request, |request, (name, value)| request.header(*name, value)).call()
        };
        let took = since.elapsed();
        let method = if request.json.is_some() { "POST" } else { "GET" };
        result.inspect(|response| debug!("{method} {url}: {} after {took:.1?}", response.status())).map_err(|error| {
            let error = self.with_timeout(WireError::of(error, url));
            debug!("{method} {url}: {error} after {took:.1?}");
            error
        })
    }

    /// Sends a request once, without retries and redirects: a conversation of its own. Any status is returned, with its
    /// body.
    ///
    /// # Errors
    /// If no response comes, or it takes more than `allowed`.
    pub fn ask(&self, request: &HttpRequest, allowed: Allowance) -> Result<Document, WireError> {
        let client = Self { budget: Budget::new(allowed).sooner(self.timeouts.whole), ..self.clone() };
        let (parts, body) = client.once(request, &request.url, true)?.into_parts();
        let response =
            HttpResponse { url: request.url.clone(), status: parts.status.as_u16(), fields: parts.headers, body };
        client.read_whole(response, allowed.bytes, &CancelHandle::default())
    }

    /// Fetches a small response with its body, with retries, within `allowed` and what is left of this conversation.
    ///
    /// # Errors
    /// If that fails.
    pub fn document(
        &self,
        request: &HttpRequest,
        allowed: Allowance,
        cancel: &CancelHandle,
    ) -> Result<Document, WireError> {
        let client = self.sooner(allowed);
        let mut retry = client.retry();
        loop {
            let response = client.send(request);
            let error = match response.and_then(|response| client.read_whole(response, allowed.bytes, cancel)) {
                Ok(document) => return Ok(document),
                Err(error) => error,
            };
            retry.after(error, false, cancel)?;
        }
    }

    fn read_whole(&self, response: HttpResponse, limit: u64, cancel: &CancelHandle) -> Result<Document, WireError> {
        let text = |name: &str| response.field(name).map(str::to_owned);
        let (code, challenge) = (text("x-error-code"), text("www-authenticate"));
        let HttpResponse { url, status, body, .. } = response;
        let mut bytes = Vec::new();
        let mut body = body.into_reader();
        self.read_up_to(&mut body, limit.saturating_add(1), &mut bytes, &url, cancel)
            .map_err(|error| self.with_timeout(error))?;
        if bytes.len() as u64 > limit {
            return Err(WireError::TooLong { url, limit });
        }
        Ok(Document { status, code, challenge, url, bytes })
    }

    /// Fills in the timeout of a silent server, or that the conversation's time is over.
    fn with_timeout(&self, error: WireError) -> WireError {
        match (error, self.budget.time()) {
            (WireError::Silent { host, .. }, Err(exceeded)) => WireError::Exceeded { host, exceeded },
            (WireError::Silent { host, .. }, Ok(_)) => WireError::Silent { host, after: self.timeouts.answer },
            (other, _) => other,
        }
    }
}

/// The variable, among those that name a proxy, whose value is none though it would be used. An empty one names none.
fn wrong_proxy() -> Option<&'static str> {
    let mut set = PROXIES.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let (name, value) = set.find(|(_, value)| !value.is_empty())?;
    value.to_str().is_none_or(|value| !Url::is_of_proxy(value) || Proxy::new(value).is_err()).then_some(name)
}

/// Variables that name a proxy, the first stands (`Proxy::try_from_env` of ureq 3.5).
const PROXIES: [&str; 6] = ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];

/// Whether a status means that a later try may succeed.
fn is_busy(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..)
}

/// The error of a busy server, with its `Retry-After`.
fn busy(response: &HttpResponse) -> WireError {
    let seconds = response.field("retry-after").and_then(|seconds| seconds.trim().parse().ok());
    let (host, status) = (response.url.host().to_owned(), response.status);
    WireError::Busy { host, status, tries: 1, wait: seconds.map(Duration::from_secs) }
}

/// Reads the rest of a short body, so that its connection can be reused.
fn drain(body: Body) {
    let (mut sink, since) = ([0; 4096], Instant::now());
    let mut reader = body.into_reader().take(64 << 10);
    // on errors and when it takes long the connection is not reused, which is harmless
    while since.elapsed() < MAX_DRAIN && reader.read(&mut sink).is_ok_and(|n| n > 0) {}
}

/// A server's text for messages: printable, without a query, truncated.
fn shown(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    text.chars().filter(|c| is_printable(*c)).take(80).collect()
}

/// Interval of progress reports.
const TICK: Duration = Duration::from_millis(40);

/// Shared state of a cancellable job.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle {
    cancelled: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
}

impl CancelHandle {
    /// Counts received bytes.
    fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes received so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Sleeps for `time`, unless cancelled.
    fn sleep(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() && !self.is_cancelled() {
            let step = left.min(TICK);
            thread::sleep(step);
            left -= step;
        }
    }
}

/// Runs `job` on a new thread and waits for it, reporting `before` plus the bytes received to `on_progress`. A
/// cancelled job ends a little later, and its result is dropped.
///
/// # Errors
/// [`WireError::Cancelled`] if `on_progress` cancels.
pub fn cancellable<T: Send + 'static>(
    on_progress: &mut ProgressCallback<'_>,
    before: Progress,
    cancel: &CancelHandle,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WireError> {
    let (send, receive) = sync_channel(1);
    let start = cancel.received();
    // the send fails if the job was cancelled
    thread::spawn(move || drop(send.send(job())));
    loop {
        let now = Progress { done: before.done.saturating_add(cancel.received() - start), ..before };
        if on_progress(now).is_break() {
            cancel.cancelled.store(true, Ordering::Relaxed);
            return Err(WireError::Cancelled);
        }
        match receive.recv_timeout(TICK) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => {}
            // the job panicked, which has been reported on its thread
            Err(RecvTimeoutError::Disconnected) => return Err(WireError::Cancelled),
        }
    }
}

/// Timeouts and retry limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Timeout of a connection.
    pub connect: Duration,
    /// Timeout of the beginning of a response.
    pub answer: Duration,
    /// Timeout of the next bytes of a body.
    pub silence: Duration,
    /// Downloads with fewer than [`Timeouts::slowest`] bytes in this time are given up.
    pub slow: Duration,
    /// See [`Timeouts::slow`].
    pub slowest: u64,
    /// Consecutive tries without progress.
    pub tries: u32,
    /// Wait before the second try; doubled for each further one.
    pub back_off: Duration,
    /// No conversation takes longer, whatever it is allowed.
    pub whole: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(15),
            silence: Duration::from_secs(15),
            slow: Duration::from_secs(10),
            slowest: 16 << 10,
            tries: 4,
            back_off: Duration::from_millis(400),
            whole: None,
        }
    }
}

impl Timeouts {
    /// Those with which no conversation takes longer than `whole`, and servers that send nothing are given up before.
    #[must_use]
    pub fn within(whole: Duration) -> Self {
        // so that silence is told as such before the time is over
        let each = whole / (MAX_STALLS + 1);
        let usual = Self::default();
        Self { connect: usual.connect.min(each), answer: each, silence: each, slow: each, whole: Some(whole), ..usual }
    }
}

/// Maximum `Retry-After` that is honoured; a longer one is reported as busy.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// Maximum number of tries, including those with progress.
const MAX_TRIES: u32 = 40;
/// Maximum number of stalls of one load, whatever was received between them.
const MAX_STALLS: u32 = 2;

/// Counts the tries of one request.
#[derive(Debug)]
pub struct Retry<'p> {
    timeouts: &'p Timeouts,
    budget: &'p Budget,
    /// Those of all requests of the client.
    stalls: &'p AtomicU32,
    all: u32,
    without_progress: u32,
}

impl Retry<'_> {
    /// Called after a try failed with `error`, and whether it made progress; waits before the next.
    ///
    /// # Errors
    /// `error` if there is no further try.
    pub fn after(&mut self, error: WireError, progress: bool, cancel: &CancelHandle) -> Result<(), WireError> {
        self.all += 1;
        self.without_progress = if progress { 0 } else { self.without_progress + 1 };
        let timeouts = self.timeouts;
        // a server that stalls again and again may send a little in between
        let is_stall = matches!(error, WireError::Silent { .. });
        let stalled = is_stall && self.stalls.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_STALLS;
        let over = stalled || self.without_progress >= timeouts.tries || self.all >= MAX_TRIES;
        let mut wait = timeouts.back_off.saturating_mul(1 << self.without_progress.saturating_sub(1).min(8));
        let (error, again) = match error {
            WireError::Broken { host, at, .. } => (WireError::Broken { host, tries: self.all, at }, true),
            WireError::Busy { host, status, wait: asked, .. } => {
                wait = wait.max(asked.unwrap_or_default());
                (WireError::Busy { host, status, tries: self.all, wait: asked }, wait <= MAX_WAIT)
            }
            silent @ WireError::Silent { .. } => (silent, true),
            other => (other, false),
        };
        let lasts = self.budget.time().is_ok_and(|left| left.is_none_or(|left| wait < left));
        if over || !again || !lasts || cancel.is_cancelled() {
            return Err(error);
        }
        if self.without_progress > 0 {
            cancel.sleep(wait);
        }
        if cancel.is_cancelled() { Err(WireError::Cancelled) } else { Ok(()) }
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names say it")]
pub enum WireError {
    #[error("the host '{host}' cannot be resolved: check the address and the network connection")]
    NoHost { host: String },
    #[error("'{host}' is not asked while offline: name a model that is on this machine, or leave out --offline")]
    NotAsked { host: String },
    #[error("{variable} names no proxy: write it as http://host:port, or unset it")]
    Proxy { variable: &'static str },
    #[error("'{host}' cannot be reached ({why}): check that it is running, and the network connection")]
    Unreachable { host: String, why: String },
    #[error(
        "the certificate of '{host}' is not trusted ({why}): check the address, the clock, and the system's \
         certificates"
    )]
    Certificate { host: String, why: String },
    #[error("'{host}' sent nothing for {} s: try again later, or wait longer with --timeout", .after.as_secs_f32())]
    Silent { host: String, after: Duration },
    #[error("'{host}' is too slow ({bytes} bytes in {} s), so loading was stopped: try again later", .after.as_secs_f32().round())]
    Slow { host: String, bytes: u64, after: Duration },
    #[error("'{host}' was given up, as it {exceeded}: try again later")]
    Exceeded { host: String, exceeded: Exceeded },
    #[error("'{host}' dropped the connection {tries} times, most recently at byte {at}: try again later")]
    Broken { host: String, tries: u32, at: u64 },
    #[error("'{host}' does not speak valid HTTP or HTTPS ({why}): check the address")]
    Garbled { host: String, why: String },
    #[error("'{url}' redirects more than {limit} times: check the address")]
    Redirects { url: Url, limit: u32 },
    #[error("'{url}' redirects to '{to}', which is not followed: use an address whose redirects stay on http or https")]
    RedirectsAway { url: Url, to: String },
    #[error("'{url}' redirects from https to http, which is not followed: contact the server's operator")]
    Downgrade { url: Url },
    #[error("'{host}' is busy (status {status}) after {tries} tries: try again later")]
    Busy { host: String, status: u16, tries: u32, wait: Option<Duration> },
    #[error("'{url}' returned status {status}{}", advice(*.status))]
    Status { url: Url, status: u16, code: Option<String> },
    #[error(
        "'{url}' was asked for bytes from {asked} but returned others ({found}): check the server, or a proxy in \
         between"
    )]
    OtherBytes { url: Url, asked: u64, found: String },
    #[error("'{url}' changed while it was being read: open it again")]
    Changed { url: Url },
    #[error("'{url}' returned compressed data ({encoding}) although none was requested: check for a proxy in between")]
    Compressed { url: Url, encoding: String },
    #[error("'{url}' returned more than {limit} bytes where a short response was expected: check the address")]
    TooLong { url: Url, limit: u64 },
    #[error("the header extends beyond byte {limit}, the limit: it is damaged or forged")]
    LongHeader { limit: u64 },
    #[error("stopped by the user")]
    Cancelled,
}

fn advice(status: u16) -> &'static str {
    match status {
        401 => " (login required): use hf://… or the model's name in Ollama's registry instead",
        403 => " (forbidden): ask its owner for access",
        404 | 410 => " (not found): check the address",
        _ => ": check the address",
    }
}

impl WireError {
    /// The error of a conversation with the host of `url` that takes more than it may.
    fn exceeded(url: &Url) -> impl Fn(Exceeded) -> Self + Copy {
        move |exceeded| Self::Exceeded { host: url.host().to_owned(), exceeded }
    }

    /// Converts the client library's error of a request to `url`.
    fn of(error: ureq::Error, url: &Url) -> Self {
        let host = url.host().to_owned();
        match error {
            ureq::Error::HostNotFound => Self::NoHost { host },
            ureq::Error::ConnectionFailed => Self::Unreachable { host, why: "no connection".to_owned() },
            ureq::Error::ConnectProxyFailed(why) => {
                Self::Unreachable { host, why: format!("the proxy refused: {why}") }
            }
            ureq::Error::InvalidProxyUrl => Self::Unreachable { host, why: "the proxy address is invalid".to_owned() },
            ureq::Error::Timeout(_) => Self::Silent { host, after: Duration::ZERO },
            ureq::Error::Tls(why) => Self::of_tls(host, why),
            ureq::Error::Rustls(why) => Self::of_tls(host, &why.to_string()),
            ureq::Error::Io(error) => Self::of_io(error, host, 0),
            // the server closed the connection before the end of the body
            ureq::Error::BodyStalled => Self::Broken { host, tries: 1, at: 0 },
            other => Self::Garbled { host, why: other.to_string() },
        }
    }

    /// Converts an error of reading a body from `host`, after `at` bytes.
    fn of_io(error: io::Error, host: String, at: u64) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::TimedOut | Kind::WouldBlock => Self::Silent { host, after: Duration::ZERO },
            Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::BrokenPipe
            | Kind::UnexpectedEof
            | Kind::NotConnected => Self::Broken { host, tries: 1, at },
            Kind::ConnectionRefused => Self::Unreachable { host, why: "connection refused".to_owned() },
            Kind::InvalidData => Self::of_tls(host, &error.to_string()),
            _ => match error.downcast::<ureq::Error>() {
                Ok(ureq::Error::Timeout(_)) => Self::Silent { host, after: Duration::ZERO },
                Ok(ureq::Error::Io(error)) => Self::of_io(error, host, at),
                Ok(error) => Self::Broken { host, tries: 1, at }.unless_garbled(&error),
                Err(error) => Self::Unreachable { host, why: error.to_string() },
            },
        }
    }

    /// A TLS error: an untrusted certificate, or anything else.
    fn of_tls(host: String, why: &str) -> Self {
        let why = why.to_owned();
        if why.to_lowercase().contains("certificate") {
            Self::Certificate { host, why }
        } else {
            Self::Garbled { host, why: format!("no encryption: {why}") }
        }
    }

    /// [`Self::Garbled`] if `error` is a protocol error, else `self`.
    fn unless_garbled(self, error: &ureq::Error) -> Self {
        match (self, error) {
            (Self::Broken { host, .. }, ureq::Error::Protocol(_)) => Self::Garbled { host, why: error.to_string() },
            (broken, _) => broken,
        }
    }

    /// Whether the server could not be reached, so that a cached copy may be used instead.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::NoHost { .. }
                | Self::NotAsked { .. }
                | Self::Unreachable { .. }
                | Self::Silent { .. }
                | Self::Slow { .. }
                | Self::Exceeded { .. }
                | Self::Broken { .. }
                | Self::Busy { .. }
                | Self::Certificate { .. }
        )
    }
}

/// Byte sources return [`io::Error`]; `SourceError::at` extracts the [`WireError`] again.
impl From<WireError> for io::Error {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Cancelled => io::ErrorKind::Interrupted.into(),
            error => io::Error::other(error),
        }
    }
}
