//! Versions of Ollama.

use std::fmt;
use std::str::FromStr;

/// A version of Ollama: `0.31.2`. What differs between those from 0.30 on is in `engine/ollama/release.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OllamaVersion {
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl OllamaVersion {
    /// Of August 2026, with llama.cpp b10488.
    pub const V0_33: Self = Self { minor: 33, patch: 0 };
    /// Of June 2026.
    pub const V0_30: Self = Self { minor: 30, patch: 9 };
    /// The first that starts llama-server.
    pub const STARTS_LLAMA_SERVER: Self = Self { minor: 30, patch: 0 };

    /// Parses any version, also of those with an estimator of their own: `0.11.3`; 0.30 is 0.30.9.
    ///
    /// # Errors
    /// One sentence if it is none.
    pub fn any(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a version of Ollama: use 0.33, 0.30 or one between such as 0.31.2");
        let plain = text.trim().split(['-', '+']).next().unwrap_or_default();
        let numbers: Result<Vec<u32>, _> = plain.split('.').map(str::parse).collect();
        match numbers.map_err(|_| wrong())?[..] {
            [0, 30] => Ok(Self::V0_30),
            [0, minor] => Ok(Self { minor, patch: 0 }),
            [0, minor, patch] => Ok(Self { minor, patch }),
            _ => Err(wrong()),
        }
    }
}

impl Default for OllamaVersion {
    fn default() -> Self {
        Self::V0_33
    }
}

/// `0.30.9`, or `0.33` without a third number.
impl fmt::Display for OllamaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.patch {
            0 => write!(f, "0.{}", self.minor),
            patch => write!(f, "0.{}.{patch}", self.minor),
        }
    }
}

impl FromStr for OllamaVersion {
    type Err = String;

    /// Parses `0.33`, `0.31.2` or `0.32.1-rc0`.
    fn from_str(text: &str) -> Result<Self, String> {
        let version = Self::any(text)?;
        if version < Self::STARTS_LLAMA_SERVER {
            return Err(format!("Ollama {version} has its own estimator: use --engine ollama-0.24 or ollama-0.11"));
        }
        Ok(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("0.33", 33, 0, "0.33")]
    #[case("0.30", 30, 9, "0.30.9")]
    #[case("0.30.3", 30, 3, "0.30.3")]
    #[case(" 0.32.6-rc1", 32, 6, "0.32.6")]
    fn versions_are_parsed(#[case] text: &str, #[case] minor: u32, #[case] patch: u32, #[case] shown: &str) {
        let version: OllamaVersion = text.parse().unwrap();
        assert_eq!((version, version.to_string().as_str()), (OllamaVersion { minor, patch }, shown));
    }

    #[rstest]
    #[case("0.24")]
    #[case("1.0")]
    #[case("newest")]
    #[case("")]
    fn others_are_refused(#[case] text: &str) {
        assert!(text.parse::<OllamaVersion>().is_err());
    }
}
