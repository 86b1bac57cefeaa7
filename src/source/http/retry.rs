//! When to try again, and how long to wait before.

use std::time::Duration;

use super::cancel::CancelHandle;
use super::error::WireError;

/// How long to wait for what. Tests are less patient than people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the beginning of an answer.
    pub answer: Duration,
    /// For the next bytes of one.
    pub silence: Duration,
    /// Fewer than [`Timeouts::slowest`] bytes in this time are given up.
    pub slow: Duration,
    /// See [`Timeouts::slow`].
    pub slowest: u64,
    /// Tries in a row that bring nothing.
    pub tries: u32,
    /// The wait before the second try; each further one is twice as long.
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

/// The longest wait that a server may ask for; one that asks for more is called busy.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// Tries in all, however much each of them brings.
const MAX_TRIES: u32 = 40;

/// Counts the tries of one thing that is wanted.
#[derive(Debug)]
pub struct Retry<'p> {
    timeouts: &'p Timeouts,
    all: u32,
    in_vain: u32,
}

impl<'p> Retry<'p> {
    /// No try yet.
    pub fn new(timeouts: &'p Timeouts) -> Self {
        Self { timeouts, all: 0, in_vain: 0 }
    }

    /// Hears that a try failed with `error`, and whether it brought anything; waits until the next.
    ///
    /// # Errors
    /// `error` when there is to be no next one.
    pub fn after(&mut self, error: WireError, progress: bool, line: &CancelHandle) -> Result<(), WireError> {
        self.all += 1;
        self.in_vain = if progress { 0 } else { self.in_vain + 1 };
        let timeouts = self.timeouts;
        // who was silent for long may be asked once more, not four times
        let tries = if matches!(error, WireError::Silent { .. }) { timeouts.tries.min(2) } else { timeouts.tries };
        let over = self.in_vain >= tries || self.all >= MAX_TRIES;
        let mut wait = timeouts.back_off.saturating_mul(1 << self.in_vain.saturating_sub(1).min(8));
        let (error, again) = match error {
            WireError::Broken { host, at, .. } => (WireError::Broken { host, tries: self.all, at }, true),
            WireError::Busy { host, status, wait: asked, .. } => {
                wait = wait.max(asked.unwrap_or_default());
                (WireError::Busy { host, status, tries: self.all, wait: asked }, wait <= MAX_WAIT)
            }
            silent @ WireError::Silent { .. } => (silent, true),
            other => (other, false),
        };
        if over || !again || line.is_cancelled() {
            return Err(error);
        }
        if self.in_vain > 0 {
            line.sleep(wait);
        }
        if line.is_cancelled() { Err(WireError::Cancelled) } else { Ok(()) }
    }
}
