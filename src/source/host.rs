//! What is this machine, and what stays in its folder, in addresses and in lists of others.

use std::net::IpAddr;

/// Hugging Face, unless a mirror is named.
pub(super) const HUB: &str = "https://huggingface.co";

/// Whether the host of a server's address, with or without a scheme, is this machine: `localhost`, or an IP address that
/// loops back.
pub fn is_this_machine(address: &str) -> bool {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(v6),
        None => host.split(':').next().unwrap_or(host),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a path of a server, with `%` and two digits or without, names a folder above: its address would be another one.
pub(super) fn leads_out(path: &str) -> bool {
    // addresses lose these characters
    let path: String = unescaped(path).chars().filter(|c| !c.is_control()).collect();
    path.split(['/', '\\']).any(|part| part == "..")
}

/// Decodes percent-encoding.
pub(super) fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_an_address_that_loops_back() {
        for here in [
            "127.0.0.1",
            "http://127.9.9.9:80/x",
            "LOCALHOST:5000/",
            "https://localhost",
            "[::1]:11434",
            "u:p@127.0.0.1",
        ] {
            assert!(is_this_machine(here), "{here}");
        }
        for away in [
            "127.evil.example",
            "http://127.0.0.1.example",
            "localhost.example:80",
            "http://localhost@example.org",
            "http://example.org/localhost",
            "http://example.org//127.0.0.1",
            "127",
            "10.0.0.1",
            "[::2]",
            "",
        ] {
            assert!(!is_this_machine(away), "{away}");
        }
    }

    #[test]
    fn paths_that_lead_out_are_known() {
        for out in ["..", "../a", "a/../b", "a\\..\\b", "a/%2e%2E/b", "a/.%2e", ".\t./a", "%2e%2e%2fa"] {
            assert!(leads_out(out), "{out:?}");
        }
        for fine in ["a", "a/b..c", "...", "a/.b", "%252e%252e/a", "%2"] {
            assert!(!leads_out(fine), "{fine:?}");
        }
    }
}
