//! What is beyond a limit: a fit may find a better way further on, where the goal is then met again.

use std::sync::Arc;

use super::{Foresight, Found, Known, add_new};
use crate::answer::crew::{both, share};
use crate::answer::ground::Ground;
use crate::engine::{Basis, Site, Wanted};
use crate::plan::Plan;

/// So many of the graphs of which nothing is sure beyond a limit are measured at it: those of the nearest places.
const MOST_DOUBTS: usize = 16;
/// How far beyond a limit others are looked for: a batch that is rounded up for as many sequences can be smaller for more.
const BEYOND: u64 = 8;

impl Foresight<'_, '_> {
    /// What came of a search whose exact looks end at `limit`: its plan; or a place further on where the goal is probably met
    /// again, for a fit may find a better way there.
    pub(super) fn conclude(&mut self, limit: u64) -> Result<u64, Found> {
        let Some(known) = self.known(limit) else { return Err(Found::Unclear) };
        let places = self.beyond(limit);
        self.get_to_know(&places);
        let mut open: Vec<(u64, Known)> = Vec::new();
        for &place in &places {
            open.extend(self.known(place).filter(|known| self.is_open(known)).map(|known| (place, known)));
        }
        let foresee = || share(&open, |&(place, known)| self.tell_ahead(place, known));
        let (planned, told) = both(|| self.plan(limit, known), foresee);
        let Some((plan, site)) = planned else { return Err(Found::Unclear) };
        let doubts = self.hear(&open, told, known.rules);
        if let Some(site) = site {
            self.remove(doubts, limit, known, &site);
        }
        for some in places.chunks(2) {
            self.expect(some);
            if let Some(further) = some.iter().copied().find(|&further| self.meets(further)) {
                return Ok(further);
            }
        }
        Err(Found::Last(limit, plan))
    }

    /// Where the goal may be met again: a little beyond `limit`, ever further on up to the next sample, and at all samples
    /// after that and halfway between them; the farthest first.
    fn beyond(&self, limit: u64) -> Vec<u64> {
        let last = self.asked.track.last();
        let little = last.min(limit.saturating_add(BEYOND));
        let samples = &self.samples[self.samples.partition_point(|&sample| sample <= little)..];
        let next = samples.first().copied().unwrap_or(last);
        let steps = (0..u64::BITS).map(|power| limit.saturating_add(1 << power));
        let further = steps.filter(|place| (little + 1..next).contains(place));
        let halfway = samples.windows(2).map(|ends| ends[0].midpoint(ends[1]));
        let mut places: Vec<u64> =
            (limit + 2..=little).chain(further).chain(samples.iter().copied()).chain(halfway).collect();
        places.sort_unstable();
        places.dedup();
        places.reverse();
        places
    }

    /// The plan at `limit`, where graphs are known; and where that is, if there was a fit.
    fn plan(&self, limit: u64, known: Known) -> Option<(Box<Plan>, Option<Arc<Site>>)> {
        let sketch = self.sketch(known, Basis::Graph);
        let plan = self.asked.sketched(limit, &sketch)?;
        Some((Box::new(plan), sketch.into_site()))
    }

    /// Notes what is told of places further on, the farthest first. Returns the graphs under these rules of which nothing was
    /// sure there, the nearest first; none where the goal is probably met somewhere.
    fn hear(&mut self, places: &[(u64, Known)], told: Vec<(Option<bool>, Vec<Wanted>)>, rules: usize) -> Vec<Wanted> {
        let (mut doubts, mut is_met) = (Vec::new(), false);
        for ((_, known), (meets, wanted)) in places.iter().zip(told).rev() {
            self.foreseen.extend(meets.map(|meets| (known.subject(), meets)));
            is_met |= meets == Some(true);
            if known.rules == rules {
                add_new(&mut doubts, wanted);
            }
        }
        if is_met { Vec::new() } else { doubts }
    }

    /// Measures the first of these graphs at `limit`, as far as that tells something of where they are wanted.
    fn remove(&mut self, mut doubts: Vec<Wanted>, limit: u64, known: Known, site: &Arc<Site>) {
        doubts.retain(|wanted| site.tells_of(wanted.site()));
        doubts.truncate(MOST_DOUBTS);
        if !doubts.is_empty() {
            let here = || (known.rules, Arc::clone(site));
            self.measure(&[here(), here()], &doubts);
            self.forget(&[(limit, known)]);
        }
    }
}
