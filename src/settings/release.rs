//! The releases of llama.cpp, by name, and the one nearest to a build or a date.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::programs::Ships;
use crate::named::named;

/// Build numbers of llama.cpp itself; distributors count from 1.
pub const BUILDS: Range<u64> = 1_000..100_000;
/// The first build that is not older than every release that is known: release 2026-08 is of 8 June 2026, about b9570.
pub const OLDEST_BUILD: u64 = 9_551;
/// The day of [`OLDEST_BUILD`].
pub(super) const OLDEST_DAY: Date = Date { year: 2026, month: 6, day: 8 };

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
    }
}

impl Release {
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

impl Serialize for Release {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The last build that is nearer to release 2026-08 than to 2026-08-05: about halfway between that of 8 June 2026
/// (0.1.150, about b9570) and b10200 (0.1.154).
const LAST_OF_AUGUST: u64 = 9_885;
/// The last build that is nearer to release 2026-08-05 than to 2026-09: about halfway between b10200 and b10960, and the
/// last one known to keep nothing for a fused weighted sum of experts: a user's two cards took 808.35 MiB with it, which
/// a mixture of 128 experts only takes so. The pull request that lets a backend keep them (ggml-org/llama.cpp 27301) is of
/// 18 August 2026.
const LAST_OF_EARLY_AUGUST: u64 = 10_581;
/// The last build that is nearer to release 2026-09 than to 2026-11: about halfway between b10960 and b11342.
const LAST_OF_SEPTEMBER: u64 = 11_150;
/// The builds between two that were compared: 0.1.154, and 0.1.155 of 31 August or builds of mid-September.
const COMPARED: std::ops::RangeInclusive<u64> = 10_200..=10_960;
/// The architectures that differ between 0.1.154 and 0.1.155, that both refused to load or that were not asked about; the
/// MTP blocks of Qwen 3.5 are loaded by the former only. The other 115 agree.
const OTHER_IN_AUGUST: [&str; 19] = [
    "cohere2moe",
    "deepseek4",
    "dflash",
    "eagle3",
    "glm-dsa",
    "hy_v3",
    "mellum",
    "minimax-m3",
    "nanbeige",
    "nemotron_h",
    "nemotron_h_moe",
    "plamo2",
    "plm",
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "step35",
    "t5",
    "t5encoder",
];
/// The architectures that agree in 0.1.154 and builds of mid-September.
const SAME_UNTIL_SEPTEMBER: [&str; 4] = ["gemma3", "gpt-oss", "llama", "qwen3"];
/// The day of the first build after [`LAST_OF_AUGUST`]: b9888 is of 6 July 2026.
const FIRST_OF_EARLY_AUGUST: Date = Date { year: 2026, month: 7, day: 6 };
/// About the day of the first build after [`LAST_OF_EARLY_AUGUST`]: b10488 is of 20 August 2026, and some twenty are built
/// a day.
const FIRST_OF_SEPTEMBER: Date = Date { year: 2026, month: 8, day: 25 };
/// The first day that is nearer to release 2026-11 than to 2026-09.
const FIRST_OF_NOVEMBER: Date = Date { year: 2026, month: 10, day: 1 };

/// A day, or the first one of a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
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

/// A known release, and the build that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearestRelease {
    /// The release.
    pub release: Release,
    /// The build that was named, or that the version of a program ships; none for the release itself and for a date.
    pub build: Option<u64>,
}

impl From<Release> for NearestRelease {
    fn from(release: Release) -> Self {
        Self { release, build: None }
    }
}

impl NearestRelease {
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
    pub const fn nearest_to_build(build: u64) -> Self {
        if build <= LAST_OF_AUGUST {
            Self::August2026
        } else if build <= LAST_OF_EARLY_AUGUST {
            Self::EarlyAugust2026
        } else if build <= LAST_OF_SEPTEMBER {
            Self::September2026
        } else {
            Self::November2026
        }
    }

    /// Whether a build reserves what this release does for models of an architecture: it lies between two that agree.
    pub fn is_like_build(self, build: u64, architecture: &str) -> bool {
        let same = match self {
            Self::EarlyAugust2026 => !OTHER_IN_AUGUST.contains(&architecture),
            Self::September2026 => SAME_UNTIL_SEPTEMBER.contains(&architecture),
            Self::November2026 | Self::August2026 => false,
        };
        same && self == Self::nearest_to_build(build) && COMPARED.contains(&build)
    }

    /// The release of this name, or nearest to a build (`b11200`), a date (`2026-10`, `2026-09-15`) or what a version of a
    /// program ships (`koboldcpp 1.120`); none if the text is none of these, or nothing is known of that version.
    pub fn nearest_to(text: &str) -> Option<Self> {
        NearestRelease::to(text).map(|nearest| nearest.release)
    }

    pub(super) fn nearest_to_date(date: Date) -> Self {
        if date < FIRST_OF_EARLY_AUGUST {
            Self::August2026
        } else if date < FIRST_OF_SEPTEMBER {
            Self::EarlyAugust2026
        } else if date < FIRST_OF_NOVEMBER {
            Self::September2026
        } else {
            Self::November2026
        }
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
    fn builds_and_dates_have_a_nearest_release() {
        let (oldest, newest) = (Release::ALL[Release::ALL.len() - 1], Release::ALL[0]);
        for (text, release) in [
            ("b11342", newest),
            ("b99999", newest),
            ("2027-05-31", newest),
            ("b10960", Release::September2026),
            ("2026-09", Release::September2026),
            ("b10488", Release::EarlyAugust2026),
            ("b9888", Release::EarlyAugust2026),
            ("2026-08-18", Release::EarlyAugust2026),
            ("2026-07-06", Release::EarlyAugust2026),
            ("2026-10-02", newest),
            ("b9509", oldest),
            ("2026-06-04", oldest),
            ("b9000", oldest),
            ("2025-01", oldest),
        ] {
            assert_eq!(Release::nearest_to(text), Some(release), "{text}");
        }
    }

    #[test]
    fn builds_between_two_that_agree_are_like_the_release() {
        let like = |build| Release::nearest_to_build(build).is_like_build(build, "llama");
        assert_eq!([9_509, 9_888, 10_200, 10_488, 10_960, 11_342].map(like), [false, false, true, true, true, false]);
        assert!(!Release::September2026.is_like_build(10_488, "llama"), "another is nearer");
        assert!(!Release::September2026.is_like_build(10_960, "deepseek2"));
        assert!(Release::EarlyAugust2026.is_like_build(10_488, "deepseek2"));
        assert!(!Release::EarlyAugust2026.is_like_build(10_488, "qwen3next"));
    }

    #[test]
    fn other_texts_have_none() {
        for text in ["", "b", "11342", "2026", "2026-13", "2026-01-32", "2026-01-01-01", "newest", "b-3"] {
            assert_eq!(Release::nearest_to(text), None, "{text}");
        }
    }
}
