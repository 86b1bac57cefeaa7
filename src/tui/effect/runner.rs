//! Runs effects on threads and sends their results as actions.
use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::{ApplyRequest, Effect, Followed, LimitsRequest, PlanJob, Services, SurveyJob, TeachRequest};
use crate::hardware::watch::MemoryWatch;
use crate::library::ModelStatus;
use crate::tui::action::Action;
use crate::tui::device_monitor::DeviceMonitor;
use crate::tui::pasted::Pasted;
use crate::tui::query::{Query, Worker};

/// Runs effects on threads and sends their results as actions.
pub struct Runner {
    answers: Sender<Action>,
    services: Arc<dyn Services>,
    plans: Sender<Box<PlanJob>>,
    limits: Sender<Box<LimitsRequest>>,
    for_planner: Sender<Box<Query>>,
    for_page: Sender<Box<Query>>,
    teach: Sender<Box<TeachRequest>>,
    changes: Sender<u64>,
    current_load: Arc<AtomicU64>,
    watch: Option<MemoryWatch>,
    surveys: Arc<AtomicU64>,
    current_apply: Arc<AtomicU64>,
    followed: Arc<AtomicU64>,
}

impl Runner {
    /// A runner that sends results to `answers`.
    pub fn new(services: Arc<dyn Services>, answers: Sender<Action>) -> Self {
        Self {
            plans: newest(PlanJob::answer, &answers),
            limits: newest(LimitsRequest::answer, &answers),
            for_planner: streaming(&answers),
            for_page: streaming(&answers),
            teach: newest(TeachRequest::answer, &answers),
            changes: fading(&answers),
            current_load: Arc::default(),
            watch: None,
            surveys: Arc::default(),
            current_apply: Arc::default(),
            followed: Arc::default(),
            answers,
            services,
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
        let (answers, services) = (self.answers.clone(), Arc::clone(&self.services));
        match effect {
            Effect::CancelLoad => self.current_load.store(u64::MAX, Ordering::Relaxed),
            Effect::Load { id, reference, or_namesake } => self.load(id, reference, or_namesake),
            Effect::AddRecent(reference) => drop(thread::spawn(move || {
                if let Err(why) = services.add_recent(&reference) {
                    drop(answers.send(Action::TaskPanicked(why)));
                }
            })),
            Effect::ListModels => self.spawn(move || {
                let items: Vec<_> = services.list_models().into_iter().map(Arc::new).collect();
                let here = items.iter().filter(|item| item.origin.is_here());
                let known: Vec<_> = here.map(|item| item.name.clone()).collect();
                drop(answers.send(Action::ModelsListed(items)));
                Action::Running(services.running(&known).map(|items| items.into_iter().map(Arc::new).collect()))
            }),
            Effect::Survey(survey) => self.survey(*survey),
            Effect::Complete { typed } => self.spawn(move || {
                let paths = services.complete(&typed);
                Action::Completed { typed, paths }
            }),
            Effect::ListRepository { typed } => self.spawn(move || {
                let answer = services.repository(&typed).map(Box::new);
                Action::RepositoryListed { typed, answer }
            }),
            Effect::ReadPaste(text) => self.spawn(move || Action::PasteRead(Box::new(Pasted::of(&text)))),
            Effect::Plan(job) => drop(self.plans.send(job)),
            Effect::Limits(request) => drop(self.limits.send(request)),
            Effect::Ask(query) => drop(match query.worker() {
                Worker::Planner => self.for_planner.send(query),
                Worker::Page => self.for_page.send(query),
            }),
            Effect::Teach(request) => drop(self.teach.send(request)),
            Effect::Tick { id, after } => self.spawn(move || {
                thread::sleep(after);
                Action::Tick { id }
            }),
            Effect::Fade { id } => drop(self.changes.send(id)),
            Effect::ListMachines => self.spawn(move || Action::MachinesListed(services.machines())),
            Effect::SaveMachine { name, machine } => {
                self.spawn(move || Action::MachineSaved(services.save_machine(&name, &machine)));
            }
            Effect::Freeze(frozen) => self.watch.iter().for_each(|watch| watch.freeze(frozen)),
            Effect::Check(request) => {
                self.spawn(move || Action::Checked { id: request.id, result: services.check(&request).map(Box::new) });
            }
            Effect::PrepareApply(request) => {
                self.spawn(move || Action::ApplyPrepared { id: request.id, result: services.prepare(&request.target) });
            }
            Effect::Apply(request) => self.apply(*request),
            Effect::CancelApply => self.current_apply.store(u64::MAX, Ordering::Relaxed),
            Effect::KeepServer => services.leave_server(true),
            Effect::Follow { id } => self.follow(id),
            Effect::StopFollowing => self.followed.store(u64::MAX, Ordering::Relaxed),
            Effect::Write(job) => self.spawn(move || job.answer()),
            Effect::Save { path, text } => self.spawn(move || Action::Saved(services.save(&path, &text))),
            Effect::Suspend | Effect::Copy(_) => {}
        }
    }

    /// Starts loading a model, which stops an earlier load.
    fn load(&self, id: u64, reference: String, or_namesake: bool) {
        let (answers, services, wanted) =
            (self.answers.clone(), Arc::clone(&self.services), Arc::clone(&self.current_load));
        wanted.store(id, Ordering::Relaxed);
        self.spawn(move || {
            let since = Instant::now();
            let mut watch = |now| {
                let gone = answers.send(Action::Progress { id, now, took: since.elapsed() }).is_err();
                let overtaken = wanted.load(Ordering::Relaxed) != id;
                if gone || overtaken { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let result = services.load(&reference, &mut watch);
            let result = result.or_else(|why| {
                let namesake = or_namesake.then(|| services.namesake(&reference)).flatten();
                namesake.ok_or(why)
            });
            Action::Loaded { id, result }
        });
    }

    /// Applies a plan.
    fn apply(&self, request: ApplyRequest) {
        let (answers, services, wanted) =
            (self.answers.clone(), Arc::clone(&self.services), Arc::clone(&self.current_apply));
        let ApplyRequest { id, target } = request;
        wanted.store(id, Ordering::Relaxed);
        self.spawn(move || {
            let mut report = |took, what: &str| {
                let gone = answers.send(Action::ApplyProgress { id, took, what: what.to_owned() }).is_err();
                if gone || wanted.load(Ordering::Relaxed) != id {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            let result = services.apply(&target, &mut report).map(Box::new);
            Action::Applied { id, result }
        });
    }

    /// Follows what runs, which stops an earlier request for that.
    fn follow(&self, id: u64) {
        let (answers, services, wanted) =
            (self.answers.clone(), Arc::clone(&self.services), Arc::clone(&self.followed));
        wanted.store(id, Ordering::Relaxed);
        thread::spawn(move || {
            let mut tell = |followed: Followed| {
                let wanted = wanted.load(Ordering::Relaxed) == id;
                wanted && answers.send(Action::Sampled { id, followed: Box::new(followed) }).is_ok()
            };
            let follow = std::panic::AssertUnwindSafe(|| services.follow(&mut tell));
            if let Err(cause) = std::panic::catch_unwind(follow) {
                drop(answers.send(panicked(&*cause)));
            }
        });
    }

    /// Ends the server that was started, unless it is kept.
    pub fn end(&self) {
        self.current_apply.store(u64::MAX, Ordering::Relaxed);
        self.followed.store(u64::MAX, Ordering::Relaxed);
        self.services.leave_server(false);
    }

    /// Starts a survey, which stops earlier ones.
    fn survey(&self, survey: SurveyJob) {
        let (answers, services, surveys) =
            (self.answers.clone(), Arc::clone(&self.services), Arc::clone(&self.surveys));
        let turn = surveys.fetch_add(1, Ordering::Relaxed) + 1;
        thread::spawn(move || {
            let SurveyJob { id, items, request } = survey;
            let tell = |index: usize, status: ModelStatus| {
                let Some(item) = items.get(index).map(Arc::clone) else { return false };
                // what was found is sent even if the survey has been replaced
                let sent = answers.send(Action::ModelPlanned { id, item, status }).is_ok();
                sent && surveys.load(Ordering::Relaxed) == turn
            };
            let survey = std::panic::AssertUnwindSafe(|| services.survey(&items, &request, &tell));
            if let Err(cause) = std::panic::catch_unwind(survey) {
                drop(answers.send(panicked(&*cause)));
            }
        });
    }

    /// Runs `job` on a thread and sends its result; a panic is reported, not fatal.
    pub fn spawn(&self, job: impl FnOnce() -> Action + Send + 'static) {
        let answers = self.answers.clone();
        thread::spawn(move || drop(answers.send(guarded(job))));
    }
}

/// How long a changed value stays marked.
const MARK_DURATION: Duration = Duration::from_millis(900);

/// A worker for requests with a single answer. Requests overtaken while another is answered are dropped.
pub fn newest<Q: Send + 'static>(answer: fn(&Q) -> Action, answers: &Sender<Action>) -> Sender<Box<Q>> {
    worker(answers, move |asked, answers| answer_newest(asked, answer, answers))
}

/// A worker for queries, which are answered in parts; a newer query stops the one before it.
pub fn streaming(answers: &Sender<Action>) -> Sender<Box<Query>> {
    worker(answers, answer_in_parts)
}

/// A worker that reports when the newest change is no longer to be marked.
pub fn fading(answers: &Sender<Action>) -> Sender<u64> {
    worker(answers, report_fades)
}

/// Starts a thread and returns the sender of its requests. It ends when the sender or the receiver of answers is
/// dropped.
fn worker<Q: Send + 'static>(
    answers: &Sender<Action>,
    run: impl FnOnce(&Receiver<Q>, &Sender<Action>) + Send + 'static,
) -> Sender<Q> {
    let (questions, asked) = channel();
    let answers = answers.clone();
    thread::spawn(move || run(&asked, &answers));
    questions
}

fn answer_newest<Q>(asked: &Receiver<Box<Q>>, answer: fn(&Q) -> Action, answers: &Sender<Action>) {
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

fn answer_in_parts(asked: &Receiver<Box<Query>>, answers: &Sender<Action>) {
    let mut waiting: Option<Box<Query>> = None;
    while let Some(query) = waiting.take().or_else(|| asked.recv().ok()) {
        let id = query.id;
        let mut parts = query.parts();
        loop {
            waiting = asked.try_iter().last();
            if waiting.is_some() {
                break;
            }
            let (answer, continues) = match caught(|| parts.next()) {
                Ok(None) => break,
                Ok(Some(None)) => continue,
                Ok(Some(Some(part))) => (Action::QueryAnswered { id, part }, true),
                Err(report) => (report, false),
            };
            if answers.send(answer).is_err() {
                return;
            }
            if !continues {
                break;
            }
        }
    }
}

/// A newer change restarts the timer.
fn report_fades(changed: &Receiver<u64>, answers: &Sender<Action>) {
    while let Ok(mut id) = changed.recv() {
        loop {
            match changed.recv_timeout(MARK_DURATION) {
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

/// The result of `job`, or a report of its panic.
pub fn guarded(job: impl FnOnce() -> Action) -> Action {
    caught(job).unwrap_or_else(|report| report)
}

fn caught<T>(job: impl FnOnce() -> T) -> Result<T, Action> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).map_err(|cause| panicked(&*cause))
}

/// The report of a panic.
pub fn panicked(cause: &(dyn Any + Send)) -> Action {
    let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_default();
    Action::TaskPanicked(format!("A background task failed: {text}. Please report it."))
}

#[cfg(test)]
mod tests;
