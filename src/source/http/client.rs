//! Sends requests and follows redirects.

use std::fmt;
use std::io::Read;
use std::time::{Duration, Instant};

use tracing::debug;
use ureq::http::{HeaderMap, Response};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Proxy};

use super::cancel::CancelHandle;
use super::error::WireError;
use super::retry::{Retry, Timeouts};
use super::url::Url;
use crate::source::network::Network;
use crate::text::is_printable;

const MAX_REDIRECTS: u32 = 10;

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
    pub(super) fields: HeaderMap,
    pub(super) body: Body,
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

/// Sends requests and reuses connections.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    /// Without a proxy, for loopback addresses.
    direct: Agent,
    timeouts: Timeouts,
    offline: bool,
}

impl Client {
    /// A client with the timeouts and proxies of `network`.
    pub fn of(network: &Network) -> Self {
        let timeouts = network.timeouts.clone();
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
        let agent = if network.proxies { agent(Proxy::try_from_env()) } else { direct.clone() };
        Self { agent, direct, timeouts, offline: network.offline }
    }

    /// Its timeouts.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// Sends a request and follows redirects. Any final status is returned, except those of a busy server.
    ///
    /// # Errors
    /// If no response comes, a redirect is not allowed or there are too many, or the server is busy.
    pub fn send(&self, request: &HttpRequest) -> Result<HttpResponse, WireError> {
        let mut url = request.url.clone();
        let mut trusted = true;
        for _ in 0..=MAX_REDIRECTS {
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
        let (since, agent) = (Instant::now(), if url.is_loopback() { &self.direct } else { &self.agent });
        let mut fields = request.fields.clone();
        if let Some(Secret(token)) = request.bearer.as_ref().filter(|_| trusted) {
            fields.push(("authorization", format!("Bearer {token}")));
        }
        // an authorization field is only for the first origin too
        fields.retain(|(name, _)| trusted || *name != "authorization");
        let result = if let Some(json) = &request.json {
            let request = agent.post(url.whole()).content_type("application/json");
            fields.iter().fold(request, |request, (name, value)| request.header(*name, value)).send(json)
        } else {
            fields.iter().fold(agent.get(url.whole()), |request, (name, value)| request.header(*name, value)).call()
        };
        let took = since.elapsed();
        let method = if request.json.is_some() { "POST" } else { "GET" };
        result.inspect(|response| debug!("{method} {url}: {} after {took:.1?}", response.status())).map_err(|error| {
            let error = self.with_timeout(WireError::of(error, url));
            debug!("{method} {url}: {error} after {took:.1?}");
            error
        })
    }

    /// Fetches a small response with its body, with retries.
    ///
    /// # Errors
    /// If that fails, or the body is longer than `limit` bytes.
    pub fn document(&self, request: &HttpRequest, limit: u64, cancel: &CancelHandle) -> Result<Document, WireError> {
        let mut retry = Retry::new(&self.timeouts);
        loop {
            let error = match self.send(request).and_then(|response| self.read_whole(response, limit, cancel)) {
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
        super::piece::read_up_to(&mut body, limit + 1, &mut bytes, &self.timeouts, &url, cancel)
            .map_err(|error| self.with_timeout(error))?;
        if bytes.len() as u64 > limit {
            return Err(WireError::TooLong { url, limit });
        }
        Ok(Document { status, code, challenge, url, bytes })
    }

    /// Fills in the timeout of a silent server.
    pub(super) fn with_timeout(&self, error: WireError) -> WireError {
        match error {
            WireError::Silent { host, .. } => WireError::Silent { host, after: self.timeouts.answer },
            other => other,
        }
    }
}

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
    let mut sink = [0; 4096];
    let mut reader = body.into_reader().take(64 << 10);
    // on errors the connection is not reused, which is harmless
    while reader.read(&mut sink).is_ok_and(|n| n > 0) {}
}

/// A server's text for messages: printable, without a query, truncated.
fn shown(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    text.chars().filter(|c| is_printable(*c)).take(80).collect()
}
