//! The largest single buffer on a device, beside what its driver allows for one.

use std::fmt;

use serde::Serialize;

use crate::machine::BufferLimit;
use crate::units::Bytes;

/// The largest buffer that a backend asks its driver for, at most: where memory is divided into several buffers, no
/// tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LargestBuffer {
    /// Its size.
    pub bytes: Bytes,
    /// What it is for.
    pub holds: BufferUse,
    /// What the driver allows, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<BufferLimit>,
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum BufferUse {
    Weights,
    Cache,
    Graph,
}

impl BufferUse {
    /// In the order in which llama.cpp allocates them.
    pub const ALL: [Self; 3] = [Self::Weights, Self::Cache, Self::Graph];

    /// As in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Cache => "cache",
            Self::Graph => "compute buffer",
        }
    }
}

impl LargestBuffer {
    /// Whether the driver would refuse it.
    pub fn is_refused(&self) -> bool {
        self.limit.is_some_and(|limit| self.bytes > limit.bytes)
    }
}

/// `1.0 GiB (weights); the driver allows 4.0 GiB (Mesa's drivers)`
impl fmt::Display for LargestBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.bytes, self.holds.title())?;
        self.limit.map_or(Ok(()), |limit| write!(f, "; {limit}"))
    }
}
