//! Where a header's bytes come from, as the parser sees it.

use std::io;

/// Bytes at an offset. A file, a buffer and a server are sources of bytes; the parser above them is one.
pub trait ByteSource {
    /// How many bytes there are in all, where that is known.
    fn size(&self) -> Option<u64>;

    /// The bytes at `offset`: at least one, unless the source ends there. How many more come with it is the source's
    /// choice. The parser looks at the first bytes twice, to tell what they are, and goes forward otherwise.
    ///
    /// # Errors
    /// What the system below says. The kind [`io::ErrorKind::Interrupted`] stands for a person's wish to stop.
    fn window(&mut self, offset: u64) -> io::Result<&[u8]>;

    /// Hears that the header goes on to about byte `end`, as far as the parser can tell by now: a source that fetches
    /// bytes over a long way may fetch so many at once.
    fn expect(&mut self, _end: u64) {}
}

/// Bytes in memory, all at once.
impl ByteSource for &[u8] {
    fn size(&self) -> Option<u64> {
        Some(self.len() as u64)
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        Ok(usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default())
    }
}

/// A header alone: the weights that would follow it are elsewhere, or nowhere yet, and are not missed.
pub struct HeaderOnly<'b>(pub &'b [u8]);

impl ByteSource for HeaderOnly<'_> {
    fn size(&self) -> Option<u64> {
        None
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        self.0.window(offset)
    }
}
