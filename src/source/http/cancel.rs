//! Waiting for the network on a thread of its own, so that a person can stop at any moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::error::WireError;
use crate::source::progress::{Progress, ProgressCallback};

/// How often a watch is asked whether to go on.
const TICK: Duration = Duration::from_millis(40);

/// What connects the one who waits with the one who reads.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle {
    cancelled: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
}

impl CancelHandle {
    /// Counts `bytes` that arrived.
    pub(super) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that arrived so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Whether nobody waits any more.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Sleeps for `time`, or until nobody waits any more.
    pub(super) fn sleep(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() && !self.is_cancelled() {
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
/// [`WireError::Cancelled`] when the watch says so.
pub fn cancellable<T: Send + 'static>(
    watch: &mut ProgressCallback<'_>,
    before: Progress,
    line: &CancelHandle,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WireError> {
    let (send, receive) = sync_channel(1);
    let start = line.received();
    // the answer to a wait that ended has nobody to hear it
    thread::spawn(move || drop(send.send(job())));
    loop {
        let now = Progress { done: before.done.saturating_add(line.received() - start), ..before };
        if watch(now).is_break() {
            line.cancelled.store(true, Ordering::Relaxed);
            return Err(WireError::Cancelled);
        }
        match receive.recv_timeout(TICK) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => {}
            // the job panicked, which its own thread has reported
            Err(RecvTimeoutError::Disconnected) => return Err(WireError::Cancelled),
        }
    }
}
