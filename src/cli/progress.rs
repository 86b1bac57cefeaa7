//! A progress line on the terminal while a header is fetched, erased at the end.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::style::takes_escapes;
use crate::source::Progress;
use crate::units::Bytes;

/// Faster loads show no progress.
const SHOW_AFTER: Duration = Duration::from_millis(300);

/// The progress line; shows nothing if stderr is not a terminal.
pub(super) struct ProgressLine {
    since: Option<Instant>,
    drawn: bool,
}

impl ProgressLine {
    pub(super) fn on_stderr() -> Self {
        Self { since: (io::stderr().is_terminal() && takes_escapes()).then(Instant::now), drawn: false }
    }

    /// Shows the progress. Never cancels the load: Ctrl-C does.
    pub(super) fn show(&mut self, progress: Progress) -> ControlFlow<()> {
        if let Some(took) = self.since.map(|since| since.elapsed()).filter(|took| *took >= SHOW_AFTER) {
            let speed = Bytes((progress.done as f64 / took.as_secs_f64()) as u64);
            let shard = if progress.shards > 1 {
                format!(", shard {} of {}", progress.shard + 1, progress.shards)
            } else {
                String::new()
            };
            // errors are ignored: only this line is lost
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
