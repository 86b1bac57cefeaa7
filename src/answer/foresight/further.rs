//! What is beyond a limit: a fit may find a better way further on, where the goal is then met again.

use std::sync::Arc;

use super::{Foresight, Found, Known, add_new};
use crate::answer::crew::share;
use crate::answer::ground::Ground;
use crate::engine::{Basis, Site, Wanted};
use crate::plan::Plan;

/// So many of the graphs of which nothing is sure beyond a limit are measured at it: those of the nearest places.
const MOST_DOUBTS: usize = 16;
/// How far beyond a limit others are looked for: a batch that is rounded up for as many sequences can be smaller for more.
const BEYOND: u64 = 8;

/// What is done at the end of a search.
#[derive(Clone, Copy, Debug)]
enum Task {
    Plan(u64, Known),
    Sketch(u64, Known),
}

/// What is known once a limit is.
struct Outlined {
    /// At the limit.
    plan: Box<Plan>,
    /// Where that is; nowhere where there was no fit.
    site: Option<Arc<Site>>,
    /// Graphs of which nothing is sure further on, and of which it would tell something to measure them at the limit; none
    /// where it is clear already that the goal is probably met somewhere.
    doubts: Vec<Wanted>,
}

impl Foresight<'_, '_> {
    /// What came of a search whose exact looks end at `limit`: its plan; or a place further on where the goal is probably met
    /// again, for a fit may find a better way there.
    pub(super) fn conclude(&mut self, limit: u64) -> Result<u64, Found> {
        let places = self.beyond(limit);
        let Some(Outlined { plan, site, doubts }) = self.plan_and_foresee(limit, &places) else {
            return Err(Found::Unclear);
        };
        if let (Some(known), Some(site), false) = (self.known(limit), site, doubts.is_empty()) {
            self.measure(&[(known.rules, Arc::clone(&site)), (known.rules, site)], &doubts);
            self.forget(&[(limit, known)]);
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

    /// The plan at `limit`, where graphs are known; and meanwhile all cores tell of `places` whether the goal is probably met
    /// there, where nothing needs to be measured for that.
    fn plan_and_foresee(&mut self, limit: u64, places: &[u64]) -> Option<Outlined> {
        let known = self.known(limit)?;
        let mut tasks = vec![Task::Plan(limit, known)];
        for &place in places {
            let open = self.known(place).filter(|known| self.is_open(known));
            tasks.extend(open.map(|known| Task::Sketch(place, known)));
        }
        let done = share(&tasks, |task| match *task {
            Task::Plan(place, known) => {
                let sketch = self.sketch(known, Basis::Graph);
                let plan = self.asked.sketched(place, &sketch);
                (plan.map(|plan| (plan, sketch.into_site())), None, Vec::new())
            }
            Task::Sketch(place, there) => {
                let (told, wanted) = self.tell_ahead(place, there);
                let own = if there.rules == known.rules { wanted } else { Vec::new() };
                (None, told.map(|told| (there.subject(), told)), own)
            }
        });
        let (mut outlined, mut doubts) = (None, Vec::new());
        // the nearest places are the last
        for (plan, told, wanted) in done.into_iter().rev() {
            self.foreseen.extend(told);
            add_new(&mut doubts, wanted);
            outlined = outlined.or(plan);
        }
        let (plan, site) = outlined?;
        let is_met = tasks.iter().any(|task| match task {
            Task::Sketch(_, known) => self.foreseen.get(&known.subject()) == Some(&true),
            Task::Plan(..) => false,
        });
        let tells_of = |wanted: &Wanted| site.as_ref().is_some_and(|site| site.tells_of(wanted.site()));
        doubts.retain(|wanted| !is_met && tells_of(wanted));
        doubts.truncate(MOST_DOUBTS);
        Some(Outlined { plan: Box::new(plan), site, doubts })
    }
}
