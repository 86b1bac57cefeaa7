//! Short questions over HTTP: once, with a time limit, whatever the answer.

use std::time::Duration;

use crate::source::Roots;

/// What a server answered.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// The body; what is no UTF-8 is replaced.
    pub text: String,
}

impl Reply {
    /// The body as JSON, if the request succeeded and it is.
    pub fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_str(&self.text).ok().filter(|_| self.status == 200)
    }
}

/// Time limit of a connection.
#[cfg(feature = "net")]
const CONNECT: Duration = Duration::from_secs(2);

/// Asks servers.
#[derive(Clone)]
pub struct Asker {
    #[cfg(feature = "net")]
    client: crate::source::http::Client,
    #[cfg(feature = "net")]
    allowed: crate::budget::Allowance,
    #[cfg(feature = "net")]
    offline: bool,
}

#[cfg(feature = "net")]
impl Asker {
    /// Waits `wait` for the beginning of an answer, and for all of it no longer than a question may take, or `wait`.
    pub fn new(roots: &Roots, wait: Duration) -> Self {
        use crate::budget::Allowance;
        let mut network = roots.network.clone().unwrap_or_default();
        // of programs on this machine is asked what they hold, not which models there are
        let offline = std::mem::take(&mut network.offline);
        network.timeouts.connect = network.timeouts.connect.min(CONNECT);
        (network.timeouts.answer, network.timeouts.silence) = (wait, wait);
        if Some(wait) > Allowance::QUESTION.time {
            // a load takes as long as it takes
            network.timeouts.whole = None;
        }
        let allowed = Allowance { time: Allowance::QUESTION.time.max(Some(wait)), ..Allowance::QUESTION };
        Self { client: network.client(), allowed, offline }
    }

    /// Sends a GET request, or with `json` a POST request, to `server`.
    ///
    /// # Errors
    /// One clause on why there is no answer.
    pub fn ask(&self, server: &str, path: &str, json: Option<String>) -> Result<Reply, String> {
        use crate::source::http::{HttpRequest, Url, WireError};
        let url = Url::parse(server).map_err(|why| format!("'{server}' names no server: {why}"))?.at(path);
        if self.offline && !url.is_loopback() {
            return Err(WireError::NotAsked { host: url.host().to_owned() }.to_string());
        }
        let request = HttpRequest { json, ..HttpRequest::get(url) };
        let said = self.client.ask(&request, self.allowed).map_err(|error| error.to_string())?;
        Ok(Reply { status: said.status, text: String::from_utf8_lossy(&said.bytes).into_owned() })
    }
}

#[cfg(not(feature = "net"))]
#[allow(clippy::unused_self, reason = "as with a network")]
impl Asker {
    /// Nothing can be asked.
    pub const fn new(_: &Roots, _: Duration) -> Self {
        Self {}
    }

    /// Nothing can be asked.
    ///
    /// # Errors
    /// Always.
    pub fn ask(&self, _: &str, _: &str, _: Option<String>) -> Result<Reply, String> {
        Err("this build asks no servers".to_owned())
    }
}
