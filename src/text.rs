//! Text from files, networks and drivers, made fit to be shown.
//!
//! It is cleaned where it comes in: a header's strings in [`Model`](crate::model::Model), a log's lines in
//! [`observed`](crate::observed), a card's name in [`Machine`](crate::machine::Machine). What is printed passes
//! [`shown`] or [`json`] once more, since paths and messages of other programs stay as they are until then.

use std::borrow::Cow;
use std::fmt::Write;

use serde::Serialize;

/// Bytes of a name that may be a misspelt one: comparing longer ones would take long, and help nobody.
pub(crate) const LONGEST_NAME: usize = 128;

/// Whether `c` changes only its own place: no control character, no separator of lines, and none of the marks that turn
/// the direction of the text around them (Unicode 17, UAX #9: implicit marks, embeddings, overrides and isolates).
pub fn is_printable(c: char) -> bool {
    !(c.is_control() || is_separator(c) || is_direction(c))
}

const fn is_separator(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

const fn is_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` on one line: control characters and separators become spaces, marks of direction are left out.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().filter(|c| !is_direction(*c));
    Cow::Owned(kept.map(|c| if is_printable(c) { c } else { ' ' }).collect())
}

/// `text` with each character that is not printable written out, as in `\u{202e}`: for paths and names in messages.
pub fn quoted(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_printable(c) { out.push(c) } else { out.extend(c.escape_default()) }
    }
    Cow::Owned(out)
}

/// `word`, if what is written of it is the same again: a path with a tab, a line break or a mark of direction would become
/// another one, or hide what it is.
///
/// # Errors
/// One sentence without its full stop.
pub fn exact(word: &str) -> Result<&str, String> {
    let odd = |c: char| !is_printable(c) || c == char::REPLACEMENT_CHARACTER;
    match word.chars().find(|c| odd(*c)) {
        None => Ok(word),
        Some(c) => Err(format!(
            "'{}' has the character {} in it, with which it would be written as another name: rename the file, or make a \
             link to it",
            quoted(word),
            c.escape_unicode()
        )),
    }
}

/// `word` as one printable word of a POSIX shell, quoted if necessary.
pub fn shell_word(word: &str) -> String {
    let word = &*one_line(word);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// `text` in double quotes, with what is not printable written out, as YAML (1.2, 5.7) and TOML (1.0, basic strings) have it.
pub fn in_quotes(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '\\' | '"' => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => {
                // writing to a string cannot fail
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
        }
    }
    out + "\""
}

/// The lines of `text` as they may be printed: line breaks and tabs stay, with `colours` those of a terminal
/// (`\e[1;31m`) too, and of the rest what is printable.
pub fn shown(text: &str, colours: bool) -> Cow<'_, str> {
    let fits = |c: char| is_printable(c) || matches!(c, '\n' | '\t');
    if text.chars().all(fits) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = colour(rest).filter(|_| colours).unwrap_or(c.len_utf8());
        let (piece, after) = rest.split_at(length);
        if fits(c) || length > c.len_utf8() {
            out.push_str(piece);
        }
        rest = after;
    }
    Cow::Owned(out)
}

/// The length of a colour's escape sequence at the start of `text`.
fn colour(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.bytes().position(|byte| !(byte.is_ascii_digit() || byte == b';'))?;
    (codes.as_bytes().get(end) == Some(&b'm')).then_some(end + 3)
}

/// `value` as indented JSON, in which each character that is not printable is escaped.
///
/// # Errors
/// As [`serde_json::to_string_pretty`].
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    let fits = |c: char| is_printable(c) || c == '\n';
    if text.chars().all(fits) {
        return Ok(text);
    }
    // none of them stands outside a string, and all are in the basic plane, where JSON has one escape for each
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if fits(c) {
            out.push(c);
        } else {
            // writing to a string cannot fail
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
    }
    Ok(out)
}

/// `text` without users' names, passwords and queries in the addresses in it.
pub fn without_secrets(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        out += before;
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '<' | '>')).unwrap_or(after.len());
        let (address, more) = after.split_at(end);
        let address = address.split(['?', '#']).next().unwrap_or_default();
        let (host, path) = address.find(['/', '\\']).map_or((address, ""), |slash| address.split_at(slash));
        out += host.rsplit('@').next().unwrap_or(host);
        out += path;
        rest = more;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character that must not be printed.
    fn refused() -> impl Iterator<Item = char> {
        let controls = ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}');
        let marks = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}'];
        controls.chain(marks).chain('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}')
    }

    #[test]
    fn words_are_quoted_only_if_necessary() {
        assert_eq!(shell_word("models/a-1.gguf"), "models/a-1.gguf");
        assert_eq!(shell_word("my model.gguf"), "'my model.gguf'");
        assert_eq!(shell_word("it's; rm -rf"), r"'it'\''s; rm -rf'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn a_name_that_would_be_another_one_is_refused() {
        for c in refused().chain(['\u{fffd}']) {
            let why = exact(&format!("a{c}b")).unwrap_err();
            assert!(why.chars().all(is_printable) && why.contains("rename"), "{why}");
        }
        assert_eq!(exact("名前 $(x) 'y'.gguf"), Ok("名前 $(x) 'y'.gguf"));
    }

    #[test]
    fn text_in_quotes_is_read_as_it_was() {
        for text in ["a\"b\\c", "tab\tbreak\nmark\u{202e}", "$HOME: #x", "", "\u{1f600}"] {
            assert_eq!(serde_saphyr::from_str::<String>(&in_quotes(text)).unwrap(), text);
            let read: toml::Table = toml::from_str(&format!("a = {}", in_quotes(text))).unwrap();
            assert_eq!(read["a"].as_str(), Some(text));
        }
    }

    #[test]
    fn nothing_unprintable_is_left() {
        for c in refused() {
            let text = format!("a{c}b");
            assert!(!is_printable(c), "{c:?}");
            for out in [one_line(&text), quoted(&text)] {
                assert!(out.chars().all(is_printable) && out.starts_with('a') && out.ends_with('b'), "{out:?}");
            }
            let out = shown(&text, true);
            assert!(out.chars().all(|c| is_printable(c) || matches!(c, '\n' | '\t')), "{out:?}");
            let out = json(&text).unwrap();
            assert!(out.chars().all(is_printable), "{out:?}");
            assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text, "JSON keeps the text");
        }
    }

    #[test]
    fn what_is_printable_stays() {
        for text in ["Llama 3.1 8B", "名前 · é", "👩‍🚀 \u{2009}1", ""] {
            assert!(matches!(one_line(text), Cow::Borrowed(_)) && matches!(quoted(text), Cow::Borrowed(_)), "{text}");
            assert_eq!((shown(text, false), one_line(text)), (text.into(), text.into()));
        }
    }

    #[test]
    fn text_is_cleaned() {
        assert_eq!(one_line("a\nb\u{1b}[2Jc\u{202e}d"), "a b [2Jcd");
        assert_eq!(quoted("a\nb\u{202e}"), r"a\nb\u{202e}");
        let text = "\u{1b}[1;31mred\u{1b}[0m\n\u{1b}[2Jcleared \u{1b}";
        assert_eq!(shown(text, true), "\u{1b}[1;31mred\u{1b}[0m\n[2Jcleared ");
        assert_eq!(shown(text, false), "[1;31mred[0m\n[2Jcleared ");
    }
}

#[cfg(test)]
mod secrets_tests {
    use super::without_secrets;
    use rstest::rstest;

    #[rstest]
    #[case("https://me:pass@host:80/a/b.gguf?token=x#y", "https://host:80/a/b.gguf")]
    #[case("'https://host/a?X-Amz-Signature=x' was not found: HTTP 404", "'https://host/a' was not found: HTTP 404")]
    #[case("http://u@h and http://v:w@i/", "http://h and http://i/")]
    #[case("hf://owner/repo:Q4_K_M", "hf://owner/repo:Q4_K_M")]
    #[case("catalogue:qwen3-8b@q8_0", "catalogue:qwen3-8b@q8_0")]
    #[case("http://a@b@c/d@e", "http://c/d@e")]
    #[case("", "")]
    fn addresses_lose_what_may_be_secret(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(without_secrets(text), shown);
    }
}
