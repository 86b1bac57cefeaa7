//! Addresses of models, http or https; displayed without secrets.

use std::fmt;

use url::{Host, ParseError, Position};

/// An http or https address. Its `Display` omits what may be secret: user name, password and query.
#[derive(Clone, PartialEq, Eq)]
pub struct Url(
    // in a box, because most errors hold one
    Box<url::Url>,
);

impl Url {
    /// Parses an address that begins with `http://` or `https://`, in any letter case.
    ///
    /// # Errors
    /// Why it is not one: one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        if !["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)) {
            return Err("it starts with neither http:// nor https://".to_owned());
        }
        // browsers take the first part of the path as the host
        if rest.starts_with(['/', '\\']) {
            return Err(sentence(ParseError::EmptyHost));
        }
        url::Url::parse(text).map(Self::without_fragment).map_err(sentence)
    }

    /// Whether `text` is the address of a proxy, whose scheme may be left out.
    pub fn is_of_proxy(text: &str) -> bool {
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        url::Url::parse(&whole).is_ok_and(|url| url.has_host())
    }

    /// Resolves a `Location` field of a response from this address; none if it is not http or https.
    pub fn join(&self, location: &str) -> Option<Self> {
        match url::Url::parse(location) {
            Err(ParseError::RelativeUrlWithoutBase) => self.0.join(location).map(Self::without_fragment).ok(),
            _ => Self::parse(location.trim()).ok(),
        }
    }

    /// The address without its fragment, which is not sent.
    fn without_fragment(mut url: url::Url) -> Self {
        url.set_fragment(None);
        Self(Box::new(url))
    }

    /// This address with `path` appended to its path.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        let mut url = self.0.clone();
        url.set_path(&format!("{}/{}", url.path().trim_end_matches('/'), path.trim_start_matches('/')));
        url.set_query(None);
        Self(url)
    }

    /// This address with another file name.
    #[must_use]
    pub fn beside(&self, name: &str) -> Self {
        let mut url = self.0.clone();
        let folder = url.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        url.set_path(&format!("{folder}/{name}"));
        Self(url)
    }

    /// This address with a query.
    #[must_use]
    pub fn with_query(&self, query: &str) -> Self {
        let mut url = self.0.clone();
        url.set_query(Some(query));
        Self(url)
    }

    /// Host, and port unless it is the default.
    pub fn host(&self) -> &str {
        &self.0[Position::BeforeHost..Position::AfterPort]
    }

    /// The path, without its query.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// The last part of the path.
    pub fn file_name(&self) -> &str {
        self.path().rsplit('/').next().unwrap_or_default()
    }

    /// Whether it is https.
    pub fn is_secure(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Whether its host is this machine.
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }

    /// Whether scheme, host and port are the same, so that a token for one may be sent to the other.
    pub fn same_origin(&self, other: &Self) -> bool {
        self.0.origin() == other.0.origin()
    }

    /// The whole address with its secrets, only for sending.
    pub fn whole(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0[..Position::BeforeUsername])?;
        f.write_str(&self.0[Position::BeforeHost..Position::AfterPath])
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn sentence(error: ParseError) -> String {
    match error {
        ParseError::EmptyHost => "it names no host".to_owned(),
        ParseError::InvalidPort => "its port is no number up to 65535".to_owned(),
        ParseError::IdnaError => "its host's name is none: outside ASCII, write it as xn--…".to_owned(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::Url;
    use rstest::rstest;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[rstest]
    #[case("https://a.b/c/d?x=1", "/e", "https://a.b/e")]
    #[case("https://a.b/c/d", "e?y=2", "https://a.b/c/e?y=2")]
    #[case("https://a.b/c/d", "//cdn.c/e", "https://cdn.c/e")]
    #[case("http://a.b:80/c", "HTTPS://D.e/f#g", "https://d.e/f")]
    #[case("http://a.b", "x y", "http://a.b/x%20y")]
    fn locations_are_joined(#[case] base: &str, #[case] location: &str, #[case] whole: &str) {
        assert_eq!(url(base).join(location).unwrap().whole(), whole);
    }

    #[test]
    fn nothing_off_the_web_is_an_address() {
        for location in ["file:///etc/passwd", "ftp://a/b", "javascript:1", "http://", "http:///x", "http://a:99999/"] {
            assert_eq!(url("http://a").join(location), None, "{location}");
        }
    }

    #[test]
    fn addresses_grow_at_their_end() {
        let server = url("https://a.b/mirror/?x=1");
        assert_eq!(server.at("/o/r/100%25 a?b").whole(), "https://a.b/mirror/o/r/100%25%20a%3Fb");
        assert_eq!(url("http://a/b/c-1.gguf?d=e").beside("c-2.gguf").whole(), "http://a/b/c-2.gguf?d=e");
        assert_eq!(server.with_query("recursive=true").whole(), "https://a.b/mirror/?recursive=true");
        assert_eq!((server.at("x/y.gguf").file_name(), url("http://a:8080/").host()), ("y.gguf", "a:8080"));
    }

    #[rstest]
    #[case("https://münchen.example/", "xn--")]
    #[case("https://a:99999/", "65535")]
    #[case("https:///x", "no host")]
    #[case("a.b/c", "neither http://")]
    fn what_is_wrong_is_said(#[case] text: &str, #[case] description: &str) {
        assert!(Url::parse(text).unwrap_err().contains(description));
    }

    #[test]
    fn this_machine_is_known_by_every_name() {
        for here in ["http://localhost:1", "http://127.0.0.1", "http://127.9.9.9:80/", "http://[::1]:11434/x"] {
            assert!(url(here).is_loopback(), "{here}");
        }
        for away in
            ["http://127.example", "http://10.0.0.1", "http://localhost.example", "https://xn--mnchen-3ya.example"]
        {
            assert!(!url(away).is_loopback(), "{away}");
        }
    }

    #[test]
    fn proxies_are_addresses_with_or_without_a_scheme() {
        for proxy in ["http://h:8080", "h:8080", "socks5://u:p@h", "https://[::1]:3128/", "10.0.0.1"] {
            assert!(Url::is_of_proxy(proxy), "{proxy}");
        }
        for none in ["http://h:port", "a b", "http://", "http://u:p@[x", "h:99999"] {
            assert!(!Url::is_of_proxy(none), "{none}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{0} {0:?}", url("https://me:secret@a.b/c?token=secret"));
        assert_eq!(shown, "https://a.b/c https://a.b/c");
    }

    #[test]
    fn origins_are_scheme_host_and_port() {
        assert!(url("https://a.b/c").same_origin(&url("https://A.b:443/d")));
        for other in ["http://a.b/", "https://a.b:444/", "https://c.a.b/"] {
            assert!(!url("https://a.b/").same_origin(&url(other)), "{other}");
        }
    }
}
