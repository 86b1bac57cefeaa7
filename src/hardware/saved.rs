//! Machines kept by name in the configuration folder, and machine files anywhere.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::machine::{Machine, file, presets};

/// A machine file is a few kilobytes; one of more than this is something else.
const MAX_FILE: u64 = 4 << 20;
/// Longest name.
const MAX_NAME: usize = 64;

/// The folder in which machines are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedMachines {
    folder: PathBuf,
}

/// One that is kept: its name, and the machine or why it cannot be read.
pub type SavedMachine = (String, Result<Machine, String>);

impl SavedMachines {
    /// Those in `folder`, which need not be there yet.
    pub const fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Those of this person: `machines` in the configuration folder of this program.
    ///
    /// # Errors
    /// When the operating system knows no home.
    pub fn here() -> Result<Self, String> {
        let dirs = directories::ProjectDirs::from("", "", "plimsoll");
        let dirs = dirs.ok_or("there is no home folder to save machines in: set HOME")?;
        Ok(Self::in_folder(dirs.config_dir().join("machines")))
    }

    /// All of them by name; none where the folder is not there.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> Result<Vec<SavedMachine>, String> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(format!("'{}': {error}", self.folder.display())),
        };
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned()))
            .filter(|name| named(name).is_ok())
            .collect();
        names.sort_unstable();
        Ok(names.into_iter().map(|name| (name.clone(), open_file(&self.path(&name)))).collect())
    }

    /// Keeps `machine` as `name`; with `overwrite` in place of an earlier one. Returns where.
    ///
    /// # Errors
    /// When the name is none or taken, or the file cannot be written.
    pub fn save(&self, name: &str, machine: &Machine, overwrite: bool) -> Result<PathBuf, String> {
        named(name)?;
        let path = self.path(name);
        let text = file::write(machine).map_err(|error| format!("'{name}' cannot be written: {error}"))?;
        // a file that is there is whole: the text goes into another first
        let keep = || -> io::Result<()> {
            fs::create_dir_all(&self.folder)?;
            let mut new = NamedTempFile::new_in(&self.folder)?;
            new.write_all(text.as_bytes())?;
            if overwrite {
                new.persist(&path)?
            } else {
                new.persist_noclobber(&path)?
            };
            Ok(())
        };
        keep().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("a machine '{name}' is saved already: choose another name, or overwrite it with --force")
            }
            _ => format!("'{}' cannot be written: {error}", path.display()),
        })?;
        Ok(path)
    }

    /// Forgets `name`.
    ///
    /// # Errors
    /// When there is none of that name (with those that there are), or it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        named(name)?;
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.unknown(name)),
            Err(error) => Err(format!("'{}' cannot be removed: {error}", self.path(name).display())),
            Ok(()) => Ok(()),
        }
    }

    /// The machine that a person names, here or in a file: see [`SavedMachines::open`].
    ///
    /// # Errors
    /// As there; and when no file is named and the operating system knows no home.
    pub fn find(text: &str) -> Result<Machine, String> {
        if is_file(text) { open_file(Path::new(text)) } else { Self::here()?.open(text) }
    }

    /// The machine that `text` names: a file (anything with a folder or `.json` in it, or that is there), or one that
    /// is kept here.
    ///
    /// # Errors
    /// One sentence that names the file and what is wrong with it, or the machines that are kept.
    pub fn open(&self, text: &str) -> Result<Machine, String> {
        if is_file(text) {
            return open_file(Path::new(text));
        }
        named(text)?;
        if !self.path(text).exists() {
            return Err(self.unknown(text));
        }
        open_file(&self.path(text))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    fn unknown(&self, name: &str) -> String {
        let kept = self.list().unwrap_or_default();
        let names: Vec<&str> = kept.iter().map(|(name, _)| name.as_str()).collect();
        let kept =
            if names.is_empty() { "none is saved yet".to_owned() } else { format!("saved: {}", names.join(", ")) };
        let next = presets::find(name).map_or_else(
            || "'plimsoll machine save NAME' saves one".to_owned(),
            |card| format!("for a machine with {} use --gpu '{name}'", card.name),
        );
        format!("'{name}' is neither a file nor a saved machine ({kept}): {next}")
    }
}

/// Whether a text names a machine file rather than a saved machine.
pub fn is_file(text: &str) -> bool {
    text.contains(['/', '\\']) || text.to_ascii_lowercase().ends_with(".json") || Path::new(text).exists()
}

/// Refuses what is no name of a file everywhere.
fn named(name: &str) -> Result<(), String> {
    let fine = |c: char| c.is_alphanumeric() || [' ', '-', '_', '.', '+'].contains(&c);
    let is_name = !name.is_empty() && name.chars().count() <= MAX_NAME && name.chars().all(fine);
    if is_name && !name.starts_with(['.', ' ', '-']) && !name.ends_with(['.', ' ']) {
        return Ok(());
    }
    Err(format!("'{name}' is not a valid machine name: use up to {MAX_NAME} letters, digits, spaces, - and _"))
}

fn open_file(path: &Path) -> Result<Machine, String> {
    let shown = path.display();
    let read = || -> io::Result<Option<Vec<u8>>> {
        let file = fs::File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::other("it is a folder"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 <= MAX_FILE).then_some(bytes))
    };
    let bytes = read().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("'{shown}' does not exist: create it with plimsoll devices --json > FILE"),
        _ => format!("'{shown}' cannot be read: {error}"),
    })?;
    let bytes = bytes.ok_or_else(|| format!("'{shown}' is too large for a machine file: use one of at most 4 MiB"))?;
    let text =
        String::from_utf8(bytes).map_err(|_| format!("'{shown}' is not text and therefore not a machine file"))?;
    file::read(text.trim_start_matches('\u{feff}')).map_err(|what| format!("'{shown}': {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Origin, Os, Ram};
    use crate::units::Bytes;

    fn machine() -> Machine {
        let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(48), swap_free: Bytes::ZERO, bandwidth: None };
        Machine {
            disk: None,
            os: Os::Linux,
            cpu: crate::machine::Cpu::default(),
            gpus: Vec::new(),
            ram,
            origin: Origin::Described,
            drivers: crate::machine::Drivers::default(),
        }
    }

    #[test]
    fn machines_are_kept_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let saved = SavedMachines::in_folder(folder.path().join("not/there/yet"));
        assert_eq!(saved.list(), Ok(Vec::new()));
        assert!(saved.open("garage").unwrap_err().contains("none is saved yet"));
        saved.save("garage", &machine(), false).unwrap();
        saved.save("attic", &machine(), false).unwrap();
        assert!(saved.save("attic", &machine(), false).unwrap_err().contains("--force"));
        saved.save("attic", &machine(), true).unwrap();
        assert_eq!(saved.open("garage"), Ok(machine()));
        let names: Vec<_> = saved.list().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["attic", "garage"]);
        saved.remove("attic").unwrap();
        assert!(saved.remove("attic").unwrap_err().contains("saved: garage"));
    }

    #[test]
    fn names_stay_in_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let saved = SavedMachines::in_folder(folder.path().to_owned());
        for name in ["", "..", "../up", "a/b", "a\\b", ".hidden", "-flag", "line\nbreak", &"x".repeat(65)] {
            assert!(saved.save(name, &machine(), true).is_err(), "{name}");
            assert!(saved.remove(name).is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_machine_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let saved = SavedMachines::in_folder(folder.path().to_owned());
        let path = folder.path().join("broken.json");
        for bytes in [&b""[..], b"\xff\xfe", b"{\"devices\": 3}"] {
            fs::write(&path, bytes).unwrap();
            assert!(saved.open(path.to_str().unwrap()).unwrap_err().contains("broken.json"));
            assert!(saved.open("broken").unwrap_err().contains("broken.json"));
            assert!(saved.list().unwrap()[0].1.is_err());
        }
        assert!(saved.open(folder.path().to_str().unwrap()).is_err());
        fs::write(&path, vec![b' '; 5 << 20]).unwrap();
        assert!(saved.open("broken").unwrap_err().contains("too large"));
    }
}
