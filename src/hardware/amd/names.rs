//! Names of AMD GPUs.

use std::fs;

use super::super::sysfs::DrmCard;

/// A GPU identified by its PCI device ID.
pub(super) struct AmdGpu {
    pub name: String,
    /// Whether it is part of a processor; none if unknown.
    pub integrated: Option<bool>,
}

/// libdrm's list of names.
const IDS: &str = "/usr/share/libdrm/amdgpu.ids";

/// Processors with a GPU, by PCI device ID. Source: `amdgpu.ids` of libdrm 2.4.124 and the processors' data sheets.
const INTEGRATED: [(u32, &str); 17] = [
    (0x15dd, "Radeon Vega (Raven Ridge)"),
    (0x15d8, "Radeon Vega (Picasso)"),
    (0x1636, "Radeon Vega (Renoir)"),
    (0x164c, "Radeon Vega (Lucienne)"),
    (0x1638, "Radeon Vega (Cezanne)"),
    (0x15e7, "Radeon Vega (Barcelo)"),
    (0x163f, "Radeon (Van Gogh)"),
    (0x164e, "Radeon 610M (Raphael)"),
    (0x13c0, "Radeon 610M (Granite Ridge)"),
    (0x1506, "Radeon 610M (Mendocino)"),
    (0x1681, "Radeon 680M"),
    (0x15bf, "Radeon 780M"),
    (0x15c8, "Radeon 740M"),
    (0x1900, "Radeon 780M"),
    (0x150e, "Radeon 890M"),
    (0x1114, "Radeon 860M"),
    (0x1586, "Radeon 8060S (Strix Halo)"),
];

/// Cards that libdrm's list may be too old for: PCI device ID, revision (0 means any), name.
const CARDS: [(u32, u32, &str); 12] = [
    (0x744c, 0xc8, "Radeon RX 7900 XTX"),
    (0x744c, 0xcc, "Radeon RX 7900 XT"),
    (0x744c, 0xce, "Radeon RX 7900 GRE"),
    (0x747e, 0xc8, "Radeon RX 7800 XT"),
    (0x747e, 0xff, "Radeon RX 7700 XT"),
    (0x7480, 0xc0, "Radeon RX 7600 XT"),
    (0x7480, 0xcf, "Radeon RX 7600"),
    (0x7550, 0xc0, "Radeon RX 9070 XT"),
    (0x7550, 0xc3, "Radeon RX 9070"),
    (0x7590, 0xc0, "Radeon RX 9060 XT"),
    (0x74a1, 0, "Instinct MI300X"),
    (0x74a5, 0, "Instinct MI325X"),
];

/// Identifies `card` by its `product_name`, then by its PCI device ID.
pub(super) fn of(card: &DrmCard) -> Option<AmdGpu> {
    let device = card.device;
    let processor = device.and_then(|device| INTEGRATED.iter().find(|&&(id, _)| id == device));
    let revision = card.hex("revision").unwrap_or(0);
    let listed = CARDS.iter().find(|&&(id, which, _)| Some(id) == device && (which == 0 || which == revision));
    let integrated = processor.map(|_| true).or_else(|| listed.map(|_| false));
    let name = card
        .text("product_name")
        .or_else(|| listed.map(|&(_, _, name)| format!("AMD {name}")))
        .or_else(|| processor.map(|&(_, name)| format!("AMD {name}")))
        .or_else(|| in_list(&fs::read_to_string(IDS).ok()?, device?, revision));
    match name {
        Some(name) => Some(AmdGpu { name, integrated }),
        None => device.map(|device| AmdGpu { name: format!("AMD GPU {device:04x}"), integrated }),
    }
}

/// The name in libdrm's list, whose lines are `device ID, revision, name`.
fn in_list(list: &str, device: u32, revision: u32) -> Option<String> {
    list.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = line.splitn(3, ',').map(str::trim);
        let number = |field: Option<&str>| u32::from_str_radix(field?, 16).ok();
        let is_it = number(fields.next())? == device && number(fields.next())? == revision;
        let name = fields.next().filter(|name| !name.is_empty())?;
        is_it.then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libdrm_names_are_found_by_device_id_and_revision() {
        let list = "# comment\n1.0.0\n73BF,\tC1,\tAMD Radeon RX 6800 XT\n73BF,\tC3,\tAMD Radeon RX 6800\n";
        assert_eq!(in_list(list, 0x73bf, 0xc3).as_deref(), Some("AMD Radeon RX 6800"));
        assert_eq!(in_list(list, 0x73bf, 0xc0), None);
    }
}
