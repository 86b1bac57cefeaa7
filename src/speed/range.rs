//! How far a measured speed may be from the modelled one.

use super::constants::spread;

/// Plans whose errors are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Everything on one GPU.
    OneGpu,
    /// Everything on several GPUs.
    SeveralGpus,
    /// Weights or caches in RAM.
    Ram,
}

impl Class {
    /// For the user.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneGpu => "one GPU",
            Self::SeveralGpus => "several GPUs",
            Self::Ram => "layers or experts in RAM",
        }
    }

    /// The range around `modelled` that covers about 80 % of measurements.
    pub fn range(self, modelled: f64) -> (f64, f64) {
        let (low, high) = spread(self);
        (modelled * low, modelled * high)
    }
}
