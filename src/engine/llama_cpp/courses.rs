//! What is known of a model's graphs that differ in sizes alone, as those along a knob's track mostly do: who takes and
//! gives which bytes under a placement, and what llama.cpp's trials end in.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use foldhash::HashMap;

use super::Loaded;
use super::desk::Left;
use super::error::Refusal;
use super::fit::sketch::Extent;
use super::placement::Placement;
use super::release::Release;
use super::tally::Tally;
use super::trials::{Trial, Trials};
use crate::engine::ggml::allocate::{Course, Sizes};
use crate::engine::ggml::families::{Draft, Pattern};
use crate::engine::ggml::schedule::Scheduler;
use crate::engine::ggml::sections::{Sections, Settled, Whereabouts};
use crate::engine::ggml::{Backend, Op, Workbench};
use crate::gguf::Header;

/// Places of a track at which graphs are kept: those that are looked at together, and the one before.
const MOST_LEFT: usize = 4;

/// Courses of one model by one release, for all who look at it.
#[derive(Debug, Default)]
pub struct Courses {
    model: OnceLock<Arc<Loaded>>,
    known: Mutex<Known>,
    turn: AtomicUsize,
}

#[derive(Debug, Default)]
struct Known {
    patterns: Vec<Kept>,
    courses: HashMap<Subject, Arc<Course>>,
    trials: Trials,
    tallies: Vec<Arc<Tally>>,
    /// By places of the track, the latest last.
    left: Vec<(Extent, Left)>,
}

#[derive(Debug)]
struct Kept {
    backends: Vec<Backend>,
    pattern: Pattern,
    /// How large its tensors are at places of a track, and the turn in which that was noted.
    sizes: BTreeMap<Extent, (usize, Arc<Sizes>)>,
    /// Those that nobody is on.
    scenes: Vec<Scene>,
}

/// Where placements of one pattern are tried: the first of its graphs stands for all of them.
#[derive(Debug)]
pub(super) struct Scene {
    draft: Draft,
    /// By whether devices work as a pipeline.
    sections: [Option<Sections>; 2],
    whereabouts: Option<Whereabouts>,
}

/// What has one course: graphs of one pattern under a placement, on devices that work as a pipeline or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    pub pattern: usize,
    pub placement: Placement,
    pub pipeline: bool,
}

impl Scene {
    /// With a graph on which nothing was tried.
    fn new(draft: &Draft) -> Self {
        Self { draft: draft.clone(), sections: [None, None], whereabouts: None }
    }

    /// Gives weights and caches their homes.
    fn settle(&mut self, placement: &Placement) {
        let Self { draft, whereabouts, .. } = self;
        let mut moved = Vec::new();
        draft.settle(placement, |id| moved.push(id));
        if let Some(whereabouts) = whereabouts {
            for id in moved {
                whereabouts.note(&draft.graph, id);
            }
        }
    }

    /// Who takes and gives what under a placement.
    pub fn course(&mut self, scheduler: &Scheduler<'_>, placement: &Placement, bench: &mut Workbench) -> Course {
        self.settle(placement);
        let Self { draft, sections, whereabouts } = self;
        let sections = sections[usize::from(scheduler.pipeline)]
            .get_or_insert_with(|| Sections::new(&draft.graph, &draft.claims, scheduler, draft.exchanged()));
        let whereabouts = whereabouts.get_or_insert_with(|| sections.whereabouts(&draft.graph, &draft.claims));
        whereabouts.follow(scheduler, &draft.graph, bench);
        let mut settled = Settled { graph: &mut draft.graph, claims: &draft.claims, whereabouts };
        sections.course(scheduler, &mut settled, bench)
    }
}

impl Courses {
    /// The model, read once.
    ///
    /// # Errors
    /// As [`Loaded::new`].
    pub(super) fn model(&self, header: &Header, release: Release) -> Result<Arc<Loaded>, Refusal> {
        if let Some(model) = self.model.get() {
            return Ok(Arc::clone(model));
        }
        let model = Arc::new(Loaded::new(header, release)?);
        Ok(Arc::clone(self.model.get_or_init(|| model)))
    }

    /// The model, once anybody has read it.
    pub(super) fn known_model(&self) -> Option<Arc<Loaded>> {
        self.model.get().cloned()
    }

    /// What the model's weights take on such devices.
    pub(super) fn tally(&self, model: &Loaded, backends: &[Backend]) -> Arc<Tally> {
        let tallies = &mut self.lock().tallies;
        let at = tallies.iter().position(|tally| tally.is_for(backends)).unwrap_or_else(|| {
            tallies.push(Arc::new(Tally::of(model, backends)));
            tallies.len() - 1
        });
        Arc::clone(&tallies[at])
    }

    /// What has been noted so far becomes what others go by. (Not at once: whose turn it is at the same time must not count,
    /// or answers would depend on who is faster.)
    pub fn next_turn(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
    }

    /// Whose turn it is.
    pub(super) fn turn(&self) -> usize {
        self.turn.load(Ordering::Relaxed)
    }

    /// What somebody left who measured at this place of the track.
    pub(super) fn left_at(&self, at: Extent) -> Left {
        let left = &mut self.lock().left;
        let of = left.iter().rposition(|(place, _)| *place == at);
        of.map(|of| left.remove(of).1).unwrap_or_default()
    }

    /// Keeps that for the next.
    pub(super) fn leave_at(&self, at: Extent, what: Left) {
        let left = &mut self.lock().left;
        if left.len() == MOST_LEFT {
            left.remove(0);
        }
        left.push((at, what));
    }

    /// Which of the patterns on these devices this is.
    pub(super) fn pattern(&self, backends: &[Backend], pattern: Pattern) -> usize {
        let patterns = &mut self.lock().patterns;
        let known = patterns.iter().position(|known| known.backends == backends && known.pattern == pattern);
        known.unwrap_or_else(|| {
            patterns.push(Kept { backends: backends.to_vec(), pattern, sizes: BTreeMap::new(), scenes: Vec::new() });
            patterns.len() - 1
        })
    }

    /// Notes how large the tensors of a pattern are at a place of the track. Returns the same of another place from which
    /// they grow evenly, the nearest that is known.
    pub(super) fn note_sizes(&self, pattern: usize, at: Extent, sizes: &Arc<Sizes>) -> Option<(Extent, Arc<Sizes>)> {
        let turn = self.turn();
        let mut known = self.lock();
        let places = &mut known.patterns.get_mut(pattern)?.sizes;
        places.entry(at).or_insert_with(|| (turn, Arc::clone(sizes)));
        let others = places.iter().filter(|(place, (noted, _))| place.is_even_with(at) && *noted < turn);
        let nearest = others.min_by_key(|(place, _)| place.distance(at));
        nearest.map(|(place, (_, sizes))| (*place, Arc::clone(sizes)))
    }

    /// Tries something on a scene of a pattern, that of this draft. Whoever comes at the same time has another: to wait for
    /// one's turn takes longer than to find out the same.
    pub(super) fn on_scene<T>(&self, pattern: usize, draft: &Draft, find_out: impl FnOnce(&mut Scene) -> T) -> T {
        let left = self.lock().patterns[pattern].scenes.pop();
        let mut scene = left.unwrap_or_else(|| Scene::new(draft));
        let found = find_out(&mut scene);
        self.lock().patterns[pattern].scenes.push(scene);
        found
    }

    /// Where it is known.
    pub(super) fn course(&self, subject: &Subject) -> Option<Arc<Course>> {
        self.lock().courses.get(subject).cloned()
    }

    /// Notes it.
    pub(super) fn note_course(&self, subject: Subject, course: &Arc<Course>) {
        self.lock().courses.insert(subject, Arc::clone(course));
    }

    /// How a trial ends under a placement: as is known, or else with a graph that was left, or with `draft`.
    ///
    /// # Errors
    /// As `draft`.
    pub(super) fn try_out(
        &self,
        trial: &Trial,
        op: Op,
        placement: &Placement,
        draft: impl FnOnce() -> Result<Draft, Refusal>,
        stays: impl FnOnce(&mut Draft) -> bool,
    ) -> Result<bool, Refusal> {
        let subject = (op, placement.clone());
        let left = {
            let known = &mut self.lock();
            let held = known.trials.of(trial);
            if let Some(stays) = held.stays.get(&subject) {
                return Ok(*stays);
            }
            held.drafts.pop()
        };
        let mut draft = left.map_or_else(draft, Ok)?;
        let stays = stays(&mut draft);
        let known = &mut self.lock();
        let held = known.trials.of(trial);
        held.stays.insert(subject, stays);
        held.drafts.push(draft);
        Ok(stays)
    }

    /// What whoever held the lock last left is whole: it only adds.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
