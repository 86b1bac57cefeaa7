//! How far a measured speed may be from the modelled one.

use std::fmt;

use super::family::Family;
use super::terms::{Constants, spread};
use super::work::{DeviceWork, Weights, Work};
use super::{Speed, SpeedRange, Speeds};
use crate::named::named;
use crate::units::Tokens;

/// The share of measurements, of threads that a fit had not seen, that ranges are made to hold: more than the four fifths
/// that are promised, for threads are few.
pub const SHOWN: f64 = 0.85;

named! {
    /// Plans, or parts of a token's time, whose errors are alike.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[allow(missing_docs, reason = "the names say it")]
    pub enum Class {
        /// Everything on one GPU, as in the next four; as a part, what the GPU takes that has most to do.
        Cuda = "CUDA, one GPU",
        Metal = "Metal",
        Mlx = "MLX",
        Vulkan = "Vulkan, one GPU",
        Rocm = "ROCm and SYCL, one GPU",
        /// Everything on several GPUs; as a part, what further GPUs take, and the way to them.
        SeveralGpus = "several GPUs",
        /// Weights or caches in RAM, whose bandwidth, or for prompts the link to it, is known.
        Ram = "layers or experts in RAM",
        /// The same where it is assumed.
        RamAssumed = "layers or experts in RAM, its speed assumed",
        /// No GPU takes part; as a part, what RAM of a known bandwidth takes.
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
        } else if matches!(family, Family::Mlx) {
            Self::Mlx
        } else if family.is_vulkan() {
            Self::Vulkan
        } else {
            Self::Rocm
        }
    }
}

/// A part of a token's time that is off by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The class of its errors.
    pub class: Class,
    /// Its seconds, as modelled.
    pub seconds: f64,
    /// Its seconds at its fastest: nine of ten measurements are slower, and no memory is faster than its bandwidth.
    pub fast: f64,
    /// Its seconds at its slowest: nine of ten measurements are faster.
    pub slow: f64,
}

/// Threads of a CPU that is slow for types that arithmetic limits; how many run is not known.
const FEW_THREADS: f64 = 4.0;

impl DeviceWork {
    fn part(&self, class: Class, constants: &Constants) -> Part {
        let (low, high) = spread(class);
        let seconds = self.seconds(constants, None);
        // what is assumed bounds nothing
        let is_bound = class != Class::RamAssumed;
        let own = if is_bound { (self.weights.bytes + self.cache) / self.bandwidth.per_second() } else { 0.0 };
        let (mut fast, mut slow) = ((seconds / high).max(own), seconds / low);
        if !self.cards.is_empty() {
            // nor is it faster than any card at its fastest, or its slowest, whatever it reads
            let terms = self.terms().map(|term| {
                let own = term.seconds(constants, None);
                let ends = (own / high, own / low);
                term.on_cards().fold(ends, |(fast, slow), card| {
                    let (of_one, further) = (spread(Class::of_one(card.family)), spread(Class::SeveralGpus));
                    let least = (card.weights.bytes + card.cache) / card.bandwidth.per_second();
                    let seconds = card.seconds(constants, None);
                    let fastest = (seconds / of_one.1.min(further.1)).max(least);
                    (fast.max(fastest), slow.max(seconds / of_one.0.min(further.0)))
                })
            });
            let (fastest, slowest) = terms.into_iter().fold((0.0, 0.0), |sum, term| (sum.0 + term.0, sum.1 + term.1));
            (fast, slow) = (fast.max(fastest), slow.max(slowest));
        }
        Part { class, seconds, fast, slow: slow.max(self.seconds(constants, Some(FEW_THREADS))) }
    }

    /// Its work by what takes time: weights, cache, layers, and what some layers have besides.
    fn terms(&self) -> [Self; 4] {
        let nothing = Self { weights: Weights::default(), cache: 0.0, layers: 0.0, busy: 0.0, ..self.clone() };
        [
            Self { weights: self.weights, ..nothing.clone() },
            Self { cache: self.cache, ..nothing.clone() },
            Self { layers: self.layers, ..nothing.clone() },
            Self { busy: self.busy, ..nothing },
        ]
    }
}

impl Work {
    /// The parts of a token's time that are off by themselves, but for what is read from disk.
    pub fn parts(&self, constants: &Constants) -> Vec<Part> {
        let in_ram = if self.assumed.is_some() { Class::RamAssumed } else { Class::Cpu };
        let is_gpu = |device: &&DeviceWork| device.family != Family::Cpu;
        let seconds = |device: &DeviceWork| device.seconds(constants, None);
        let main = self.devices.iter().filter(is_gpu).max_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        let of_device = |device: &DeviceWork| {
            let class = match device.family {
                Family::Cpu => in_ram,
                family if main.is_some_and(|main| main.id == device.id) => Class::of_one(family),
                _ => Class::SeveralGpus,
            };
            device.part(class, constants)
        };
        let link = |class: Class, seconds: f64| {
            let (low, high) = spread(class);
            Part { class, seconds, fast: seconds / high, slow: seconds / low }
        };
        let links =
            [link(Class::SeveralGpus, self.hops * self.hop(constants)), link(in_ram, self.synced * constants.sync)];
        self.devices.iter().map(of_device).chain(links).filter(|part| part.seconds > 0.0).collect()
    }

    /// Seconds per token where every part is at its fastest, and where every part is at its slowest. What is not known of
    /// RAM widens RAM's part alone, and parts add: so moving weights to slower memory never raises either end.
    pub fn extremes(&self, constants: &Constants) -> (f64, f64) {
        let disk = self.disk.map_or((0.0, 0.0), |disk| disk.extremes());
        self.parts(constants).iter().fold(disk, |(fast, slow), part| (fast + part.fast, slow + part.slow))
    }

    /// Whether arithmetic, rather than reading, limits a CPU of few threads.
    pub fn may_be_limited_by_arithmetic(&self, constants: &Constants) -> bool {
        self.seconds(constants, Some(FEW_THREADS)) > self.seconds(constants, None)
    }
}

/// As its range.
impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.range().fmt(f)
    }
}

/// `≈ 30 tok/s (28–34), ≈ 24 (22–27) at full context`
impl fmt::Display for Speeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.start)?;
        if self.start.depth > 0 {
            write!(f, " at {} tokens", Tokens(self.start.depth))?;
        }
        let (start, full) = (self.start.range().cell(), self.full.range().cell());
        if full != start {
            write!(f, ", ≈ {full} at full context")?;
        }
        if let Some(Ok(turn)) = &self.turn {
            write!(f, ", {} to a first token and {} to the last", turn.first, turn.last)?;
        }
        self.start.assumes.map_or(Ok(()), |what| write!(f, " ({what} assumed)"))
    }
}

/// `≈ 30 tok/s (28–34)`
impl fmt::Display for SpeedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("≈ {} tok/s{}", two_digits(self.tokens_per_second), self.ends()))
    }
}

impl SpeedRange {
    /// The middle as it is shown, with two significant digits: what orders and limits go by.
    pub fn shown(&self) -> f64 {
        rounded(self.tokens_per_second)
    }

    /// For a column whose title has the unit: `30 (28–34)`.
    pub fn cell(&self) -> String {
        format!("{}{}", two_digits(self.tokens_per_second), self.ends())
    }

    /// The same in few cells: `30`.
    pub fn short(&self) -> String {
        two_digits(self.tokens_per_second)
    }

    /// ` (28–34)`; nothing where all three are shown alike.
    fn ends(&self) -> String {
        let [middle, low, high] = [self.tokens_per_second, self.low, self.high].map(two_digits);
        if low == middle && high == middle { String::new() } else { format!(" ({low}–{high})") }
    }

    /// How many times as fast this is as `now`: by the middles, so by what a token takes in the middle of both ranges.
    /// None where it is not known, or both show the same figure.
    pub fn against(&self, now: &Self) -> Option<Times> {
        let ratio = self.tokens_per_second / now.tokens_per_second;
        let is_shown_alike = self.shown().total_cmp(&now.shown()).is_eq();
        (ratio.is_finite() && !is_shown_alike).then_some(Times(ratio))
    }
}

impl Speed {
    /// The middle as it is shown: see [`SpeedRange::shown`].
    pub fn shown(&self) -> f64 {
        self.range().shown()
    }
}

/// How many times as fast one plan is as another.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Times(pub f64);

impl Times {
    /// Whether it is faster: a slower one is no help.
    pub const fn helps(self) -> bool {
        self.0 > 1.0
    }
}

/// `1.19 times as fast`, `2.4 times as fast`
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ratio) = *self;
        let figure = if (0.095..1.995).contains(&ratio) { format!("{ratio:.2}") } else { two_digits(ratio) };
        f.pad(&format!("{figure} times as fast"))
    }
}

/// `0.43`, `4.3`, `43`, `430`
pub(super) fn two_digits(value: f64) -> String {
    let rounded = rounded(value);
    if rounded == 0.0 {
        return "0".to_owned();
    }
    let decimals = (1 - rounded.log10().floor() as i32).max(0) as usize;
    format!("{rounded:.decimals$}")
}

/// With two significant digits; zero for what has none.
fn rounded(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 0.0;
    }
    let digits = 1 - value.log10().floor() as i32;
    // exact where it is a whole number
    let unit = 10_f64.powi(digits.abs());
    if digits > 0 { (value * unit).round() / unit } else { (value / unit).round() * unit }
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

    #[test]
    fn the_middle_is_shown_and_compared() {
        let range = |middle: f64| SpeedRange { tokens_per_second: middle, low: middle * 0.65, high: middle * 1.25 };
        assert_eq!(range(33.9).to_string(), "≈ 34 tok/s (22–42)");
        assert_eq!((range(33.9).cell(), range(33.9).short()), ("34 (22–42)".to_owned(), "34".to_owned()));
        assert_eq!(SpeedRange { tokens_per_second: 5.0, low: 5.0, high: 5.01 }.to_string(), "≈ 5.0 tok/s");
        assert!(range(9.97).shown() >= 10.0 && range(29.6).shown() >= 30.0);
        assert!((range(0.123).shown() - 0.12).abs() < 1e-12);
        let against = |then, now| range(then).against(&range(now)).map(|times| times.to_string());
        assert_eq!(against(33.9, 29.8).as_deref(), Some("1.14 times as fast"));
        assert_eq!(against(33.9, 10.2).as_deref(), Some("3.3 times as fast"));
        assert_eq!(against(30.0, 29.8), None);
    }
}
