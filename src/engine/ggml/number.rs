//! How tensors are counted, so that blocks that are alike say the same of theirs.

/// A tensor's number: counted from some tensor on, before it and behind it, or among all of a graph's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(pub(super) u32);

/// Set where it is counted among all. (What is above belongs to those who say something about the tensor.)
const OF_ALL: u32 = 1 << 27;
/// What stands for the tensor from which others are counted: some are before it.
const MIDDLE: u32 = 1 << 26;

impl Number {
    /// Among all.
    pub const fn of_all(at: u32) -> Self {
        Self(OF_ALL | at)
    }

    /// Counted from `base`.
    pub const fn near(at: u32, base: u32) -> Self {
        Self(MIDDLE + at - base)
    }

    /// Among all, where `base` is what it is counted from.
    pub const fn from(self, base: u32) -> usize {
        if self.0 & OF_ALL == 0 { (self.0 + base - MIDDLE) as usize } else { (self.0 & !OF_ALL) as usize }
    }

    /// As a word that differs where numbers do.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// The same as it was counted `from` one tensor, counted `to` another.
    #[must_use]
    pub const fn counted_from(self, from: u32, to: u32) -> Self {
        if self.0 & OF_ALL == 0 { Self(self.0 + from - to) } else { self }
    }
}
