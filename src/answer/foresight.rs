//! Where on a track a goal is met last: guessed by sketches of plans, which take far less time than plans, and then looked
//! at exactly.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::crew::share;
use super::largest::{last_met, last_met_between};
use super::survey::{Asked, Prospect, Regime};
use crate::engine::{Basis, Extent, Graphs, Sketch};
use crate::plan::Plan;

/// How often a guess is looked at exactly, and corrected, before the search is left to others.
const MOST_GUESSES: usize = 32;
/// How far beyond a limit others are looked for: a batch that is rounded up for as many sequences can be smaller for more.
const BEYOND: u64 = 8;

/// What is known of a track.
pub(super) struct Foresight<'s, 'a> {
    asked: &'s Asked<'a>,
    /// Places that were chosen to be looked at, ascending.
    samples: &'s [u64],
    /// Graphs under each of the engine's rules.
    graphs: Vec<(Regime, Graphs)>,
    /// Rules of which it is known how things are where they begin and end.
    surveyed: HashSet<usize>,
    prospects: HashMap<u64, Known>,
    /// What exact looks said.
    seen: HashMap<Subject, bool>,
    /// What sketches have said since the last exact look.
    foreseen: HashMap<Subject, bool>,
}

/// Under the same rules, places of the same extent have the same graphs.
type Subject = (usize, Extent);

/// What is certain of a place.
#[derive(Clone, Copy, Debug)]
struct Known {
    hopeful: bool,
    extent: Extent,
    /// Which of the engine's rules are in effect.
    rules: usize,
}

impl Known {
    const fn subject(&self) -> Subject {
        (self.rules, self.extent)
    }
}

/// What came of looking ahead.
pub(super) enum Found {
    /// The last place that meets the goal: its plan does, and that of the next does not.
    Last(u64, Box<Plan>),
    /// The goal is met nowhere: not even at the first place under any of the engine's rules.
    Nowhere,
    /// It has to be looked for without sketches.
    Unclear,
}

impl<'s, 'a> Foresight<'s, 'a> {
    /// Of a track with `samples`.
    pub fn new(asked: &'s Asked<'a>, samples: &'s [u64]) -> Self {
        let (graphs, surveyed, prospects, seen, foreseen) = Default::default();
        Self { asked, samples, graphs, surveyed, prospects, seen, foreseen }
    }

    /// Where the goal is met last.
    pub fn last_met(&mut self) -> Found {
        let last = self.asked.track.last();
        let Some(mut guess) = last_met(self.samples, &mut |place| self.look(place)) else {
            return if self.is_hopeless() { Found::Nowhere } else { Found::Unclear };
        };
        let mut bracket = self.bracket(guess);
        for _ in 0..MOST_GUESSES {
            let mut places: Vec<u64> = (guess..=last).take(2).collect();
            places.extend(bracket.middle().filter(|middle| !places.contains(middle)));
            let Some(looked) = self.look_exactly(&places) else { return Found::Unclear };
            let met = |wanted: u64| places.iter().zip(&looked).any(|(&place, &met)| place == wanted && met);
            if met(guess) && !met(guess + 1) {
                match self.beyond(guess) {
                    Some(further) => guess = further,
                    None => {
                        return self.plan(guess).map_or(Found::Unclear, |plan| Found::Last(guess, Box::new(plan)));
                    }
                }
                continue;
            }
            bracket.narrow(places.iter().copied().zip(looked.iter().copied()));
            let from = if met(guess + 1) { guess + 1 } else { guess };
            let edge = nearest_edge(from, met(from), last, &mut |place| self.look(place));
            match edge.or(bracket.met) {
                Some(edge) => guess = bracket.hold(edge),
                None => return Found::Unclear,
            }
        }
        Found::Unclear
    }

    /// The plan at `place`, where its graphs are known.
    fn plan(&mut self, place: u64) -> Option<Plan> {
        let known = self.known(place)?;
        self.asked.sketched(place, &self.sketch(known, Basis::Graph))
    }

    /// Where a little beyond `place` the goal is probably met again.
    fn beyond(&mut self, place: u64) -> Option<u64> {
        let last = self.asked.track.last().min(place.saturating_add(BEYOND));
        (place + 2..=last).rev().find(|&further| self.look(further).0)
    }

    /// The samples on either side of `place` that were looked at exactly.
    fn bracket(&mut self, place: u64) -> Bracket {
        let at = self.samples.partition_point(|&sample| sample <= place);
        let (below, above) = self.samples.split_at(at);
        let seen = |foresight: &mut Self, sample: u64| {
            let known = foresight.known(sample)?;
            foresight.seen.get(&known.subject()).copied()
        };
        let met = below.iter().rev().copied().find(|&sample| seen(self, sample) == Some(true));
        let missed = above.iter().copied().find(|&sample| seen(self, sample) == Some(false));
        Bracket { met, missed: missed.into_iter().collect(), slow: false }
    }

    /// Whether the goal is met not even at the first of the samples under each of the engine's rules.
    fn is_hopeless(&mut self) -> bool {
        let mut first: HashMap<usize, u64> = HashMap::new();
        for &sample in self.samples {
            let Some(known) = self.known(sample) else { return false };
            if known.hopeful {
                first.entry(known.rules).or_insert(sample);
            }
        }
        let first: Vec<u64> = first.into_values().collect();
        self.look_exactly(&first).is_some_and(|looked| !looked.contains(&true))
    }

    /// Whether the goal is probably met at `place`, and under which of the rules.
    fn look(&mut self, place: u64) -> (bool, Option<usize>) {
        let Some(known) = self.known(place) else { return (false, None) };
        if known.hopeful && self.surveyed.insert(known.rules) {
            self.survey_below(place, known);
        }
        let subject = known.subject();
        let said = self.seen.get(&subject).or_else(|| self.foreseen.get(&subject)).copied();
        let meets = said.unwrap_or_else(|| {
            let sketch = self.sketch(known, Basis::Track);
            known.hopeful && self.asked.sketch(place, &sketch)
        });
        self.foreseen.insert(subject, meets);
        (meets, Some(known.rules))
    }

    /// Whether the goal is met at `places`; none where the engine tells nothing beforehand.
    fn look_exactly(&mut self, places: &[u64]) -> Option<Vec<bool>> {
        let known: Vec<_> = places.iter().map(|&place| Some((place, self.known(place)?))).collect::<Option<_>>()?;
        let looked = share(&known, |&(place, known)| {
            let before = self.seen.get(&known.subject()).copied();
            before.unwrap_or_else(|| known.hopeful && self.asked.sketch(place, &self.sketch(known, Basis::Graph)))
        });
        self.seen.extend(known.iter().map(|(_, known)| known.subject()).zip(looked.iter().copied()));
        self.foreseen.clear();
        Some(looked)
    }

    fn sketch(&self, known: Known, basis: Basis) -> Sketch<'_> {
        Sketch::new(&self.graphs[known.rules].1, known.extent, basis)
    }

    fn known(&mut self, place: u64) -> Option<Known> {
        if let Some(known) = self.prospects.get(&place) {
            return Some(*known);
        }
        let Prospect { hopeful, extent, regime } = self.asked.prospect(place)?;
        let before = self.graphs.iter().position(|(known, _)| *known == regime);
        let known = Known { hopeful, extent, rules: before.unwrap_or(self.graphs.len()) };
        self.prospects.insert(place, known);
        if before.is_none() {
            self.graphs.push((regime, Graphs::default()));
        }
        Some(known)
    }

    /// Finds out how things are where rules begin and end: at `top`, and at the first of the samples below it under the same
    /// rules; what is between them is then between known graphs.
    fn survey_below(&mut self, top: u64, known: Known) {
        // often the whole range will do
        if top == self.asked.track.last() && self.look_exactly(&[top]) == Some(vec![true]) {
            return;
        }
        let below = self.samples.partition_point(|&sample| sample < top);
        let mut first = top;
        for &sample in self.samples[..below].iter().rev() {
            match self.known(sample) {
                Some(lower) if lower.rules == known.rules => first = sample,
                _ => break,
            }
        }
        self.look_exactly(&[first, top]);
    }
}

/// Between which places the limit lies, by exact looks.
#[derive(Clone, Debug, Default)]
struct Bracket {
    /// The last place where the goal is met.
    met: Option<u64>,
    /// Where it is not.
    missed: BTreeSet<u64>,
    /// Guesses bring it forward less than halving it would.
    slow: bool,
}

impl Bracket {
    /// The first place after the last that meets the goal where it is not met.
    fn missed(&self) -> Option<u64> {
        self.missed.range(self.met.unwrap_or(0)..).next().copied()
    }

    fn width(&self) -> Option<u64> {
        self.missed()?.checked_sub(self.met?)
    }

    /// Where to look beside a guess, where guesses alone take too long.
    fn middle(&self) -> Option<u64> {
        Some(self.met? + self.width()? / 2).filter(|_| self.slow)
    }

    /// By further looks: places, and whether the goal is met there.
    fn narrow(&mut self, looked: impl Iterator<Item = (u64, bool)>) {
        let before = self.width();
        for (place, met) in looked {
            if met {
                self.met = self.met.max(Some(place));
            } else {
                self.missed.insert(place);
            }
        }
        self.slow |= before.zip(self.width()).is_some_and(|(before, now)| now > before / 2);
    }

    /// The place in it that is nearest to `guess`.
    fn hold(&self, guess: u64) -> u64 {
        let low = self.met.unwrap_or(0);
        let high = self.missed().map_or(u64::MAX, |missed| missed.saturating_sub(1));
        guess.clamp(low, high.max(low))
    }
}

/// The last place that meets a goal on this side of the next that does not: looked for from `place`, which `meets` it or
/// not, in ever larger steps.
fn nearest_edge<R: PartialEq>(
    place: u64,
    meets: bool,
    last: u64,
    at: &mut impl FnMut(u64) -> (bool, R),
) -> Option<u64> {
    let mut edge = place;
    let mut step = 1;
    loop {
        let further = if meets { last.min(edge + step) } else { edge.saturating_sub(step) };
        if further == edge {
            return meets.then_some(edge);
        }
        if at(further).0 != meets {
            let (low, high) = if meets { (edge, further) } else { (further, edge) };
            return last_met_between(low, high, at);
        }
        (edge, step) = (further, step * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_edge_next_to_a_place_is_one(edges in proptest::collection::btree_set(0..1000u64, 0..8), place in 0..1000u64) {
            let met = |place: u64| edges.range(..=place).count() % 2 == 0;
            match nearest_edge(place, met(place), 999, &mut |place| (met(place), ())) {
                Some(edge) => prop_assert!(met(edge) && (edge == 999 || !met(edge + 1))),
                None => prop_assert!(!met(0) && !met(place)),
            }
        }

        #[test]
        fn brackets_hold_guesses(looks in proptest::collection::vec(0..1000u64, 0..20), edge in 1..999u64, guess in 0..1000u64) {
            let mut bracket = Bracket::default();
            for place in looks {
                bracket.narrow(std::iter::once((place, place < edge)));
                let held = bracket.hold(guess);
                prop_assert!(bracket.met.is_none_or(|met| met <= held && met < edge));
                prop_assert!(bracket.missed().is_none_or(|missed| held < missed && missed >= edge));
                prop_assert!(bracket.middle().is_none_or(|middle| bracket.met <= Some(middle) && Some(middle) < bracket.missed()));
            }
        }
    }
}
