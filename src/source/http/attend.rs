//! Waiting for the network on a thread of its own, so that a person can stop at any moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::error::WireError;
use crate::source::watch::{Progress, Watch};

/// How often a watch is asked whether to go on.
const TICK: Duration = Duration::from_millis(40);

/// What connects the one who waits with the one who reads.
#[derive(Clone, Debug, Default)]
pub struct Line {
    hung_up: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
}

impl Line {
    /// Counts `bytes` that arrived.
    pub(super) fn heard(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that arrived so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Whether nobody waits any more.
    pub(super) fn is_dead(&self) -> bool {
        self.hung_up.load(Ordering::Relaxed)
    }

    /// Sleeps for `time`, or until nobody waits any more.
    pub(super) fn sleep(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() && !self.is_dead() {
            let step = left.min(TICK);
            thread::sleep(step);
            left -= step;
        }
    }
}

/// Does `job` on a thread of its own and waits for it, telling `watch` how far it is: `before`, and what arrived on `line`.
/// A job whose watch stopped it ends by itself a little later, unheard.
///
/// # Errors
/// [`WireError::Stopped`] when the watch says so.
pub fn attend<T: Send + 'static>(
    watch: &mut Watch<'_>,
    before: Progress,
    line: &Line,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WireError> {
    let (send, receive) = sync_channel(1);
    let start = line.received();
    // the answer to a wait that ended has nobody to hear it
    thread::spawn(move || drop(send.send(job())));
    loop {
        let now = Progress { done: before.done.saturating_add(line.received() - start), ..before };
        if watch(now).is_break() {
            line.hung_up.store(true, Ordering::Relaxed);
            return Err(WireError::Stopped);
        }
        match receive.recv_timeout(TICK) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => {}
            // the job panicked, which its own thread has reported
            Err(RecvTimeoutError::Disconnected) => return Err(WireError::Stopped),
        }
    }
}
