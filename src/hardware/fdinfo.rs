//! What a program holds on a graphics card by the kernel's own account: the lines `drm-…` of `/proc/PID/fdinfo`, which the
//! drivers amdgpu, i915 and xe write (Linux 6.12, `Documentation/gpu/drm-usage-stats.rst`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{HoldersProbe, Process};
use crate::units::Bytes;

/// Beginnings of the names of regions on a card: amdgpu's and xe's `vram`, i915's `local` and `lmem`.
const ON_CARD: [&str; 3] = ["vram", "local", "lmem"];
/// Of one that takes RAM as well.
const SHARED: [&str; 2] = ["gtt", "system"];
/// What is counted of a region, the best first; `memory` is amdgpu's older name for what is resident.
const COUNTED: [&str; 3] = ["resident", "memory", "total"];

/// The programs that hold memory of the card at `pci`, of those that are asked about.
pub(super) fn holders(pci: Option<String>, shares_ram: bool) -> HoldersProbe {
    Box::new(move |pids| {
        let Some(pci) = &pci else { return Err("the card has no PCI address".to_owned()) };
        let mut found = Vec::new();
        let mut unread = Vec::new();
        for &pid in pids {
            match held(Path::new("/proc"), pid, pci, shares_ram) {
                Ok(Some(bytes)) => {
                    found.push(Process { device: String::new(), pid, name: None, bytes: Some(bytes) });
                }
                Ok(None) => {}
                Err(_) => unread.push(pid.to_string()),
            }
        }
        if found.is_empty() && !unread.is_empty() {
            return Err(format!("/proc/{}/fdinfo is another user's", unread.join(", ")));
        }
        Ok(found)
    })
}

/// What process `pid` holds on the card at `pci`; none if it does not use the card.
fn held(proc: &Path, pid: u32, pci: &str, shares_ram: bool) -> std::io::Result<Option<Bytes>> {
    let folder = proc.join(pid.to_string());
    let mut clients: BTreeMap<String, u64> = BTreeMap::new();
    for entry in fs::read_dir(folder.join("fdinfo"))?.filter_map(Result::ok) {
        let target = fs::read_link(folder.join("fd").join(entry.file_name()));
        if target.is_ok_and(|target| !target.starts_with("/dev/dri")) {
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        if let Some((client, bytes)) = client(&text, pci, shares_ram) {
            // several descriptors may belong to one client
            clients.insert(client, bytes);
        }
    }
    Ok((!clients.is_empty()).then(|| Bytes(clients.values().sum())))
}

/// The client that a file describes, and its bytes on the card at `pci`.
fn client(text: &str, pci: &str, shares_ram: bool) -> Option<(String, u64)> {
    let lines = || text.lines().filter_map(|line| line.split_once(':')).map(|(key, value)| (key, value.trim()));
    let of = |wanted: &str| lines().find(|(key, _)| *key == wanted).map(|(_, value)| value);
    if of("drm-pdev")? != pci {
        return None;
    }
    let is_counted = |region: &str| {
        let begins = |names: &[&str]| names.iter().any(|name| region.starts_with(name));
        begins(&ON_CARD) || shares_ram && begins(&SHARED)
    };
    let sum = |kind: &str| {
        let start = format!("drm-{kind}-");
        let regions = lines().filter(|(key, _)| key.strip_prefix(start.as_str()).is_some_and(is_counted));
        regions.filter_map(|(_, value)| bytes(value)).reduce(u64::saturating_add)
    };
    Some((of("drm-client-id")?.to_owned(), COUNTED.iter().find_map(|kind| sum(kind))?))
}

/// `1234 KiB`
fn bytes(value: &str) -> Option<u64> {
    let mut words = value.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let unit = match words.next() {
        None => 1,
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some(_) => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMDGPU: &str = "pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t8\ndrm-pdev:\t0000:03:00.0\n\
                          drm-memory-vram:\t2048 KiB\ndrm-memory-gtt:\t1024 KiB\ndrm-shared-vram:\t512 KiB\n";
    const XE: &str = "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:03:00.0\ndrm-total-vram0:\t8 MiB\n\
                      drm-resident-vram0:\t6 MiB\ndrm-resident-system:\t1 MiB\n";

    #[test]
    fn regions_of_the_card_are_counted_once_for_each_client() {
        let proc = tempfile::tempdir().unwrap();
        let folder = proc.path().join("7/fdinfo");
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in [("3", AMDGPU), ("4", AMDGPU), ("5", XE), ("6", "pos:\t0\n")] {
            fs::write(folder.join(name), text).unwrap();
        }
        let held = |pci, shares| held(proc.path(), 7, pci, shares).unwrap().map(|bytes| bytes.0 >> 10);
        assert_eq!(held("0000:03:00.0", false), Some(2048 + 6144));
        assert_eq!(held("0000:03:00.0", true), Some(3072 + 7168));
        assert_eq!(held("0000:04:00.0", false), None);
        assert!(super::held(proc.path(), 8, "0000:03:00.0", false).is_err());
    }
}
