//! Local files, fetched in growing pieces: a small header takes one small read, a large one a few large ones.
//!
//! The first piece is read. Later ones are copied from a memory map of a few megabytes of the file, so that only what
//! is copied becomes resident. They are read too where a map is refused or unwise, as of a file that was just written.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::error::SourceError;
use crate::gguf::ByteSource;
use map::Map;

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod map;
/// Other systems map nothing: there it is not known whether a file is on this computer.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
mod map {
    use std::fs::File;

    #[derive(Debug)]
    pub struct Map;

    impl Map {
        pub fn of(_: &File, _: u64) -> Option<Self> {
            None
        }

        #[allow(clippy::unused_self, reason = "same signature on every system")]
        pub fn copy(&mut self, _: &File, _: u64, _: usize, _: &mut Vec<u8>) -> bool {
            false
        }
    }
}

/// Bytes of the first piece. It is read, which makes the system read ahead in growing steps.
const FIRST_READ: u64 = 64 << 10;
/// Maximum bytes of a piece.
const MAX_READ: u64 = 1 << 20;

/// A local file as a source of bytes.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    size: u64,
    /// Its map, if it may be mapped.
    map: Option<Map>,
    /// The last piece.
    piece: Vec<u8>,
    /// Offset of the piece in the file.
    start: u64,
}

impl LocalFile {
    /// Opens the file at `path`, reading nothing yet.
    ///
    /// # Errors
    /// If it does not exist, is a folder or a device, or may not be read.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        // check before opening: opening a pipe would wait for its writer
        let about = fs::metadata(path).map_err(|error| SourceError::system(path, error))?;
        if about.is_dir() {
            return Err(SourceError::Folder { path: path.into() });
        }
        if !about.is_file() {
            return Err(SourceError::Device { path: path.into() });
        }
        let file = File::open(path).map_err(|error| SourceError::system(path, error))?;
        let size = file.metadata().map_err(|error| SourceError::system(path, error))?.len();
        let map = Map::of(&file, size);
        Ok(Self { file, size, map, piece: Vec::new(), start: 0 })
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The bytes of the last piece from `offset` on.
    fn held(&self, offset: u64) -> &[u8] {
        let inside = offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        inside.and_then(|at| self.piece.get(at..)).unwrap_or_default()
    }

    /// Fetches the next piece, from `offset` on.
    fn fetch(&mut self, offset: u64) -> io::Result<()> {
        let grown = (self.piece.len() as u64).saturating_mul(4).clamp(FIRST_READ, MAX_READ);
        let wanted = usize::try_from(grown.min(self.size - offset)).map_err(io::Error::other)?;
        // the piece is overwritten: it is invalid until it is complete
        self.start = self.size;
        let map = self.map.as_mut().filter(|_| grown > FIRST_READ);
        if !map.is_some_and(|map| map.copy(&self.file, offset, wanted, &mut self.piece)) {
            self.read(offset, wanted)?;
        }
        self.start = offset;
        Ok(())
    }

    /// Reads `len` bytes.
    fn read(&mut self, offset: u64, len: usize) -> io::Result<()> {
        self.piece.resize(len, 0);
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(&mut self.piece).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read")
            }
            _ => error,
        })
    }
}

impl ByteSource for LocalFile {
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
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant, SystemTime};

    use super::*;

    fn folder_with(bytes: &[u8]) -> (tempfile::TempDir, LocalFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, bytes).unwrap();
        // only what was not written of late is mapped
        let old = SystemTime::now() - Duration::from_hours(1);
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        let file = LocalFile::open(&path).unwrap();
        (folder, file)
    }

    /// Windows one after the other, to the end.
    fn all(file: &mut LocalFile) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut sizes) = (Vec::new(), Vec::new());
        loop {
            let piece = file.window(bytes.len() as u64).unwrap();
            if piece.is_empty() {
                return (bytes, sizes);
            }
            sizes.push(piece.len() >> 10);
            bytes.extend_from_slice(piece);
        }
    }

    #[test]
    fn pieces_grow_and_give_every_byte_once() {
        let bytes: Vec<u8> = (0..3_u32 << 20).map(|at| (at % 251) as u8).collect();
        let (_folder, mut file) = folder_with(&bytes);
        let (whole, sizes) = all(&mut file);
        assert!(whole == bytes);
        // so many KiB
        let growing = if file.map.is_some() { [64, 256, 256, 256] } else { [64, 256, 1024, 1024] };
        assert_eq!(sizes[..4], growing, "{sizes:?}");
        assert_eq!(file.window(5).unwrap()[..3], bytes[5..8], "it can go back");
    }

    #[test]
    fn a_file_that_may_not_be_mapped_is_read() {
        let bytes: Vec<u8> = (0..3_u32 << 20).map(|at| (at % 241) as u8).collect();
        let (_folder, mut file) = folder_with(&bytes);
        file.map = None;
        let (whole, sizes) = all(&mut file);
        assert!(whole == bytes);
        assert_eq!(sizes[..4], [64, 256, 1024, 1024]);
    }

    #[test]
    fn a_file_that_is_cut_short_meanwhile_is_said() {
        // to nothing, within a piece, within a page, and where a piece begins
        for left in [0, 100 << 10, (100 << 10) + 7, 64 << 10] {
            let (folder, mut file) = folder_with(&vec![7; 2 << 20]);
            assert_eq!(file.window(0).unwrap().len(), 64 << 10);
            File::options().write(true).open(folder.path().join("file")).unwrap().set_len(left).unwrap();
            assert_eq!(file.window(10).unwrap()[0], 7, "what was taken stays");
            for _ in 0..2 {
                let error = file.window(64 << 10).unwrap_err().to_string();
                assert!(error.contains("became shorter"), "{error}");
            }
        }
    }

    #[test]
    fn a_file_that_is_truncated_again_and_again_is_an_error_and_no_signal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let length = 3 << 20;
        let writer = File::create(&path).unwrap();
        writer.set_len(length).unwrap();
        let ends = AtomicBool::new(false);
        let (mut whole, mut cut) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    for length in [0, length, 100 << 10, length] {
                        writer.set_len(length).unwrap();
                    }
                }
            });
            let since = Instant::now();
            while since.elapsed() < Duration::from_secs(2) {
                let mut file = LocalFile::open(&path).unwrap();
                let mut at = 0;
                let end = loop {
                    match file.window(at) {
                        Ok([]) => break Ok(()),
                        Ok(piece) => at += piece.len() as u64,
                        Err(error) => break Err(error.to_string()),
                    }
                };
                match end {
                    Ok(()) => whole += 1,
                    Err(why) => {
                        assert!(why.contains("became shorter"), "{why}");
                        cut += 1;
                    }
                }
            }
            ends.store(true, Ordering::Relaxed);
        });
        assert!(cut > 0 && whole > 0, "{whole} read whole, {cut} cut short");
    }

    #[test]
    fn a_large_piece_outlives_its_file() {
        let (folder, mut file) = folder_with(&vec![7; 3 << 20]);
        for at in [0, 64 << 10, 320 << 10] {
            file.window(at).unwrap();
        }
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(file.window(320 << 10).unwrap().iter().all(|byte| *byte == 7));
        assert!(file.window(2 << 20).unwrap_err().to_string().contains("became shorter"));
    }
}
