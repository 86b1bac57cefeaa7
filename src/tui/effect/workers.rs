//! Worker threads: each answers the newest request first and drops older ones. Panics are reported, and the worker goes
//! on.

use std::any::Any;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::tui::action::Action;
use crate::tui::query::Query;

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
