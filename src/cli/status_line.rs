//! A line on standard error that says what is going on, for as long as it does.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::error::one_line;
use super::style::takes_escapes;
use crate::source::Progress;
use crate::units::Bytes;

/// The line, which is written over and wiped in the end; nothing where standard error is no terminal.
pub(super) struct StatusLine {
    is_seen: bool,
    drawn: bool,
}

impl StatusLine {
    pub(super) fn on_stderr() -> Self {
        Self { is_seen: io::stderr().is_terminal() && takes_escapes(), drawn: false }
    }

    /// Writes it anew, as much as fits.
    pub(super) fn show(&mut self, text: &str) {
        if !self.is_seen {
            return;
        }
        let width = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
        let line: String = one_line(text).chars().take(width.saturating_sub(1)).collect();
        // only this line would be lost
        drop(write!(io::stderr(), "\r\x1b[K{line}"));
        self.drawn = true;
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.drawn {
            drop(write!(io::stderr(), "\r\x1b[K"));
        }
    }
}

/// How far a header is read. Faster loads show nothing.
pub(super) struct ProgressLine {
    line: StatusLine,
    since: Instant,
}

impl ProgressLine {
    const SHOW_AFTER: Duration = Duration::from_millis(300);

    pub(super) fn on_stderr() -> Self {
        Self { line: StatusLine::on_stderr(), since: Instant::now() }
    }

    /// Shows the progress. Never cancels the load: Ctrl-C does.
    pub(super) fn show(&mut self, progress: Progress) -> ControlFlow<()> {
        let took = self.since.elapsed();
        if took >= Self::SHOW_AFTER {
            let speed = Bytes((progress.done as f64 / took.as_secs_f64()) as u64);
            let shard = if progress.shards > 1 {
                format!(", shard {} of {}", progress.shard + 1, progress.shards)
            } else {
                String::new()
            };
            self.line.show(&format!("reading the header: {}{shard}, {speed}/s", Bytes(progress.done)));
        }
        ControlFlow::Continue(())
    }
}

/// What is searched for, while it is: drawn by a thread of its own, as a search does not return before its end.
pub(super) struct Working {
    done: Arc<AtomicUsize>,
    /// The thread, which ends when nobody can send any more.
    drawn_by: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Working {
    /// Faster answers show nothing.
    const SHOW_AFTER: Duration = Duration::from_millis(150);
    const REDRAWN_EVERY: Duration = Duration::from_millis(100);

    /// Work called `what`, of which [`Working::count`] counts `of` parts, if it has any.
    pub(super) fn on_stderr(what: &'static str, of: Option<usize>) -> Self {
        let (done, mut line) = (Arc::new(AtomicUsize::new(0)), StatusLine::on_stderr());
        let drawn_by = line.is_seen.then(|| {
            let (ends, ended) = mpsc::channel::<()>();
            let (since, counted) = (Instant::now(), Arc::clone(&done));
            let draw = move || {
                let mut wait = Self::SHOW_AFTER;
                while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    line.show(&Self::text(what, of.map(|of| (counted.load(Ordering::Relaxed), of)), since.elapsed()));
                    wait = Self::REDRAWN_EVERY;
                }
            };
            (ends, thread::spawn(draw))
        });
        Self { done, drawn_by }
    }

    /// One part more is done.
    pub(super) fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// `planning models: 23 of 47`, `searching: 1.2 s`
    fn text(what: &str, parts: Option<(usize, usize)>, took: Duration) -> String {
        match parts {
            Some((done, of)) => format!("{what}: {done} of {of}"),
            None => format!("{what}: {:.1} s", took.as_secs_f64()),
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some((ends, thread)) = self.drawn_by.take() {
            drop(ends);
            // what is printed next comes after the line was wiped
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_says_how_far_it_is_or_how_long_it_takes() {
        let (parts, took) = (Some((23, 47)), Duration::from_millis(1234));
        assert_eq!(Working::text("planning models", parts, took), "planning models: 23 of 47");
        assert_eq!(Working::text("searching", None, took), "searching: 1.2 s");
        // seen within 200 ms
        assert!(Working::SHOW_AFTER < Duration::from_millis(200));
    }
}
