//! Network errors.

use std::io;
use std::time::Duration;

use super::url::Url;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names say it")]
pub enum WireError {
    #[error("the host '{host}' cannot be resolved: check the address and the network connection")]
    NoHost { host: String },
    #[error("'{host}' is not contacted")]
    NotAsked { host: String },
    #[error("'{host}' cannot be reached ({why}): check that it is running, and the network connection")]
    Unreachable { host: String, why: String },
    #[error(
        "the certificate of '{host}' is not trusted ({why}): check the address, the clock, and the system's \
         certificates"
    )]
    Certificate { host: String, why: String },
    #[error("'{host}' sent nothing for {} s: try again later", .after.as_secs_f32())]
    Silent { host: String, after: Duration },
    #[error("'{host}' is too slow ({bytes} bytes in {} s), so loading was stopped: try again later", .after.as_secs_f32().round())]
    Slow { host: String, bytes: u64, after: Duration },
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
    /// Converts the client library's error of a request to `url`.
    pub(super) fn of(error: ureq::Error, url: &Url) -> Self {
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
    pub(super) fn of_io(error: io::Error, host: String, at: u64) -> Self {
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
