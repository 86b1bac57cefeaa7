//! Memory bandwidth.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Memory bandwidth in bytes a second, between 0.1 GB/s and 100 TB/s; a plain integer in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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
            "mb/s" => 1e6,
            "tb/s" => 1e12,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        Self::checked((number * scale) as u64).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
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
