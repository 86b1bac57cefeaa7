//! A knob's range as an engine sees it.

use crate::answer::Case;
use crate::engine;
use crate::settings::knob::{Bounds, Knob};

/// The values of a knob that an engine tells apart, ascending, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::answer) struct Track {
    /// The first value.
    low: u64,
    /// The last value.
    high: u64,
    grain: u64,
}

impl Track {
    /// From the knob's smallest value that means something to the end of its range.
    pub fn of(_: &Case<'_>, knob: Knob, bounds: &Bounds) -> Self {
        Self::new(knob.least(), knob.stops(bounds).last(), 1)
    }

    /// Multiples of `grain` from `low` to `high`, and `high` itself.
    pub fn new(low: u64, high: u64, grain: u64) -> Self {
        let low = low.div_ceil(grain).saturating_mul(grain).min(high);
        Self { low, high, grain }
    }

    /// The same up to `high`, which may lie beyond the knob's range, as what was asked for may.
    pub fn up_to(self, high: u64) -> Option<Self> {
        (high >= self.low).then_some(Self { high, ..self })
    }

    /// The place of the last value.
    pub fn last(&self) -> u64 {
        (self.high - self.low).div_ceil(self.grain)
    }

    /// The value at a place.
    pub fn value(&self, place: u64) -> u64 {
        self.low.saturating_add(place.saturating_mul(self.grain)).min(self.high)
    }

    /// The place of `value`, or of the last one below it.
    pub fn place(&self, value: u64) -> u64 {
        if value >= self.high { self.last() } else { value.saturating_sub(self.low) / self.grain }
    }

    /// Places to look at first, ascending, with both ends: where the knob snaps, and both sides of every value after
    /// which the engine's rules change.
    pub fn samples(&self, case: &Case<'_>, knob: Knob, bounds: &Bounds) -> Vec<u64> {
        let stops = knob.stops(bounds);
        let mut places: Vec<u64> = stops.as_slice().iter().map(|&stop| self.place(stop)).collect();
        for edge in engine::of(case.engine).rule_edges(knob, case.settings) {
            places.extend([self.place(edge), self.place(edge) + 1]);
        }
        let last = self.last();
        places.extend([0, last.saturating_sub(1), last]);
        places.retain(|&place| place <= last);
        places.sort_unstable();
        places.dedup();
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_values_agree() {
        for (low, high, grain) in [(1, 100, 1), (1, 1000, 256), (0, 33, 1), (1, 100, 256), (256, 1024, 256)] {
            let track = Track::new(low, high, grain);
            assert_eq!(track.value(track.last()), high);
            for place in 0..=track.last() {
                assert_eq!(track.place(track.value(place)), place, "{track:?}");
                assert!(place == track.last() || track.value(place).is_multiple_of(grain));
            }
        }
        let track = Track::new(1, 131_072, 256);
        assert_eq!((track.value(0), track.value(track.place(5000))), (256, 4864));
        assert_eq!(track.up_to(5000).map(|track| track.value(track.last())), Some(5000));
        assert_eq!(track.up_to(200_000).map(|track| track.value(track.last())), Some(200_000));
        assert_eq!(track.up_to(200), None);
    }
}
