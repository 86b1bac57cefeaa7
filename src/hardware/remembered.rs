//! What was measured on this machine: what drivers take besides buffers (`plimsoll check --remember`), and how fast RAM
//! is read (`plimsoll plan --measured`).

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::files;
use crate::machine::{Backend, Machine, Ram, file, presets, short_name};
use crate::units::{Bandwidth, Bytes};

/// The file of measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    path: PathBuf,
}

/// All measurements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measurements {
    /// Memory of drivers.
    pub drivers: Vec<RememberedDriver>,
    /// Bandwidth of RAM.
    pub ram: Option<RememberedRam>,
}

/// All measurements as they stand in the file, those of newer versions too.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    drivers: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ram: Option<Value>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Kept {
    fn known(&self) -> Measurements {
        let drivers = self.drivers.iter().filter_map(known).collect();
        Measurements { drivers, ram: self.ram.as_ref().and_then(known) }
    }
}

/// An entry, if this version knows such ones.
fn known<T: DeserializeOwned>(entry: &Value) -> Option<T> {
    T::deserialize(entry).ok()
}

/// Measured bandwidth of RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedRam {
    /// Bytes of RAM: the measurement only holds for the same RAM.
    total: u64,
    /// Bytes per second.
    bandwidth: u64,
}

impl RememberedRam {
    /// The measurement `bandwidth` of `ram`.
    pub const fn of(ram: &Ram, bandwidth: Bandwidth) -> Self {
        Self { total: ram.total.0, bandwidth: bandwidth.per_second() as u64 }
    }

    fn bandwidth_of(self, ram: &Ram) -> Option<Bandwidth> {
        Bandwidth::checked(self.bandwidth).ok().filter(|_| self.total == ram.total.0)
    }
}

/// Memory of a GPU's driver with one backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedDriver {
    /// The GPU's name by its driver.
    pub gpu: String,
    /// The backend.
    pub backend: Backend,
    /// Process memory less buffers.
    pub bytes: u64,
    /// The program and version that it was measured with.
    pub program: String,
}

impl RememberedDriver {
    fn is_of(&self, gpu: &str, backend: Backend) -> bool {
        self.backend == backend && short_name(&self.gpu).eq_ignore_ascii_case(short_name(gpu))
    }
}

impl Remembered {
    /// The file at `path`, which need not exist.
    pub const fn in_file(path: PathBuf) -> Self {
        Self { path }
    }

    /// The user's file: `measured.json` in this program's configuration folder.
    ///
    /// # Errors
    /// If there is no home folder.
    pub fn here() -> Result<Self, String> {
        Ok(Self::in_file(config_folder("remember anything")?.join("measured.json")))
    }

    /// Its path.
    pub fn into_path(self) -> PathBuf {
        self.path
    }

    /// All measurements that this version knows; none if there is no file.
    ///
    /// # Errors
    /// One sentence, if the file cannot be read.
    pub fn list(&self) -> Result<Measurements, String> {
        Ok(self.parse(files::text(&self.path, files::RECORD)?.as_deref())?.known())
    }

    fn parse(&self, text: Option<&str>) -> Result<Kept, String> {
        let Some(text) = text else { return Ok(Kept::default()) };
        serde_json::from_str(text).map_err(|error| {
            files::cannot_read(&self.path, &format!("{error}; correct it, or remove it with 'plimsoll machine forget'"))
        })
    }

    /// Adds `entries`, replacing earlier ones of the same GPUs and backends.
    ///
    /// # Errors
    /// One sentence, if the file cannot be read or written; it is then unchanged.
    pub fn keep(&self, entries: &[RememberedDriver]) -> Result<(), String> {
        self.change(|all| {
            let is_replaced = |old: &Value| {
                known::<RememberedDriver>(old)
                    .is_some_and(|old| entries.iter().any(|new| new.is_of(&old.gpu, old.backend)))
            };
            all.drivers.retain(|old| !is_replaced(old));
            for entry in entries {
                all.drivers.push(serde_json::to_value(entry)?);
            }
            Ok(())
        })
    }

    /// Sets the bandwidth of RAM.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub fn keep_ram(&self, ram: RememberedRam) -> Result<(), String> {
        self.change(|all| {
            all.ram = Some(serde_json::to_value(ram)?);
            Ok(())
        })
    }

    fn change(&self, change: impl FnOnce(&mut Kept) -> serde_json::Result<()>) -> Result<(), String> {
        files::change(&self.path, files::RECORD, |text| {
            let mut all = self.parse(text.as_deref())?;
            let text = change(&mut all).and_then(|()| serde_json::to_string_pretty(&all));
            text.map_err(|error| format!("'{}' cannot be written: {error}", self.path.display()))
        })
    }

    /// Removes the file and returns its measurements.
    ///
    /// # Errors
    /// One sentence, if the file cannot be removed.
    pub fn forget(&self) -> Result<Measurements, String> {
        let entries = self.list().unwrap_or_default();
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("'{}' cannot be removed: {error}", self.path.display()))
            }
            _ => Ok(entries),
        }
    }

    /// Applies the measurements to `machine`.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn apply_to(&self, machine: &mut Machine) -> Result<(), String> {
        let Measurements { drivers, ram } = self.list()?;
        // what was measured stands over what its modules could do
        machine.ram.bandwidth = ram.and_then(|ram| ram.bandwidth_of(&machine.ram)).or(machine.ram.bandwidth);
        for gpu in &mut machine.gpus {
            let entry = drivers.iter().find(|entry| entry.is_of(&gpu.name, gpu.backend));
            gpu.driver_memory = entry.map(|entry| Bytes(entry.bytes)).filter(|bytes| *bytes < gpu.total);
        }
        Ok(())
    }
}

/// This program's configuration folder.
fn config_folder(purpose: &str) -> Result<PathBuf, String> {
    let dirs = directories::ProjectDirs::from("", "", "plimsoll");
    let dirs = dirs.ok_or_else(|| format!("there is no home folder to {purpose} in: set HOME"))?;
    Ok(dirs.config_dir().to_owned())
}

/// The name of this machine, as opposed to another one that is described.
pub const THIS_MACHINE: &str = "this";

/// Maximum length of a name.
const MAX_NAME: usize = 64;

/// The folder of saved machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedMachines {
    folder: PathBuf,
}

/// Name of a saved machine, and the machine or why it cannot be read.
pub type SavedMachine = (String, Result<Machine, String>);

impl SavedMachines {
    /// The machines in `folder`, which need not exist.
    pub const fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The user's machines: `machines` in this program's configuration folder.
    ///
    /// # Errors
    /// If there is no home folder.
    pub fn here() -> Result<Self, String> {
        Ok(Self::in_folder(config_folder("save machines")?.join("machines")))
    }

    /// Their folder.
    pub fn into_folder(self) -> PathBuf {
        self.folder
    }

    /// All machines by name; none if there is no folder.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn list(&self) -> Result<Vec<SavedMachine>, String> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(format!("'{}': {error}", self.folder.display())),
        };
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned()))
            .filter(|name| check_name(name).is_ok())
            .collect();
        names.sort_unstable();
        Ok(names.into_iter().map(|name| (name.clone(), open_file(&self.path(&name)))).collect())
    }

    /// Saves `machine` as `name`, replacing an earlier one if `overwrite` is set. Returns the path.
    ///
    /// # Errors
    /// If the name is invalid or taken, or the file cannot be written.
    pub fn save(&self, name: &str, machine: &Machine, overwrite: bool) -> Result<PathBuf, String> {
        check_name(name)?;
        if name == THIS_MACHINE {
            return Err(format!("'{name}' names the present machine in --machine {name}: choose another name"));
        }
        let path = self.path(name);
        let text = file::write(machine).map_err(|error| format!("'{name}' cannot be written: {error}"))?;
        files::keep(&path, &text, overwrite).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!(
                    "a machine '{name}' is saved already: choose another name, or overwrite it with 'plimsoll machine \
                     save --force'"
                )
            }
            _ => format!("'{}' cannot be written: {error}", path.display()),
        })?;
        Ok(path)
    }

    /// Removes the machine `name`.
    ///
    /// # Errors
    /// If there is no such machine (the message lists those there are), or it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        check_name(name)?;
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.unknown(name)),
            Err(error) => Err(format!("'{}' cannot be removed: {error}", self.path(name).display())),
            Ok(()) => Ok(()),
        }
    }

    /// As [`SavedMachines::open`], in the user's folder.
    ///
    /// # Errors
    /// As there; and if no file is named and there is no home folder.
    pub fn find(text: &str) -> Result<Machine, String> {
        if is_file(text) { open_file(Path::new(text)) } else { Self::here()?.open(text) }
    }

    /// The machine that `text` names: a file (see [`is_file`]), or a saved machine.
    ///
    /// # Errors
    /// One sentence on what is wrong with the file, or with the saved machines.
    pub fn open(&self, text: &str) -> Result<Machine, String> {
        if is_file(text) {
            return open_file(Path::new(text));
        }
        check_name(text)?;
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

/// Whether a text names a machine file rather than a saved machine: it has a folder or `.json` in it, or exists.
pub fn is_file(text: &str) -> bool {
    text.contains(['/', '\\']) || text.to_ascii_lowercase().ends_with(".json") || Path::new(text).exists()
}

/// Checks that `name` is a valid file name on every system.
fn check_name(name: &str) -> Result<(), String> {
    let fine = |c: char| c.is_alphanumeric() || [' ', '-', '_', '.', '+'].contains(&c);
    let is_name = !name.is_empty() && name.chars().count() <= MAX_NAME && name.chars().all(fine);
    if is_name && !name.starts_with(['.', ' ', '-']) && !name.ends_with(['.', ' ']) {
        return Ok(());
    }
    Err(format!("'{name}' is not a valid machine name: use up to {MAX_NAME} letters, digits, spaces, - and _"))
}

fn open_file(path: &Path) -> Result<Machine, String> {
    let shown = path.display();
    let text = files::text(path, files::RECORD)?;
    let text =
        text.ok_or_else(|| format!("'{shown}' does not exist: create it with plimsoll devices --json > FILE"))?;
    file::read(&text).map_err(|what| format!("'{shown}': {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::{DetectOptions, detect};
    use crate::machine::spec::MachineSpec;

    #[test]
    fn an_entry_is_kept_applied_replaced_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Remembered::in_file(folder.path().join("new/measured.json"));
        assert_eq!(kept.forget(), Ok(Measurements::default()));
        let entry = |mib: u64| RememberedDriver {
            gpu: "NVIDIA GeForce RTX 4090".to_owned(),
            backend: Backend::Cuda,
            bytes: Bytes::mib(mib).0,
            program: "llama.cpp b9849".to_owned(),
        };
        kept.keep(&[entry(400)]).unwrap();
        kept.keep(&[entry(410)]).unwrap();
        let spec = MachineSpec { gpus: Some(vec![presets::find("RTX 4090").unwrap().gpu()]), ..MachineSpec::default() };
        let options = DetectOptions { gpus: false, remembered: None, ..DetectOptions::here() };
        let mut machine = spec.complete(detect(&options).machine);
        let ram = RememberedRam::of(&machine.ram, Bandwidth::gbps(61));
        kept.keep_ram(ram).unwrap();
        kept.apply_to(&mut machine).unwrap();
        assert_eq!(machine.gpus[0].driver_memory, Some(Bytes::mib(410)));
        assert_eq!(machine.ram.bandwidth, Some(Bandwidth::gbps(61)));
        (machine.ram.total, machine.ram.bandwidth) = (Bytes(machine.ram.total.0 + 1), None);
        kept.apply_to(&mut machine).unwrap();
        assert_eq!(machine.ram.bandwidth, None, "other RAM");
        assert_eq!(kept.forget(), Ok(Measurements { drivers: vec![entry(410)], ram: Some(ram) }));
        kept.apply_to(&mut machine).unwrap();
        assert_eq!(machine.gpus[0].driver_memory, None);
        assert!(!kept.path.exists());
    }

    fn entry(gpu: &str) -> RememberedDriver {
        let program = "llama.cpp b9849".to_owned();
        RememberedDriver { gpu: gpu.to_owned(), backend: Backend::Cuda, bytes: Bytes::mib(400).0, program }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_said_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Remembered::in_file(folder.path().join("measured.json"));
        let damaged = [b"\xff{".to_vec(), b"{\"drivers\": 3}".to_vec(), b"[1".to_vec(), vec![b' '; (4 << 20) + 1]];
        for bytes in damaged {
            fs::write(&kept.path, &bytes).unwrap();
            assert!(kept.list().unwrap_err().contains("cannot be read"));
            assert!(kept.keep(&[entry("A")]).unwrap_err().contains("cannot be read"));
            let ram = RememberedRam { total: 1, bandwidth: 1 };
            assert!(kept.keep_ram(ram).unwrap_err().contains("cannot be read"));
            assert_eq!(fs::read(&kept.path).unwrap(), bytes);
        }
        kept.forget().unwrap();
        kept.keep(&[entry("A")]).unwrap();
        assert_eq!(kept.list().unwrap().drivers, [entry("A")]);
    }

    #[test]
    fn what_a_newer_version_wrote_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Remembered::in_file(folder.path().join("measured.json"));
        let newer = serde_json::json!({ "gpu": "B", "backend": "Newer", "bytes": 5, "program": "x", "more": [1] });
        let file = serde_json::json!({ "drivers": [newer, entry("A")], "disk": { "total": 7 } });
        fs::write(&kept.path, file.to_string()).unwrap();
        assert_eq!(kept.list().unwrap().drivers, [entry("A")]);
        let again = RememberedDriver { bytes: 9, ..entry("A") };
        kept.keep(std::slice::from_ref(&again)).unwrap();
        kept.keep_ram(RememberedRam { total: 1, bandwidth: 2 }).unwrap();
        let after: Value = serde_json::from_str(&fs::read_to_string(&kept.path).unwrap()).unwrap();
        let ram = serde_json::json!({ "total": 1, "bandwidth": 2 });
        assert_eq!(after, serde_json::json!({ "drivers": [newer, again], "disk": { "total": 7 }, "ram": ram }));
    }

    #[test]
    fn writers_do_not_lose_each_others_entries() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Remembered::in_file(folder.path().join("measured.json"));
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let kept = &kept;
                scope.spawn(move || (0..5).for_each(|n| kept.keep(&[entry(&format!("{writer} {n}"))]).unwrap()));
            }
        });
        assert_eq!(kept.list().unwrap().drivers.len(), 20);
    }
}

#[cfg(test)]
mod saved_tests {
    use super::*;

    fn machine() -> Machine {
        Machine::described(&["none"], "total=64GiB,free=48GiB").unwrap()
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
        assert!(saved.open("broken").unwrap_err().contains("longer than 4 MiB"));
    }
}
