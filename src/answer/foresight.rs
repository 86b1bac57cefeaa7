//! Where on a track a goal is met last: guessed by sketches of plans, which take far less time than plans, and then looked
//! at exactly.

mod bracket;
mod further;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::crew::{discard, share};
use super::ground::Ground;
use super::survey::{Asked, Prospect, Regime};
use crate::engine::{Basis, Extent, Graphs, Site, Sketch, Wanted};
use crate::plan::Plan;
use bracket::Bracket;

/// How often a guess is looked at exactly, and corrected, before the search is left to others.
const MOST_GUESSES: usize = 32;
/// How often a guess is corrected between two exact looks: more would be astray.
const MOST_THOUGHTS: usize = 2;
/// Fewer graphs are found out as quickly by whoever wants them.
const WORTH_SHARING: usize = 4;

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
    /// What sketches have said since something was last measured under the same rules for an exact look.
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
        let mut guess = match self.foresee() {
            Ok(guess) => guess,
            Err(found) => return found,
        };
        let mut bracket = self.bracket(guess);
        let (mut before, mut thoughts) = (None, 0);
        for _ in 0..MOST_GUESSES {
            let places = bracket.places(guess, before, last);
            let Some(unseen) = self.two_unseen(&places) else { return Found::Unclear };
            if self.prepare(&unseen)
                && thoughts < MOST_THOUGHTS
                && let Some(other) = self.second_thought(guess, &bracket)
            {
                (guess, before, thoughts) = (other, None, thoughts + 1);
                continue;
            }
            self.look(&unseen);
            thoughts = 0;
            bracket.narrow(places.into_iter().filter_map(|place| Some((place, self.seen_at(place)?))));
            if let Some(limit) = bracket.limit(last) {
                match self.conclude(limit) {
                    Ok(further) => {
                        (guess, bracket, before) = (further, self.bracket(further), None);
                        bracket.met = bracket.met.max(Some(limit));
                    }
                    Err(found) => return found,
                }
            } else {
                let met = self.seen_at(guess) == Some(true);
                let edge = self.nearest_edge(guess, met, last);
                if let Some(edge) = edge.or(bracket.met) {
                    before = Some(std::mem::replace(&mut guess, bracket.hold(edge)));
                    continue;
                }
                // nothing is left of what was foreseen: begin again, by what was seen meanwhile
                guess = match self.foresee() {
                    Ok(guess) => guess,
                    Err(found) => return found,
                };
                (bracket, before) = (self.bracket(guess), None);
            }
        }
        Found::Unclear
    }

    /// Where sketches see the goal met last, or else what was found where they see nothing.
    fn foresee(&mut self) -> Result<u64, Found> {
        self.last_met(self.samples).map_or_else(|| self.last_resort(), Ok)
    }

    /// Another guess than this one, where sketches come to another now that graphs were measured for an exact look: nearby, or
    /// at a sample further on; only where what is measured at one place tells of others, or it would be but one of many.
    fn second_thought(&mut self, guess: u64, bracket: &Bracket) -> Option<u64> {
        let Known { extent, rules, .. } = self.known(guess)?;
        let is_told_of = self.seen.keys().any(|(other, elsewhere)| *other == rules && elsewhere.is_even_with(extent));
        if !is_told_of {
            return None;
        }
        let samples = &self.samples[self.samples.partition_point(|&sample| sample <= guess)..];
        let open: Vec<u64> = samples.iter().rev().copied().filter(|&sample| bracket.hold(sample) == sample).collect();
        let from = self.first_met_ahead(&open).unwrap_or(guess);
        let met = self.meets(from);
        let edge = self.nearest_edge(from, met, self.asked.track.last())?;
        Some(bracket.hold(edge)).filter(|edge| *edge != guess)
    }

    /// The first of `places` at which the goal is probably met, as far as that is told without measuring anything.
    fn first_met_ahead(&mut self, places: &[u64]) -> Option<u64> {
        let places = self.all_known(places)?;
        let unsaid: Vec<(u64, Known)> =
            places.iter().copied().filter(|(_, known)| self.said_of(*known).is_none()).collect();
        let told = share(&unsaid, |&(place, known)| self.tell_ahead(place, known).0);
        let told = unsaid.iter().zip(told).filter_map(|((_, known), told)| Some((known.subject(), told?)));
        self.foreseen.extend(told);
        places.into_iter().find(|(_, known)| self.said_of(*known) == Some(true)).map(|(place, _)| place)
    }

    /// What an exact look or else a sketch has said of a place.
    fn said_of(&self, known: Known) -> Option<bool> {
        let subject = known.subject();
        self.seen.get(&subject).or_else(|| self.foreseen.get(&subject)).copied()
    }

    /// What is told of that; nothing where something would have to be measured, and the goal is not met without it. And the
    /// graphs of which nothing was sure.
    fn tell_ahead(&self, place: u64, known: Known) -> (Option<bool>, Vec<Wanted>) {
        let sketch = self.sketch(known, Basis::Ahead);
        let meets = known.hopeful && self.asked.sketch(place, &sketch);
        ((meets || sketch.is_whole()).then_some(meets), sketch.into_wanted())
    }

    /// The first two of `places` that nobody has looked at; none where the engine tells nothing beforehand.
    fn two_unseen(&mut self, places: &[u64]) -> Option<Vec<(u64, Known)>> {
        let mut unseen: Vec<u64> = places.iter().copied().filter(|&place| self.seen_at(place).is_none()).collect();
        unseen.dedup();
        unseen.truncate(2);
        self.all_known(&unseen)
    }

    /// These, with what is certain of each; none where that is nothing.
    fn all_known(&mut self, places: &[u64]) -> Option<Vec<(u64, Known)>> {
        places.iter().map(|&place| Some((place, self.known(place)?))).collect()
    }

    /// What an exact look at `place` said.
    fn seen_at(&mut self, place: u64) -> Option<bool> {
        let known = self.known(place)?;
        self.seen.get(&known.subject()).copied()
    }

    /// The samples on either side of `place` that were looked at exactly.
    fn bracket(&mut self, place: u64) -> Bracket {
        let at = self.samples.partition_point(|&sample| sample <= place);
        let (below, above) = self.samples.split_at(at);
        let met = below.iter().rev().copied().find(|&sample| self.seen_at(sample) == Some(true));
        let missed = above.iter().copied().find(|&sample| self.seen_at(sample) == Some(false));
        Bracket::new(met, missed)
    }

    /// Where sketches see nothing: the last place that meets the goal of the first samples under each of the engine's rules.
    /// Else what came of it.
    fn last_resort(&mut self) -> Result<u64, Found> {
        let mut firsts: BTreeMap<usize, u64> = BTreeMap::new();
        for &sample in self.samples {
            let known = self.known(sample).ok_or(Found::Unclear)?;
            if known.hopeful {
                firsts.entry(known.rules).or_insert(sample);
            }
        }
        let mut places: Vec<u64> = firsts.into_values().collect();
        places.sort_unstable();
        let places = self.all_known(&places).ok_or(Found::Unclear)?;
        let looked = self.look_exactly(&places);
        let met = places.into_iter().zip(looked).rev().find(|(_, met)| *met);
        met.map(|((place, _), _)| place).ok_or(Found::Nowhere)
    }

    /// Whether the goal is met at `places`.
    fn look_exactly(&mut self, places: &[(u64, Known)]) -> Vec<bool> {
        self.prepare(places);
        self.look(places)
    }

    /// Whether the goal is met at `places`, by graphs that are measured there.
    fn look(&mut self, places: &[(u64, Known)]) -> Vec<bool> {
        let looked = share(places, |&(place, known)| {
            let before = self.seen.get(&known.subject()).copied();
            before.unwrap_or_else(|| known.hopeful && self.asked.sketch(place, &self.sketch(known, Basis::Graph)))
        });
        self.asked.courses.next_turn();
        self.seen.extend(places.iter().map(|(_, known)| known.subject()).zip(looked.iter().copied()));
        self.forget(places);
        looked
    }

    /// Forgets what sketches said before something was measured at `places`: under other rules they still say the same.
    fn forget(&mut self, places: &[(u64, Known)]) {
        self.foreseen.retain(|(rules, _), _| places.iter().all(|(_, known)| known.rules != *rules));
    }

    /// Lets all cores find out the graphs that exact looks will want, as far as sketches foresee them: a look alone measures
    /// one after the other, and two that are near each other the same ones. How large things are at one place also tells
    /// how they go on from the other. Says whether anything was measured.
    fn prepare(&mut self, places: &[(u64, Known)]) -> bool {
        let mut wanted: Vec<Wanted> = Vec::new();
        // under which rules, where
        let mut crew: Vec<(usize, Arc<Site>)> = Vec::new();
        let open: Vec<(u64, Known)> = places.iter().copied().filter(|(_, known)| self.is_open(known)).collect();
        let told = share(&open, |&(place, known)| self.tell_ahead(place, known));
        for ((_, known), (_, own)) in open.into_iter().zip(told) {
            crew.extend(own.first().map(|first| (known.rules, Arc::clone(first.site()))));
            add_new(&mut wanted, own);
        }
        let Some((rules, here)) = crew.first().cloned() else { return false };
        let tells = crew.iter().any(|(_, other)| other.tells_of(&here));
        if wanted.len() < WORTH_SHARING && !tells {
            return false;
        }
        if crew.len() < 2 {
            crew.push((rules, here));
        }
        self.measure(&crew, &wanted);
        self.forget(places);
        true
    }

    /// Lets all cores measure what is wanted, each under some rules somewhere; where there is too little for all, all take all
    /// of it.
    fn measure(&self, crew: &[(usize, Arc<Site>)], wanted: &[Wanted]) {
        let share_of_each = wanted.len().div_ceil(crew.len());
        let parts = wanted.chunks(share_of_each).chain(std::iter::repeat(wanted));
        let parts: Vec<_> = crew.iter().zip(parts).collect();
        share(&parts, |((rules, site), part)| self.graphs[*rules].1.prepare(site, part));
        self.asked.courses.next_turn();
    }

    /// Whether nobody has looked at a place where the goal may be met.
    fn is_open(&self, known: &Known) -> bool {
        known.hopeful && !self.seen.contains_key(&known.subject())
    }

    fn sketch(&self, known: Known, basis: Basis) -> Sketch<'_> {
        Sketch::new(&self.graphs[known.rules].1, known.extent, basis)
    }

    /// What is certain of a place; none where the engine tells nothing beforehand.
    fn known(&mut self, place: u64) -> Option<Known> {
        if let Some(known) = self.prospects.get(&place) {
            return Some(*known);
        }
        let prospect = self.asked.prospect(place)?;
        Some(self.note(place, prospect))
    }

    /// Finds that out of many at the same time.
    fn get_to_know(&mut self, places: &[u64]) {
        let new: Vec<u64> = places.iter().copied().filter(|place| !self.prospects.contains_key(place)).collect();
        let prospects = share(&new, |&place| self.asked.prospect(place));
        for (place, prospect) in new.into_iter().zip(prospects) {
            if let Some(prospect) = prospect {
                self.note(place, prospect);
            }
        }
    }

    fn note(&mut self, place: u64, Prospect { hopeful, extent, regime }: Prospect) -> Known {
        let before = self.graphs.iter().position(|(known, _)| *known == regime);
        let known = Known { hopeful, extent, rules: before.unwrap_or(self.graphs.len()) };
        self.prospects.insert(place, known);
        if before.is_none() {
            self.graphs.push((regime, Graphs::sharing(Arc::clone(&self.asked.courses))));
        }
        known
    }

    /// Finds out how things are where rules begin and end: at `place`, and at the first of the samples below it under the same
    /// rules; or where these begin between two samples, at the last place there. What is between is then between known
    /// graphs. Neighbours tell the same; where these are, the same is found out of the next rules in the same time.
    fn survey_around(&mut self, place: u64, known: Known) {
        let (below, above) = self.samples.split_at(self.samples.partition_point(|&sample| sample < place));
        let next = above.first().copied().filter(|&sample| sample != place);
        let top = next.and_then(|next| self.next_rules(place, next)).map_or(place, |others| others - 1);
        let first = self.first_under(known.rules, below.len()).unwrap_or(place);
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
        if let Some(unseen) = self.two_unseen(&ends) {
            self.look_exactly(&unseen);
        }
    }

    /// The first of the last samples up to `end` that are all under these rules.
    fn first_under(&mut self, rules: usize, end: usize) -> Option<u64> {
        let samples = self.samples;
        samples[..end].iter().rev().copied().take_while(|&sample| self.rules(sample) == Some(rules)).last()
    }
}

impl Drop for Foresight<'_, '_> {
    fn drop(&mut self) {
        discard(std::mem::take(&mut self.graphs));
    }
}

/// Adds to `wanted` those of others that are not there yet.
fn add_new(wanted: &mut Vec<Wanted>, others: Vec<Wanted>) {
    for graph in others {
        if !wanted.iter().any(|other| other.is_like(&graph)) {
            wanted.push(graph);
        }
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
            self.survey_around(place, known);
        }
        let meets = self.said_of(known).unwrap_or_else(|| {
            let sketch = self.sketch(known, Basis::Track);
            let meets = known.hopeful && self.asked.sketch(place, &sketch);
            self.asked.courses.next_turn();
            meets
        });
        self.foreseen.insert(known.subject(), meets);
        meets
    }

    /// Sketches them at the same time, whatever the number of cores: what is found depends on it.
    fn expect(&mut self, places: &[u64]) {
        let mut open: Vec<(u64, Known)> = Vec::new();
        for &place in places {
            let Some(known) = self.known(place) else { continue };
            let subject = known.subject();
            let is_new = self.is_open(&known) && !self.foreseen.contains_key(&subject);
            if is_new && open.iter().all(|(_, other)| other.subject() != subject) {
                open.push((place, known));
            }
        }
        // whoever is the first under some rules surveys them
        if open.len() < 2 || open.iter().any(|(_, known)| !self.surveyed.contains(&known.rules)) {
            return;
        }
        let told = share(&open, |&(place, known)| self.asked.sketch(place, &self.sketch(known, Basis::Track)));
        self.asked.courses.next_turn();
        self.foreseen.extend(open.iter().map(|(_, known)| known.subject()).zip(told));
    }
}
