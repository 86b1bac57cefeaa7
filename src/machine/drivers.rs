//! Versions of what the GPUs' drivers come with.

use serde::{Deserialize, Serialize};

/// Drivers of a machine, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drivers {
    /// NVIDIA's branch: `580` of 580.82.07.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvidia: Option<u32>,
    /// The major version of NVIDIA's `JetPack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jetpack: Option<u32>,
}

impl Drivers {
    /// These, or else those of `earlier`.
    #[must_use]
    pub fn or(self, earlier: Self) -> Self {
        Self { nvidia: self.nvidia.or(earlier.nvidia), jetpack: self.jetpack.or(earlier.jetpack) }
    }

    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// The first number of a version: `580` of `580.82.07`.
///
/// # Errors
/// One sentence, if it does not begin with one.
pub fn major(text: &str) -> Result<u32, String> {
    let first = text.trim().split('.').next().unwrap_or_default();
    first.parse().map_err(|_| format!("'{text}' is not a version: use a number such as 580"))
}
