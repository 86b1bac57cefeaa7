//! Runs network jobs on a separate thread, so that the user can cancel at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::error::WireError;
use crate::source::progress::{Progress, ProgressCallback};

/// Interval of progress reports.
const TICK: Duration = Duration::from_millis(40);

/// Shared state of a cancellable job.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle {
    cancelled: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
}

impl CancelHandle {
    /// Counts received bytes.
    pub(super) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes received so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Sleeps for `time`, unless cancelled.
    pub(super) fn sleep(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() && !self.is_cancelled() {
            let step = left.min(TICK);
            thread::sleep(step);
            left -= step;
        }
    }
}

/// Runs `job` on a new thread and waits for it, reporting `before` plus the bytes received to `on_progress`. A
/// cancelled job ends a little later, and its result is dropped.
///
/// # Errors
/// [`WireError::Cancelled`] if `on_progress` cancels.
pub fn cancellable<T: Send + 'static>(
    on_progress: &mut ProgressCallback<'_>,
    before: Progress,
    cancel: &CancelHandle,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WireError> {
    let (send, receive) = sync_channel(1);
    let start = cancel.received();
    // the send fails if the job was cancelled
    thread::spawn(move || drop(send.send(job())));
    loop {
        let now = Progress { done: before.done.saturating_add(cancel.received() - start), ..before };
        if on_progress(now).is_break() {
            cancel.cancelled.store(true, Ordering::Relaxed);
            return Err(WireError::Cancelled);
        }
        match receive.recv_timeout(TICK) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => {}
            // the job panicked, which has been reported on its thread
            Err(RecvTimeoutError::Disconnected) => return Err(WireError::Cancelled),
        }
    }
}
