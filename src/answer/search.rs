//! How the last value of a range that meets a goal is found: the values worth a look from the top down, then bisection
//! between the last that fails and the first that meets. Only plain plans are asked for.

mod knob;
mod track;

pub(super) use knob::{KnobSearch, Planned, RulesInEffect};
pub(super) use track::KnobRange;

/// Places in a row, of which some meet a goal.
pub(super) trait Search {
    /// What a place is planned by. Between two places under the same rules, one that fails is taken to make all later ones
    /// fail.
    type Rules: PartialEq;

    /// The rules in effect at `place`, which are often known without a plan.
    fn rules(&mut self, place: u64) -> Self::Rules;

    /// Whether `place` meets the goal.
    fn meets(&mut self, place: u64) -> bool;

    /// These are asked about next: a search that can plan several at once does so.
    fn look_ahead(&mut self, _places: &[u64]) {}

    /// The last place that meets the goal. `samples` ascend and hold both ends.
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
        // where the middle meets it, the answer is there or above
        self.last_met_between(middle, high).or_else(|| self.last_met_between(low, middle))
    }

    /// Where the rules at `low` give way to others, if those at `high` are others.
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

/// A search from the far end: its place `last` comes first.
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

    /// Places whose need and rules are known.
    struct KnownNeeds<N, R> {
        need: N,
        rules: R,
        room: u64,
        looked: HashSet<u64>,
    }

    fn known<R>(
        need: impl Fn(u64) -> u64,
        rules: impl Fn(u64) -> R,
        room: u64,
    ) -> KnownNeeds<impl Fn(u64) -> u64, impl Fn(u64) -> R> {
        KnownNeeds { need, rules, room, looked: HashSet::new() }
    }

    impl<N: Fn(u64) -> u64, T: PartialEq, R: Fn(u64) -> T> Search for KnownNeeds<N, R> {
        type Rules = T;

        fn rules(&mut self, place: u64) -> T {
            (self.rules)(place)
        }

        fn meets(&mut self, place: u64) -> bool {
            self.looked.insert(place);
            (self.need)(place) <= self.room
        }
    }

    /// Stretches of a track, each under one of a few rules that ask for `base + slope · place`.
    fn engine() -> impl Strategy<Value = (Vec<u64>, Vec<usize>, Vec<(u64, u64)>)> {
        let edges = proptest::collection::btree_set(1..5000u64, 0..6);
        let rules = proptest::collection::vec((0..20_000u64, 0..8u64), 3);
        (edges, proptest::collection::vec(0..3usize, 7), rules)
            .prop_map(|(edges, order, rules)| (edges.into_iter().collect(), order, rules))
    }

    proptest! {
        #[test]
        fn needs_that_jump_and_fall_hide_nothing((edges, order, rules) in engine(), room in 0..30_000u64) {
            let rule = |place: u64| order[edges.iter().filter(|&&edge| place > edge).count()];
            let need = |place: u64| {
                let (base, slope) = rules[rule(place)];
                base + slope * place
            };
            let mut samples: Vec<u64> = edges.iter().flat_map(|&edge| [edge, edge + 1]).chain([0, 5000]).collect();
            samples.sort_unstable();
            samples.dedup();
            let mut track = known(need, rule, room);
            let found = track.last_met(&samples);
            prop_assert_eq!(found, (0..=5000).rev().find(|&place| need(place) <= room));
            prop_assert!(track.looked.len() <= samples.len() + 13, "{} places were looked at", track.looked.len());
        }

        #[test]
        fn where_rules_change_once_is_found_without_a_look(edge in 1..5000u64, base in 0..5000u64, room in 0..5000u64) {
            // up to the edge too much, from there on `base` and more
            let need = |place: u64| if place < edge { 10_000 } else { base + place - edge };
            let mut track = known(need, |place| place < edge, room);
            let found = track.last_met(&[0, 5000]);
            prop_assert_eq!(found, (0..=5000).rev().find(|&place| need(place) <= room));
            prop_assert!(base <= room || track.looked.len() <= 3, "{} places were looked at", track.looked.len());
        }
    }

    #[test]
    fn a_batch_that_grows_with_the_context_is_seen_past() {
        // up to 4096 a small batch, then a large one as long as it fits, then the small one again
        let batch = |context: u64| if (4097..6000).contains(&context) { 1024 } else { 512 };
        let mut track = known(|context| context + 8 * batch(context), batch, 11_000);
        assert_eq!(track.last_met(&[1, 4096, 4097, 8192]), Some(11_000 - 8 * 512));
    }
}
