//! The range of a knob's values.

use crate::engine;
use crate::engine::PlanRequest;
use crate::settings::knob::{Bounds, Knob};

/// Even steps of a range that are planned first. A context that fits between two of them may be missed.
const STEPS: u64 = 48;

/// The values of a knob in ascending order, by place counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::answer) struct KnobRange {
    /// The first value.
    low: u64,
    /// The last value.
    high: u64,
}

impl KnobRange {
    /// From the knob's smallest meaningful value to the end of its range.
    pub fn of(knob: Knob, bounds: &Bounds) -> Self {
        Self::new(knob.least(), knob.stops(bounds).last())
    }

    /// From `low` to `high`.
    pub fn new(low: u64, high: u64) -> Self {
        Self { low: low.min(high), high }
    }

    /// The range up to `high`, which may exceed the knob's range; `None` if it is empty.
    pub fn up_to(self, high: u64) -> Option<Self> {
        (high >= self.low).then_some(Self { high, ..self })
    }

    /// The place of the last value.
    pub fn last(&self) -> u64 {
        self.high - self.low
    }

    /// The value at a place.
    pub fn value(&self, place: u64) -> u64 {
        self.low.saturating_add(place).min(self.high)
    }

    /// The place of `value`, or of the last one below it.
    pub fn place(&self, value: u64) -> u64 {
        value.min(self.high).saturating_sub(self.low)
    }

    /// Places to plan first, ascending: both ends, the knob's stops, and both sides of every value after which the
    /// engine's rules change; for the context over several GPUs also even steps.
    pub fn samples(&self, request: &PlanRequest, knob: Knob, bounds: &Bounds) -> Vec<u64> {
        let stops = knob.stops(bounds);
        let mut places: Vec<u64> = stops.as_slice().iter().map(|&stop| self.place(stop)).collect();
        for edge in engine::of(request.engine).rule_edges(knob, &request.settings) {
            places.extend([self.place(edge), self.place(edge) + 1]);
        }
        let last = self.last();
        // over several GPUs a fit may fail at some contexts and place everything at larger ones again
        if knob == Knob::Context && request.machine.gpus.len() > 1 {
            places.extend((1..STEPS).map(|step| last / STEPS * step));
        }
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
        for (low, high) in [(1, 100), (0, 33), (256, 1024), (7, 7), (9, 5)] {
            let range = KnobRange::new(low, high);
            assert_eq!(range.value(range.last()), high);
            for place in 0..=range.last() {
                assert_eq!(range.place(range.value(place)), place, "{range:?}");
            }
        }
        let range = KnobRange::new(256, 131_072);
        assert_eq!((range.value(0), range.value(range.place(5000))), (256, 5000));
        assert_eq!(range.up_to(5000).map(|range| range.value(range.last())), Some(5000));
        assert_eq!(range.up_to(200_000).map(|range| range.value(range.last())), Some(200_000));
        assert_eq!(range.up_to(200), None);
    }
}
