//! What Linux tells of its graphics cards, as files: `/sys`, or a folder that stands in for it.

use std::fs;
use std::path::{Path, PathBuf};

/// A tree of small files.
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
    /// `0000:03:00.0`, where it is told.
    pub pci: Option<String>,
    /// `amdgpu`, where it is told.
    pub driver: Option<String>,
    /// The PCI numbers of its maker and of what it is.
    pub vendor: Option<u32>,
    pub device: Option<u32>,
}

impl SysfsTree {
    /// `/sys`, or `root` in its place (which may also be the folder that `sys` lies in); none where there is no sysfs.
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

    /// Where the cards are.
    pub(super) fn place(&self) -> PathBuf {
        self.root.join("class/drm")
    }

    /// The graphics cards by their PCI addresses, those without one last.
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
        let told = |key: &str| {
            let value = uevent.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
            Some(value.trim().to_owned())
        };
        let linked = |path: &Path| Some(fs::canonicalize(path).ok()?.file_name()?.to_str()?.to_owned());
        let pci = told("PCI_SLOT_NAME").or_else(|| linked(&folder).filter(|name| name.matches(':').count() == 2));
        let driver = told("DRIVER").or_else(|| linked(&folder.join("driver")));
        let mut card = Self { name, folder, pci, driver, vendor: None, device: None };
        card.vendor = card.hex("vendor");
        card.device = card.hex("device");
        card
    }

    /// What people find it by: its PCI address, or `card0`.
    pub(super) fn place(&self) -> &str {
        self.pci.as_deref().unwrap_or(&self.name)
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    pub(super) fn has(&self, file: &str) -> bool {
        self.path(file).is_file()
    }

    /// A file's text without the space around it; none where it is not there or says nothing.
    pub(super) fn text(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(file)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The beginning of a file that is no text.
    pub(super) fn bytes(&self, file: &str) -> Option<Vec<u8>> {
        fs::read(self.path(file)).ok()
    }

    pub(super) fn hex(&self, file: &str) -> Option<u32> {
        let text = self.text(file)?;
        u32::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
    }

    /// A file's number, or why there is none.
    pub(super) fn number(&self, file: &str) -> Result<u64, String> {
        number(&self.path(file))
    }
}

/// The number in a file, or why there is none.
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
