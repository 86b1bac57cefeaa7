//! The releases of llama.cpp, by name, and the one nearest to a build or a date.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::programs::Ships;
use crate::named::{named, schema_of_names};

/// Build numbers of llama.cpp itself; distributors count from 1.
pub const BUILDS: Range<u64> = 1_000..100_000;
/// The first build that is not older than every release that is known: release 2025-09 is of 20 September 2025, about
/// b6530, and b6501 is three days older.
pub const OLDEST_BUILD: u64 = 6_500;
/// The day of [`OLDEST_BUILD`].
pub(super) const OLDEST_DAY: Date = Date { year: 2025, month: 9, day: 17 };

/// A build of llama.cpp by its number, which counts its commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Build(pub u64);

impl Build {
    /// The newest that was measured. What later ones do otherwise is not known.
    pub const NEWEST_MEASURED: Self = Self(11_739);
}

/// `b11434`
impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl From<Release> for Build {
    fn from(release: Release) -> Self {
        release.build()
    }
}

named! {
    /// A supported release of llama.cpp, newest first. What differs between them is in [`crate::engine::llama_cpp::release`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub enum Release {
        /// `llama-cpp-sys-2` 0.1.161.
        #[default]
        November2026 = "2026-11",
        /// `llama-cpp-sys-2` 0.1.159.
        September2026 = "2026-09",
        /// `llama-cpp-sys-2` 0.1.154, published on 5 August 2026.
        EarlyAugust2026 = "2026-08-05",
        /// `llama-cpp-sys-2` 0.1.150.
        August2026 = "2026-08",
        /// Builds of three days at the end of May, by their source.
        May2026 = "2026-05",
        /// Builds of the second half of May, by their source.
        MiddleOfMay2026 = "2026-05-17",
        /// `llama-cpp-sys-2` 0.1.146, published on 30 April 2026.
        April2026 = "2026-04",
        /// Builds of the second half of March, by their source.
        MiddleOfMarch2026 = "2026-03-13",
        /// `llama-cpp-sys-2` 0.1.137 and 0.1.141, which have the same llama.cpp, of about 1 March 2026.
        March2026 = "2026-03",
        /// `llama-cpp-sys-2` 0.1.132, published on 15 January 2026.
        January2026 = "2026-01",
        /// Builds of the end of December, by their source.
        December2025 = "2025-12",
        /// `llama-cpp-sys-2` 0.1.126, published on 20 November 2025, and 0.1.130, which has the same llama.cpp.
        LateNovember2025 = "2025-11-20",
        /// `llama-cpp-sys-2` 0.1.123, published on 3 November 2025.
        November2025 = "2025-11",
        /// `llama-cpp-sys-2` 0.1.122, published on 20 September 2025.
        September2025 = "2025-09",
    }
}

impl Release {
    /// The build that it stands for: `llama-cpp-sys-2` 0.1.161 has the source of b11434, 0.1.154 that of b10204 and 0.1.150
    /// that of b9553, file by file; 0.1.159 lies between b11065 and b11076. Of older packages it is one of their days.
    pub const fn build(self) -> Build {
        Build(match self {
            Self::November2026 => 11_434,
            Self::September2026 => 11_076,
            Self::EarlyAugust2026 => 10_204,
            Self::August2026 => 9_553,
            Self::May2026 => 9_410,
            Self::MiddleOfMay2026 => 9_200,
            Self::April2026 => 8_943,
            Self::MiddleOfMarch2026 => 8_333,
            Self::March2026 => 8_180,
            Self::January2026 => 7_762,
            Self::December2025 => 7_523,
            Self::LateNovember2025 => 7_157,
            Self::November2025 => 6_904,
            Self::September2025 => 6_530,
        })
    }

    /// The package with its source, if there is one.
    const fn package(self) -> Option<&'static str> {
        match self {
            Self::November2026 => Some("llama-cpp-sys-2 0.1.161, b11434"),
            Self::September2026 => Some("llama-cpp-sys-2 0.1.159, about b11070"),
            Self::EarlyAugust2026 => Some("llama-cpp-sys-2 0.1.154, b10204"),
            Self::August2026 => Some("llama-cpp-sys-2 0.1.150, b9553"),
            Self::April2026 => Some("llama-cpp-sys-2 0.1.146"),
            Self::March2026 => Some("llama-cpp-sys-2 0.1.141"),
            Self::January2026 => Some("llama-cpp-sys-2 0.1.132"),
            Self::LateNovember2025 => Some("llama-cpp-sys-2 0.1.130"),
            Self::November2025 => Some("llama-cpp-sys-2 0.1.123"),
            Self::September2025 => Some("llama-cpp-sys-2 0.1.122"),
            Self::May2026 | Self::MiddleOfMay2026 | Self::MiddleOfMarch2026 | Self::December2025 => None,
        }
    }

    /// The newest one whose build is older than this.
    pub(crate) const fn until(build: Build) -> Self {
        let mut at = 0;
        while at + 1 < Self::ALL.len() && Self::ALL[at].build().0 >= build.0 {
            at += 1;
        }
        Self::ALL[at]
    }

    /// Whether it is `oldest` or newer.
    pub const fn is_from(self, oldest: Self) -> bool {
        self as usize <= oldest as usize
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

schema_of_names!(Release, "A release of llama.cpp.");

impl Serialize for Release {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Every release with the first build and the first day that are nearest to it, newest first. Since mid-2026 that is
/// about halfway between two that were compared, before it where the rule changed.
///
/// - 2026-11: about halfway between b10960 and b11342.
/// - 2026-09: about halfway between b10200 and b10960; b10581 is the last one known to keep nothing for a fused weighted
///   sum of experts: a user's two cards took 808.35 MiB with it, which a mixture of 128 experts only takes so. The pull
///   request that lets a backend keep them (ggml-org/llama.cpp 27301) is of 18 August 2026. b10488 is of 20 August 2026,
///   and some twenty are built a day.
/// - 2026-08-05: about halfway between 0.1.153 of 28 July, whose answers are those of 2026-08, and b10200 (0.1.154).
/// - 2026-08: logits of one token per sequence (ggml-org/llama.cpp 23861, of 1 June): after b9442 of 31 May, before b9467 of
///   2 June.
/// - 2026-05: b9410 is the merge of 23764 (031ddb2e0).
/// - 2026-05-17: b9200 is the merge of 23198 (3e12fbdea).
/// - 2026-04: b8607 is of 1 April, the day on which 21038 was merged.
/// - 2026-03-13: b8333 is the merge of 20443 (e30f1fdf7); b8233 of the 7th has the first fused delta rule (c5a778891).
/// - 2026-03: 18898 was merged between b7762 of 16 January and b7812 (a5eaa1d6a) or soon after.
/// - 2026-01: 17004 was merged on 4 January; b7523 is of 24 December and b7703 of 11 January.
/// - 2025-12: `--fit` (16653) of 15 December and the output layer first (18148) of three days later; b7313 is of 7
///   December and b7523 of the 24th.
/// - 2025-11-20: 16884 and 17232, both of 13 November; b7003 is of 9 November and b7157 of the 26th.
/// - 2025-11: 16812, of 28 October; b6904 is of the end of October.
const NEAREST: [(Release, u64, Date); Release::ALL.len()] = [
    (Release::November2026, 11_151, Date::new(2026, 10, 1)),
    (Release::September2026, 10_582, Date::new(2026, 8, 25)),
    (Release::EarlyAugust2026, 10_150, Date::new(2026, 8, 1)),
    (Release::August2026, 9_455, Date::new(2026, 6, 1)),
    (Release::May2026, 9_410, Date::new(2026, 5, 29)),
    (Release::MiddleOfMay2026, 9_200, Date::new(2026, 5, 17)),
    (Release::April2026, 8_607, Date::new(2026, 4, 1)),
    (Release::MiddleOfMarch2026, 8_333, Date::new(2026, 3, 13)),
    (Release::March2026, 7_815, Date::new(2026, 1, 23)),
    (Release::January2026, 7_622, Date::new(2026, 1, 4)),
    (Release::December2025, 7_440, Date::new(2025, 12, 16)),
    (Release::LateNovember2025, 7_045, Date::new(2025, 11, 13)),
    (Release::November2025, 6_868, Date::new(2025, 10, 28)),
    (Release::September2025, 0, Date::new(2023, 1, 1)),
];
/// A day, or the first one of a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    const fn new(year: u32, month: u32, day: u32) -> Self {
        Self { year, month, day }
    }

    /// Of `2026-09`, or `2026-09-15`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut number = |least: u32, most: u32| -> Option<Option<u32>> {
            match parts.next() {
                None => Some(None),
                Some(part) => part.parse().ok().filter(|number| (least..=most).contains(number)).map(Some),
            }
        };
        let (year, month, day) = (number(2023, 2099)??, number(1, 12)??, number(1, 31)?.unwrap_or(1));
        parts.next().is_none().then_some(Self { year, month, day })
    }
}

/// `2026-09-15`
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// A known release, or a build and the release nearest to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearestRelease {
    /// The release.
    pub release: Release,
    /// The build that was named, or that the version of a program ships; none for the release itself and for a date.
    pub build: Option<u64>,
}

/// `llama.cpp release 2026-11 (b11434, llama-cpp-sys-2 0.1.161)`, `llama.cpp b11200`
impl fmt::Display for NearestRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { release, .. } = self;
        match (self.build, release.package()) {
            (Some(build), _) => write!(f, "llama.cpp {}", Build(build)),
            (None, Some(package)) => write!(f, "llama.cpp release {release} ({package})"),
            (None, None) => write!(f, "llama.cpp release {release} ({})", release.build()),
        }
    }
}

impl From<Release> for NearestRelease {
    fn from(release: Release) -> Self {
        Self { release, build: None }
    }
}

impl NearestRelease {
    /// The build that is planned for: the one that was named, or the release's own.
    pub fn llama_cpp(self) -> Build {
        self.build.map_or_else(|| self.release.build(), Build)
    }

    /// As [`Release::nearest_to`], with the build.
    pub fn to(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(release) = text.parse::<Release>() {
            return Some(release.into());
        }
        let build: Option<u64> = text.strip_prefix('b').and_then(|digits| digits.parse().ok());
        let of_build = build.map(|build| Self { release: Release::nearest_to_build(build), build: Some(build) });
        let of_date = || Some(Release::nearest_to_date(Date::read(text)?).into());
        let of_program = || {
            let ships = Ships::named(text)?;
            Some(Self { release: ships.release()?, build: ships.build() })
        };
        of_build.or_else(of_date).or_else(of_program)
    }
}

impl Release {
    /// The release nearest to llama.cpp's build of this number.
    pub fn nearest_to_build(build: u64) -> Self {
        Self::nearest(|(_, first, _)| *first <= build)
    }

    pub(super) fn nearest_to_date(date: Date) -> Self {
        Self::nearest(|(.., first)| *first <= date)
    }

    /// The newest whose row began already; of nothing, the oldest.
    fn nearest(began: impl Fn(&(Self, u64, Date)) -> bool) -> Self {
        let oldest = Self::ALL[Self::ALL.len() - 1];
        NEAREST.iter().find(|row| began(row)).map_or(oldest, |(release, ..)| *release)
    }

    /// The release of this name, or nearest to a build (`b11200`), a date (`2026-10`, `2026-09-15`) or what a version of a
    /// program ships (`koboldcpp 1.120`); none if the text is none of these, or nothing is known of that version.
    pub fn nearest_to(text: &str) -> Option<Self> {
        NearestRelease::to(text).map(|nearest| nearest.release)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_is_nearest_to_its_own_name() {
        for release in Release::ALL {
            assert_eq!(Release::nearest_to(release.name()), Some(release));
        }
    }

    #[test]
    fn rows_of_builds_and_days_are_in_order() {
        assert_eq!(NEAREST.map(|(release, ..)| release), Release::ALL);
        assert!(NEAREST.windows(2).all(|pair| pair[0].1 > pair[1].1 && pair[0].2 > pair[1].2));
    }

    #[test]
    fn builds_and_dates_have_a_nearest_release() {
        let (oldest, newest) = (Release::ALL[Release::ALL.len() - 1], Release::ALL[0]);
        for (text, release) in [
            ("b11342", newest),
            ("b99999", newest),
            ("2027-05-31", newest),
            ("b10960", Release::September2026),
            ("2026-09", Release::September2026),
            ("b10488", Release::EarlyAugust2026),
            ("2026-08-18", Release::EarlyAugust2026),
            ("b9888", Release::August2026),
            ("2026-07-06", Release::August2026),
            ("2026-10-02", newest),
            ("b9509", Release::August2026),
            ("2026-06-04", Release::August2026),
            ("b9410", Release::May2026),
            ("b9409", Release::MiddleOfMay2026),
            ("b9199", Release::April2026),
            ("2026-05-16", Release::April2026),
            ("b9000", Release::April2026),
            ("2026-04", Release::April2026),
            ("b8607", Release::April2026),
            ("b8606", Release::MiddleOfMarch2026),
            ("b8332", Release::March2026),
            ("2026-02-14", Release::March2026),
            ("b7762", Release::January2026),
            ("b7523", Release::December2025),
            ("b7157", Release::LateNovember2025),
            ("b6904", Release::November2025),
            ("b6500", oldest),
            ("2025-01", oldest),
        ] {
            assert_eq!(Release::nearest_to(text), Some(release), "{text}");
        }
    }

    #[test]
    fn other_texts_have_none() {
        for text in ["", "b", "11342", "2026", "2026-13", "2026-01-32", "2026-01-01-01", "newest", "b-3"] {
            assert_eq!(Release::nearest_to(text), None, "{text}");
        }
    }
}
