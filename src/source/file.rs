//! Local files: read in pieces, each larger than the one before, so that a small header costs one small read and a large
//! one few large ones.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::error::SourceError;
use crate::gguf::Source;

/// Bytes that are read first.
const FIRST: u64 = 64 << 10;
/// Bytes that are read at once, at most: so many a file adds to resident memory, however long its header is.
const MOST: u64 = 1 << 20;

/// A local file as a source of bytes.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    size: u64,
    /// What was read last.
    piece: Vec<u8>,
    /// Where in the file that begins.
    start: u64,
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
        Ok(Self { file, size, piece: Vec::new(), start: 0 })
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Whether it has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The bytes of the last piece from `offset` on.
    fn held(&self, offset: u64) -> &[u8] {
        let inside = offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        inside.and_then(|at| self.piece.get(at..)).unwrap_or_default()
    }

    /// Reads the next piece, from `offset` on.
    fn fetch(&mut self, offset: u64) -> io::Result<()> {
        let grown = (self.piece.len() as u64).saturating_mul(4).clamp(FIRST, MOST);
        let wanted = usize::try_from(grown.min(self.size - offset)).map_err(io::Error::other)?;
        // what is held is written over: nothing of it counts until all is there
        self.start = self.size;
        self.piece.resize(wanted, 0);
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(&mut self.piece).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read")
            }
            _ => error,
        })?;
        self.start = offset;
        Ok(())
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
        if self.held(offset).is_empty() {
            self.fetch(offset)?;
        }
        Ok(self.held(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(bytes: &[u8]) -> (tempfile::TempDir, LocalFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, bytes).unwrap();
        let file = LocalFile::open(&path).unwrap();
        (folder, file)
    }

    #[test]
    fn pieces_grow_and_give_every_byte_once() {
        let bytes: Vec<u8> = (0..3_u32 << 20).map(|at| (at % 251) as u8).collect();
        let (_folder, mut file) = folder_with(&bytes);
        let (mut at, mut sizes) = (0, Vec::new());
        while at < bytes.len() {
            let piece = file.window(at as u64).unwrap();
            assert_eq!(piece, &bytes[at..at + piece.len()]);
            sizes.push(piece.len() as u64 >> 10);
            at += piece.len();
        }
        // so many KiB
        assert_eq!(sizes[..4], [64, 256, 1024, 1024], "{sizes:?}");
        assert!(file.window(at as u64).unwrap().is_empty());
        assert_eq!(file.window(5).unwrap()[..3], bytes[5..8], "it can go back");
    }

    #[test]
    fn a_file_that_is_cut_short_meanwhile_is_said() {
        let (folder, mut file) = folder_with(&vec![7; 200 << 10]);
        assert_eq!(file.window(0).unwrap().len(), 64 << 10);
        fs::write(folder.path().join("file"), vec![7; 100 << 10]).unwrap();
        for _ in 0..2 {
            let error = file.window(64 << 10).unwrap_err().to_string();
            assert!(error.contains("became shorter"), "{error}");
        }
    }
}
