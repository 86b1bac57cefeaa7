//! The difference of two amounts of memory, which may be negative.

use std::fmt;
use std::ops::Sub;

use serde::Serialize;

use super::Bytes;

/// How much larger one amount of memory is than another, in bytes: negative where it is smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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
