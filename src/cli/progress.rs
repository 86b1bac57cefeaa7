//! A line on a terminal while a header is fetched: it comes when that takes a while, and leaves nothing behind.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::source::Progress;
use crate::units::Bytes;

/// Loads that are over sooner show nothing.
const SHOW_AFTER: Duration = Duration::from_millis(300);

/// The line, or nothing where standard error is no terminal.
pub(super) struct ProgressLine {
    since: Option<Instant>,
    drawn: bool,
}

impl ProgressLine {
    pub(super) fn on_stderr() -> Self {
        Self { since: io::stderr().is_terminal().then(Instant::now), drawn: false }
    }

    /// Shows how far a load is. It never stops one: Ctrl-C does.
    pub(super) fn tell(&mut self, progress: Progress) -> ControlFlow<()> {
        if let Some(took) = self.since.map(|since| since.elapsed()).filter(|took| *took >= SHOW_AFTER) {
            let speed = Bytes((progress.done as f64 / took.as_secs_f64()) as u64);
            let shard = if progress.shards > 1 {
                format!(", shard {} of {}", progress.shard + 1, progress.shards)
            } else {
                String::new()
            };
            // a terminal that cannot be written to misses this line only
            drop(write!(io::stderr(), "\r\x1b[Kreading the header: {}{shard}, {speed}/s", Bytes(progress.done)));
            self.drawn = true;
        }
        ControlFlow::Continue(())
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.drawn {
            drop(write!(io::stderr(), "\r\x1b[K"));
        }
    }
}
