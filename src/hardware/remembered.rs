//! What drivers took on this machine besides buffers, as `plimsoll check --remember` measured it.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::machine::{Backend, Machine, short_name};
use crate::units::Bytes;

/// The file has a line or two per GPU; one of more than this is something else.
const MAX_FILE: u64 = 1 << 20;

/// The file in which it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    path: PathBuf,
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

    /// That of this person: `drivers.json` in the configuration folder of this program.
    ///
    /// # Errors
    /// When the operating system knows no home.
    pub fn here() -> Result<Self, String> {
        let dirs = directories::ProjectDirs::from("", "", "plimsoll");
        let dirs = dirs.ok_or("there is no home folder to remember anything in: set HOME")?;
        Ok(Self::in_file(dirs.config_dir().join("drivers.json")))
    }

    /// Where it is.
    pub fn into_path(self) -> PathBuf {
        self.path
    }

    /// All entries; none if there is no file.
    ///
    /// # Errors
    /// One sentence, if the file cannot be read.
    pub fn list(&self) -> Result<Vec<RememberedDriver>, String> {
        let cannot = |why: String| format!("'{}' cannot be read: {why}", self.path.display());
        let file = match fs::File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
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
        // a damaged file is replaced
        let mut all = self.list().unwrap_or_default();
        all.retain(|old| !entries.iter().any(|new| new.is_of(&old.gpu, old.backend)));
        all.extend(entries.iter().cloned());
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
    pub fn forget(&self) -> Result<Vec<RememberedDriver>, String> {
        let entries = self.list().unwrap_or_default();
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("'{}' cannot be removed: {error}", self.path.display()))
            }
            _ => Ok(entries),
        }
    }

    /// Writes what is remembered into the GPUs of this machine; a file that cannot be read is as none.
    pub fn apply_to(&self, machine: &mut Machine) {
        let entries = self.list().unwrap_or_default();
        for gpu in &mut machine.gpus {
            let entry = entries.iter().find(|entry| entry.is_of(&gpu.name, gpu.backend));
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
        let kept = Remembered::in_file(folder.path().join("new/drivers.json"));
        assert_eq!(kept.forget(), Ok(Vec::new()));
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
        kept.apply_to(&mut machine);
        assert_eq!(machine.gpus[0].driver_memory, Some(Bytes::mib(410)));
        assert_eq!(kept.forget(), Ok(vec![entry(410)]));
        kept.apply_to(&mut machine);
        assert_eq!(machine.gpus[0].driver_memory, None);
        assert!(!kept.path.exists());
    }

    #[test]
    fn a_damaged_file_is_as_none_and_can_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Remembered::in_file(folder.path().join("drivers.json"));
        fs::write(&kept.path, b"\xff{").unwrap();
        assert!(kept.list().unwrap_err().contains("cannot be read"));
        kept.keep(&[]).unwrap();
        assert_eq!(kept.list(), Ok(Vec::new()));
    }
}
