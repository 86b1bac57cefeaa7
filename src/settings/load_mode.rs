//! How a program reads weights.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// How weights get into RAM (`--load-mode`, `common/arg.cpp`, 0.1.161).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadMode {
    /// Mapped from the file: pages that are not read may leave RAM.
    #[default]
    Mmap,
    /// Read into memory of its own, and locked there.
    Locked,
    /// Read into memory of its own.
    Read,
    /// The same, past the page cache.
    Direct,
    /// Mapped and locked.
    #[serde(rename = "mmap+mlock")]
    MmapLocked,
}

impl LoadMode {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Mmap, Self::Locked, Self::Read, Self::Direct, Self::MmapLocked];

    /// Whether weights in RAM stay in a mapping of the file.
    pub const fn maps(self) -> bool {
        matches!(self, Self::Mmap | Self::MmapLocked)
    }

    /// As llama-server's option has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mmap => "mmap",
            Self::Locked => "mlock",
            Self::Read => "none",
            Self::Direct => "dio",
            Self::MmapLocked => "mmap+mlock",
        }
    }
}

impl fmt::Display for LoadMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for LoadMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        let aliases = [("locked", Self::Locked), ("read", Self::Read)];
        let found = found.or_else(|| aliases.into_iter().find(|(name, _)| *name == text).map(|(_, mode)| mode));
        found.ok_or_else(|| format!("'{text}' is not a load mode: use mmap, mlock, none, dio or mmap+mlock"))
    }
}
