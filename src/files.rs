//! Files of a person: read within limits, and written whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::text::quoted;

/// The longest text that somebody writes by hand.
pub(crate) const TEXT: u64 = 1 << 20;
/// The longest text that a program writes of a machine, or of what was measured.
pub(crate) const RECORD: u64 = 4 << 20;
/// The longest log or recording.
pub(crate) const LOG: u64 = 1 << 30;

/// Bytes within a limit: an error stands for those behind it.
#[derive(Debug)]
pub(crate) struct Within<R> {
    bytes: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Within<R> {
    /// `bytes`, of which at most `limit` may come.
    pub(crate) const fn new(bytes: R, limit: u64) -> Self {
        Self { bytes, left: limit, limit }
    }
}

impl<R: Read> Read for Within<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, too_long(self.limit)))?;
        Ok(read)
    }
}

fn too_long(limit: u64) -> String {
    let limit = if limit < LOG { format!("{} MiB", limit >> 20) } else { format!("{} GiB", limit >> 30) };
    format!("it is longer than {limit}: shorten it, or name another file")
}

/// The file at `path`, of at most `limit` bytes; none where there is no file.
///
/// # Errors
/// One sentence with the path: why it cannot be read, what to do.
pub(crate) fn open(path: &Path, limit: u64) -> Result<Option<Within<File>>, String> {
    // before it is opened, since opening a pipe waits for its writer
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => {
            return Err(cannot_read(path, "it is a folder: name a file, or put one in its place"));
        }
        Ok(about) if !about.is_file() => return Err(cannot_read(path, "it is a device or a pipe: name a file")),
        Ok(about) if about.len() > limit => return Err(cannot_read(path, &too_long(limit))),
        _ => {}
    }
    match File::open(path) {
        Ok(file) => Ok(Some(Within::new(file, limit))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(cannot_read(path, &format!("{error}: change its permissions, or name another file"))),
    }
}

/// The text of the file at `path`, of at most `limit` bytes, without a byte order mark; none where there is no file.
///
/// # Errors
/// As [`open`], and if it is no text.
pub(crate) fn text(path: &Path, limit: u64) -> Result<Option<String>, String> {
    let Some(file) = open(path, limit)? else { return Ok(None) };
    text_of(file).map(Some).map_err(|why| cannot_read(path, &why))
}

/// The text of `bytes`, without a byte order mark.
///
/// # Errors
/// The end of a sentence on why they cannot be read.
pub(crate) fn text_of(mut bytes: impl Read) -> Result<String, String> {
    let mut all = Vec::new();
    bytes.read_to_end(&mut all).map_err(|error| error.to_string())?;
    let text = String::from_utf8(all).map_err(|_| "it is not UTF-8 text: correct it, or name another file")?;
    Ok(text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned))
}

/// The log or the recording at `path`.
///
/// # Errors
/// As [`open`], and if there is none.
pub(crate) fn log(path: &Path) -> Result<Within<File>, String> {
    open(path, LOG)?.ok_or_else(|| cannot_read(path, "it does not exist: name a file"))
}

/// The sentence on a file that cannot be read.
pub(crate) fn cannot_read(path: &Path, why: &str) -> String {
    format!("'{}' cannot be read: {why}", quoted(&path.display().to_string()))
}

/// Writes a file beside the one at `path` and then renames it, so that it is whole whenever it exists, and what was there
/// before stays until then. A link keeps leading to its file.
///
/// # Errors
/// Those of the file system, without a path; [`io::ErrorKind::AlreadyExists`] if there is something and not `overwrite`.
pub(crate) fn write(path: &Path, text: &str, overwrite: bool) -> io::Result<()> {
    write_for(Readers::Others, path, &Content::of(text), overwrite)
}

/// As [`write`], of a file of `size` bytes that begins with these: what follows takes no room where the file system can leave
/// it out.
///
/// # Errors
/// As there.
#[cfg(feature = "source")]
pub(crate) fn write_sparse(path: &Path, beginning: &[u8], size: u64, overwrite: bool) -> io::Result<()> {
    write_for(Readers::Others, path, &Content { beginning, size }, overwrite)
}

/// As [`write`], for the eyes of this user alone: what it holds may be private.
///
/// # Errors
/// As there.
pub(crate) fn write_private(path: &Path, text: &str, overwrite: bool) -> io::Result<()> {
    write_for(Readers::Owner, path, &Content::of(text), overwrite)
}

/// What a file holds.
struct Content<'c> {
    beginning: &'c [u8],
    /// Bytes in all.
    size: u64,
}

impl<'c> Content<'c> {
    fn of(text: &'c str) -> Self {
        Self { beginning: text.as_bytes(), size: text.len() as u64 }
    }
}

/// Who may read a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readers {
    /// This user alone.
    Owner,
    /// Whoever may read what is there, or else a new file.
    Others,
}

fn write_for(readers: Readers, path: &Path, content: &Content<'_>, overwrite: bool) -> io::Result<()> {
    sweep(folder(path), |name| name.starts_with(HALF) && name.ends_with(PART));
    let path = match fs::metadata(path) {
        Ok(_) if !overwrite => return Err(io::ErrorKind::AlreadyExists.into()),
        Ok(about) if !about.is_file() => return Err(io::Error::other("it is a folder, a device or a pipe")),
        Ok(_) => fs::canonicalize(path)?,
        Err(_) => path.to_owned(),
    };
    whole(readers, &path, content, overwrite).map_err(|error| {
        let said = error.to_string();
        // the path in it would be that of the file beside
        io::Error::new(error.kind(), said.split(" at path ").next().unwrap_or_default())
    })
}

/// A new file to write to bit by bit, or the one that is there if `append`, which is for this user alone where it is new.
///
/// # Errors
/// Those of the file system; [`io::ErrorKind::AlreadyExists`] if there is something and not `append`.
pub(crate) fn create_private(path: &Path, append: bool) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.append(append).write(true);
    if append {
        options.create(true);
    } else {
        options.create_new(true);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(OWN);
    }
    options.open(path)
}

/// The permissions of a file for its owner alone.
#[cfg(unix)]
const OWN: u32 = 0o600;

/// As [`write_private`], in a folder of this program, which need not exist.
///
/// # Errors
/// As there.
pub(crate) fn keep(path: &Path, text: &str, overwrite: bool) -> io::Result<()> {
    fs::create_dir_all(folder(path))?;
    // as versions before 0.3 named them
    sweep(folder(path), |name| {
        name.strip_prefix(".tmp").is_some_and(|rest| rest.len() == 6 && rest.bytes().all(|c| c.is_ascii_alphanumeric()))
    });
    write_private(path, text, overwrite)
}

/// Writes the file at `path`, one of this program's, anew: `change` makes its text of what is there, which is none where
/// there is no file. One writer waits for another, and what cannot be read is not written over.
///
/// # Errors
/// As [`text`]; those of `change`; and one sentence if another program does not cease to write, or it cannot be written.
pub(crate) fn change(
    path: &Path,
    limit: u64,
    change: impl FnOnce(Option<String>) -> Result<String, String>,
) -> Result<(), String> {
    let cannot = |why: String| format!("'{}' cannot be written: {why}", quoted(&path.display().to_string()));
    fs::create_dir_all(folder(path)).map_err(|error| cannot(error.to_string()))?;
    let _lock = lock(path).map_err(cannot)?;
    let new = change(text(path, limit)?)?;
    if new.len() as u64 > limit {
        return Err(cannot(too_long(limit)));
    }
    keep(path, &new, true).map_err(|error| cannot(error.to_string()))
}

/// The lock of the file at `path`, released with the handle, also when the program ends.
fn lock(path: &Path) -> Result<File, String> {
    let lock = File::create(path.with_extension("lock")).map_err(|error| error.to_string())?;
    let since = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(fs::TryLockError::WouldBlock) if since.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(fs::TryLockError::WouldBlock) => {
                return Err(format!(
                    "another plimsoll has been writing it for {} seconds: end that, and try again",
                    PATIENCE.as_secs()
                ));
            }
            Err(fs::TryLockError::Error(error)) => return Err(error.to_string()),
        }
    }
}

/// How long one writer waits for another.
const PATIENCE: Duration = Duration::from_secs(5);
/// How the name of a file begins and ends that is not whole yet.
const HALF: &str = ".plimsoll-";
pub(crate) const PART: &str = ".part";
/// Age from which a file that is not whole was left behind by a program that was killed.
const LEFT: Duration = Duration::from_hours(24);

/// Removes the files in `folder` with such names that killed writers left.
pub(crate) fn sweep(folder: &Path, is_half: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let now = SystemTime::now();
    let is_old = |entry: &fs::DirEntry| {
        let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        now.duration_since(about.modified().ok()?).ok().filter(|age| *age > LEFT)
    };
    for entry in entries.filter_map(Result::ok) {
        if entry.file_name().to_str().is_some_and(&is_half) && is_old(&entry).is_some() {
            // where it cannot be removed, the next writer tries again
            drop(fs::remove_file(entry.path()));
        }
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn whole(readers: Readers, path: &Path, content: &Content<'_>, overwrite: bool) -> io::Result<()> {
    let mut new = beside(readers, path).prefix(HALF).suffix(PART).tempfile_in(folder(path))?;
    new.write_all(content.beginning)?;
    if content.size > content.beginning.len() as u64 {
        new.as_file().set_len(content.size)?;
    }
    new.as_file().sync_all()?;
    let persisted = if overwrite { new.persist(path) } else { new.persist_noclobber(path) };
    persisted.map(drop).map_err(|error| error.error)
}

/// How the file beside `path` is made: for its owner, or with the permissions that the one there has or else a new file gets.
#[cfg(unix)]
fn beside(readers: Readers, path: &Path) -> tempfile::Builder<'static, 'static> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut builder = tempfile::Builder::new();
    let there = fs::metadata(path).map(|about| about.permissions());
    builder.permissions(match readers {
        Readers::Owner => fs::Permissions::from_mode(OWN),
        Readers::Others => there.unwrap_or_else(|_| fs::Permissions::from_mode(0o666)),
    });
    builder
}

#[cfg(not(unix))]
fn beside(_: Readers, _: &Path) -> tempfile::Builder<'static, 'static> {
    tempfile::Builder::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_until_the_new_file_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/plan.toml");
        assert_eq!(write(&path, "one", false).unwrap_err().kind(), io::ErrorKind::NotFound);
        keep(&path, "one", false).unwrap();
        assert_eq!(write(&path, "two", false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(text(&path, TEXT), Ok(Some("one".to_owned())));
        write(&path, "two", true).unwrap();
        assert_eq!(text(&path, TEXT), Ok(Some("two".to_owned())));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        assert!(write(folder.path(), "three", true).unwrap_err().to_string().contains("a folder"));
    }

    #[test]
    fn what_killed_writers_left_is_removed_after_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let left = |name: &str, hours: u64| {
            let path = folder.path().join(name);
            let file = File::create(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_hours(hours)).unwrap();
            path
        };
        let (gone, kept): (Vec<_>, Vec<_>) = [
            (".plimsoll-aB3xyz.part", 25, true),
            (".tmpaB3xyz", 25, true),
            (".plimsoll-aB3xyy.part", 23, false),
            (".tmpaB3xyy", 23, false),
            (".tmp-notes.txt", 99, false),
            ("a.part", 99, false),
        ]
        .into_iter()
        .map(|(name, hours, goes)| (left(name, hours), goes))
        .partition(|(_, goes)| *goes);
        keep(&folder.path().join("plan.toml"), "one", true).unwrap();
        assert!(gone.iter().all(|(path, _)| !path.exists()), "{gone:?}");
        assert!(kept.iter().all(|(path, _)| path.exists()), "{kept:?}");
    }

    #[test]
    fn what_cannot_be_read_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/list");
        let add = |more: &'static str| change(&path, TEXT, move |text| Ok(text.unwrap_or_default() + more));
        add("a").unwrap();
        add("b").unwrap();
        assert_eq!(text(&path, TEXT), Ok(Some("ab".to_owned())));
        assert_eq!(change(&path, TEXT, |_| Err("no".to_owned())), Err("no".to_owned()));
        assert!(change(&path, TEXT, |_| Ok("a".repeat(TEXT as usize + 1))).unwrap_err().contains("longer than 1 MiB"));
        assert_eq!(text(&path, TEXT), Ok(Some("ab".to_owned())));
        for bytes in [vec![0xff, 0], vec![b'a'; TEXT as usize + 1]] {
            fs::write(&path, &bytes).unwrap();
            assert!(add("c").unwrap_err().contains("cannot be read"));
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "one").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        write(&link, "two", true).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert!(write(Path::new("/dev/null"), "", true).unwrap_err().to_string().contains("a device"));
    }

    #[cfg(unix)]
    #[test]
    fn what_may_be_private_is_for_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let path = folder.path().join("last.toml");
        fs::write(&path, "of an older version").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        keep(&path, "one", true).unwrap();
        assert_eq!(mode(&path), 0o600);
        let share = folder.path().join("share.json");
        write_private(&share, "two", false).unwrap();
        assert_eq!(mode(&share), 0o600);
        for append in [false, true] {
            let record = folder.path().join(format!("record-{append}"));
            create_private(&record, append).unwrap();
            assert_eq!(mode(&record), 0o600);
            assert_eq!(create_private(&record, append).is_ok(), append);
        }
    }

    #[test]
    fn nothing_is_read_beyond_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        for (length, fits) in [(0, true), (TEXT, true), (TEXT + 1, false), (6 << 30, false)] {
            File::create(&path).unwrap().set_len(length).unwrap();
            assert_eq!(text(&path, TEXT).is_ok(), fits, "{length}");
        }
        let said = text_of(Within::new(io::repeat(b'a'), TEXT)).unwrap_err();
        assert_eq!(said, "it is longer than 1 MiB: shorten it, or name another file");
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        assert_eq!(text_of(&b"\xef\xbb\xbfa"[..]), Ok("a".to_owned()));
        assert!(text_of(&b"\xff\xfea"[..]).unwrap_err().contains("UTF-8"));
    }
}
