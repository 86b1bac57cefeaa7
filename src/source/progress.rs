//! Progress of a load, and the wish to stop it.

use std::io;
use std::ops::ControlFlow;

use crate::gguf::ByteSource;

/// How far a load has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of headers that are behind us, over all shards.
    pub done: u64,
    /// How many there will be, once that is known: a header does not say how long it is.
    pub total: Option<u64>,
    /// The shard that is read, from zero.
    pub shard: u64,
    /// Shards in all; one for a file that is not split.
    pub shards: u64,
}

/// Hears of progress and answers whether to go on.
pub type ProgressCallback<'w> = dyn FnMut(Progress) -> ControlFlow<()> + 'w;

/// A watch that never stops anything.
pub fn no_progress(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Bytes between two reports.
const STEP: u64 = 256 << 10;

/// A source that tells a watch how far it has been read.
pub(super) struct ProgressSource<'s> {
    source: &'s mut dyn ByteSource,
    watch: &'s mut ProgressCallback<'s>,
    /// What the next report says, apart from this shard's own bytes.
    behind: Progress,
    reached: u64,
    report_at: u64,
}

impl<'s> ProgressSource<'s> {
    pub fn new(source: &'s mut dyn ByteSource, watch: &'s mut ProgressCallback<'s>, behind: Progress) -> Self {
        Self { source, watch, behind, reached: 0, report_at: 0 }
    }

    /// The furthest byte that was asked for.
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
            let now = Progress { done: self.behind.done.saturating_add(self.reached), ..self.behind };
            if (self.watch)(now).is_break() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        self.source.window(offset)
    }
}
