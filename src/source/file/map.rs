//! A file's bytes through a memory map (`memmap2`), copied piece by piece.
//!
//! A map has two dangers that reading has not: touching a page beyond the end of the file raises SIGBUS, and mapped
//! bytes may change after they were read. So nothing outside refers to the map: a piece is copied, and the file's
//! length and the time of its last change are checked before and after. A file that was written to of late is not mapped at
//! all, since whoever writes it may truncate it. What remains is a file that is first written to, or a disk that fails, in the
//! moment of copying.

use std::fs::File;
use std::time::{Duration, SystemTime};

use memmap2::{Advice, Mmap, MmapOptions};

/// Bytes that are mapped at once; only those that are copied are touched.
const WINDOW: u64 = 4 << 20;
/// Bytes that are copied at once: few enough to stay in a core's cache until they are parsed.
const PIECE: usize = 256 << 10;

/// Since when nothing may have been written to a file that is mapped.
const SETTLED: Duration = Duration::from_mins(1);

/// A map of one window of a file, which moves forward with the pieces.
#[derive(Debug)]
pub struct Map {
    size: u64,
    /// When the file was last written to.
    changed: SystemTime,
    /// Its offset in the file, and its bytes.
    window: Option<(u64, Mmap)>,
}

impl Map {
    /// A map of `file`, of which nothing is mapped yet; none for files that were written to within the last minute, and for
    /// those on a network or in FUSE, whose pages may come late or not at all.
    pub fn of(file: &File, size: u64) -> Option<Self> {
        let changed = file.metadata().ok()?.modified().ok()?;
        // a time to come is no time since which nothing was written
        let is_settled = changed.elapsed().is_ok_and(|since| since > SETTLED);
        (is_settled && is_on_this_computer(file)).then_some(Self { size, changed, window: None })
    }

    /// Copies at most `len` bytes from `offset` on to `piece`; false if the file no longer has them or was written to
    /// meanwhile, or the system refuses to map them.
    pub fn copy(&mut self, file: &File, offset: u64, len: usize, piece: &mut Vec<u8>) -> bool {
        let changed = self.changed;
        let Some(bytes) = self.window(file, offset) else { return false };
        let bytes = bytes.get(..len.min(PIECE)).unwrap_or(bytes);
        let reaches = || {
            file.metadata().is_ok_and(|about| {
                let reaches = about.len().checked_sub(offset) >= Some(bytes.len() as u64);
                reaches && about.modified().is_ok_and(|now| now == changed)
            })
        };
        if bytes.is_empty() || !reaches() {
            return false;
        }
        piece.clear();
        piece.extend_from_slice(bytes);
        // the last page is filled up with zeros
        reaches()
    }

    /// The bytes of the window that `offset` lies in, from there on.
    fn window(&mut self, file: &File, offset: u64) -> Option<&[u8]> {
        let start = offset - offset % WINDOW;
        if self.window.as_ref().is_none_or(|(mapped, _)| *mapped != start) {
            // unmap the last window before the next is mapped
            self.window = None;
            let len = usize::try_from(self.size.checked_sub(start)?.min(WINDOW)).ok()?;
            // SAFETY: only `copy` reads from the map, and what it copies is checked like any untrusted input: another program
            // may write to the file meanwhile. The head of this file says how the end of the map is guarded.
            let map = unsafe { MmapOptions::new().offset(start).len(len).map(file) }.ok()?;
            // the parser only moves forward
            map.advise(Advice::Sequential).ok()?;
            self.window = Some((start, map));
        }
        let (start, map) = self.window.as_ref()?;
        map.get(usize::try_from(offset - start).ok()?..)
    }
}

/// Whether `file` is on a disk or in the memory of this computer.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_on_this_computer(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|system| LOCAL.contains(&(system.f_type as u32)))
}

/// Whether `file` is on a disk or in the memory of this computer.
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
    use std::fs;
    use std::path::Path;

    use tempfile::NamedTempFile;

    use super::*;

    /// A map of a file that was written a while ago.
    fn map_of(file: &File) -> Map {
        let changed = SystemTime::now() - Duration::from_hours(1);
        file.set_modified(changed).unwrap();
        // as the file system rounds it
        let changed = file.metadata().unwrap().modified().unwrap();
        Map { size: file.metadata().unwrap().len(), changed, window: None }
    }

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
        let mut map = map_of(file.as_file());
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
        let mut map = map_of(file.as_file());
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
            let mut map = map_of(file.as_file());
            assert!(map.copy(file.as_file(), 0, 4096, &mut piece));
            file.as_file().set_len(left).unwrap();
            // the size alone tells
            map.changed = file.as_file().metadata().unwrap().modified().unwrap();
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
        let changed = blind.metadata().unwrap().modified().unwrap();
        assert!(!Map { size: 10, changed, window: None }.copy(&blind, 0, 10, &mut Vec::new()));
    }

    #[test]
    fn what_is_being_written_is_not_mapped() {
        let file = NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        for since in [Duration::ZERO, Duration::from_secs(50)] {
            file.as_file().set_modified(SystemTime::now() - since).unwrap();
            assert!(Map::of(file.as_file(), 1 << 20).is_none(), "{since:?}");
        }
        file.as_file().set_modified(SystemTime::now() + Duration::from_hours(1)).unwrap();
        assert!(Map::of(file.as_file(), 1 << 20).is_none(), "a clock that was set back");
        let mut map = map_of(file.as_file());
        assert!(map.copy(file.as_file(), 0, 4096, &mut Vec::new()));
        // it grows: what is there is not mapped any longer
        file.as_file().set_len(2 << 20).unwrap();
        assert!(!map.copy(file.as_file(), 0, 4096, &mut Vec::new()));
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
