//! Where on a track a goal is met last: guessed by sketches of plans, which take far less time than plans, and then looked
//! at exactly.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::crew::share;
use super::ground::Ground;
use super::survey::{Asked, Prospect, Regime};
use crate::engine::{Basis, Extent, Graphs, Sketch, Wanted};
use crate::plan::Plan;

/// How often a guess is looked at exactly, and corrected, before the search is left to others.
const MOST_GUESSES: usize = 32;
/// Ends of a bracket that differ by more than this factor are far apart.
const FAR: u64 = 4;
/// How many times as far as a guess went on from the one before it another is looked for.
const REACH: u64 = 4;
/// Fewer graphs are found out as quickly by whoever wants them.
const WORTH_SHARING: usize = 4;
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
    pub fn limit(&mut self) -> Found {
        let last = self.asked.track.last();
        let foreseen = self.last_met(self.samples).map_or_else(|| self.last_resort(), Ok);
        let mut guess = match foreseen {
            Ok(guess) => guess,
            Err(found) => return found,
        };
        let mut bracket = self.bracket(guess);
        let mut before = None;
        for _ in 0..MOST_GUESSES {
            let places = bracket.places(guess, before, last);
            if self.look_at_two(&places).is_none() {
                return Found::Unclear;
            }
            bracket.narrow(places.into_iter().filter_map(|place| Some((place, self.seen_at(place)?))));
            if let Some(limit) = bracket.limit(last) {
                match self.beyond(limit) {
                    Some(further) => guess = further,
                    None => {
                        return self.plan(limit).map_or(Found::Unclear, |plan| Found::Last(limit, Box::new(plan)));
                    }
                }
            } else {
                let met = self.seen_at(guess) == Some(true);
                let edge = self.nearest_edge(guess, met, last);
                match edge.or(bracket.met) {
                    Some(edge) => before = Some(std::mem::replace(&mut guess, bracket.hold(edge))),
                    None => return Found::Unclear,
                }
            }
        }
        Found::Unclear
    }

    /// Looks exactly at the first two of `places` that nobody has looked at.
    fn look_at_two(&mut self, places: &[u64]) -> Option<Vec<bool>> {
        let mut unseen: Vec<u64> = places.iter().copied().filter(|&place| self.seen_at(place).is_none()).collect();
        unseen.dedup();
        unseen.truncate(2);
        self.look_exactly(&unseen)
    }

    /// What an exact look at `place` said.
    fn seen_at(&mut self, place: u64) -> Option<bool> {
        let known = self.known(place)?;
        self.seen.get(&known.subject()).copied()
    }

    /// The plan at `place`, where its graphs are known.
    fn plan(&mut self, place: u64) -> Option<Plan> {
        let known = self.known(place)?;
        self.asked.sketched(place, &self.sketch(known, Basis::Graph))
    }

    /// Where beyond `place` the goal is probably met again: a little further on, or at a sample, if less may be needed there.
    fn beyond(&mut self, place: u64) -> Option<u64> {
        let last = self.asked.track.last().min(place.saturating_add(BEYOND));
        let samples = if self.asked.may_need_less() { self.samples } else { &[] };
        let far = samples.iter().copied().filter(|&sample| sample > last);
        let places: Vec<u64> = (place + 2..=last).chain(far).rev().collect();
        self.foresee(&places);
        places.into_iter().find(|&further| self.meets(further))
    }

    /// Lets all cores tell of `places` whether the goal is probably met there, where nothing needs to be measured for that.
    fn foresee(&mut self, places: &[u64]) {
        let mut known: Vec<_> = places.iter().filter_map(|&place| Some((place, self.known(place)?))).collect();
        known.retain(|(_, known)| self.is_open(known));
        let told = share(&known, |&(place, known)| {
            let sketch = self.sketch(known, Basis::Ahead);
            let meets = self.asked.sketch(place, &sketch);
            (meets || sketch.is_whole()).then_some((known.subject(), meets))
        });
        self.foreseen.extend(told.into_iter().flatten());
    }

    /// The samples on either side of `place` that were looked at exactly.
    fn bracket(&mut self, place: u64) -> Bracket {
        let at = self.samples.partition_point(|&sample| sample <= place);
        let (below, above) = self.samples.split_at(at);
        let met = below.iter().rev().copied().find(|&sample| self.seen_at(sample) == Some(true));
        let missed = above.iter().copied().find(|&sample| self.seen_at(sample) == Some(false));
        Bracket { met, missed: missed.into_iter().collect(), slow: false }
    }

    /// Where sketches see nothing: the last place that meets the goal of the first samples under each of the engine's rules,
    /// and of those halfway, if less may be needed there. Else what came of it.
    fn last_resort(&mut self) -> Result<u64, Found> {
        let mut hopeful: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for &sample in self.samples {
            let known = self.known(sample).ok_or(Found::Unclear)?;
            if known.hopeful {
                hopeful.entry(known.rules).or_default().push(sample);
            }
        }
        let falls = self.asked.may_need_less();
        let halfway = |samples: &[u64]| samples.get(samples.len() / 2).copied().filter(|_| falls);
        let mut places: Vec<u64> =
            hopeful.values().flat_map(|samples| samples.first().copied().into_iter().chain(halfway(samples))).collect();
        places.sort_unstable();
        places.dedup();
        let looked = self.look_exactly(&places).ok_or(Found::Unclear)?;
        let met = places.into_iter().zip(looked).rev().find(|(_, met)| *met);
        met.map(|(place, _)| place).ok_or(Found::Nowhere)
    }

    /// Whether the goal is met at `places`; none where the engine tells nothing beforehand.
    fn look_exactly(&mut self, places: &[u64]) -> Option<Vec<bool>> {
        let known: Vec<_> = places.iter().map(|&place| Some((place, self.known(place)?))).collect::<Option<_>>()?;
        self.prepare(&known);
        let looked = share(&known, |&(place, known)| {
            let before = self.seen.get(&known.subject()).copied();
            before.unwrap_or_else(|| known.hopeful && self.asked.sketch(place, &self.sketch(known, Basis::Graph)))
        });
        self.asked.courses.next_turn();
        self.seen.extend(known.iter().map(|(_, known)| known.subject()).zip(looked.iter().copied()));
        self.foreseen.clear();
        Some(looked)
    }

    /// Lets all cores find out the graphs that exact looks will want, as far as sketches foresee them: a look alone measures
    /// one after the other, and two that are near each other the same ones. How large things are at one place also tells
    /// how they go on from the other.
    fn prepare(&self, places: &[(u64, Known)]) {
        let mut wanted: Vec<Wanted> = Vec::new();
        // where, under which rules
        let mut crew: Vec<(usize, Wanted)> = Vec::new();
        for (place, known) in places.iter().filter(|(_, known)| self.is_open(known)) {
            let sketch = self.sketch(*known, Basis::Ahead);
            self.asked.sketch(*place, &sketch);
            let own = sketch.into_wanted();
            crew.extend(own.first().map(|first| (known.rules, first.clone())));
            for graph in own {
                if !wanted.iter().any(|other| other.is_like(&graph)) {
                    wanted.push(graph);
                }
            }
        }
        let Some((rules, here)) = crew.first().cloned() else { return };
        let tells = crew.iter().any(|(_, other)| other.tells_of(&here));
        if wanted.len() < WORTH_SHARING && !tells {
            return;
        }
        if crew.len() < 2 {
            crew.push((rules, here));
        }
        // where there is too little for all, all take all of it
        let share_of_each = wanted.len().div_ceil(crew.len());
        let parts = wanted.chunks(share_of_each).chain(std::iter::repeat(wanted.as_slice()));
        let parts: Vec<_> = crew.iter().zip(parts).collect();
        share(&parts, |((rules, here), part)| self.graphs[*rules].1.prepare(here, part));
        self.asked.courses.next_turn();
    }

    /// Whether nobody has looked at a place where the goal may be met.
    fn is_open(&self, known: &Known) -> bool {
        known.hopeful && !self.seen.contains_key(&known.subject())
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
            self.graphs.push((regime, Graphs::sharing(Arc::clone(&self.asked.courses))));
        }
        Some(known)
    }

    /// Finds out how things are where rules begin and end: at `top`, and at the first of the samples below it under the same
    /// rules; what is between them is then between known graphs. Neighbours tell the same; where these are, the same is
    /// found out of the next rules in the same time.
    fn survey_below(&mut self, top: u64, known: Known) {
        let below = self.samples.partition_point(|&sample| sample < top);
        let first = self.first_under(known.rules, below).unwrap_or(top);
        let mut ends = vec![first];
        ends.extend((top - first > 1).then_some(top));
        if ends.iter().all(|&end| self.seen_at(end).is_some()) {
            return;
        }
        let lower = self.samples.partition_point(|&sample| sample < first);
        if let Some(next) = self.samples[..lower].last().copied() {
            ends.extend(self.rules(next).and_then(|rules| self.first_under(rules, lower)));
            ends.push(next);
        }
        self.look_at_two(&ends);
    }

    /// The first of the last samples up to `end` that are all under these rules.
    fn first_under(&mut self, rules: usize, end: usize) -> Option<u64> {
        let samples = self.samples;
        samples[..end].iter().rev().copied().take_while(|&sample| self.rules(sample) == Some(rules)).last()
    }
}

impl Ground for Foresight<'_, '_> {
    /// None where the engine tells nothing beforehand.
    type Rules = Option<usize>;

    fn rules(&mut self, place: u64) -> Option<usize> {
        self.known(place).map(|known| known.rules)
    }

    /// Whether the goal is probably met at `place`.
    fn meets(&mut self, place: u64) -> bool {
        let Some(known) = self.known(place) else { return false };
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
        meets
    }
}

/// Between which places the limit lies, by exact looks.
#[derive(Clone, Debug, Default)]
struct Bracket {
    /// The last place where the goal is met.
    met: Option<u64>,
    /// Where it is not.
    missed: BTreeSet<u64>,
    /// Guesses bring it forward less than halving it would: look halfway rather than beside them.
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

    /// The limit, where no place is left in between; `last` is the track's.
    fn limit(&self, last: u64) -> Option<u64> {
        self.met.filter(|&met| met == last || self.width() == Some(1))
    }

    /// Where to look next, the most telling first: beside a guess, or where guesses bring little, well beyond it, as they
    /// went on from the one `before`, but not further than halfway.
    fn places(&self, guess: u64, before: Option<u64>, last: u64) -> Vec<u64> {
        let (here, next) = (Some(guess), Some(guess + 1).filter(|&next| next <= last));
        let reach = before.map(|before| {
            let step = guess.abs_diff(before).saturating_mul(REACH);
            if guess > before { guess.saturating_add(step).min(last) } else { guess.saturating_sub(step) }
        });
        let half = self.halfway();
        let away = [reach, half].into_iter().flatten().filter(|&place| self.is_open(place));
        let away = away.min_by_key(|place| place.abs_diff(guess));
        let places = if self.slow { [here, away, next] } else { [here, next, half] };
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
    fn narrow(&mut self, looked: impl Iterator<Item = (u64, bool)>) {
        let before = self.width();
        for (place, met) in looked {
            if met {
                self.met = self.met.max(Some(place));
            } else {
                self.missed.insert(place);
            }
        }
        self.slow |= self.width().is_none_or(|now| before.is_some_and(|before| now > before / 2));
    }

    /// The place in it that is nearest to `guess`.
    fn hold(&self, guess: u64) -> u64 {
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
