//! Search for the last value of a range that meets a goal: samples from the top down, then bisection between the lowest
//! sample that fails and the highest that meets the goal.

mod knob;
mod track;

pub(super) use knob::{KnobSearch, Planned, RulesInEffect};
pub(super) use track::KnobRange;

/// A range of places, counted from 0, some of which meet a goal.
pub(super) trait Search {
    /// The engine's rules at a place. Where they stay the same, a place that fails is assumed to make all later ones
    /// fail.
    type Rules: PartialEq;

    /// The rules in effect at `place`, often known without a plan.
    fn rules(&mut self, place: u64) -> Self::Rules;

    /// Whether `place` meets the goal.
    fn meets(&mut self, place: u64) -> bool;

    /// `places` may be requested next, so a search may plan them in parallel.
    fn look_ahead(&mut self, _places: &[u64]) {}

    /// The last place that meets the goal. `samples` is ascending and includes both ends.
    fn last_met(&mut self, samples: &[u64]) -> Option<u64> {
        let (&last, others) = samples.split_last()?;
        if self.meets(last) {
            return Some(last);
        }
        let mut high = last;
        for (at, &low) in others.iter().enumerate().rev() {
            self.look_ahead(&others[at.saturating_sub(1)..=at]);
            if let Some(found) = self.last_met_between(low, high) {
                return Some(found);
            }
            high = low;
        }
        None
    }

    /// The last place from `low` up to below `high` that meets the goal; `high` does not.
    fn last_met_between(&mut self, low: u64, high: u64) -> Option<u64> {
        if high <= low {
            return None;
        }
        if !self.meets(low) {
            let others = self.next_rules(low, high)?;
            return self.last_met_between(others, high);
        }
        if high - low == 1 {
            return Some(low);
        }
        let middle = low + (high - low) / 2;
        self.look_ahead(&[middle, middle + (high - middle) / 2]);
        // if `middle` meets the goal, the answer is there or above
        self.last_met_between(middle, high).or_else(|| self.last_met_between(low, middle))
    }

    /// A place above `low` where the rules change, if those at `high` differ.
    fn next_rules(&mut self, mut low: u64, mut high: u64) -> Option<u64> {
        let rules = self.rules(low);
        if rules == self.rules(high) {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.rules(middle) == rules {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(high)
    }
}

/// A search in reverse order: place 0 is the inner search's `last`.
pub(super) struct Reversed<'s, S> {
    pub search: &'s mut S,
    pub last: u64,
}

impl<S: Search> Search for Reversed<'_, S> {
    type Rules = S::Rules;

    fn rules(&mut self, place: u64) -> S::Rules {
        self.search.rules(self.last - place)
    }

    fn meets(&mut self, place: u64) -> bool {
        self.search.meets(self.last - place)
    }

    fn look_ahead(&mut self, places: &[u64]) {
        let places: Vec<u64> = places.iter().map(|place| self.last - place).collect();
        self.search.look_ahead(&places);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use proptest::prelude::*;

    /// A search over a known need and known rules.
    struct KnownNeeds<N, R> {
        need: N,
        rules: R,
        room: u64,
        planned: HashSet<u64>,
    }

    fn known<R>(
        need: impl Fn(u64) -> u64,
        rules: impl Fn(u64) -> R,
        room: u64,
    ) -> KnownNeeds<impl Fn(u64) -> u64, impl Fn(u64) -> R> {
        KnownNeeds { need, rules, room, planned: HashSet::new() }
    }

    impl<N: Fn(u64) -> u64, T: PartialEq, R: Fn(u64) -> T> Search for KnownNeeds<N, R> {
        type Rules = T;

        fn rules(&mut self, place: u64) -> T {
            (self.rules)(place)
        }

        fn meets(&mut self, place: u64) -> bool {
            self.planned.insert(place);
            (self.need)(place) <= self.room
        }
    }

    /// Segments of a range, each under one of three rules that need `base + slope · place`.
    fn engine() -> impl Strategy<Value = (Vec<u64>, Vec<usize>, Vec<(u64, u64)>)> {
        let edges = proptest::collection::btree_set(1..5000u64, 0..6);
        let rules = proptest::collection::vec((0..20_000u64, 0..8u64), 3);
        (edges, proptest::collection::vec(0..3usize, 7), rules)
            .prop_map(|(edges, order, rules)| (edges.into_iter().collect(), order, rules))
    }

    proptest! {
        #[test]
        fn last_met_agrees_with_brute_force((edges, order, rules) in engine(), room in 0..30_000u64) {
            let rule = |place: u64| order[edges.iter().filter(|&&edge| place > edge).count()];
            let need = |place: u64| {
                let (base, slope) = rules[rule(place)];
                base + slope * place
            };
            let mut samples: Vec<u64> = edges.iter().flat_map(|&edge| [edge, edge + 1]).chain([0, 5000]).collect();
            samples.sort_unstable();
            samples.dedup();
            let mut search = known(need, rule, room);
            let found = search.last_met(&samples);
            prop_assert_eq!(found, (0..=5000).rev().find(|&place| need(place) <= room));
            prop_assert!(search.planned.len() <= samples.len() + 13, "{} places were planned", search.planned.len());
        }

        #[test]
        fn rule_change_is_found_without_planning(edge in 1..5000u64, base in 0..5000u64, room in 0..5000u64) {
            // too much below the edge, from there on `base` and more
            let need = |place: u64| if place < edge { 10_000 } else { base + place - edge };
            let mut search = known(need, |place| place < edge, room);
            let found = search.last_met(&[0, 5000]);
            prop_assert_eq!(found, (0..=5000).rev().find(|&place| need(place) <= room));
            prop_assert!(base <= room || search.planned.len() <= 3, "{} places were planned", search.planned.len());
        }
    }

    #[test]
    fn finds_values_beyond_a_range_with_a_larger_batch() {
        // batch 512 up to 4096, 1024 up to 6000, then 512 again
        let batch = |context: u64| if (4097..6000).contains(&context) { 1024 } else { 512 };
        let mut search = known(|context| context + 8 * batch(context), batch, 11_000);
        assert_eq!(search.last_met(&[1, 4096, 4097, 8192]), Some(11_000 - 8 * 512));
    }
}
