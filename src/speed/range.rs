//! How far a measured speed may be from the modelled one.

use std::fmt;

use super::family::Family;
use super::terms::spread;
use super::{Speed, SpeedRange, Speeds};
use crate::named::named;
use crate::units::Tokens;

/// The share of measurements, of threads that a fit had not seen, that ranges are made to hold: more than the four fifths
/// that are promised, for threads are few.
pub const SHOWN: f64 = 0.85;

named! {
    /// Plans whose errors are alike.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[allow(missing_docs, reason = "the names say it")]
    pub enum Class {
        /// Everything on one GPU, as in the next three.
        Cuda = "CUDA, one GPU",
        Metal = "Metal",
        Vulkan = "Vulkan, one GPU",
        Rocm = "ROCm and SYCL, one GPU",
        /// Everything on several GPUs.
        SeveralGpus = "several GPUs",
        /// Weights or caches in RAM, whose bandwidth, or for prompts the link to it, is known.
        Ram = "layers or experts in RAM",
        /// The same where it is assumed.
        RamAssumed = "layers or experts in RAM, its speed assumed",
        /// No GPU takes part.
        Cpu = "CPU only",
    }
}

impl Class {
    /// That of everything on one GPU of this family.
    pub const fn of_one(family: Family) -> Self {
        if family.is_cuda() {
            Self::Cuda
        } else if family.is_metal() {
            Self::Metal
        } else if family.is_vulkan() {
            Self::Vulkan
        } else {
            Self::Rocm
        }
    }

    /// The range around `modelled`.
    pub fn range(self, modelled: f64) -> (f64, f64) {
        let (low, high) = spread(self);
        (modelled * low, modelled * high)
    }
}

/// `28–34 tok/s`
impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} tok/s", self.range()))
    }
}

/// `28–34 tok/s, 22–27 at full context`
impl fmt::Display for Speeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.start)?;
        if self.start.depth > 0 {
            write!(f, " at {} tokens", Tokens(self.start.depth))?;
        }
        let full = self.full.range().to_string();
        if full != self.start.range().to_string() {
            write!(f, ", {full} at full context")?;
        }
        if let Some(Ok(turn)) = &self.turn {
            write!(f, ", {} to a first token and {} to the last", turn.first, turn.last)?;
        }
        self.start.assumes.map_or(Ok(()), |what| write!(f, " ({what} assumed)"))
    }
}

/// `28–34`: with two significant digits.
impl fmt::Display for SpeedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (two_digits(self.low), two_digits(self.high));
        f.pad(&if low == high { format!("about {low}") } else { format!("{low}–{high}") })
    }
}

impl SpeedRange {
    /// `about 4 times as fast`: how this compares with `now`; none where they are nearly the same.
    pub fn against(&self, now: &Self) -> Option<String> {
        let ratio = self.tokens_per_second / now.tokens_per_second;
        if !ratio.is_finite() || (0.87..1.15).contains(&ratio) {
            return None;
        }
        Some(format!("about {} times as fast", two_digits(ratio)))
    }
}

/// `0.43`, `4.3`, `43`, `430`
pub(super) fn two_digits(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let unit = 10_f64.powi(value.log10().floor() as i32 - 1);
    let rounded = (value / unit).round() * unit;
    let decimals = (1 - rounded.log10().floor() as i32).max(0) as usize;
    format!("{rounded:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_have_two_digits() {
        for (value, text) in [
            (0.043, "0.043"),
            (0.426, "0.43"),
            (4.26, "4.3"),
            (9.97, "10"),
            (42.6, "43"),
            (99.7, "100"),
            (426.0, "430"),
            (0.0, "0"),
        ] {
            assert_eq!(two_digits(value), text);
        }
    }
}
