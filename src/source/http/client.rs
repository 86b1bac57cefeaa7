//! One request: sent, its redirects followed, its status looked at.

use std::fmt;
use std::io::Read;
use std::time::Duration;

use ureq::http::{HeaderMap, Response};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Proxy};

use super::cancel::CancelHandle;
use super::error::WireError;
use super::retry::{Retry, Timeouts};
use super::url::Url;
use crate::source::network::Network;

/// Redirects that are followed.
const REDIRECTS: u32 = 10;

/// A token. It is shown nowhere: there is no `Display`, and its `Debug` tells nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text`, trimmed; none where nothing is left or it cannot be sent.
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

/// What is asked of a server.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// Where.
    pub url: Url,
    /// What proves who asks; it goes to this URL's scheme, host and port, and to no other that a redirect names.
    pub bearer: Option<Secret>,
    /// Further header fields.
    pub fields: Vec<(&'static str, String)>,
    /// A JSON text to send; with one, the request is a POST.
    pub json: Option<String>,
}

impl HttpRequest {
    /// A plain GET.
    pub fn get(url: Url) -> Self {
        Self { url, bearer: None, fields: Vec::new(), json: None }
    }
}

/// The beginning of an answer.
#[derive(Debug)]
pub struct HttpResponse {
    /// Where it came from, after all redirects.
    pub url: Url,
    /// Its status.
    pub status: u16,
    pub(super) fields: HeaderMap,
    pub(super) body: Body,
}

impl HttpResponse {
    /// The value of a header field, where it is there and text.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.to_str().ok()
    }

    /// What the status and a server's own code for it say is wrong.
    pub fn refusal(&self) -> WireError {
        let code = self.field("x-error-code").map(str::to_owned);
        WireError::Status { url: self.url.clone(), status: self.status, code }
    }
}

/// A whole answer that is small.
#[derive(Debug)]
pub struct Document {
    /// Its status.
    pub status: u16,
    /// The server's own code for what is wrong (Hugging Face).
    pub code: Option<String>,
    /// How a 401 wants to be answered.
    pub challenge: Option<String>,
    /// Where it came from.
    pub url: Url,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// Sends requests and keeps connections open for the next.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    /// Without a proxy, for this very machine.
    direct: Agent,
    timeouts: Timeouts,
    offline: bool,
}

impl Client {
    /// A client with the manners of `network`.
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

    /// How patient it is.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// Sends `ask` and follows redirects; whatever the status then is, apart from those that mean: later.
    ///
    /// # Errors
    /// When no answer comes, it redirects without end or off the web, or the server is busy.
    pub fn send(&self, ask: &HttpRequest) -> Result<HttpResponse, WireError> {
        let mut url = ask.url.clone();
        let mut trusted = true;
        for _ in 0..=REDIRECTS {
            let (parts, body) = self.once(ask, &url, trusted)?.into_parts();
            let answer = HttpResponse { url, status: parts.status.as_u16(), fields: parts.headers, body };
            if is_busy(answer.status) {
                return Err(busy(&answer));
            }
            let location = answer.field("location").filter(|_| [301, 302, 303, 307, 308].contains(&answer.status));
            let Some(location) = location.map(str::to_owned) else { return Ok(answer) };
            let from = answer.url.clone();
            drain(answer.body);
            let Some(next) = from.join(&location) else {
                return Err(WireError::RedirectsAway { url: from, to: shown(&location) });
            };
            if from.is_secure() && !next.is_secure() {
                return Err(WireError::Downgrade { url: from });
            }
            // once it has left its host, a token stays behind, even if the way leads back
            trusted = trusted && next.same_origin(&ask.url);
            url = next;
        }
        Err(WireError::Redirects { url: ask.url.clone(), limit: REDIRECTS })
    }

    fn once(&self, ask: &HttpRequest, url: &Url, trusted: bool) -> Result<Response<Body>, WireError> {
        if self.offline {
            return Err(WireError::NotAsked { host: url.host().to_owned() });
        }
        let agent = if url.is_loopback() { &self.direct } else { &self.agent };
        let mut fields = ask.fields.clone();
        if let Some(Secret(token)) = ask.bearer.as_ref().filter(|_| trusted) {
            fields.push(("authorization", format!("Bearer {token}")));
        }
        // what a caller sends for authorization is meant for the first host too
        fields.retain(|(name, _)| trusted || *name != "authorization");
        let result = if let Some(json) = &ask.json {
            let request = agent.post(url.whole()).content_type("application/json");
            fields.iter().fold(request, |request, (name, value)| request.header(*name, value)).send(json)
        } else {
            fields.iter().fold(agent.get(url.whole()), |request, (name, value)| request.header(*name, value)).call()
        };
        result.map_err(|error| self.timed(WireError::of(error, url)))
    }

    /// Fetches a small answer as a whole, trying again where that helps.
    ///
    /// # Errors
    /// When it does not come, or is longer than `limit` bytes.
    pub fn document(&self, ask: &HttpRequest, limit: u64, line: &CancelHandle) -> Result<Document, WireError> {
        let mut retry = Retry::new(&self.timeouts);
        loop {
            let error = match self.send(ask).and_then(|answer| self.read_whole(answer, limit, line)) {
                Ok(document) => return Ok(document),
                Err(error) => error,
            };
            retry.after(error, false, line)?;
        }
    }

    fn read_whole(&self, answer: HttpResponse, limit: u64, line: &CancelHandle) -> Result<Document, WireError> {
        let text = |name: &str| answer.field(name).map(str::to_owned);
        let (code, challenge) = (text("x-error-code"), text("www-authenticate"));
        let HttpResponse { url, status, body, .. } = answer;
        let mut bytes = Vec::new();
        let mut body = body.into_reader();
        super::piece::read_up_to(&mut body, limit + 1, &mut bytes, &self.timeouts, &url, line)
            .map_err(|error| self.timed(error))?;
        if bytes.len() as u64 > limit {
            return Err(WireError::TooLong { url, limit });
        }
        Ok(Document { status, code, challenge, url, bytes })
    }

    /// Says how long a silence was.
    pub(super) fn timed(&self, error: WireError) -> WireError {
        match error {
            WireError::Silent { host, .. } => WireError::Silent { host, after: self.timeouts.answer },
            other => other,
        }
    }
}

/// Whether a status means: later.
fn is_busy(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..)
}

/// What a busy server says, with the wait that it asks for.
fn busy(answer: &HttpResponse) -> WireError {
    let seconds = answer.field("retry-after").and_then(|seconds| seconds.trim().parse().ok());
    let (host, status) = (answer.url.host().to_owned(), answer.status);
    WireError::Busy { host, status, tries: 1, wait: seconds.map(Duration::from_secs) }
}

/// Reads the rest of a short answer, so that its connection can serve the next request.
fn drain(body: Body) {
    let mut sink = [0; 4096];
    let mut reader = body.into_reader().take(64 << 10);
    // an answer that does not end well costs its connection, nothing else
    while reader.read(&mut sink).is_ok_and(|n| n > 0) {}
}

/// A server's text, fit for a sentence: printable, without a query, and not too long.
fn shown(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}
