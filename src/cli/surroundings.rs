//! What bug reports need to know of the program and its environment, without secrets.

use std::ffi::OsString;

use super::error::one_line;
use crate::source::without_secrets;

/// Variables that the program or a library of it reads, by the beginning of their names.
const READ: [&str; 17] = [
    "OLLAMA_",
    "LLAMA_",
    "PLIMSOLL_",
    "HF_",
    "CUDA_",
    "ROCR_",
    "HIP_",
    "XDG_",
    "LC_",
    "LANG",
    "TERM",
    "COLORTERM",
    "COLORFGBG",
    "NO_COLOR",
    "NO_PROXY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
];

/// Parts of names whose values are never shown.
const SECRET: [&str; 5] = ["TOKEN", "KEY", "SECRET", "PASSWORD", "AUTH"];

/// `plimsoll 0.1.0 on linux x86_64 (gnu), with cli, tui, net`
pub(super) fn version() -> String {
    let libc = if cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        " (musl, static)"
    } else if cfg!(target_env = "musl") {
        " (musl)"
    } else if cfg!(target_env = "gnu") {
        " (gnu)"
    } else if cfg!(target_env = "msvc") {
        " (msvc)"
    } else {
        ""
    };
    let build = if cfg!(debug_assertions) { ", debug build" } else { "" };
    let net = if cfg!(feature = "net") { "" } else { ", without network" };
    let (version, os, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    format!("plimsoll {version} on {os} {arch}{libc}{net}{build}")
}

/// The variables that are set and read, by name; the value of one that may be secret is left out.
pub(super) fn variables() -> Vec<(String, String)> {
    let text = |text: OsString| one_line(&text.to_string_lossy());
    let all = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let is_read = |name: &str| READ.iter().any(|start| name.to_ascii_uppercase().starts_with(start));
    let mut read: Vec<_> = all.filter(|(name, _)| is_read(name)).map(|(name, value)| shown(name, &value)).collect();
    read.sort_unstable();
    read
}

fn shown(name: String, value: &str) -> (String, String) {
    let upper = name.to_ascii_uppercase();
    let value = if SECRET.iter().any(|part| upper.contains(part)) && !upper.starts_with("LLAMA_ARG_") {
        "(set)".to_owned()
    } else if upper.ends_with("_PROXY") && !value.contains("://") {
        // a proxy may be named without its scheme
        value.rsplit('@').next().unwrap_or_default().to_owned()
    } else {
        without_secrets(value)
    };
    (name, value)
}

/// The command on one line, whatever the program's folder.
pub(super) fn arguments(arguments: &[OsString]) -> String {
    let words = arguments.iter().skip(1).map(|word| word_without_secrets(&one_line(&word.to_string_lossy())));
    let quoted = words.map(|word| if word.contains(' ') { format!("'{word}'") } else { word });
    std::iter::once("plimsoll".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

/// `NAME=VALUE`, `--option=NAME=VALUE` or an address without what may be secret in it.
fn word_without_secrets(word: &str) -> String {
    match word.split_once('=') {
        Some((name, value)) if !name.contains("://") => {
            let (name, value) = shown(name.to_owned(), value);
            format!("{name}={}", word_without_secrets(&value))
        }
        _ => without_secrets(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out() {
        let of = |name: &str, value: &str| shown(name.to_owned(), value).1;
        assert_eq!(of("HF_TOKEN", "hf_abc"), "(set)");
        assert_eq!(of("ollama_api_key", "abc"), "(set)");
        assert_eq!(of("OLLAMA_HOST", "http://me:pass@host:1"), "http://host:1");
        assert_eq!(of("https_proxy", "me:pass@proxy:8080"), "proxy:8080");
        assert_eq!(of("LLAMA_ARG_CACHE_TYPE_K", "q8_0"), "q8_0", "a type, not a key");
        let words = [
            "/opt/bin/plimsoll",
            "--server-env",
            "OLLAMA_API_KEY=abc",
            "https://u:p@h/m.gguf?sig=1",
            "--gpu",
            "RTX 3090",
        ];
        let shown = arguments(&words.map(OsString::from));
        assert_eq!(shown, "plimsoll --server-env OLLAMA_API_KEY=(set) https://h/m.gguf --gpu 'RTX 3090'");
        let joined = arguments(&["plimsoll", "--server-env=OLLAMA_API_KEY=abc"].map(OsString::from));
        assert!(!joined.contains("abc"), "{joined}");
    }
}
