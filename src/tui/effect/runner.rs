//! Runs effects on threads and sends their results as actions.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use super::{Effect, LimitsRequest, Services, SurveyJob, TeachRequest, workers};
use crate::hardware::watch::MemoryWatch;
use crate::library::ModelStatus;
use crate::tui::action::Action;
use crate::tui::device_monitor::DeviceMonitor;
use crate::tui::query::{Query, Worker};

/// Time between the steps of an animation.
const TICK: Duration = Duration::from_millis(120);

/// Runs effects on threads and sends their results as actions.
pub struct Runner {
    answers: Sender<Action>,
    world: Arc<dyn Services>,
    questions: Sender<Box<LimitsRequest>>,
    for_planner: Sender<Box<Query>>,
    for_page: Sender<Box<Query>>,
    lessons: Sender<Box<TeachRequest>>,
    changes: Sender<u64>,
    wanted_load: Arc<AtomicU64>,
    watch: Option<MemoryWatch>,
    surveys: Arc<AtomicU64>,
}

impl Runner {
    /// A runner that sends results to `answers`.
    pub fn new(world: Arc<dyn Services>, answers: Sender<Action>) -> Self {
        Self {
            questions: workers::newest(LimitsRequest::answer, &answers),
            for_planner: workers::streaming(&answers),
            for_page: workers::streaming(&answers),
            lessons: workers::newest(TeachRequest::answer, &answers),
            changes: workers::fading(&answers),
            wanted_load: Arc::default(),
            watch: None,
            surveys: Arc::default(),
            answers,
            world,
        }
    }

    /// Detects the devices and, if requested, follows their free memory.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn watch(&mut self, monitor: DeviceMonitor) -> io::Result<()> {
        self.watch = Some(monitor.start(self.answers.clone())?);
        Ok(())
    }

    /// Starts `effect` and returns at once. [`Effect::Suspend`] and [`Effect::Copy`] are ignored here: the event loop
    /// handles them.
    pub fn start(&self, effect: Effect) {
        let (answers, world) = (self.answers.clone(), Arc::clone(&self.world));
        match effect {
            Effect::CancelLoad => self.wanted_load.store(u64::MAX, Ordering::Relaxed),
            Effect::Load { id, reference } => self.load(id, reference),
            Effect::AddRecent(reference) => drop(thread::spawn(move || {
                if let Err(why) = world.add_recent(&reference) {
                    drop(answers.send(Action::TaskPanicked(why)));
                }
            })),
            Effect::ListModels => self.spawn(move || {
                let items: Vec<_> = world.list_models().into_iter().map(Arc::new).collect();
                let here = items.iter().filter(|item| item.origin.is_here());
                let known: Vec<_> = here.map(|item| item.name.clone()).collect();
                drop(answers.send(Action::ModelsListed(items)));
                Action::Running(world.running(&known).map(|items| items.into_iter().map(Arc::new).collect()))
            }),
            Effect::Survey(survey) => self.survey(*survey),
            Effect::Complete { typed } => self.spawn(move || {
                let paths = world.complete(&typed);
                Action::Completed { typed, paths }
            }),
            Effect::Limits(question) => drop(self.questions.send(question)),
            Effect::Ask(query) => drop(match query.lane() {
                Worker::Planner => self.for_planner.send(query),
                Worker::Page => self.for_page.send(query),
            }),
            Effect::Teach(lesson) => drop(self.lessons.send(lesson)),
            Effect::Tick { id } => self.spawn(move || {
                thread::sleep(TICK);
                Action::Tick { id }
            }),
            Effect::Fade { id } => drop(self.changes.send(id)),
            Effect::ListMachines => self.spawn(move || Action::MachinesListed(world.machines())),
            Effect::CompareMachines(contest) => self.spawn(move || contest.answer()),
            Effect::SaveMachine { name, machine } => {
                self.spawn(move || Action::MachineSaved(world.save_machine(&name, &machine)));
            }
            Effect::Freeze(frozen) => self.watch.iter().for_each(|watch| watch.freeze(frozen)),
            Effect::Write(writing) => self.spawn(move || writing.answer()),
            Effect::Save { path, text } => self.spawn(move || Action::Saved(world.save(&path, &text))),
            Effect::Suspend | Effect::Copy(_) => {}
        }
    }

    /// Starts loading a model, which stops an earlier load.
    fn load(&self, id: u64, reference: String) {
        let (answers, world, wanted) = (self.answers.clone(), Arc::clone(&self.world), Arc::clone(&self.wanted_load));
        wanted.store(id, Ordering::Relaxed);
        self.spawn(move || {
            let since = Instant::now();
            let mut watch = |now| {
                let gone = answers.send(Action::Progress { id, now, took: since.elapsed() }).is_err();
                let overtaken = wanted.load(Ordering::Relaxed) != id;
                if gone || overtaken { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let result = world.load(&reference, &mut watch);
            Action::Loaded { id, result }
        });
    }

    /// Starts a survey, which stops earlier ones.
    fn survey(&self, survey: SurveyJob) {
        let (answers, world, surveys) = (self.answers.clone(), Arc::clone(&self.world), Arc::clone(&self.surveys));
        let turn = surveys.fetch_add(1, Ordering::Relaxed) + 1;
        thread::spawn(move || {
            let SurveyJob { id, items, question } = survey;
            let tell = |index: usize, look: ModelStatus| {
                let Some(item) = items.get(index).map(Arc::clone) else { return false };
                // what was found is sent even if the survey has been replaced
                let told = answers.send(Action::ModelPlanned { id, item, look }).is_ok();
                told && surveys.load(Ordering::Relaxed) == turn
            };
            let survey = std::panic::AssertUnwindSafe(|| world.survey(&items, &question, &tell));
            if let Err(cause) = std::panic::catch_unwind(survey) {
                drop(answers.send(workers::panicked(&*cause)));
            }
        });
    }

    /// Runs `job` on a thread and sends its result; a panic is reported, not fatal.
    pub fn spawn(&self, job: impl FnOnce() -> Action + Send + 'static) {
        let answers = self.answers.clone();
        thread::spawn(move || drop(answers.send(workers::guarded(job))));
    }
}

#[cfg(test)]
mod tests;
