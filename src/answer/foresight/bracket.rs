//! Between which places a limit lies, and where to look next.

use std::collections::BTreeSet;

/// Ends of a bracket that differ by more than this factor are far apart.
const FAR: u64 = 4;
/// How many times as far as a guess went on from the one before it another is looked for.
const REACH: u64 = 4;

/// Between which places a limit lies, by exact looks.
#[derive(Clone, Debug, Default)]
pub struct Bracket {
    /// The last place where the goal is met.
    pub met: Option<u64>,
    /// Where it is not.
    missed: BTreeSet<u64>,
}

impl Bracket {
    /// By the nearest places that were looked at.
    pub fn new(met: Option<u64>, missed: Option<u64>) -> Self {
        Self { met, missed: missed.into_iter().collect() }
    }

    /// The first place after the last that meets the goal where it is not met.
    fn missed(&self) -> Option<u64> {
        self.missed.range(self.met.unwrap_or(0)..).next().copied()
    }

    /// The limit, where no place is left in between; `last` is the track's.
    pub fn limit(&self, last: u64) -> Option<u64> {
        self.met.filter(|&met| met == last || self.missed() == Some(met + 1))
    }

    /// Where to look next, the most telling first: beside a guess; or where the one `before` was wrong, well beyond it, as
    /// they went on, but not further than halfway.
    pub fn places(&self, guess: u64, before: Option<u64>, last: u64) -> Vec<u64> {
        let (here, next) = (Some(guess), Some(guess + 1).filter(|&next| next <= last));
        let reach = before.map(|before| {
            let step = guess.abs_diff(before).saturating_mul(REACH);
            if guess > before { guess.saturating_add(step).min(last) } else { guess.saturating_sub(step) }
        });
        let half = self.halfway();
        let away = [reach, half].into_iter().flatten().filter(|&place| self.is_open(place));
        let away = away.min_by_key(|place| place.abs_diff(guess));
        let places = if before.is_some() { [here, away, next] } else { [here, next, half] };
        places.into_iter().flatten().collect()
    }

    /// Whether nothing is known of `place`.
    fn is_open(&self, place: u64) -> bool {
        self.met.is_none_or(|met| met < place) && self.missed().is_none_or(|missed| place < missed)
    }

    /// The last place that meets the goal, or the first of all, and the first after it that does not.
    fn ends(&self) -> Option<(u64, u64)> {
        Some((self.met.unwrap_or(0), self.missed()?)).filter(|(met, missed)| met < missed)
    }

    /// The place halfway, by magnitude if the ends are far apart.
    fn halfway(&self) -> Option<u64> {
        let (met, missed) = self.ends()?;
        let place = if missed / FAR > met {
            let [low, high] = [met + 1, missed].map(|end| (end as f64).ln());
            f64::midpoint(low, high).exp() as u64
        } else {
            met.midpoint(missed)
        };
        Some(place).filter(|place| (met + 1..missed).contains(place))
    }

    /// By further looks: places, and whether the goal is met there.
    pub fn narrow(&mut self, looked: impl Iterator<Item = (u64, bool)>) {
        for (place, met) in looked {
            if met {
                self.met = self.met.max(Some(place));
            } else {
                self.missed.insert(place);
            }
        }
    }

    /// The place in it that is nearest to `guess`.
    pub fn hold(&self, guess: u64) -> u64 {
        let low = self.met.unwrap_or(0);
        let high = self.missed().map_or(u64::MAX, |missed| missed.saturating_sub(1));
        guess.clamp(low, high.max(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn brackets_hold_guesses(looks in proptest::collection::vec(0..1000u64, 0..20), edge in 1..999u64, guess in 0..1000u64) {
            let mut bracket = Bracket::default();
            for place in looks {
                bracket.narrow(std::iter::once((place, place < edge)));
                let held = bracket.hold(guess);
                prop_assert!(bracket.met.is_none_or(|met| met <= held && met < edge));
                prop_assert!(bracket.missed().is_none_or(|missed| held < missed && missed >= edge));
                let inside = |place: u64| bracket.met <= Some(place) && Some(place) < bracket.missed();
                prop_assert!(bracket.halfway().is_none_or(inside));
                let places = bracket.places(held, Some(guess), 999);
                prop_assert!(places.contains(&held) && places.iter().all(|place| *place <= 999));
            }
        }
    }
}
