//! The servers that are asked, with what a user's environment and command line say of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use super::host::{HUB, is_this_machine};
use super::http::{Client, Secret, Timeouts};
use crate::files;

/// The servers that references are looked up on, with the user's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Ollama's registry.
    pub registry: String,
    /// Hugging Face, or a mirror of it.
    pub hugging_face: String,
    /// Hugging Face token; sent to that server only.
    pub hf_token: Option<Secret>,
    /// A running Ollama.
    pub ollama: Option<String>,
    /// Whether the user named that Ollama; then its failures are reported.
    pub ollama_is_named: bool,
    /// The private key that Ollama signs in with.
    pub ollama_key: Option<PathBuf>,
    /// Folder of cached headers.
    pub cache: Option<PathBuf>,
    /// Send no requests: use the cache only.
    pub offline: bool,
    /// Whether to use the proxies of the environment's usual variables.
    pub proxies: bool,
    /// Timeouts and retry limits.
    pub timeouts: Timeouts,
}

impl Default for Network {
    /// The public servers, with no token, no running Ollama, no cache and no proxy.
    fn default() -> Self {
        Self {
            registry: "https://registry.ollama.ai".to_owned(),
            hugging_face: HUB.to_owned(),
            hf_token: None,
            ollama: None,
            ollama_is_named: false,
            ollama_key: None,
            cache: None,
            offline: false,
            proxies: false,
            timeouts: Timeouts::default(),
        }
    }
}

impl Network {
    /// The servers named in an environment, else the public ones; `home` and `cache` are the user's folders.
    ///
    /// `OLLAMA_HOST` is read as in `envconfig.Host` of Ollama 0.24; `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH` and
    /// `HF_HOME` as in `huggingface_hub`'s constants. `OLLAMA_REGISTRY` is plimsoll's own.
    pub fn of(env: &dyn Fn(&str) -> Option<OsString>, home: Option<&Path>, cache: Option<&Path>) -> Self {
        let text = |name: &str| {
            let value = env(name)?.to_string_lossy().trim().trim_matches(['"', '\'']).to_owned();
            (!value.is_empty()).then_some(value)
        };
        let usual = Self::default();
        let server = |name: &str, usual: String| text(name).map_or(usual, |server| with_scheme(&server));
        let token_file = || {
            let path = text("HF_TOKEN_PATH").map(PathBuf::from);
            let path = path.or_else(|| Some(PathBuf::from(text("HF_HOME")?).join("token")));
            let path = path.or_else(|| Some(home?.join(".cache/huggingface/token")))?;
            files::text(&path, files::TEXT).ok().flatten()
        };
        let token = text("HF_TOKEN").or_else(|| text("HUGGING_FACE_HUB_TOKEN")).or_else(token_file);
        let named = text("OLLAMA_HOST");
        Self {
            registry: server("OLLAMA_REGISTRY", usual.registry),
            hugging_face: server("HF_ENDPOINT", usual.hugging_face),
            hf_token: token.as_deref().and_then(Secret::new),
            ollama_is_named: named.is_some(),
            ollama: Some(ollama_host(named.as_deref().unwrap_or_default())),
            ollama_key: home.map(|home| home.join(".ollama/id_ed25519")),
            cache: cache.map(|cache| cache.join("plimsoll/headers")),
            offline: text("PLIMSOLL_OFFLINE").is_some_and(|value| !["0", "false"].contains(&value.as_str())),
            proxies: true,
            timeouts: usual.timeouts,
        }
    }

    /// A conversation with these servers.
    pub fn client(&self) -> Client {
        Client::new(self.timeouts.clone(), self.proxies, self.offline)
    }

    /// The same within the limits of the command line.
    pub(super) fn limited(mut self) -> Self {
        if let Some((offline, whole)) = ASKED.get() {
            self.offline |= offline;
            self.timeouts = whole.map_or(self.timeouts, Timeouts::within);
        }
        self
    }
}

/// What the command line says of servers.
static ASKED: OnceLock<(bool, Option<Duration>)> = OnceLock::new();

/// From now on, [`super::Roots::of_this_machine`] names servers that are not asked while `offline`, and no conversation with them
/// takes longer than `whole`; the first call counts.
pub fn limit_network(offline: bool, whole: Option<Duration>) {
    ASKED.get_or_init(|| (offline, whole));
}

/// A server's address; the default scheme is https, or http on this machine.
fn with_scheme(server: &str) -> String {
    let server = server.trim_end_matches('/');
    if server.contains("://") {
        return server.to_owned();
    }
    format!("{}://{server}", if is_this_machine(server) { "http" } else { "https" })
}

/// The address of a running Ollama: by default http, 127.0.0.1 and port 11434.
fn ollama_host(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let default_port = match (scheme, text.contains("://")) {
        ("https", _) => "443",
        ("http", true) => "80",
        _ => "11434",
    };
    let (host, path) = rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, default_port),
    };
    let port = if port.parse::<u16>().is_ok() { port } else { default_port };
    // 0.0.0.0 is valid for a server to listen on, but not to connect to
    let name = match name {
        "" | "0.0.0.0" => "127.0.0.1",
        "[::]" => "[::1]",
        name => name,
    };
    format!("{scheme}://{name}:{port}{}", path.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("", "http://127.0.0.1:11434")]
    #[case("0.0.0.0", "http://127.0.0.1:11434")]
    #[case("box:8080", "http://box:8080")]
    #[case("https://box.example/ollama/", "https://box.example:443/ollama")]
    #[case("http://box", "http://box:80")]
    #[case("[::1]", "http://[::1]:11434")]
    #[case("box:nonsense", "http://box:11434")]
    fn ollama_host_is_parsed_as_by_ollama(#[case] text: &str, #[case] address: &str) {
        assert_eq!(ollama_host(text), address);
    }

    #[test]
    fn servers_are_read_from_the_environment_and_the_token_is_hidden() {
        let env = |name: &str| {
            let value = match name {
                "OLLAMA_REGISTRY" => "localhost:5000/",
                "HF_ENDPOINT" => "hf-mirror.example",
                "HF_TOKEN" => " hf_secret\n",
                _ => return None,
            };
            Some(OsString::from(value))
        };
        assert_eq!(with_scheme("127.evil.example/"), "https://127.evil.example");
        let network = Network::of(&env, None, Some(Path::new("/cache")));
        assert_eq!(network.registry, "http://localhost:5000");
        assert_eq!(network.hugging_face, "https://hf-mirror.example");
        assert_eq!(network.hf_token, Secret::new("hf_secret"));
        assert!(!format!("{network:?}").contains("hf_secret"));
        assert_eq!(network.cache.as_deref(), Some(Path::new("/cache/plimsoll/headers")));
    }
}
