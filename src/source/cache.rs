//! Headers and small answers that were fetched, kept for the next time: a file each, compressed.
//!
//! A file is one line of JSON, [`CacheInfo`], and then its bytes as gzip, whose own checksum tells a damaged one. It is
//! written beside its place and moved there, so that two programs at once see whole files only.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The layout of the files; those of another one count as absent.
const FORM: u32 = 1;
/// The longest header that is taken from the cache.
const MAX_HEADER: u64 = 512 << 20;
/// A half-written file older than this was left behind by a program that ended.
const STALE: Duration = Duration::from_hours(1);

/// What is known of something that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheInfo {
    form: u32,
    /// What it is, for people: an address without anything secret.
    pub name: String,
    /// What it goes by.
    key: u64,
    /// The server's `ETag`, or the date of the last change.
    pub validator: Option<String>,
    /// Length of the whole file on the server, where known.
    pub total: Option<u64>,
    /// When it was fetched, or last found to be unchanged: seconds since 1970.
    pub seen: u64,
}

impl CacheInfo {
    /// How long ago the server was last asked.
    pub fn age(&self, now: SystemTime) -> Duration {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_secs(self.seen))
    }
}

/// Something that is kept, and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheEntry {
    /// What is known of it; none for a file that is damaged, half-written or of another version.
    pub about: Option<CacheInfo>,
    /// Its file.
    pub path: PathBuf,
    /// What it takes on the disk.
    pub size: Bytes,
}

/// A folder of kept headers.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache in `folder`, which need not exist yet.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:016x}.header", hash(key)))
    }

    /// What is kept under `key`; a damaged file is as good as none.
    pub fn get(&self, key: &str) -> Option<(CacheInfo, Vec<u8>)> {
        let mut file = BufReader::new(fs::File::open(self.path(key)).ok()?);
        let about = read_about(&mut file).filter(|about| about.key == hash(key))?;
        let mut bytes = Vec::new();
        GzDecoder::new(file).take(MAX_HEADER).read_to_end(&mut bytes).ok()?;
        Some((about, bytes))
    }

    /// Keeps `bytes` under `key`.
    ///
    /// # Errors
    /// When the folder cannot be written; what was kept before is then still there.
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
            key: hash(key),
            validator: validator.map(str::to_owned),
            total,
            seen: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        };
        fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::Builder::new().prefix(".").suffix(".part").tempfile_in(&self.folder)?;
        serde_json::to_writer(&mut file, &about)?;
        file.write_all(b"\n")?;
        let mut packed = GzEncoder::new(file, Compression::fast());
        packed.write_all(bytes)?;
        let file = packed.finish()?;
        file.as_file().sync_all()?;
        file.persist(self.path(key))?;
        Ok(())
    }

    /// Everything that is kept, newest first.
    ///
    /// # Errors
    /// When the folder is there and cannot be read.
    pub fn list(&self) -> io::Result<Vec<CacheEntry>> {
        let ollama_ps = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            ollama_ps => ollama_ps?,
        };
        let mut entries = Vec::new();
        for file in ollama_ps {
            let path = file?.path();
            let ours = path.extension().is_some_and(|ending| ending == "header" || ending == "part");
            // one that another program has taken away meanwhile is no fault
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

    /// Removes what has not been seen for `age`, what is damaged, and what was left half-written; says what went.
    ///
    /// # Errors
    /// When the folder cannot be read or a file not removed.
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

    /// Removes everything that is kept; says what went.
    ///
    /// # Errors
    /// When the folder cannot be read or a file not removed.
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

/// The length of what a file holds, where it can be unpacked to its end.
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

/// FNV-1a of 64 bits: the same in every version of this program.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
