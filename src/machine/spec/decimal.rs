//! Sizes in decimal units where a binary size is likely meant: memory is made and sold in powers of two, and called GB.

use crate::units::Bytes;

/// What sizes in whole GB mean, as one sentence; none if no device is described so.
pub(super) fn note(gpus: &[String], ram: Option<&str>) -> Option<String> {
    let mut sizes: Vec<DecimalSize<'_>> = Vec::new();
    for size in gpus.iter().map(String::as_str).chain(ram).filter_map(DecimalSize::of) {
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    let each: Vec<String> = sizes.iter().map(|size| format!("{} is {}", size.text, size.bytes)).collect();
    let binary: Vec<String> = sizes.iter().map(DecimalSize::binary).collect();
    let (each, binary) = (each.join(" and "), binary.join(" and "));
    (!sizes.is_empty())
        .then(|| format!("{each}; memory sold under such a name has {binary}: write that if it is meant"))
}

/// A whole number of a decimal unit.
#[derive(PartialEq)]
struct DecimalSize<'t> {
    text: &'t str,
    number: &'t str,
    unit: char,
    bytes: Bytes,
}

impl<'t> DecimalSize<'t> {
    /// The size in the description of a device: alone, or as its `total`.
    fn of(described: &'t str) -> Option<Self> {
        let mut parts = described.split(',').map(str::trim);
        let text = parts.find_map(|part| match part.split_once('=') {
            Some((key, value)) => key.trim().eq_ignore_ascii_case("total").then(|| value.trim()),
            None => Some(part),
        })?;
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let unit = ["MB", "GB", "TB"].into_iter().find(|decimal| decimal.eq_ignore_ascii_case(unit.trim()))?;
        Some(Self { text, number, unit: unit.chars().next()?, bytes: text.parse().ok()? })
    }

    /// The binary size of the same number.
    fn binary(&self) -> String {
        format!("{}{}iB", self.number, self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::MachineSpec;
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&["24GB"], None, &["22.4 GiB", "24GiB"])]
    #[case(&["name=a,total=16gb,backend=vulkan"], None, &["14.9 GiB", "16GiB"])]
    #[case(&["12GB", "12GB"], Some("64GB"), &["11.2 GiB", "12GiB", "59.6 GiB", "64GiB"])]
    #[case(&["24576MB"], None, &["22.9 GiB", "24576MiB"])]
    #[case(&["24GiB"], Some("total=128 GB,free=100GiB"), &["119.2 GiB", "128GiB"])]
    fn whole_decimal_sizes_say_what_they_are(#[case] gpus: &[&str], #[case] ram: Option<&str>, #[case] says: &[&str]) {
        let gpus: Vec<String> = gpus.iter().map(ToString::to_string).collect();
        let notes = MachineSpec::read(&gpus, ram).unwrap().notes;
        let decimal: Vec<&String> = notes.iter().filter(|note| note.contains("sold")).collect();
        let [note] = decimal.as_slice() else { panic!("one note, not {notes:?}") };
        for text in says {
            assert_eq!(note.matches(text).count(), 1, "{note}");
        }
        // what it says to write has no note
        let binary = |text: &str| text.replace("GB", "GiB").replace("gb", "GiB").replace("MB", "MiB");
        let binary_gpus: Vec<String> = gpus.iter().map(|text| binary(text)).collect();
        assert_eq!(super::note(&binary_gpus, ram.map(binary).as_deref()), None);
    }

    #[rstest]
    #[case("24GiB")]
    #[case("RTX 4090")]
    #[case("Ryzen AI Max+ 395 128GB")]
    #[case("none")]
    #[case("total=24GiB,free=20GB")]
    #[case("total=25.77GB")]
    #[case("25769803776")]
    fn exact_sizes_and_cards_have_no_note(#[case] gpu: &str) {
        assert_eq!(note(&[gpu.to_owned()], None), None);
    }
}
