//! Amounts of memory as programs print them, by purpose and device.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::units::Bytes;

/// Mebibytes (2^20 bytes), with the decimals that a program printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Mib(pub f64);

impl Mib {
    /// `bytes` in MiB.
    pub fn of(bytes: Bytes) -> Self {
        Self(bytes.0 as f64 / f64::from(1 << 20))
    }

    /// In bytes; zero if it is negative.
    pub fn bytes(self) -> Bytes {
        Bytes((self.0.max(0.0) * f64::from(1 << 20)).round() as u64)
    }

    /// The sum, rounded to the two decimals that lines have.
    pub(super) fn plus(self, other: Self) -> Self {
        Self(round(self.0 + other.0))
    }
}

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.2} MiB", self.0))
    }
}

/// The purpose of memory on a device, as programs divide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Weights.
    Model,
    /// KV cache.
    Kv,
    /// Recurrent state.
    Rs,
    /// Compute buffer of the context's graphs.
    Compute,
    /// Logits and embeddings.
    Output,
    /// Compute buffer of a projector.
    ProjectorCompute,
    /// Compressor state (`DSV4`).
    State,
    /// LoRA adapters.
    Lora,
}

impl Term {
    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Model => "weights",
            Self::Kv => "KV cache",
            Self::Rs => "recurrent state",
            Self::Compute => "compute",
            Self::Output => "output",
            Self::ProjectorCompute => "projector's compute",
            Self::State => "compressor state",
            Self::Lora => "LoRA",
        }
    }
}

/// Memory of one device by term, in MiB.
pub type Terms = BTreeMap<Term, Mib>;

/// Memory by device and term, in MiB; a device is named as in the log, without an RPC server's address.
pub type Buffers = BTreeMap<String, Terms>;

/// To hundredths, as logs print MiB.
pub(super) fn round(mib: f64) -> f64 {
    (mib * 100.0).round() / 100.0
}
