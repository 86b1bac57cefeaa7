//! Addresses, as far as models have them: http and https, a host, a path.

use std::fmt;

/// An address on the web. Its `Display` leaves out what may be secret: the user's name and the query.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    scheme: &'static str,
    user: Option<Box<str>>,
    host: Box<str>,
    path: Box<str>,
    query: Option<Box<str>>,
}

impl Url {
    /// Reads an address that begins with `http://` or `https://`, in any letter case.
    ///
    /// # Errors
    /// When it is none: one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = ["https", "http"]
            .into_iter()
            .find_map(|scheme| Some((scheme, after(text, scheme)?.strip_prefix("://")?)))
            .ok_or_else(|| "it starts with neither http:// nor https://".to_owned())?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let host = host.to_ascii_lowercase();
        let (name, port) = split_port(&host);
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
        if name.is_empty() || !host.chars().all(fits) {
            return Err("it names no host".to_owned());
        }
        if port.is_some_and(|port| port.parse::<u16>().is_err()) {
            return Err("its port is not a number up to 65535".to_owned());
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
        let path = if path.is_empty() { "/".into() } else { escaped(path) };
        Ok(Self { scheme, user: user.map(escaped), host: host.into(), path, query: query.map(escaped) })
    }

    /// The address that `location` means when this one answers with it; none where that is not on the web.
    pub fn join(&self, location: &str) -> Option<Self> {
        let location = location.trim();
        let scheme_end = location.find([':', '/', '?', '#']).filter(|at| location[*at..].starts_with(':'));
        if scheme_end.is_some() {
            return Self::parse(location).ok();
        }
        if location.starts_with("//") {
            return Self::parse(&format!("{}:{location}", self.scheme)).ok();
        }
        let base = format!("{}://{}", self.scheme, self.host);
        if location.starts_with('/') {
            return Self::parse(&(base + location)).ok();
        }
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Self::parse(&format!("{base}{folder}/{location}")).ok()
    }

    /// This address with more path behind it.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        let path = format!("{}/{}", self.path.trim_end_matches('/'), escaped(path.trim_start_matches('/')));
        Self { path: path.into(), query: None, ..self.clone() }
    }

    /// This address with another last part of its path.
    #[must_use]
    pub fn beside(&self, name: &str) -> Self {
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Self { path: format!("{folder}/{}", escaped(name)).into(), ..self.clone() }
    }

    /// This address with a query.
    #[must_use]
    pub fn with_query(&self, query: &str) -> Self {
        Self { query: Some(escaped(query)), ..self.clone() }
    }

    /// Host and port, as written.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The path, without its query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The last part of the path.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it is encrypted on its way.
    pub fn is_secure(&self) -> bool {
        self.scheme == "https"
    }

    /// Whether it is this very machine.
    pub fn is_loopback(&self) -> bool {
        let name = split_port(&self.host).0;
        name == "localhost"
            || name == "[::1]"
            || (name.starts_with("127.") && name.parse::<std::net::Ipv4Addr>().is_ok())
    }

    /// Whether both are the same scheme, host and port: a token for one may go to the other.
    pub fn same_origin(&self, other: &Self) -> bool {
        let origin = |url: &Self| {
            let (name, port) = split_port(&url.host);
            let usual = if url.is_secure() { "443" } else { "80" };
            (url.scheme, name.to_owned(), port.unwrap_or(usual).to_owned())
        };
        origin(self) == origin(other)
    }

    /// All of it, for the wire only.
    pub fn whole(&self) -> String {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let query = self.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}://{user}{}{}{query}", self.scheme, self.host, self.path)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.host, self.path)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What comes after `start`, in whatever letter case.
fn after<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    text.get(..start.len()).filter(|head| head.eq_ignore_ascii_case(start))?;
    text.get(start.len()..)
}

/// A host's name, and its port where one is written.
fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        // the colons of an IPv6 address stand inside brackets
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    }
}

/// `text` with everything escaped that may not stand in an address; what is escaped already stays as it is.
fn escaped(text: &str) -> Box<str> {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.extend(["%", hex(byte >> 4), hex(byte & 15)]);
        }
    }
    out.into()
}

/// A number under 16 as one digit.
fn hex(digit: u8) -> &'static str {
    "0123456789ABCDEF".get(usize::from(digit)..=usize::from(digit)).unwrap_or_default()
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
