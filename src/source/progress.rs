//! How far a load has come.

use std::io;
use std::ops::ControlFlow;

use crate::gguf::ByteSource;

/// Progress of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of headers read, over all shards.
    pub done: u64,
    /// Total bytes, once known: a header does not state its length.
    pub total: Option<u64>,
    /// The current shard, from zero.
    pub shard: u64,
    /// Number of shards; one for a file that is not split.
    pub shards: u64,
}

impl Progress {
    /// Before the first byte of a file that is not split.
    pub const START: Self = Self { done: 0, total: None, shard: 0, shards: 1 };
}

/// Called with the progress; `Break` cancels.
pub type ProgressCallback<'w> = dyn FnMut(Progress) -> ControlFlow<()> + 'w;

/// A callback that never cancels.
pub fn no_progress(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Bytes between two reports.
const STEP: u64 = 256 << 10;

/// A source that reports how far it has been read.
pub(super) struct ProgressSource<'s> {
    source: &'s mut dyn ByteSource,
    on_progress: &'s mut ProgressCallback<'s>,
    /// The progress without the bytes of this shard.
    before: Progress,
    reached: u64,
    report_at: u64,
}

impl<'s> ProgressSource<'s> {
    pub fn new(source: &'s mut dyn ByteSource, on_progress: &'s mut ProgressCallback<'s>, before: Progress) -> Self {
        Self { source, on_progress, before, reached: 0, report_at: 0 }
    }

    /// The furthest offset requested.
    pub fn reached(&self) -> u64 {
        self.reached
    }
}

impl ByteSource for ProgressSource<'_> {
    fn size(&self) -> Option<u64> {
        self.source.size()
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        self.reached = self.reached.max(offset);
        if self.reached >= self.report_at {
            self.report_at = self.reached.saturating_add(STEP);
            let now = Progress { done: self.before.done.saturating_add(self.reached), ..self.before };
            if (self.on_progress)(now).is_break() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        self.source.window(offset)
    }
}
