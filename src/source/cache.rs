//! The cache of fetched headers and small responses: a compressed file each.
//!
//! A file is one line of JSON, [`CacheInfo`], and then the bytes as gzip, whose checksum reveals damage. It is written
//! under another name and then renamed, so that other programs only see whole files.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::files;
use crate::units::Bytes;

/// Version of the files' layout; files of another one are ignored.
const FORM: u32 = 2;
/// Maximum length of a cached header.
const MAX_HEADER: u64 = 512 << 20;
/// Age from which a half-written file was left behind by a program that has ended.
const STALE: Duration = Duration::from_hours(1);

/// Facts about a cached item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheInfo {
    form: u32,
    /// Its address, without anything secret.
    pub name: String,
    /// SHA-256 of its key, in which something may be secret.
    key: String,
    /// The server's `ETag` or `Last-Modified`.
    pub validator: Option<String>,
    /// Length of the whole file on the server, where known.
    pub total: Option<u64>,
    /// When it was fetched or last found unchanged, in seconds since 1970.
    pub seen: u64,
}

impl CacheInfo {
    /// Time since the server was last asked.
    pub fn age(&self, now: SystemTime) -> Duration {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_secs(self.seen))
    }
}

/// A file of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheEntry {
    /// Its facts; none if it is damaged, half-written or of another version.
    pub about: Option<CacheInfo>,
    /// Its path.
    pub path: PathBuf,
    /// Its size on disk.
    pub size: Bytes,
}

/// A folder of cached headers.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache in `folder`, which need not exist.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{}.header", sha256(key)))
    }

    /// The item with this key; none if its file is damaged, or is that of another key or an earlier version.
    pub fn get(&self, key: &str) -> Option<(CacheInfo, Vec<u8>)> {
        let mut file = BufReader::new(files::open(&self.path(key), MAX_HEADER).ok()??);
        let about = read_about(&mut file).filter(|about| about.key == sha256(key))?;
        let mut bytes = Vec::new();
        GzDecoder::new(file).take(MAX_HEADER).read_to_end(&mut bytes).ok()?;
        Some((about, bytes))
    }

    /// Caches `bytes` under `key`.
    ///
    /// # Errors
    /// If the folder cannot be written; the earlier item then stays.
    pub fn put(
        &self,
        key: &str,
        name: &str,
        validator: Option<&str>,
        total: Option<u64>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let about = CacheInfo {
            form: FORM,
            name: name.to_owned(),
            key: sha256(key),
            validator: validator.map(str::to_owned),
            total,
            seen: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        };
        fs::create_dir_all(&self.folder)?;
        files::sweep(&self.folder, |name| name.starts_with('.') && name.ends_with(files::PART));
        let mut file = tempfile::Builder::new().prefix(".").suffix(files::PART).tempfile_in(&self.folder)?;
        serde_json::to_writer(&mut file, &about)?;
        file.write_all(b"\n")?;
        let mut packed = GzEncoder::new(file, Compression::fast());
        packed.write_all(bytes)?;
        let file = packed.finish()?;
        file.as_file().sync_all()?;
        file.persist(self.path(key))?;
        Ok(())
    }

    /// All items, the newest first.
    ///
    /// # Errors
    /// If the folder exists but cannot be read.
    pub fn list(&self) -> io::Result<Vec<CacheEntry>> {
        let files = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files?,
        };
        let mut entries = Vec::new();
        for file in files {
            let path = file?.path();
            let ours = path.extension().is_some_and(|ending| ending == "header" || ending == "part");
            // another program may have removed it meanwhile
            let Some(about) = fs::metadata(&path).ok().filter(|about| ours && about.is_file()) else { continue };
            let size = Bytes(about.len());
            let about = fs::File::open(&path).ok().and_then(|file| read_about(&mut BufReader::new(file)));
            let about = about.filter(|_| path.extension().is_some_and(|ending| ending == "header"));
            entries.push(CacheEntry { about, path, size });
        }
        let seen = |entry: &CacheEntry| entry.about.as_ref().map(|about| about.seen);
        entries.sort_by(|a, b| seen(b).cmp(&seen(a)).then_with(|| a.path.cmp(&b.path)));
        Ok(entries)
    }

    /// Removes items not seen for `age`, damaged files and half-written ones; returns what it removed.
    ///
    /// # Errors
    /// If the folder cannot be read or a file not removed.
    pub fn prune(&self, age: Duration) -> io::Result<Vec<CacheEntry>> {
        let now = SystemTime::now();
        self.remove(|entry| {
            if let Some(about) = &entry.about {
                about.age(now) > age || unpacked(&entry.path).is_none()
            } else {
                let written = fs::metadata(&entry.path).and_then(|about| about.modified());
                let half = entry.path.extension().is_some_and(|ending| ending == "part");
                !half || written.is_ok_and(|written| now.duration_since(written).unwrap_or_default() > STALE)
            }
        })
    }

    /// Removes all items and returns them.
    ///
    /// # Errors
    /// If the folder cannot be read or a file not removed.
    pub fn clear(&self) -> io::Result<Vec<CacheEntry>> {
        self.remove(|_| true)
    }

    fn remove(&self, which: impl Fn(&CacheEntry) -> bool) -> io::Result<Vec<CacheEntry>> {
        let mut gone = Vec::new();
        for entry in self.list()?.into_iter().filter(which) {
            match fs::remove_file(&entry.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => gone.push(entry),
            }
        }
        Ok(gone)
    }
}

/// Length of the unpacked bytes; none if the file is damaged.
fn unpacked(path: &Path) -> Option<u64> {
    let mut file = BufReader::new(fs::File::open(path).ok()?);
    read_about(&mut file)?;
    io::copy(&mut GzDecoder::new(file).take(MAX_HEADER), &mut io::sink()).ok()
}

fn read_about(file: &mut impl BufRead) -> Option<CacheInfo> {
    let mut line = Vec::new();
    file.take(64 << 10).read_until(b'\n', &mut line).ok()?;
    let about: CacheInfo = serde_json::from_slice(&line).ok()?;
    (about.form == FORM).then_some(about)
}

/// In hexadecimal digits.
fn sha256(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let digits = digest.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}
