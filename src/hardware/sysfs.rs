//! Graphics cards in Linux's `/sys`, or in a folder used instead.

use std::fs;
use std::path::{Path, PathBuf};

/// The sysfs tree to read.
#[derive(Clone, Debug)]
pub(super) struct SysfsTree {
    root: PathBuf,
}

/// One graphics card: `class/drm/card0`.
#[derive(Clone, Debug)]
pub(super) struct DrmCard {
    /// `card0`
    pub name: String,
    /// `class/drm/card0/device`
    folder: PathBuf,
    /// PCI address, if reported: `0000:03:00.0`.
    pub pci: Option<String>,
    /// Kernel driver, if reported: `amdgpu`.
    pub driver: Option<String>,
    /// PCI vendor ID and device ID.
    pub vendor: Option<u32>,
    pub device: Option<u32>,
}

impl SysfsTree {
    /// `/sys`, or `root` instead (or the folder `sys` in it); none on systems without sysfs.
    pub(super) fn new(root: Option<&Path>) -> Option<Self> {
        match root {
            Some(root) if !root.join("class").is_dir() && root.join("sys/class").is_dir() => {
                Some(Self { root: root.join("sys") })
            }
            Some(root) => Some(Self { root: root.to_owned() }),
            None if cfg!(target_os = "linux") => Some(Self { root: "/sys".into() }),
            None => None,
        }
    }

    pub(super) fn place(&self) -> PathBuf {
        self.root.join("class/drm")
    }

    /// The graphics cards, sorted by PCI address, those without one last.
    pub(super) fn cards(&self) -> Result<Vec<DrmCard>, String> {
        let place = self.place();
        let entries = fs::read_dir(&place).map_err(|error| format!("{}: {}", place.display(), reason(&error)))?;
        let mut cards: Vec<DrmCard> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let number = name.strip_prefix("card")?;
                let is_card = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
                is_card.then(|| DrmCard::read(name, entry.path().join("device")))
            })
            .collect();
        cards.sort_by_key(|card| (card.pci.is_none(), card.pci.clone(), card.name.len(), card.name.clone()));
        Ok(cards)
    }
}

impl DrmCard {
    fn read(name: String, folder: PathBuf) -> Self {
        let uevent = fs::read_to_string(folder.join("uevent")).unwrap_or_default();
        let property = |key: &str| {
            let value = uevent.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
            Some(value.trim().to_owned())
        };
        let linked = |path: &Path| Some(fs::canonicalize(path).ok()?.file_name()?.to_str()?.to_owned());
        let pci = property("PCI_SLOT_NAME").or_else(|| linked(&folder).filter(|name| name.matches(':').count() == 2));
        let driver = property("DRIVER").or_else(|| linked(&folder.join("driver")));
        let mut card = Self { name, folder, pci, driver, vendor: None, device: None };
        card.vendor = card.hex("vendor");
        card.device = card.hex("device");
        card
    }

    /// Its PCI address, or else its name (`card0`).
    pub(super) fn place(&self) -> &str {
        self.pci.as_deref().unwrap_or(&self.name)
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    pub(super) fn has(&self, file: &str) -> bool {
        self.path(file).is_file()
    }

    /// A file's trimmed text; none if it is missing or empty.
    pub(super) fn text(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(file)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(super) fn bytes(&self, file: &str) -> Option<Vec<u8>> {
        fs::read(self.path(file)).ok()
    }

    pub(super) fn hex(&self, file: &str) -> Option<u32> {
        let text = self.text(file)?;
        u32::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
    }

    pub(super) fn number(&self, file: &str) -> Result<u64, String> {
        number(&self.path(file))
    }
}

/// Reads a file that holds a decimal number.
pub(super) fn number(path: &Path) -> Result<u64, String> {
    let name = || path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {}", name(), reason(&error)))?;
    text.trim().parse().map_err(|_| format!("{}: '{}' is not a number", name(), text.trim()))
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "missing".to_owned(),
        std::io::ErrorKind::PermissionDenied => "no permission".to_owned(),
        _ => error.to_string(),
    }
}
