//! What the planner wants of the world, as data; [`Runner`] does it on threads.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::action::{Action, Listing};
use super::lookout::Lookout;
use crate::answer::Case;
use crate::engine::EngineId;
use crate::hardware::watch::Watch;
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::units::Bytes;

/// How long a changed value stays marked.
const MARKED: Duration = Duration::from_millis(900);

/// A wish.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Read a model; the answer is [`Action::Loaded`].
    Load {
        /// Goes into the answer: an older one is of no interest.
        id: u64,
        /// The file.
        path: PathBuf,
    },
    /// Stop whatever is being read.
    CancelLoad,
    /// List the models on this computer; the answer is [`Action::Listed`].
    List,
    /// Look what could follow a path; the answer is [`Action::Completed`].
    Complete {
        /// What was typed.
        typed: String,
    },
    /// Find how far the knobs can go; the answer is [`Action::Limits`].
    Limits(Box<Question>),
    /// Send [`Action::Fade`] after a moment.
    Fade {
        /// Goes into the answer.
        id: u64,
    },
    /// Hold free memory still, or follow it again.
    Freeze(bool),
    /// Stop, as Ctrl-Z does, until the shell continues the program.
    Suspend,
}

/// What an engine is to be asked.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Question {
    pub id: u64,
    pub engine: EngineId,
    pub model: Arc<Model>,
    pub machine: Arc<Machine>,
    pub settings: Settings,
    pub plan: Plan,
}

impl Question {
    /// Asks the engine.
    pub fn answer(&self) -> Action {
        let case = Case { engine: self.engine, model: &self.model, machine: &self.machine, settings: &self.settings };
        Action::Limits { id: self.id, limits: case.limits(&self.plan) }
    }
}

/// A model that was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The model.
    pub model: Arc<Model>,
    /// Bytes of the adapters that come with it.
    pub adapters: Bytes,
}

/// Hears how many bytes are read and how many there are, and answers whether to go on.
pub type Heard<'a> = dyn FnMut(u64, Option<u64>) -> ControlFlow<()> + 'a;

/// The part of the world that effects need.
pub trait World: Send + Sync + 'static {
    /// Reads the model at `path`, telling `progress` how many bytes are read and how many there are; stops when it
    /// breaks.
    ///
    /// # Errors
    /// One sentence: what, where, what to do.
    fn load(&self, path: &Path, progress: &mut Heard<'_>) -> Result<Loaded, String>;

    /// The models on this computer.
    fn list(&self) -> Vec<Listing>;

    /// Whole paths that begin with what was `typed`, folders with a slash at the end.
    fn complete(&self, typed: &str) -> Vec<String>;
}

/// Does what effects ask, on threads, and sends the answers as actions.
pub struct Runner {
    answers: Sender<Action>,
    world: Arc<dyn World>,
    questions: Sender<Box<Question>>,
    changes: Sender<u64>,
    wanted_load: Arc<AtomicU64>,
    watch: Option<Watch>,
}

impl Runner {
    /// A runner that answers into `answers`.
    pub fn new(world: Arc<dyn World>, answers: Sender<Action>) -> Self {
        let (questions, asked) = channel();
        let to = answers.clone();
        thread::spawn(move || answer_newest(&asked, &to));
        let (changes, changed) = channel();
        let to = answers.clone();
        thread::spawn(move || fade_newest(&changed, &to));
        Self { answers, world, questions, changes, wanted_load: Arc::default(), watch: None }
    }

    /// Looks for devices and, where wanted, follows how much of them is free.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn watch(&mut self, lookout: Lookout) -> io::Result<()> {
        self.watch = Some(lookout.start(self.answers.clone())?);
        Ok(())
    }

    /// Begins what `effect` asks for and returns at once. [`Effect::Suspend`] is the terminal's business, not ours.
    pub fn start(&self, effect: Effect) {
        let (answers, world, wanted) = (self.answers.clone(), Arc::clone(&self.world), Arc::clone(&self.wanted_load));
        if let Effect::Load { id, .. } = effect {
            wanted.store(id, Ordering::Relaxed);
        }
        match effect {
            Effect::CancelLoad => self.wanted_load.store(u64::MAX, Ordering::Relaxed),
            Effect::Load { id, path } => self.spawn(move || {
                let mut progress = |done, total| {
                    let gone = answers.send(Action::Progress { id, done, total }).is_err();
                    let overtaken = wanted.load(Ordering::Relaxed) != id;
                    if gone || overtaken { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                let result = world.load(&path, &mut progress);
                Action::Loaded { id, result }
            }),
            Effect::List => self.spawn(move || Action::Listed(world.list())),
            Effect::Complete { typed } => self.spawn(move || {
                let paths = world.complete(&typed);
                Action::Completed { typed, paths }
            }),
            Effect::Limits(question) => drop(self.questions.send(question)),
            Effect::Fade { id } => drop(self.changes.send(id)),
            Effect::Freeze(frozen) => self.watch.iter().for_each(|watch| watch.freeze(frozen)),
            Effect::Suspend => {}
        }
    }

    /// Runs `job` on a thread and sends its answer; a job that panics is reported, not fatal.
    pub fn spawn(&self, job: impl FnOnce() -> Action + Send + 'static) {
        let answers = self.answers.clone();
        thread::spawn(move || drop(answers.send(guarded(job))));
    }
}

fn guarded(job: impl FnOnce() -> Action) -> Action {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_default();
        Action::Broke(format!("A task in the background failed: {text}. Please report it."))
    })
}

/// Tells when the newest change has been marked long enough; a newer one begins its time anew.
fn fade_newest(changed: &Receiver<u64>, answers: &Sender<Action>) {
    while let Ok(mut id) = changed.recv() {
        loop {
            match changed.recv_timeout(MARKED) {
                Ok(newer) => id = newer,
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if answers.send(Action::Fade { id }).is_err() {
            return;
        }
    }
}

/// Answers questions one after the other; those that were overtaken while one was answered are dropped.
fn answer_newest(asked: &Receiver<Box<Question>>, answers: &Sender<Action>) {
    while let Ok(mut question) = asked.recv() {
        while let Ok(newer) = asked.try_recv() {
            question = newer;
        }
        let answer = guarded(|| question.answer());
        if answers.send(answer).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A world whose loads end only when they are told to stop.
    struct Slow;

    impl World for Slow {
        fn load(&self, path: &Path, progress: &mut Heard<'_>) -> Result<Loaded, String> {
            while path.ends_with("slow") {
                if progress(1, None).is_break() {
                    return Err("stopped".to_owned());
                }
                thread::yield_now();
            }
            Err("there is nothing".to_owned())
        }

        fn list(&self) -> Vec<Listing> {
            panic!("the shelves fell over")
        }

        fn complete(&self, typed: &str) -> Vec<String> {
            vec![format!("{typed}/")]
        }
    }

    fn ends(answers: &Receiver<Action>, wanted: u64) -> String {
        loop {
            match answers.recv().unwrap() {
                Action::Loaded { id, result } if id == wanted => return result.unwrap_err(),
                _ => {}
            }
        }
    }

    #[test]
    fn a_newer_load_stops_an_older_one() {
        let (send, answers) = channel();
        let runner = Runner::new(Arc::new(Slow), send);
        runner.start(Effect::Load { id: 1, path: "slow".into() });
        runner.start(Effect::Load { id: 2, path: "quick".into() });
        assert_eq!(ends(&answers, 1), "stopped");

        runner.start(Effect::Load { id: 3, path: "slow".into() });
        runner.start(Effect::CancelLoad);
        assert_eq!(ends(&answers, 3), "stopped");
    }

    #[test]
    fn a_job_that_panics_is_told_and_the_others_go_on() {
        let (send, answers) = channel();
        let runner = Runner::new(Arc::new(Slow), send);
        runner.start(Effect::List);
        let Action::Broke(text) = answers.recv().unwrap() else { panic!("it is told") };
        assert!(text.contains("the shelves fell over"), "{text}");
        runner.start(Effect::Complete { typed: "a".to_owned() });
        assert!(matches!(answers.recv().unwrap(), Action::Completed { paths, .. } if paths == ["a/"]));
    }

    #[test]
    fn marks_fade_once_for_the_newest_change() {
        let (send, answers) = channel();
        let runner = Runner::new(Arc::new(Slow), send);
        for id in 1..=3 {
            runner.start(Effect::Fade { id });
        }
        assert!(matches!(answers.recv().unwrap(), Action::Fade { id: 3 }));
        assert!(answers.try_recv().is_err());
    }
}
