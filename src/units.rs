//! Bytes of memory, tokens of context and shares of a whole as types.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// An amount of memory in bytes.
///
/// Shown in GiB with one decimal from 1 GiB up and in smaller units below; a plain integer in JSON. Sums and
/// differences saturate, so that a plan that needs more than 2^64 bytes does not wrap around to a small one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);

    /// `n` mebibytes (2^20 bytes each).
    pub const fn mib(n: u64) -> Self {
        Self(n.saturating_mul(MIB))
    }

    /// `n` gibibytes (2^30 bytes each).
    pub const fn gib(n: u64) -> Self {
        Self(n.saturating_mul(GIB))
    }

    /// This much of `whole`; zero when `whole` is zero.
    pub fn share_of(self, whole: Self) -> Ratio {
        if whole.0 == 0 { Ratio(0.0) } else { Ratio(self.0 as f64 / whole.0 as f64) }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0 => "0 MiB".to_owned(),
            // 1023.95 MiB and more would round to "1024.0 MiB"
            n if n >= GIB - MIB / 20 => format!("{:.1} GiB", n as f64 / GIB as f64),
            n if n >= 10 * MIB => format!("{:.0} MiB", n as f64 / MIB as f64),
            // 1023.5 KiB and more would round to "1024 KiB"
            n if n >= MIB - KIB / 2 => format!("{:.1} MiB", n as f64 / MIB as f64),
            n if n >= 100 * KIB => format!("{:.0} KiB", n as f64 / KIB as f64),
            n if n >= KIB => format!("{:.1} KiB", n as f64 / KIB as f64),
            n => format!("{n} B"),
        };
        f.pad(&text)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Saturates at zero: an overcommitted device has nothing left.
impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// A text that is not a size in bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a size: use 24GiB, 24GB, 512MiB or plain bytes")]
pub struct NotASize(String);

/// Reads `24GiB`, `24GB` (decimal), `512MiB`, `1.5GiB` or plain bytes; letter case and a space before the unit do not
/// matter.
impl FromStr for Bytes {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Self, NotASize> {
        let wrong = || NotASize(text.to_owned());
        let trimmed = text.trim();
        let letter = trimmed.find(|c: char| c.is_alphabetic()).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(letter);
        let number = number.trim_end();
        let scale: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kib" | "ki" | "k" => KIB,
            "mib" | "mi" | "m" => MIB,
            "gib" | "gi" | "g" => GIB,
            "tib" | "ti" | "t" => 1 << 40,
            "kb" => 1000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(wrong()),
        };
        // of a longer number the largest stands for what it cannot hold
        let exact = number.parse().ok().or_else(|| whole(number).filter(|whole| *whole < u64::MAX));
        if let Some(whole) = exact {
            return whole.checked_mul(scale).map(Self).ok_or_else(wrong);
        }
        let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let fraction: f64 = number.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
        let bytes = fraction * scale as f64;
        if scale == 1 || !bytes.is_finite() || bytes >= u64::MAX as f64 {
            return Err(wrong());
        }
        Ok(Self(bytes.round() as u64))
    }
}

/// A number of tokens; shown with a thin space between thousands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&grouped(self.0, '\u{2009}'))
    }
}

/// `n` in groups of three digits, with `between` between them.
pub fn grouped(n: u64, between: char) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(between);
        }
        text.push(digit);
    }
    text
}

/// The number that `text` writes: in groups of three digits with spaces of any width or commas between them, or as a
/// multiple of 1024 (`32k`, `0.5k`) or of 1024² (`1m`); none where it is no whole number. What no number of 64 bits holds
/// is the largest one.
pub fn whole(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, scale) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, KIB),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1), |number| (number, MIB)),
    };
    let number = number.trim_end();
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    let between = |c: char| c == ',' || c.is_whitespace();
    let separator = integer.chars().find(|c| between(*c));
    let is_plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let groups: Vec<&str> = integer.split(|c| Some(c) == separator).collect();
    let well_formed = match groups.as_slice() {
        [one] => is_plain(one),
        [first, rest @ ..] => {
            is_plain(first) && first.len() <= 3 && rest.iter().all(|group| is_plain(group) && group.len() == 3)
        }
        [] => false,
    };
    if !well_formed || number.contains('.') && !is_plain(fraction) {
        return None;
    }
    let whole = groups.concat().parse::<u64>().ok().and_then(|whole| whole.checked_mul(scale));
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Some(whole.unwrap_or(u64::MAX));
    }
    // 2^20 has twenty places at most
    let place = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?).filter(|_| fraction.len() <= 20)?;
    let part = fraction.parse::<u128>().ok()?.checked_mul(u128::from(scale))?;
    let part = part.is_multiple_of(place).then_some((part / place) as u64)?;
    Some(whole.map_or(u64::MAX, |whole| whole.saturating_add(part)))
}

/// A share of a whole: 1.0 is all of it, more means overcommitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Ratio(pub f64);

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 * 100.0 {
            // would round to "0 %"
            few if few > 0.0 && few <= 0.5 => f.pad("<1 %"),
            percent => f.pad(&format!("{percent:.0} %")),
        }
    }
}

/// A number of tokens in as few cells as possible, rounded down: `128k`.
pub fn short(tokens: u64) -> String {
    match tokens {
        0..1024 => tokens.to_string(),
        1024..0x0010_0000 => format!("{}k", tokens / 1024),
        _ => format!("{}M", tokens >> 20),
    }
}

/// A number of parameters in two or three digits: `8.0 B`, `117 B`.
pub fn parameters(count: u64) -> String {
    match count as f64 {
        small @ ..999.5e6 => format!("{:.0} M", small / 1e6),
        middle @ ..99.95e9 => format!("{:.1} B", middle / 1e9),
        large @ ..999.5e9 => format!("{:.0} B", large / 1e9),
        huge => format!("{:.1} T", huge / 1e12),
    }
}

/// Memory bandwidth in bytes a second, between 0.1 GB/s and 100 TB/s; a plain integer in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Bandwidth(u64);

const GB: u64 = 1_000_000_000;

impl Bandwidth {
    /// `n` gigabytes (10^9 bytes each) a second; at least one.
    pub const fn gbps(n: u32) -> Self {
        Self(if n == 0 { 1 } else { n as u64 } * GB)
    }

    /// This many bytes a second.
    ///
    /// # Errors
    /// If no memory is that slow or that fast.
    pub fn checked(bytes: u64) -> Result<Self, String> {
        if (GB / 10..=100_000 * GB).contains(&bytes) {
            return Ok(Self(bytes));
        }
        Err(format!("a bandwidth of {bytes} bytes a second is not plausible: use 0.1GB/s to 100000GB/s"))
    }

    /// Bytes a second.
    pub const fn per_second(self) -> f64 {
        self.0 as f64
    }

    /// `factor` times as much, within the limits.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self(((self.0 as f64 * factor) as u64).clamp(GB / 10, 100_000 * GB))
    }
}

/// `80 GB/s`, `17.1 GB/s`
impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 as f64 / (GB / 10) as f64).round() / 10.0;
        f.pad(&format!("{tenths} GB/s"))
    }
}

/// A text that is not a bandwidth.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a bandwidth: use 80GB/s, 800MB/s, 1.2TB/s, or a number of GB/s")]
pub struct NotABandwidth(String);

/// Reads `80GB/s`, `80 GB/s`, or a plain number of GB/s; letter case does not matter.
impl FromStr for Bandwidth {
    type Err = NotABandwidth;

    fn from_str(text: &str) -> Result<Self, NotABandwidth> {
        let wrong = || NotABandwidth(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let scale = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "gb/s" => 1e9,
            "b/s" => 1.0,
            "mb/s" => 1e6,
            "tb/s" => 1e12,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        Self::checked((number * scale) as u64).map_err(|_| wrong())
    }
}

/// How much larger one amount of memory is than another, in bytes: negative where it is smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Difference(pub i64);

impl Difference {
    /// `have` less `need`; saturates at the ends of its range.
    pub fn between(have: Bytes, need: Bytes) -> Self {
        let difference = i128::from(have.0) - i128::from(need.0);
        Self(i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX }))
    }

    /// Whether there is less than nothing.
    pub const fn is_short(self) -> bool {
        self.0 < 0
    }

    /// What there is; nothing if it is short.
    pub fn left(self) -> Bytes {
        Bytes(u64::try_from(self.0).unwrap_or(0))
    }

    /// What is missing; nothing unless it is short.
    pub fn lacking(self) -> Bytes {
        Bytes(if self.is_short() { self.0.unsigned_abs() } else { 0 })
    }
}

/// Saturates at the ends of its range.
impl Sub<Bytes> for Difference {
    type Output = Self;
    fn sub(self, need: Bytes) -> Self {
        Self(self.0.saturating_sub(i64::try_from(need.0).unwrap_or(i64::MAX)))
    }
}

/// `1.2 GiB`, `-349 MiB`
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_short() { "-" } else { "" };
        f.pad(&format!("{sign}{}", Bytes(self.0.unsigned_abs())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_counts_are_abbreviated() {
        assert_eq!([512, 8192, 131_072, 1_048_576].map(short), ["512", "8k", "128k", "1M"]);
    }

    #[test]
    fn parameter_counts_are_short() {
        let counts = [22_000_000, 999_400_000, 8_030_000_000, 671_000_000_000, 1_026_000_000_000];
        assert_eq!(counts.map(parameters), ["22 M", "999 M", "8.0 B", "671 B", "1.0 T"]);
    }

    #[test]
    fn sizes_are_parsed_in_all_units() {
        for (text, bytes) in [
            ("24GiB", 24 << 30),
            ("24 gib", 24 << 30),
            ("24GB", 24_000_000_000),
            ("512MiB", 512 << 20),
            ("1.5GiB", 3 << 29),
            ("25769803776", 25_769_803_776),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "GiB", "24XB", "-1GiB", "1.5", "99999999999999999999", "99999999999GiB", "1e9", "nan"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_formatted_by_magnitude() {
        for (bytes, text) in [
            (0, "0 MiB"),
            (512, "512 B"),
            (MIB * 3 / 2, "1.5 MiB"),
            (512 * MIB, "512 MiB"),
            (GIB, "1.0 GiB"),
            (24 * GIB + GIB / 2, "24.5 GiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn a_small_share_is_not_shown_as_zero() {
        let shown = [0.0, 1e-9, 0.005, 0.006, 0.5, 1.0].map(|share| Ratio(share).to_string());
        assert_eq!(shown, ["0 %", "<1 %", "<1 %", "1 %", "50 %", "100 %"].map(str::to_owned));
        assert_eq!(format!("{:>6}", Ratio(0.001)), "  <1 %");
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(7, ' '), "7");
        assert_eq!(grouped(32_768, ' '), "32 768");
        assert_eq!(grouped(1_048_576, ' '), "1 048 576");
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for number in [0, 7, 999, 1000, 65_536, 1_048_576, u64::MAX] {
            for between in ['\u{2009}', '\u{202f}', '\u{a0}', ' ', ','] {
                assert_eq!(whole(&grouped(number, between)), Some(number), "{number} {between:?}");
            }
        }
        for (text, number) in
            [("64k", 65_536), ("0.5k", 512), ("1m", 1 << 20), ("1.5 M", 3 << 19), ("32.0", 32), ("1,000k", 1_024_000)]
        {
            assert_eq!(whole(text), Some(number), "{text}");
        }
        for text in [
            "",
            "k",
            ".5k",
            "1.",
            "1e9",
            "-1",
            "1,00",
            "1,0000",
            "1 000,000",
            "0.3k",
            "1.5",
            "1,,000",
            ",000",
            "1 , 000",
            "٣",
        ] {
            assert_eq!(whole(text), None, "{text}");
        }
        assert_eq!(whole("18446744073709551615k"), Some(u64::MAX));
    }
}

#[cfg(test)]
mod bandwidth_tests {
    use super::*;

    #[test]
    fn a_shown_bandwidth_is_read_back() {
        for text in ["80 GB/s", "17.1 GB/s", "5300 GB/s"] {
            assert_eq!(text.parse::<Bandwidth>().unwrap().to_string(), text);
        }
        assert_eq!("1.2TB/s".parse(), Ok(Bandwidth::gbps(1200)));
        assert_eq!(Bandwidth::gbps(60).times(0.5), Bandwidth::gbps(30));
    }
}

#[cfg(test)]
mod difference_tests {
    use super::*;

    #[test]
    fn a_shortage_stays_visible() {
        let short = Difference::between(Bytes::mib(100), Bytes::mib(449));
        assert_eq!(
            (short.to_string().as_str(), short.left(), short.lacking()),
            ("-349 MiB", Bytes::ZERO, Bytes::mib(349))
        );
        let left = Difference::between(Bytes::gib(2), Bytes::gib(1));
        assert_eq!((left.to_string().as_str(), left.left(), left.lacking()), ("1.0 GiB", Bytes::gib(1), Bytes::ZERO));
        assert!((left - Bytes::gib(3)).is_short() && !left.is_short());
    }

    #[test]
    fn it_saturates() {
        assert_eq!(Difference::between(Bytes(u64::MAX), Bytes::ZERO), Difference(i64::MAX));
        assert_eq!(Difference::between(Bytes::ZERO, Bytes(u64::MAX)) - Bytes(u64::MAX), Difference(i64::MIN));
    }
}
