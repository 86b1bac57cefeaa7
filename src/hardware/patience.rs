//! Drivers that may not answer: each is asked on a thread of its own, which is left behind where it takes too long.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long a driver may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A question that is being answered.
pub(super) struct Asked<T> {
    answer: Result<Receiver<T>, String>,
    since: Instant,
    patience: Duration,
}

/// Asks on a thread of its own.
pub(super) fn ask<T: Send + 'static>(question: impl FnOnce() -> T + Send + 'static) -> Asked<T> {
    ask_for(PATIENCE, question)
}

fn ask_for<T: Send + 'static>(patience: Duration, question: impl FnOnce() -> T + Send + 'static) -> Asked<T> {
    let (send, receive) = sync_channel(1);
    // the send fails if nobody waits any longer
    let thread = thread::Builder::new().name("driver".to_owned()).spawn(move || drop(send.send(question())));
    let answer = thread.map(|_| receive).map_err(|error| format!("no thread can be started: {error}"));
    Asked { answer, since: Instant::now(), patience }
}

impl<T> Asked<T> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// One clause, if it takes too long or none comes.
    pub(super) fn wait(self) -> Result<T, String> {
        let left = self.patience.saturating_sub(self.since.elapsed());
        self.answer?.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("the driver has not answered for {} seconds", self.patience.as_secs()),
            // the panic has been reported on that thread
            RecvTimeoutError::Disconnected => "its answer could not be read".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_left_behind() {
        let (hold, held) = sync_channel::<()>(0);
        let never = ask_for(Duration::from_millis(100), move || held.recv().is_ok());
        assert_eq!(ask(|| 5).wait(), Ok(5));
        assert!(never.wait().unwrap_err().contains("has not answered"));
        drop(hold);
    }
}
