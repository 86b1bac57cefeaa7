//! Local files: a window of the file is mapped into memory at a time, and let go when the header has moved past it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use super::error::SourceError;
use crate::gguf::Source;

/// Bytes that are mapped at once: they are the most that a file adds to resident memory, however long its header is.
const WINDOW: u64 = 4 << 20;

/// A local file as a source of bytes.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    size: u64,
    mapped: Option<Window>,
}

#[derive(Debug)]
struct Window {
    start: u64,
    bytes: Mmap,
}

impl Window {
    fn from(&self, offset: u64) -> Option<&[u8]> {
        self.bytes.get(usize::try_from(offset.checked_sub(self.start)?).ok()?..)
    }
}

impl LocalFile {
    /// Opens the file at `path`, reading nothing yet.
    ///
    /// # Errors
    /// When there is none, it is a folder or a device, or may not be read.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        // asked first: to open a pipe would wait for its writer
        let about = fs::metadata(path).map_err(|error| SourceError::system(path, error))?;
        if about.is_dir() {
            return Err(SourceError::Folder { path: path.into() });
        }
        if !about.is_file() {
            return Err(SourceError::Device { path: path.into() });
        }
        let file = File::open(path).map_err(|error| SourceError::system(path, error))?;
        let size = file.metadata().map_err(|error| SourceError::system(path, error))?.len();
        Ok(Self { file, size, mapped: None })
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Whether it has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    fn map(&self, start: u64) -> io::Result<Window> {
        let len = WINDOW.min(self.size - start);
        if self.file.metadata()?.len() < start + len {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read"));
        }
        let len = usize::try_from(len).map_err(io::Error::other)?;
        // SAFETY: the bytes are only read, as plain bytes, and are checked like any untrusted input. Another program
        // may change them meanwhile, which gives other values, each checked when it is read; a file cut short within the
        // moments between the check above and the end of this window would end the program, as with any mapped file.
        let bytes = unsafe { MmapOptions::new().offset(start).len(len).map(&self.file)? };
        Ok(Window { start, bytes })
    }
}

impl Source for LocalFile {
    fn size(&self) -> Option<u64> {
        Some(self.size)
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        if offset >= self.size {
            return Ok(&[]);
        }
        let inside = |window: &Window| window.from(offset).is_some_and(|bytes| !bytes.is_empty());
        if !self.mapped.as_ref().is_some_and(inside) {
            // the last window is let go before the next is taken
            self.mapped = None;
            self.mapped = Some(self.map(offset)?);
        }
        Ok(self.mapped.as_ref().and_then(|window| window.from(offset)).unwrap_or_default())
    }
}
