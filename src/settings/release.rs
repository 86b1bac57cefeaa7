//! The releases of llama.cpp, by name.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A supported release of llama.cpp. What differs between them is in [`crate::engine::llama_cpp::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Release {
    /// `llama-cpp-sys-2` 0.1.161.
    #[default]
    November2026,
    /// `llama-cpp-sys-2` 0.1.159.
    September2026,
    /// `llama-cpp-sys-2` 0.1.154, published on 5 August 2026.
    EarlyAugust2026,
    /// `llama-cpp-sys-2` 0.1.150.
    August2026,
}

impl Release {
    /// All releases, newest first.
    pub const ALL: [Self; 4] = [Self::November2026, Self::September2026, Self::EarlyAugust2026, Self::August2026];

    /// Whether it is `oldest` or newer.
    pub const fn is_from(self, oldest: Self) -> bool {
        self as usize <= oldest as usize
    }

    /// Its name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::November2026 => "2026-11",
            Self::September2026 => "2026-09",
            Self::EarlyAugust2026 => "2026-08-05",
            Self::August2026 => "2026-08",
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|release| release.name() == text.trim()).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(" or ");
            format!("unknown release '{text}': use {names}")
        })
    }
}

impl Serialize for Release {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
