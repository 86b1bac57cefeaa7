//! What is known of a model's graphs that differ in sizes alone, as those along a knob's track mostly do: who takes and
//! gives which bytes under a placement, and what llama.cpp's trials end in.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

use foldhash::HashMap;

use super::Loaded;
use super::desk::Drawn;
use super::error::Refusal;
use super::fit::sketch::Extent;
use super::placement::Placement;
use super::tally::Tally;
use super::trials::{Trial, Trials};
use crate::engine::ggml::allocate::{Course, Sizes};
use crate::engine::ggml::schedule::Scheduler;
use crate::engine::ggml::sections::{Sections, Settled, Whereabouts};
use crate::engine::ggml::{Backend, Graph, Op, Workbench};
use crate::engine::llama_cpp::graph::{Draft, Pattern};
use crate::gguf::Header;
use crate::settings::Release;

/// Places of a track at which it is kept what was drawn: those that are looked at together, and those before.
const MOST_LEFT: usize = 4;
/// Scenes of a pattern that are set before anybody asks for them: mostly two look at the same time.
const MOST_SET: usize = 2;

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
    /// Graphs at places of the track, the latest last.
    drawn: Vec<(Extent, Vec<Drawn>)>,
    /// Those that nobody works at.
    benches: Vec<Workbench>,
    /// Empty graphs that have room.
    rooms: Vec<Graph>,
}

#[derive(Debug)]
struct Kept {
    backends: Vec<Backend>,
    pattern: Pattern,
    /// How large its tensors are at places of a track, and the turn in which that was noted.
    sizes: BTreeMap<Extent, (usize, Arc<Sizes>)>,
    /// Those that nobody is on.
    scenes: Vec<Scene>,
    /// How many there are in all.
    set: usize,
}

/// Where placements of one pattern are tried: one of its graphs stands for all of them.
#[derive(Debug)]
pub(super) struct Scene {
    draft: Draft,
    /// By whether devices work as a pipeline.
    sections: [Option<Sections>; 2],
    whereabouts: Option<Whereabouts>,
    /// Who was on it last: what it knows is still in their processor's cache, and the placement is like their next.
    last: Option<ThreadId>,
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
    const fn new(draft: Draft) -> Self {
        Self { draft, sections: [None, None], whereabouts: None, last: None }
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
        let Self { draft, sections, whereabouts, .. } = self;
        draft.make_ready();
        let sections = sections[usize::from(scheduler.pipeline)]
            .get_or_insert_with(|| Sections::new(&draft.graph, &draft.claims, scheduler, draft.exchanged()));
        let whereabouts = whereabouts.get_or_insert_with(|| sections.whereabouts(&draft.graph, &draft.claims));
        whereabouts.follow(scheduler, &draft.graph, bench);
        let mut settled = Settled { graph: &mut draft.graph, claims: &draft.claims, whereabouts };
        sections.course(scheduler, &mut settled, bench)
    }
}

impl Kept {
    /// A scene for somebody: their own, or one that is nobody's, or else another's.
    fn take_scene(&mut self, whose: ThreadId) -> Option<Scene> {
        let of = |whose| self.scenes.iter().position(|scene| scene.last == whose);
        let which = of(Some(whose)).or_else(|| of(None)).or(self.scenes.len().checked_sub(1))?;
        Some(self.scenes.swap_remove(which))
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

    /// What somebody left who measured at this place of the track; and a bench.
    pub(super) fn left_at(&self, at: Extent) -> (Vec<Drawn>, Workbench) {
        let Known { drawn, benches, .. } = &mut *self.lock();
        let of = drawn.iter().rposition(|(place, _)| *place == at);
        (of.map(|of| drawn.remove(of).1).unwrap_or_default(), benches.pop().unwrap_or_default())
    }

    /// Keeps that for the next.
    pub(super) fn leave_at(&self, at: Extent, left: Vec<Drawn>, bench: Workbench) {
        let Known { drawn, benches, .. } = &mut *self.lock();
        if drawn.len() == MOST_LEFT {
            drawn.remove(0);
        }
        drawn.push((at, left));
        benches.push(bench);
    }

    /// An empty graph.
    pub(super) fn room(&self) -> Graph {
        self.lock().rooms.pop().unwrap_or_default()
    }

    /// Which of the patterns on these devices a graph has. It becomes a scene where there are too few.
    pub(super) fn pattern(&self, backends: &[Backend], draft: Draft) -> usize {
        let pattern = draft.pattern(backends);
        let Known { patterns, rooms, .. } = &mut *self.lock();
        let which = patterns.iter().position(|known| known.backends == backends && known.pattern == pattern);
        let which = which.unwrap_or_else(|| {
            let (backends, sizes, scenes) = (backends.to_vec(), BTreeMap::new(), Vec::new());
            patterns.push(Kept { backends, pattern, sizes, scenes, set: 0 });
            patterns.len() - 1
        });
        let kept = &mut patterns[which];
        if kept.set < MOST_SET {
            kept.set += 1;
            kept.scenes.push(Scene::new(draft));
        } else {
            rooms.push(draft.into_room());
        }
        which
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

    /// Tries something on a scene of a pattern, one with this `draft` where nobody has left any. Whoever comes at the same
    /// time has another: to wait for one's turn takes longer than to find out the same.
    ///
    /// # Errors
    /// As `draft`.
    pub(super) fn on_scene<T>(
        &self,
        pattern: usize,
        draft: impl FnOnce() -> Result<Draft, Refusal>,
        find_out: impl FnOnce(&mut Scene) -> T,
    ) -> Result<T, Refusal> {
        let me = thread::current().id();
        let left = self.lock().patterns[pattern].take_scene(me);
        let mut scene = left.map_or_else(|| Ok(Scene::new(draft()?)), Ok)?;
        let found = find_out(&mut scene);
        scene.last = Some(me);
        self.lock().patterns[pattern].scenes.push(scene);
        Ok(found)
    }

    /// Where it is known.
    pub(super) fn course(&self, subject: &Subject) -> Option<Arc<Course>> {
        self.lock().courses.get(subject).cloned()
    }

    /// Notes it.
    pub(super) fn note_course(&self, subject: Subject, course: Course) -> Arc<Course> {
        let course = Arc::new(course);
        self.lock().courses.insert(subject, Arc::clone(&course));
        course
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
