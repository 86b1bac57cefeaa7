//! A speed as users read it.

use std::fmt;

use super::Speed;
use crate::units::Tokens;

/// `28–34 tok/s`
impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} tok/s", self.range()))
    }
}

impl Speed {
    /// `28–34`: the range in tokens per second, with two significant digits.
    pub fn range(&self) -> String {
        let (low, high) = (two_digits(self.low), two_digits(self.high));
        if low == high { format!("about {low}") } else { format!("{low}–{high}") }
    }

    /// `Speed: 28–34 tok/s at the start, 22–27 at 32 768 tokens`, with `full` for the full context.
    pub fn sentence(&self, full: &Self) -> String {
        let first = match self.depth {
            0 => "at the start (depth 0)".to_owned(),
            depth => format!("at {} tokens", Tokens(depth)),
        };
        let further = if full.depth > self.depth {
            format!(", {} at {} tokens", full.range(), Tokens(full.depth))
        } else {
            String::new()
        };
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        format!("Speed: {self} {first}{further}{reason}")
    }

    /// `≈ 31 tok/s`
    pub fn headline(&self) -> String {
        format!("≈ {} tok/s", two_digits(self.tokens_per_second))
    }
}

/// `0.43`, `4.3`, `43`, `430`
fn two_digits(value: f64) -> String {
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
