//! How a plan stands, as people should read it.

use super::Verdict;
use crate::units::Bytes;

/// A verdict for people: that every layer counts as on GPUs does not say that all of its weights are. What is worse for
/// speed comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Every layer is on GPUs, with all of its weights.
    Fits,
    /// Every layer counts as on GPUs, but so much of their weights runs from RAM: experts, or parts of a feed-forward.
    PartInRam(Bytes),
    /// Some layers are in RAM.
    Split,
    /// Every layer is in RAM.
    InRam,
    /// Some device is asked for more than is free, or the engine refuses.
    DoesNotFit,
}

impl Standing {
    /// What `verdict` comes to where so much of the weights of layers on GPUs runs from RAM.
    pub fn of(verdict: Verdict, parts_in_ram: Bytes) -> Self {
        match verdict {
            Verdict::Gpu if parts_in_ram > Bytes::ZERO => Self::PartInRam(parts_in_ram),
            Verdict::Gpu => Self::Fits,
            Verdict::Split => Self::Split,
            Verdict::Cpu => Self::InRam,
            Verdict::DoesNotFit => Self::DoesNotFit,
        }
    }
}
