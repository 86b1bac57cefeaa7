//! What the planner wants of the world, as data; [`Runner`] does it on threads.

use std::any::Any;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::action::Action;
use super::app::export::Writing;
use super::inquiry::{Inquiry, Lane};
use super::lookout::Lookout;
use crate::answer::Case;
use crate::engine::EngineId;
use crate::hardware::saved::Entry;
use crate::hardware::watch::Watch;
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::shelf::{self, Item, Look};
use crate::source::{self, Package, catalogue};
use crate::teach::Topic;

/// How long a changed value stays marked.
const MARKED: Duration = Duration::from_millis(900);

/// How long a step takes of what plays by itself.
const BEAT: Duration = Duration::from_millis(120);

/// A wish.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Read a model; the answer is [`Action::Loaded`].
    Load {
        /// Goes into the answer: an older one is of no interest.
        id: u64,
        /// A path, a name, an address: see [`crate::source::load`].
        reference: String,
    },
    /// Stop whatever is being read.
    CancelLoad,
    /// Keep a reference among those that were opened lately.
    Remember(String),
    /// List the models that there are; the answers are [`Action::Shelved`], then [`Action::Running`].
    Shelve,
    /// Look at models, the first of them first; the answers are [`Action::Looked`]. An older wish is dropped.
    Survey(Box<Survey>),
    /// Look what could follow a path; the answer is [`Action::Completed`].
    Complete {
        /// What was typed.
        typed: String,
    },
    /// Find how far the knobs can go; the answer is [`Action::Limits`].
    Limits(Box<Question>),
    /// Answer a question in parts, each an [`Action::Answered`]; within a lane the newest one wins.
    Ask(Box<Inquiry>),
    /// Work out a page of the teach screen; the answer is [`Action::Taught`].
    Teach(Box<Lesson>),
    /// Send [`Action::Tick`] after a moment, for what plays by itself.
    Tick {
        /// Goes into the answer.
        id: u64,
    },
    /// Send [`Action::Fade`] after a moment.
    Fade {
        /// Goes into the answer.
        id: u64,
    },
    /// List the saved machines; the answer is [`Action::Shelved`].
    Shelf,
    /// Plan for several machines; the answer is [`Action::Versed`].
    Versus(Box<Contest>),
    /// Save a machine; the answer is [`Action::MachineSaved`].
    SaveMachine {
        /// Under this name.
        name: String,
        /// This one.
        machine: Arc<Machine>,
    },
    /// Hold free memory still, or follow it again.
    Freeze(bool),
    /// Write the plan in a form to be taken away; the answer is [`Action::Written`].
    Write(Box<Writing>),
    /// Write a text to a file that is not there yet; the answer is [`Action::Saved`].
    Save {
        /// Where, as a person typed it.
        path: String,
        /// What is in it.
        text: String,
    },
    /// Put a text on the clipboard of whoever sits at the terminal.
    Copy(String),
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
        Action::Limits { id: self.id, limits: Box::new(case.limits(&self.plan)) }
    }
}

/// One model, and the machines that it is planned for.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Contest {
    pub engine: EngineId,
    pub model: Arc<Model>,
    pub settings: Settings,
    pub machines: Vec<(String, Arc<Machine>)>,
}

impl Contest {
    /// Asks the engine once for each machine.
    pub fn answer(&self) -> Action {
        let on = |(name, machine): &(String, Arc<Machine>)| {
            Case { engine: self.engine, model: &self.model, machine, settings: &self.settings }.on(name, machine)
        };
        Action::Versed(self.machines.iter().map(on).collect())
    }
}

/// The catalogue's model of this name, in the quantisation that people mostly run it in.
pub fn library(name: &str) -> Option<Model> {
    let entry = catalogue::find(name)?;
    entry.model(entry.quantisation).ok()
}

/// A page of the teach screen that is to be worked out.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Lesson {
    pub topic: Topic,
    pub about: Question,
}

impl Lesson {
    /// Works it out.
    pub fn answer(&self) -> Action {
        let Question { id, engine, model, machine, settings, plan } = &self.about;
        let case = Case { engine: *engine, model, machine, settings };
        let sheet = self.topic.sheet(&case, plan, &library);
        Action::Taught { id: *id, result: sheet.map(Arc::new).map_err(|error| error.to_string()) }
    }
}

/// Models, and what is asked of each.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Survey {
    pub id: u64,
    pub items: Vec<Arc<Item>>,
    pub question: shelf::Question,
}

/// The part of the world that effects need.
pub trait World: Send + Sync + 'static {
    /// Reads the model that `reference` names, telling `watch` how far it is; stops when it breaks.
    ///
    /// # Errors
    /// One sentence: what, where, what to do.
    fn load(&self, reference: &str, watch: &mut source::Watch<'_>) -> Result<Package, String>;

    /// Keeps `reference` among those that were opened lately.
    ///
    /// # Errors
    /// One sentence on why it is not kept.
    fn remember(&self, reference: &str) -> Result<(), String>;

    /// The models that can be chosen without asking a server.
    fn shelve(&self) -> Vec<Item>;

    /// The models of a running Ollama that are not among those `known` by name.
    ///
    /// # Errors
    /// Why one that a person named does not tell them.
    fn running(&self, known: &[String]) -> Result<Vec<Item>, String>;

    /// Looks at each of `items`; `tell` hears of each by its index and answers whether to go on.
    fn survey(&self, items: &[Arc<Item>], question: &shelf::Question, tell: &(dyn Fn(usize, Look) -> bool + Sync));

    /// The saved machines by name.
    ///
    /// # Errors
    /// One sentence on why they cannot be listed.
    fn machines(&self) -> Result<Vec<Entry>, String>;

    /// Saves `machine` under `name` and says so in one sentence.
    ///
    /// # Errors
    /// One sentence on why it cannot be saved.
    fn save_machine(&self, name: &str, machine: &Machine) -> Result<String, String>;

    /// Writes `text` to a file at `path`, which must not be there yet; where it is then.
    ///
    /// # Errors
    /// One sentence: what, where, why not.
    fn save(&self, path: &str, text: &str) -> Result<PathBuf, String>;

    /// Whole paths that begin with what was `typed`, folders with a slash at the end.
    fn complete(&self, typed: &str) -> Vec<String>;
}

/// Does what effects ask, on threads, and sends the answers as actions.
pub struct Runner {
    answers: Sender<Action>,
    world: Arc<dyn World>,
    questions: Sender<Box<Question>>,
    for_planner: Sender<Box<Inquiry>>,
    for_page: Sender<Box<Inquiry>>,
    lessons: Sender<Box<Lesson>>,
    changes: Sender<u64>,
    wanted_load: Arc<AtomicU64>,
    watch: Option<Watch>,
    surveys: Arc<AtomicU64>,
}

impl Runner {
    /// A runner that answers into `answers`.
    pub fn new(world: Arc<dyn World>, answers: Sender<Action>) -> Self {
        let (questions, asked) = channel();
        let to = answers.clone();
        thread::spawn(move || answer_newest(&asked, Question::answer, &to));
        let (lessons, wanted) = channel::<Box<Lesson>>();
        let to = answers.clone();
        thread::spawn(move || answer_newest(&wanted, Lesson::answer, &to));
        let (changes, changed) = channel();
        let to = answers.clone();
        thread::spawn(move || fade_newest(&changed, &to));
        let (for_planner, for_page) = (answer_lane(&answers), answer_lane(&answers));
        let (wanted_load, surveys) = (Arc::default(), Arc::default());
        Self { answers, world, questions, for_planner, for_page, lessons, changes, wanted_load, surveys, watch: None }
    }

    /// Looks for devices and, where wanted, follows how much of them is free.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn watch(&mut self, lookout: Lookout) -> io::Result<()> {
        self.watch = Some(lookout.start(self.answers.clone())?);
        Ok(())
    }

    /// Begins what `effect` asks for and returns at once. [`Effect::Suspend`] and [`Effect::Copy`] are the terminal's
    /// business, not ours.
    pub fn start(&self, effect: Effect) {
        let (answers, world, wanted) = (self.answers.clone(), Arc::clone(&self.world), Arc::clone(&self.wanted_load));
        if let Effect::Load { id, .. } = effect {
            wanted.store(id, Ordering::Relaxed);
        }
        match effect {
            Effect::CancelLoad => self.wanted_load.store(u64::MAX, Ordering::Relaxed),
            Effect::Load { id, reference } => self.spawn(move || {
                let since = Instant::now();
                let mut watch = |now| {
                    let gone = answers.send(Action::Progress { id, now, took: since.elapsed() }).is_err();
                    let overtaken = wanted.load(Ordering::Relaxed) != id;
                    if gone || overtaken { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                let result = world.load(&reference, &mut watch);
                Action::Loaded { id, result }
            }),
            Effect::Remember(reference) => drop(thread::spawn(move || {
                if let Err(why) = world.remember(&reference) {
                    drop(answers.send(Action::Broke(why)));
                }
            })),
            Effect::Shelve => self.spawn(move || {
                let items: Vec<_> = world.shelve().into_iter().map(Arc::new).collect();
                let here = items.iter().filter(|item| item.origin.is_here());
                let known: Vec<_> = here.map(|item| item.name.clone()).collect();
                drop(answers.send(Action::Shelved(items)));
                Action::Running(world.running(&known).map(|items| items.into_iter().map(Arc::new).collect()))
            }),
            Effect::Survey(survey) => self.survey(*survey),
            Effect::Complete { typed } => self.spawn(move || {
                let paths = world.complete(&typed);
                Action::Completed { typed, paths }
            }),
            Effect::Limits(question) => drop(self.questions.send(question)),
            Effect::Ask(inquiry) => drop(match inquiry.lane() {
                Lane::Planner => self.for_planner.send(inquiry),
                Lane::Page => self.for_page.send(inquiry),
            }),
            Effect::Teach(lesson) => drop(self.lessons.send(lesson)),
            Effect::Tick { id } => self.spawn(move || {
                thread::sleep(BEAT);
                Action::Tick { id }
            }),
            Effect::Fade { id } => drop(self.changes.send(id)),
            Effect::Shelf => self.spawn(move || Action::MachinesListed(world.machines())),
            Effect::Versus(contest) => self.spawn(move || contest.answer()),
            Effect::SaveMachine { name, machine } => {
                self.spawn(move || Action::MachineSaved(world.save_machine(&name, &machine)));
            }
            Effect::Freeze(frozen) => self.watch.iter().for_each(|watch| watch.freeze(frozen)),
            Effect::Write(writing) => self.spawn(move || writing.answer()),
            Effect::Save { path, text } => self.spawn(move || Action::Saved(world.save(&path, &text))),
            Effect::Suspend | Effect::Copy(_) => {}
        }
    }

    /// Begins a survey, which ends those before it.
    fn survey(&self, survey: Survey) {
        let (answers, world, surveys) = (self.answers.clone(), Arc::clone(&self.world), Arc::clone(&self.surveys));
        let turn = surveys.fetch_add(1, Ordering::Relaxed) + 1;
        thread::spawn(move || {
            let Survey { id, items, question } = survey;
            let tell = |index: usize, look: Look| {
                let Some(item) = items.get(index).map(Arc::clone) else { return false };
                // what was found is told, also by one that was overtaken
                let told = answers.send(Action::Looked { id, item, look }).is_ok();
                told && surveys.load(Ordering::Relaxed) == turn
            };
            let survey = std::panic::AssertUnwindSafe(|| world.survey(&items, &question, &tell));
            if let Err(cause) = std::panic::catch_unwind(survey) {
                drop(answers.send(broke(&*cause)));
            }
        });
    }

    /// Runs `job` on a thread and sends its answer; a job that panics is reported, not fatal.
    pub fn spawn(&self, job: impl FnOnce() -> Action + Send + 'static) {
        let answers = self.answers.clone();
        thread::spawn(move || drop(answers.send(guarded(job))));
    }
}

fn guarded(job: impl FnOnce() -> Action) -> Action {
    caught(job).unwrap_or_else(|broke| broke)
}

/// What `job` makes, or what tells that it panicked.
fn caught<T>(job: impl FnOnce() -> T) -> Result<T, Action> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).map_err(|cause| broke(&*cause))
}

fn broke(cause: &(dyn Any + Send)) -> Action {
    let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_default();
    Action::Broke(format!("A task in the background failed: {text}. Please report it."))
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
fn answer_newest<Q>(asked: &Receiver<Box<Q>>, answer: impl Fn(&Q) -> Action, answers: &Sender<Action>) {
    while let Ok(mut question) = asked.recv() {
        while let Ok(newer) = asked.try_recv() {
            question = newer;
        }
        let found = guarded(|| answer(&question));
        if answers.send(found).is_err() {
            return;
        }
    }
}

/// A lane with a thread of its own.
fn answer_lane(answers: &Sender<Action>) -> Sender<Box<Inquiry>> {
    let (inquiries, asked) = channel();
    let to = answers.clone();
    thread::spawn(move || answer_in_parts(&asked, &to));
    inquiries
}

/// Answers inquiries part by part; a newer one stops the one before it.
fn answer_in_parts(asked: &Receiver<Box<Inquiry>>, answers: &Sender<Action>) {
    let mut waiting: Option<Box<Inquiry>> = None;
    while let Some(inquiry) = waiting.take().or_else(|| asked.recv().ok()) {
        let id = inquiry.id;
        let mut parts = inquiry.parts();
        loop {
            waiting = asked.try_iter().last();
            if waiting.is_some() {
                break;
            }
            let (answer, goes_on) = match caught(|| parts.next()) {
                Ok(None) => break,
                Ok(Some(None)) => continue,
                Ok(Some(Some(part))) => (Action::Answered { id, part }, true),
                Err(broke) => (broke, false),
            };
            if answers.send(answer).is_err() {
                return;
            }
            if !goes_on {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Origin, Os, Ram};
    use crate::source::Progress;
    use crate::units::Bytes;

    /// A world whose loads end only when they are told to stop.
    struct Slow;

    impl World for Slow {
        fn load(&self, reference: &str, watch: &mut source::Watch<'_>) -> Result<Package, String> {
            let mut turns = if reference == "slow" { 0..u64::MAX } else { 0..0 };
            while turns.next().is_some() {
                if watch(Progress { done: 1, total: None, shard: 0, shards: 1 }).is_break() {
                    return Err("stopped".to_owned());
                }
                thread::yield_now();
            }
            Err("there is nothing".to_owned())
        }

        fn remember(&self, reference: &str) -> Result<(), String> {
            Err(format!("{reference} is soon forgotten"))
        }

        fn shelve(&self) -> Vec<Item> {
            panic!("the shelves fell over")
        }

        fn running(&self, _: &[String]) -> Result<Vec<Item>, String> {
            Ok(Vec::new())
        }

        fn survey(&self, items: &[Arc<Item>], _: &shelf::Question, tell: &(dyn Fn(usize, Look) -> bool + Sync)) {
            // one alone is looked at without end, until it is overtaken
            while items.len() == 1 && tell(0, Look::Waiting) {
                thread::yield_now();
            }
            (1..items.len()).all(|index| tell(index, Look::Failed("seen".to_owned())));
        }

        fn machines(&self) -> Result<Vec<Entry>, String> {
            Ok(Vec::new())
        }

        fn save_machine(&self, name: &str, _: &Machine) -> Result<String, String> {
            Err(format!("{name} is not saved"))
        }

        fn save(&self, path: &str, _: &str) -> Result<PathBuf, String> {
            Err(format!("'{path}' is not saved"))
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
        runner.start(Effect::Load { id: 1, reference: "slow".to_owned() });
        runner.start(Effect::Load { id: 2, reference: "quick".to_owned() });
        assert_eq!(ends(&answers, 1), "stopped");

        runner.start(Effect::Load { id: 3, reference: "slow".to_owned() });
        runner.start(Effect::CancelLoad);
        assert_eq!(ends(&answers, 3), "stopped");
    }

    #[test]
    fn a_newer_survey_stops_an_older_one() {
        let (send, answers) = channel();
        let runner = Runner::new(Arc::new(Slow), send);
        let question = shelf::Question {
            engine: EngineId::default(),
            machine: Arc::new(Machine {
                os: Os::Linux,
                gpus: Vec::new(),
                ram: Ram { total: Bytes::gib(1), free: Bytes::gib(1), swap_free: Bytes::ZERO },
                origin: Origin::Described,
            }),
            settings: Settings::default(),
            held: source::Held::default(),
            quant: None,
        };
        let survey = |id, count: u64| {
            let items = (0..count).map(|n| Arc::new(Item::recent(n.to_string()))).collect();
            Effect::Survey(Box::new(Survey { id, items, question: question.clone() }))
        };
        runner.start(survey(1, 1));
        assert!(matches!(answers.recv().unwrap(), Action::Looked { id: 1, look: Look::Waiting, .. }));
        runner.start(survey(2, 2));
        let mut seen = Vec::new();
        // it ends only when nobody talks any more
        while let Ok(action) = answers.recv_timeout(Duration::from_secs(2)) {
            if let Action::Looked { id: 2, item, look: Look::Failed(why) } = action {
                seen.push((item.name.clone(), why));
            }
        }
        assert_eq!(seen, [("1".to_owned(), "seen".to_owned())]);
    }

    #[test]
    fn what_cannot_be_remembered_is_said() {
        let (send, answers) = channel();
        Runner::new(Arc::new(Slow), send).start(Effect::Remember("m:1b".to_owned()));
        assert!(matches!(answers.recv().unwrap(), Action::Broke(why) if why == "m:1b is soon forgotten"));
    }

    #[test]
    fn a_job_that_panics_is_told_and_the_others_go_on() {
        let (send, answers) = channel();
        let runner = Runner::new(Arc::new(Slow), send);
        runner.start(Effect::Shelve);
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
