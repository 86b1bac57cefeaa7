//! Ctrl-C, where something has to be done before the program ends.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The exit status that shells give a program ended by Ctrl-C.
pub(super) const STATUS: u8 = 130;
/// How often it is looked for.
const STEP: Duration = Duration::from_millis(50);

/// Whether the user wants to end the program.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on, Ctrl-C and a request to end are noted. Where the program does not end soon after, or is told again, it
    /// ends at once, with `clean_up`; where they cannot be noted, too.
    pub(super) fn catch(clean_up: fn()) -> Self {
        let caught = Self::default();
        caught.register(clean_up);
        caught
    }

    #[cfg(unix)]
    fn register(&self, clean_up: fn()) {
        let raised = Arc::clone(&self.0);
        // a signal that cannot be caught ends the program
        drop(crate::signals::watch(move |_| raised.store(true, Ordering::Relaxed), clean_up));
    }

    #[cfg(not(unix))]
    #[allow(clippy::unused_self, reason = "as on Unix")]
    const fn register(&self, _: fn()) {}

    pub(super) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits for `time`; false if it was interrupted.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.is_raised() {
            match until.checked_duration_since(Instant::now()) {
                None | Some(Duration::ZERO) => return true,
                Some(left) => thread::sleep(left.min(STEP)),
            }
        }
        false
    }

    /// Asks a question whose answer is no unless it begins with a y; none without a terminal to ask on.
    pub(super) fn ask(&self, question: &str) -> Option<bool> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        // a lost question is a no
        drop(write!(io::stderr(), "{question} [y/N] "));
        let (send, receive) = channel();
        thread::spawn(move || {
            let mut line = String::new();
            drop(io::stdin().lock().read_line(&mut line));
            drop(send.send(line));
        });
        loop {
            match receive.recv_timeout(STEP) {
                Ok(line) => return Some(line.trim_start().to_ascii_lowercase().starts_with('y')),
                Err(RecvTimeoutError::Disconnected) => return Some(false),
                Err(RecvTimeoutError::Timeout) if self.is_raised() => return Some(false),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
