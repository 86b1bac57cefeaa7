//! What is read from the holes of a pattern: words, numbers and sizes.

use super::amount::{Mib, round};

/// A type that is parsed from the hole of a pattern.
pub(super) trait Hole<'a>: Sized {
    /// Parses the text of a hole; none if it does not fit, so that the line belongs to another row.
    fn read(text: &'a str) -> Option<Self>;
}

/// Implements [`Hole`] by an expression for each type.
macro_rules! holes {
    ($($type:ty: |$text:ident| $read:expr;)+) => {
        $(impl<'a> $crate::observed::hole::Hole<'a> for $type {
            fn read($text: &'a str) -> Option<Self> {
                $read
            }
        })+
    };
}
pub(super) use holes;

/// A size in any unit, perhaps in quotes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size(pub Mib);

/// A device's name, without an RPC server's address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DeviceName<'a>(pub &'a str);

holes! {
    &'a str: |text| Some(text);
    String: |text| Some(name(text));
    bool: |text| text.trim_end_matches(|c: char| !c.is_alphanumeric()).parse().ok();
    // figures may have something behind them
    u64: |text| count(text).map(|(count, _)| count);
    i64: |text| integer(text).map(|(number, _)| number);
    Mib: |text| mib(text).map(|(mib, _)| mib);
    Size: |text| size(text.strip_prefix('"').unwrap_or(text)).map(Size);
    DeviceName<'a>: |text| {
        // the dash of a list
        let name = text.strip_prefix("- ").unwrap_or(text).trim();
        let name = if name.ends_with(']') { name.split('[').next()? } else { name };
        (!name.is_empty() && name.len() <= 64 && !name.contains(char::is_whitespace)).then_some(Self(name))
    };
}

/// The text after the first `mark`.
pub(super) fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, rest)| rest)
}

/// The text between the first `from` and the next `to`.
pub(super) fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    after(text, from)?.split_once(to).map(|(inner, _)| inner)
}

/// A whole number at the start, behind blanks, and the rest.
pub(super) fn integer(text: &str) -> Option<(i64, &str)> {
    let text = text.trim_start();
    let signed = usize::from(text.starts_with('-'));
    let digits = text.bytes().skip(signed).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(signed + digits)?;
    Some((number.parse().ok()?, rest))
}

/// As [`integer`], for counts.
pub(super) fn count(text: &str) -> Option<(u64, &str)> {
    let (number, rest) = integer(text)?;
    Some((u64::try_from(number).ok()?, rest))
}

/// A number with a decimal point or comma at the start, behind blanks, and the rest. Twenty characters at most, so that
/// it is always finite.
pub(super) fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = 0;
    while is_digit(end) {
        end += 1;
    }
    if end > 0 && matches!(bytes.get(end), Some(b'.' | b',')) && is_digit(end + 1) {
        end += 1;
        while is_digit(end) {
            end += 1;
        }
    }
    let (number, rest) = text.split_at_checked(end)?;
    if number.is_empty() || number.len() > 20 {
        return None;
    }
    Some((number.replace(',', ".").parse().ok()?, rest))
}

/// A number of MiB at the start, with its unit.
pub(super) fn mib(text: &str) -> Option<(Mib, &str)> {
    let (number, rest) = number(text)?;
    let rest = rest.trim_start().strip_prefix("MiB")?;
    Some((Mib(number), rest))
}

/// A size with any of the units that logs use, at the start: `608.0 MiB`, `3.6 GiB`, `4.0 GB`, `0 B`.
pub(super) fn size(text: &str) -> Option<Mib> {
    let (number, rest) = number(text)?;
    let rest = rest.trim_start();
    let unit = rest.find(|c: char| !c.is_ascii_alphabetic()).map_or(rest, |end| rest.get(..end).unwrap_or(rest));
    let bytes: f64 = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        "TiB" => 1_099_511_627_776.0,
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => return None,
    };
    Some(Mib(round(number * (bytes / 1_048_576.0))))
}

/// The value of `key=` in a line of Go's `slog`, without its quotes; escapes stay.
pub(super) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find(key).map(|at| at + from) {
        from = at + key.len();
        let starts = at == 0 || text.as_bytes().get(at - 1) == Some(&b' ');
        let Some(rest) = text.get(from..)?.strip_prefix('=').filter(|_| starts) else { continue };
        return Some(match rest.strip_prefix('"') {
            Some(quoted) => quoted.get(..closing(quoted)).unwrap_or(quoted),
            None => rest.split(' ').next().unwrap_or(rest),
        });
    }
    None
}

/// Index of the closing quote, or of the end.
fn closing(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at,
            _ => {}
        }
    }
    text.len()
}

/// `text` without blanks around it, cut at a character's end to at most `most` bytes.
pub(super) fn clip(text: &str, most: usize) -> String {
    let text = text.trim();
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_owned()
}

/// A name or path, cut at 512 bytes.
pub(super) fn name(text: &str) -> String {
    clip(text, 512)
}
