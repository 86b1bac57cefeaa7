//! Local files: taken in pieces, each larger than the one before, so that a small header costs one small read and a large
//! one few large ones.
//!
//! The first piece is read. Those after it are copied from a map of the file, a few megabytes of which are mapped at a time:
//! so only what is copied becomes resident, and nothing is mapped any more when the header has been read. Where a map is
//! refused, or unwise, they are read as well.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::{fs, io};

use memmap2::{Advice, Mmap, MmapOptions};

use super::error::SourceError;
use crate::gguf::ByteSource;

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
/// Nothing is mapped on other systems: they are not asked where a file lies.
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

/// Bytes that are taken first. They are read, which sets the system to reading ahead in growing steps.
const FIRST_READ: u64 = 64 << 10;
/// Bytes that are taken at once, at most.
const MAX_READ: u64 = 1 << 20;

/// A local file as a source of bytes.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    size: u64,
    /// A map of it, where there is one.
    map: Option<Map>,
    /// What was taken last.
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
        let map = Map::of(&file, size);
        Ok(Self { file, size, map, piece: Vec::new(), start: 0 })
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

    /// Takes the next piece, from `offset` on.
    fn fetch(&mut self, offset: u64) -> io::Result<()> {
        let grown = (self.piece.len() as u64).saturating_mul(4).clamp(FIRST_READ, MAX_READ);
        let wanted = usize::try_from(grown.min(self.size - offset)).map_err(io::Error::other)?;
        // what is held is written over: nothing of it counts until all is there
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

/// Bytes that are mapped at once. Of these only what is copied is touched.
const WINDOW: u64 = 4 << 20;
/// Bytes that are copied at once: so many stay in a core's own cache until they are parsed.
const PIECE: usize = 256 << 10;

/// A map of a file: one window of it, which moves along as pieces are taken.
#[derive(Debug)]
pub struct Map {
    size: u64,
    /// Where in the file it begins, and its bytes.
    window: Option<(u64, Mmap)>,
}

impl Map {
    /// A map of `file`, of which nothing is mapped yet. None where reading is wiser: over a network or through FUSE a page
    /// may come late, or not at all.
    pub fn of(file: &File, size: u64) -> Option<Self> {
        is_on_this_computer(file).then_some(Self { size, window: None })
    }

    /// Copies what follows `offset` to `piece`, at most `len` bytes of it. False where the file no longer has them, or the
    /// system refuses to map them.
    pub fn copy(&mut self, file: &File, offset: u64, len: usize, piece: &mut Vec<u8>) -> bool {
        let Some(bytes) = self.window(file, offset) else { return false };
        let bytes = bytes.get(..len.min(PIECE)).unwrap_or(bytes);
        let reaches = || file.metadata().is_ok_and(|about| about.len().checked_sub(offset) >= Some(bytes.len() as u64));
        if bytes.is_empty() || !reaches() {
            return false;
        }
        piece.clear();
        piece.extend_from_slice(bytes);
        // on the page in which a file ends, zeros follow
        reaches()
    }

    /// The bytes of the window that `offset` lies in, from there on.
    fn window(&mut self, file: &File, offset: u64) -> Option<&[u8]> {
        let start = offset - offset % WINDOW;
        if self.window.as_ref().is_none_or(|(mapped, _)| *mapped != start) {
            // the last one is let go of before the next is taken
            self.window = None;
            let len = usize::try_from(self.size.checked_sub(start)?.min(WINDOW)).ok()?;
            // SAFETY: only `copy` reads from the map, and what it copies is checked like any untrusted input: another program
            // that writes to the file meanwhile gives other bytes. How the end of the map is guarded is said above.
            let map = unsafe { MmapOptions::new().offset(start).len(len).map(file) }.ok()?;
            // the parser goes forward: what lies before a page need not come with it
            map.advise(Advice::Sequential).ok()?;
            self.window = Some((start, map));
        }
        let (start, map) = self.window.as_ref()?;
        map.get(usize::try_from(offset - start).ok()?..)
    }
}

/// Whether `file` lies on a disk of this computer, or in its memory.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_on_this_computer(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|system| LOCAL.contains(&(system.f_type as u32)))
}

/// Whether `file` lies on a disk of this computer, or in its memory.
#[cfg(target_vendor = "apple")]
fn is_on_this_computer(file: &File) -> bool {
    /// `MNT_LOCAL` of sys/mount.h.
    const LOCAL: u32 = 0x1000;
    rustix::fs::fstatfs(file).is_ok_and(|system| system.f_flags & LOCAL != 0)
}

/// File systems that are on this computer, by their numbers in statfs(2) and linux/magic.h.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LOCAL: [u32; 20] = [
    0xEF53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683E, // Btrfs
    0xF2F5_2010, // F2FS
    0x2FC1_2FC1, // ZFS
    0xCA45_1A4E, // bcachefs
    0x3153_464A, // JFS
    0x5265_4973, // ReiserFS
    0x3434,      // NILFS
    0x482B,      // HFS+
    0x4D44,      // FAT
    0x2011_BAB0, // exFAT
    0x7366_746E, // NTFS
    0x0102_1994, // tmpfs
    0x8584_58F6, // ramfs
    0x794C_7630, // overlayfs, as containers have it
    0x7371_7368, // SquashFS
    0xE0F5_E1E2, // EROFS
    0x9660,      // ISO 9660
    0x1501_3346, // UDF
];

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

#[cfg(test)]
mod map_tests {
    use std::fs;
    use std::path::Path;

    use tempfile::NamedTempFile;

    use super::*;

    /// How much of `path` this process has mapped, and how much of that is resident: KiB, as proc(5) says.
    #[cfg(target_os = "linux")]
    fn mapped(path: &Path) -> (u64, u64) {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let of_it = maps.lines().skip_while(|line| !line.contains(path.to_str().unwrap()));
        let kib = |key: &str| {
            let line = of_it.clone().find_map(|line| line.strip_prefix(key));
            line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse().unwrap())
        };
        (kib("Size:"), kib("Rss:"))
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn no_more_is_resident_than_was_copied() {
        let file = NamedTempFile::new().unwrap();
        file.as_file().set_len(64 << 20).unwrap();
        let mut map = Map { size: 64 << 20, window: None };
        let mut piece = Vec::new();
        for offset in [64 << 10, 320 << 10, WINDOW, 9 * WINDOW + 5] {
            assert!(map.copy(file.as_file(), offset, 200 << 10, &mut piece));
            let (size, resident) = mapped(file.path());
            assert_eq!((piece.len(), size), (200 << 10, WINDOW >> 10));
            // the system may bring in the rest of 64 KiB at either end
            assert!(resident <= 600, "{resident} KiB");
        }
        drop(map);
        assert_eq!(mapped(file.path()), (0, 0));
    }

    #[test]
    fn pieces_are_those_of_the_file() {
        let bytes: Vec<u8> = (0..9_000_001_u32).map(|at| (at % 251) as u8).collect();
        let file = NamedTempFile::new().unwrap();
        fs::write(file.path(), &bytes).unwrap();
        let mut map = Map { size: bytes.len() as u64, window: None };
        let (mut piece, mut at) = (Vec::new(), 12_345);
        while at < bytes.len() {
            assert!(map.copy(file.as_file(), at as u64, 100_000, &mut piece));
            assert!(!piece.is_empty() && piece == bytes[at..at + piece.len()]);
            at += piece.len();
        }
        assert!(!map.copy(file.as_file(), at as u64, 1, &mut piece), "nothing is left");
    }

    #[test]
    fn what_is_no_longer_there_is_no_signal() {
        let file = NamedTempFile::new().unwrap();
        for left in [0, 1, 4096, 100_000, 5 << 20] {
            let mut piece = Vec::new();
            file.as_file().set_len(6 << 20).unwrap();
            let mut map = Map { size: 6 << 20, window: None };
            assert!(map.copy(file.as_file(), 0, 4096, &mut piece));
            file.as_file().set_len(left).unwrap();
            // in the window that is mapped, and in one that is mapped now
            for offset in [4096, 100_000, 5 << 20] {
                let there = offset + PIECE as u64 <= left;
                assert_eq!(map.copy(file.as_file(), offset, PIECE, &mut piece), there, "{left} bytes left, {offset}");
            }
        }
    }

    #[test]
    fn a_map_that_is_refused_is_none() {
        let file = NamedTempFile::new().unwrap();
        // what may not be read may not be mapped
        let blind = fs::File::options().append(true).open(file.path()).unwrap();
        blind.set_len(10).unwrap();
        assert!(!Map { size: 10, window: None }.copy(&blind, 0, 10, &mut Vec::new()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn networks_and_fuse_are_read() {
        // NFS, SMB 2, CIFS, FUSE, 9P, CephFS, AFS
        for system in [0x6969, 0xFE53_4D42, 0xFF53_4D42, 0x6573_5546, 0x0102_1997, 0x00C3_6400, 0x5346_414F] {
            assert!(!LOCAL.contains(&system), "{system:x}");
        }
        // a file of procfs, whose bytes are made when they are read
        assert!(Map::of(&File::open("/proc/self/stat").unwrap(), 1).is_none());
    }
}
