//! What was measured on this machine: what drivers take besides buffers (`plimsoll check --remember`), and how fast RAM
//! is read (`plimsoll plan --measured`).

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::machine::{Backend, Machine, Ram, short_name};
use crate::units::{Bandwidth, Bytes};

/// The file has a line or two per GPU; one of more than this is something else.
const MAX_FILE: u64 = 1 << 20;

/// The file in which it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    path: PathBuf,
}

/// All that is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measurements {
    /// Of drivers.
    pub drivers: Vec<RememberedDriver>,
    /// Of RAM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram: Option<RememberedRam>,
}

/// How fast RAM is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedRam {
    /// Bytes of RAM: other RAM has another bandwidth.
    total: u64,
    /// Bytes a second.
    bandwidth: u64,
}

impl RememberedRam {
    /// That `ram` is read at `bandwidth`.
    pub const fn of(ram: &Ram, bandwidth: Bandwidth) -> Self {
        Self { total: ram.total.0, bandwidth: bandwidth.per_second() as u64 }
    }

    fn bandwidth_of(self, ram: &Ram) -> Option<Bandwidth> {
        Bandwidth::checked(self.bandwidth).ok().filter(|_| self.total == ram.total.0)
    }
}

/// What one GPU's driver took with one backend.
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
    /// The one at `path`, which need not be there yet.
    pub const fn in_file(path: PathBuf) -> Self {
        Self { path }
    }

    /// That of this person: `measured.json` in the configuration folder of this program.
    ///
    /// # Errors
    /// When the operating system knows no home.
    pub fn here() -> Result<Self, String> {
        let dirs = directories::ProjectDirs::from("", "", "plimsoll");
        let dirs = dirs.ok_or("there is no home folder to remember anything in: set HOME")?;
        Ok(Self::in_file(dirs.config_dir().join("measured.json")))
    }

    /// Where it is.
    pub fn into_path(self) -> PathBuf {
        self.path
    }

    /// All entries; none if there is no file.
    ///
    /// # Errors
    /// One sentence, if the file cannot be read.
    pub fn list(&self) -> Result<Measurements, String> {
        let cannot = |why: String| format!("'{}' cannot be read: {why}", self.path.display());
        let file = match fs::File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Measurements::default()),
            Err(error) => return Err(cannot(error.to_string())),
        };
        let mut text = String::new();
        file.take(MAX_FILE).read_to_string(&mut text).map_err(|error| cannot(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| cannot(error.to_string()))
    }

    /// Remembers `entries`, in place of earlier ones of the same GPUs and backends.
    ///
    /// # Errors
    /// One sentence, if the file cannot be written.
    pub fn keep(&self, entries: &[RememberedDriver]) -> Result<(), String> {
        self.change(|all| {
            all.drivers.retain(|old| !entries.iter().any(|new| new.is_of(&old.gpu, old.backend)));
            all.drivers.extend(entries.iter().cloned());
        })
    }

    /// Remembers how fast RAM is read.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub fn keep_ram(&self, ram: RememberedRam) -> Result<(), String> {
        self.change(|all| all.ram = Some(ram))
    }

    fn change(&self, change: impl FnOnce(&mut Measurements)) -> Result<(), String> {
        // a damaged file is replaced
        let mut all = self.list().unwrap_or_default();
        change(&mut all);
        let cannot = |why: String| format!("'{}' cannot be written: {why}", self.path.display());
        let text = serde_json::to_string_pretty(&all).map_err(|error| cannot(error.to_string()))?;
        let write = || -> io::Result<()> {
            let folder = self.path.parent().unwrap_or(&self.path);
            fs::create_dir_all(folder)?;
            let mut new = NamedTempFile::new_in(folder)?;
            new.write_all(text.as_bytes())?;
            new.persist(&self.path)?;
            Ok(())
        };
        write().map_err(|error| cannot(error.to_string()))
    }

    /// Forgets everything, and returns what it was.
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

    /// Writes what is remembered into this machine; a file that cannot be read is as none.
    pub fn apply_to(&self, machine: &mut Machine) {
        let Measurements { drivers, ram } = self.list().unwrap_or_default();
        machine.ram.bandwidth = machine.ram.bandwidth.or(ram.and_then(|ram| ram.bandwidth_of(&machine.ram)));
        for gpu in &mut machine.gpus {
            let entry = drivers.iter().find(|entry| entry.is_of(&gpu.name, gpu.backend));
            gpu.driver_memory = entry.map(|entry| Bytes(entry.bytes)).filter(|bytes| *bytes < gpu.total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{presets, spec::MachineSpec};

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
        let mut machine = spec.complete(
            crate::hardware::detect(&crate::hardware::DetectOptions {
                gpus: false,
                remembered: None,
                ..crate::hardware::DetectOptions::here()
            })
            .machine,
        );
        let ram = RememberedRam::of(&machine.ram, Bandwidth::gbps(61));
        kept.keep_ram(ram).unwrap();
        kept.apply_to(&mut machine);
        assert_eq!(machine.gpus[0].driver_memory, Some(Bytes::mib(410)));
        assert_eq!(machine.ram.bandwidth, Some(Bandwidth::gbps(61)));
        (machine.ram.total, machine.ram.bandwidth) = (Bytes(machine.ram.total.0 + 1), None);
        kept.apply_to(&mut machine);
        assert_eq!(machine.ram.bandwidth, None, "other RAM");
        assert_eq!(kept.forget(), Ok(Measurements { drivers: vec![entry(410)], ram: Some(ram) }));
        kept.apply_to(&mut machine);
        assert_eq!(machine.gpus[0].driver_memory, None);
        assert!(!kept.path.exists());
    }

    #[test]
    fn a_damaged_file_is_as_none_and_can_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Remembered::in_file(folder.path().join("measured.json"));
        fs::write(&kept.path, b"\xff{").unwrap();
        assert!(kept.list().unwrap_err().contains("cannot be read"));
        kept.keep(&[]).unwrap();
        assert_eq!(kept.list(), Ok(Measurements::default()));
    }
}
