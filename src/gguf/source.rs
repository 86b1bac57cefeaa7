//! The parser's interface to files, memory and servers.

use std::io;

/// Random access to bytes.
pub trait ByteSource {
    /// Total number of bytes, if known.
    fn size(&self) -> Option<u64>;

    /// The bytes at `offset`: at least one, unless the source ends there. The source chooses how many. The parser reads
    /// the first bytes twice, to check the magic, and otherwise only moves forward.
    ///
    /// # Errors
    /// I/O errors. [`io::ErrorKind::Interrupted`] means that the user cancelled.
    fn window(&mut self, offset: u64) -> io::Result<&[u8]>;

    /// Hint: the header extends to about byte `end`; remote sources may prefetch.
    fn expect(&mut self, _end: u64) {}
}

/// A whole file in memory.
impl ByteSource for &[u8] {
    fn size(&self) -> Option<u64> {
        Some(self.len() as u64)
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        Ok(usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default())
    }
}

/// A header in memory without the weights; since its size is unknown, it is not reported as incomplete.
pub struct HeaderOnly<'b>(pub &'b [u8]);

impl ByteSource for HeaderOnly<'_> {
    fn size(&self) -> Option<u64> {
        None
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        self.0.window(offset)
    }
}
