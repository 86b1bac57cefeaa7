//! Timeouts and retries.

use std::time::Duration;

use super::cancel::CancelHandle;
use super::error::WireError;

/// Timeouts and retry limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Timeout of a connection.
    pub connect: Duration,
    /// Timeout of the beginning of a response.
    pub answer: Duration,
    /// Timeout of the next bytes of a body.
    pub silence: Duration,
    /// Downloads with fewer than [`Timeouts::slowest`] bytes in this time are given up.
    pub slow: Duration,
    /// See [`Timeouts::slow`].
    pub slowest: u64,
    /// Consecutive tries without progress.
    pub tries: u32,
    /// Wait before the second try; doubled for each further one.
    pub back_off: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(15),
            silence: Duration::from_secs(10),
            slow: Duration::from_secs(10),
            slowest: 16 << 10,
            tries: 4,
            back_off: Duration::from_millis(400),
        }
    }
}

/// Maximum `Retry-After` that is honoured; a longer one is reported as busy.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// Maximum number of tries, including those with progress.
const MAX_TRIES: u32 = 40;

/// Counts the tries of one request.
#[derive(Debug)]
pub struct Retry<'p> {
    timeouts: &'p Timeouts,
    all: u32,
    without_progress: u32,
}

impl<'p> Retry<'p> {
    /// Starts counting.
    pub fn new(timeouts: &'p Timeouts) -> Self {
        Self { timeouts, all: 0, without_progress: 0 }
    }

    /// Called after a try failed with `error`, and whether it made progress; waits before the next.
    ///
    /// # Errors
    /// `error` if there is no further try.
    pub fn after(&mut self, error: WireError, progress: bool, cancel: &CancelHandle) -> Result<(), WireError> {
        self.all += 1;
        self.without_progress = if progress { 0 } else { self.without_progress + 1 };
        let timeouts = self.timeouts;
        // after a long timeout, retry only once
        let tries = if matches!(error, WireError::Silent { .. }) { timeouts.tries.min(2) } else { timeouts.tries };
        let over = self.without_progress >= tries || self.all >= MAX_TRIES;
        let mut wait = timeouts.back_off.saturating_mul(1 << self.without_progress.saturating_sub(1).min(8));
        let (error, again) = match error {
            WireError::Broken { host, at, .. } => (WireError::Broken { host, tries: self.all, at }, true),
            WireError::Busy { host, status, wait: asked, .. } => {
                wait = wait.max(asked.unwrap_or_default());
                (WireError::Busy { host, status, tries: self.all, wait: asked }, wait <= MAX_WAIT)
            }
            silent @ WireError::Silent { .. } => (silent, true),
            other => (other, false),
        };
        if over || !again || cancel.is_cancelled() {
            return Err(error);
        }
        if self.without_progress > 0 {
            cancel.sleep(wait);
        }
        if cancel.is_cancelled() { Err(WireError::Cancelled) } else { Ok(()) }
    }
}
