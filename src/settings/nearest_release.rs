//! The known release that is nearest to a build or a date of llama.cpp.

use super::Release;

/// The last build that is nearer to release 2026-08 than to 2026-09: about halfway between b10488, which Ollama 0.33
/// brought in August 2026, and those of mid-September, from b10960 on.
pub const LAST_OF_AUGUST: u64 = 10_730;
/// The last build that is nearer to release 2026-09 than to 2026-11: about halfway to b11342.
const LAST_OF_SEPTEMBER: u64 = 11_150;

/// Months since the year 0, with fractions.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Month(f64);

impl Month {
    /// Of a date: `2026-09`, or `2026-09-15`.
    fn of_date(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut number = |least: u32, most: u32| -> Option<Option<u32>> {
            match parts.next() {
                None => Some(None),
                Some(part) => part.parse().ok().filter(|number| (least..=most).contains(number)).map(Some),
            }
        };
        let (year, month, day) = (number(2023, 2099)??, number(1, 12)??, number(1, 31)?.unwrap_or(1));
        parts.next().is_none().then(|| Self(f64::from(year * 12 + month - 1) + f64::from(day - 1) / 31.0))
    }
}

impl Release {
    /// The release nearest to llama.cpp's build of this number.
    pub const fn nearest_to_build(build: u64) -> Self {
        if build <= LAST_OF_AUGUST {
            Self::August2026
        } else if build <= LAST_OF_SEPTEMBER {
            Self::September2026
        } else {
            Self::November2026
        }
    }

    /// The release nearest to a build (`b11200`) or a date (`2026-09`, `2026-09-15`); none if the text is neither.
    pub fn nearest_to(text: &str) -> Option<Self> {
        let build = text.trim().strip_prefix('b').and_then(|digits| digits.parse().ok());
        build.map(Self::nearest_to_build).or_else(|| Some(Self::nearest_to_month(Month::of_date(text.trim())?)))
    }

    /// A release's name is its month.
    fn nearest_to_month(wanted: Month) -> Self {
        let away = |release: &Self| Month::of_date(release.name()).map_or(f64::MAX, |month| (month.0 - wanted.0).abs());
        // of equals the first one is taken, and the newest comes first
        Self::ALL.into_iter().min_by(|one, other| away(one).total_cmp(&away(other))).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_is_nearest_to_its_own_month() {
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
            ("b10488", oldest),
            ("b9000", oldest),
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
