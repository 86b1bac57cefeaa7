//! What of RAM is kept for the system.

use std::fmt;
use std::str::FromStr;

use super::written;
use crate::units::{Bytes, NotASize};

/// What of RAM is kept for the system and other programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeptRam {
    /// So much.
    Amount(Bytes),
    /// This share of all of it, from 0 to 1.
    Share(f64),
}

impl KeptRam {
    /// What is assumed to be kept where all RAM counts as free: an eighth of it, and 8 GiB at most. Assumed: desktops of today
    /// take 2 to 5 GiB, and browsers beside them more.
    const ASSUMED: (u64, Bytes) = (8, Bytes::gib(8));

    /// So much of `total`.
    pub fn of(self, total: Bytes) -> Bytes {
        match self {
            Self::Amount(bytes) => bytes.min(total),
            Self::Share(share) => Bytes((total.0 as f64 * share) as u64).min(total),
        }
    }

    /// What is assumed of `total`.
    pub fn assumed(total: Bytes) -> Bytes {
        let (part, most) = Self::ASSUMED;
        Bytes(total.0 / part).min(most)
    }
}

/// `4GiB`, `10%`
impl FromStr for KeptRam {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.ends_with('%') {
            return written::share(text).map(Self::Share);
        }
        let size = text.parse().map(Self::Amount);
        size.map_err(|error: NotASize| format!("{error}, or a share of all RAM such as 10%"))
    }
}

impl fmt::Display for KeptRam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Amount(bytes) => write!(f, "{}", bytes.0),
            Self::Share(share) => f.write_str(&written::percent(share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_size_or_a_share() {
        let of = |text: &str| text.parse::<KeptRam>().map(|kept| kept.of(Bytes::gib(64)));
        assert_eq!(of("4GiB"), Ok(Bytes::gib(4)));
        assert_eq!(of("12.5%"), Ok(Bytes::gib(8)));
        assert_eq!((of("0"), of("100GiB")), (Ok(Bytes::ZERO), Ok(Bytes::gib(64))));
        assert!(of("much").unwrap_err().contains("10%"));
        for text in ["4294967296", "10%"] {
            assert_eq!(text.parse::<KeptRam>().unwrap().to_string(), text);
        }
        assert_eq!(KeptRam::assumed(Bytes::gib(16)), Bytes::gib(2));
        assert_eq!(KeptRam::assumed(Bytes::gib(512)), Bytes::gib(8));
    }
}
