//! The day of a moment, for captions.

use std::time::{SystemTime, UNIX_EPOCH};

/// `2026-11-22`, in UTC. Moments before 1970 are of its first day.
pub(super) fn day(moment: SystemTime) -> String {
    let days = moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400;
    let (year, day_of_year) = year_of(days);
    let is_leap = is_leap(year);
    let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (mut month, mut day) = (1, day_of_year);
    for length in lengths {
        if day < length {
            break;
        }
        (month, day) = (month + 1, day - length);
    }
    format!("{year:04}-{month:02}-{:02}", day + 1)
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// The year of a day since 1970, and the day in it, both from zero on; 400 years have 146 097 days.
fn year_of(days: u64) -> (u64, u64) {
    let (mut year, mut left) = (1970 + days / 146_097 * 400, days % 146_097);
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if left < length {
            return (year, left);
        }
        (year, left) = (year + 1, left - length);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn days_are_named() {
        for (seconds, name) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_704_067_199, "2023-12-31"),
            (1_735_603_200, "2024-12-31"),
            (1_795_564_800, "2026-11-25"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(day(UNIX_EPOCH + Duration::from_secs(seconds)), name);
        }
    }
}
