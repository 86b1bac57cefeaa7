//! `CUDA_VISIBLE_DEVICES` and similar variables: which GPUs a program may use, and in which order.
//!
//! CUDA C++ Programming Guide, "CUDA Environment Variables": a list of indices or of UUIDs (a unique prefix suffices);
//! the first invalid entry and all after it are ignored, and an empty list hides every GPU. From
//! `torch/cuda/__init__.py` of torch 2.5, `_parse_visible_devices`, which follows the driver: a duplicate hides all
//! GPUs, text after the digits of an index is ignored, and indices and UUIDs cannot be mixed. Assumed: ROCm and Vulkan's
//! backend parse their variables the same way.

use super::{Backend, Gpu};

/// A variable and its accepted values.
#[derive(Clone, Copy, Debug)]
pub struct VisibilityRule<'a> {
    /// Name of the variable.
    pub name: &'a str,
    /// The program that reads it.
    pub program: &'a str,
    /// Prefixes of UUIDs.
    pub prefixes: &'a [&'a str],
    /// Number of GPUs that can be selected by index; MIG instances cannot.
    pub countable: usize,
}

/// The GPUs that the variable selects.
#[derive(Debug, PartialEq, Eq)]
pub struct Visible {
    /// Indices, in the order of use.
    pub indices: Vec<usize>,
    /// One sentence on its effect.
    pub note: Option<String>,
}

/// Evaluates `value` on a computer whose GPUs have these UUIDs, in the driver's order.
pub fn visible(rule: &VisibilityRule<'_>, value: Option<&str>, uuids: &[&str]) -> Visible {
    let Some(value) = value else { return Visible { indices: (0..rule.countable).collect(), note: None } };
    let shown = format!("{}={value}", rule.name);
    if value.trim().is_empty() {
        return Visible { indices: Vec::new(), note: Some(format!("{} is empty, which hides all GPUs", rule.name)) };
    }
    let mut indices = Vec::new();
    let by_uuid = rule.prefixes.iter().any(|prefix| value.trim_start().starts_with(prefix));
    for entry in value.split(',').map(str::trim) {
        match if by_uuid { by_uuid_prefix(rule, entry, uuids) } else { by_number(entry, rule.countable) } {
            Some(index) if indices.contains(&index) => {
                let note = format!("{shown} names a GPU twice, so {} hides all GPUs", rule.program);
                return Visible { indices: Vec::new(), note: Some(note) };
            }
            Some(index) => indices.push(index),
            None => {
                let rest = if entry.is_empty() { "an empty entry".to_owned() } else { format!("'{entry}'") };
                let note = format!("{shown}: {rest} names no GPU, so it and all later entries are ignored");
                return Visible { indices, note: Some(note) };
            }
        }
    }
    let note = format!("{shown} leaves {} of {}", indices.len(), rule.countable);
    Visible { indices, note: Some(note) }
}

fn by_uuid_prefix(rule: &VisibilityRule<'_>, entry: &str, uuids: &[&str]) -> Option<usize> {
    let is_uuid = rule.prefixes.iter().any(|prefix| entry.starts_with(prefix));
    let mut matching = uuids.iter().enumerate().filter(|(_, uuid)| is_uuid && uuid.starts_with(entry));
    matching.next().filter(|_| matching.next().is_none()).map(|(index, _)| index)
}

fn by_number(entry: &str, count: usize) -> Option<usize> {
    let digits = entry.strip_prefix('+').unwrap_or(entry);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end)?.parse().ok().filter(|&index| index < count)
}

/// The variables that hide GPUs of a described machine: name, backend, and the program that reads it. ROCm reads CUDA's
/// where its own is not set.
const VARIABLES: [(&str, Backend, &str); 6] = [
    // the cards that are in a container at all
    (CONTAINER, Backend::Cuda, "NVIDIA's container runtime"),
    ("CUDA_VISIBLE_DEVICES", Backend::Cuda, "CUDA"),
    ("ROCR_VISIBLE_DEVICES", Backend::Rocm, "ROCm"),
    ("HIP_VISIBLE_DEVICES", Backend::Rocm, "ROCm"),
    ("CUDA_VISIBLE_DEVICES", Backend::Rocm, "ROCm"),
    ("GGML_VK_VISIBLE_DEVICES", Backend::Vulkan, "Vulkan"),
];

/// The cards that NVIDIA's container runtime hands into a container.
pub const CONTAINER: &str = "NVIDIA_VISIBLE_DEVICES";
/// Its value for every card.
pub const EVERY_CARD: &str = "all";

/// Whether a variable hides GPUs.
pub fn hides_gpus(name: &str) -> bool {
    VARIABLES.iter().any(|(known, ..)| *known == name)
}

/// The GPUs of a described machine that a program with these variables may use, as indices in the order of use, and one
/// sentence for each variable that it reads. Other computers' are not hidden.
pub fn seen(gpus: &[Gpu], variables: &[(String, String)]) -> (Vec<usize>, Vec<String>) {
    let mut seen: Vec<usize> = (0..gpus.len()).collect();
    let mut notes = Vec::new();
    let value = |name: &str| variables.iter().rfind(|(key, _)| key == name).map(|(_, value)| value.as_str());
    for (name, backend, program) in VARIABLES {
        let is_its = |at: &usize| gpus[*at].backend == backend && gpus[*at].computer.is_none();
        let own: Vec<usize> = seen.iter().copied().filter(is_its).collect();
        let is_instead = name.starts_with("CUDA") && backend == Backend::Rocm && value("HIP_VISIBLE_DEVICES").is_some();
        let value = value(name).filter(|value| !own.is_empty() && !is_instead && *value != EVERY_CARD);
        let Some(value) = value else { continue };
        if ["GPU-", "MIG-"].iter().any(|prefix| value.trim_start().starts_with(prefix)) {
            notes.push(format!("{name}={value} is ignored: a described GPU has no such name, only an index"));
            continue;
        }
        let rule = VisibilityRule { name, program, prefixes: &[], countable: own.len() };
        let Visible { indices, note } = visible(&rule, Some(value), &[]);
        let mut left = indices.iter().filter_map(|&index| own.get(index).copied());
        let names: Vec<&str> = left.clone().map(|at| gpus[at].name.as_str()).collect();
        let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        notes.extend(note.map(|note| format!("{note}{names}")));
        // each takes the place of the next of its kind
        seen = seen.iter().filter_map(|at| if is_its(at) { left.next() } else { Some(*at) }).collect();
    }
    (seen, notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const UUIDS: [&str; 4] = ["GPU-aa11", "GPU-aa22", "GPU-bb33", "MIG-cc44"];
    const CUDA: VisibilityRule<'static> =
        VisibilityRule { name: "CUDA_VISIBLE_DEVICES", program: "CUDA", prefixes: &["GPU-", "MIG-"], countable: 3 };

    #[rstest]
    #[case(None, &[0, 1, 2])]
    #[case(Some(""), &[])]
    #[case(Some("-1"), &[])]
    #[case(Some("1"), &[1])]
    #[case(Some("2, 0"), &[2, 0])]
    #[case(Some("0,7,1"), &[0])]
    #[case(Some("0,-1,1"), &[0])]
    #[case(Some("1,1"), &[])]
    #[case(Some("GPU-bb,GPU-aa11"), &[2, 0])]
    #[case(Some("GPU-aa"), &[])]
    #[case(Some("GPU-cc,0"), &[])]
    #[case(Some("GPU-bb,0"), &[2])]
    #[case(Some("0,GPU-bb"), &[0])]
    #[case(Some("MIG-cc44"), &[3])]
    #[case(Some("3"), &[])]
    #[case(Some("GPU-"), &[])]
    #[case(Some("+1,2nd"), &[1, 2])]
    #[case(Some(",0"), &[])]
    #[case(Some("none"), &[])]
    #[case(Some("99999999999999999999"), &[])]
    fn the_variable_selects_and_orders(#[case] value: Option<&str>, #[case] expected: &[usize]) {
        let visible = visible(&CUDA, value, &UUIDS);
        assert_eq!(visible.indices, expected);
        assert_eq!(visible.note.is_some(), value.is_some());
    }

    #[rstest]
    #[case(&[], &["A", "B", "R", "C", "V"])]
    #[case(&[("CUDA_VISIBLE_DEVICES", "1")], &["B", "R", "V"])]
    #[case(&[("CUDA_VISIBLE_DEVICES", "2,0")], &["C", "A", "R", "V"])]
    #[case(&[("CUDA_VISIBLE_DEVICES", "")], &["R", "V"])]
    #[case(&[("CUDA_VISIBLE_DEVICES", "GPU-77")], &["A", "B", "R", "C", "V"])]
    #[case(&[("GGML_VK_VISIBLE_DEVICES", "1"), ("CUDA_VISIBLE_DEVICES", "0,1")], &["A", "B", "R"])]
    fn variables_hide_gpus_of_a_described_machine(#[case] variables: &[(&str, &str)], #[case] expected: &[&str]) {
        let gpu = |(name, backend): (&str, Backend)| Gpu::of(name, backend, crate::units::Bytes::gib(8));
        let mut gpus: Vec<Gpu> = [
            ("A", Backend::Cuda),
            ("B", Backend::Cuda),
            ("R", Backend::Cuda),
            ("C", Backend::Cuda),
            ("V", Backend::Vulkan),
        ]
        .map(gpu)
        .into();
        gpus[2].computer = Some("garage".into());
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (seen, notes) = seen(&gpus, &variables);
        assert_eq!(seen.iter().map(|at| gpus[*at].name.as_str()).collect::<Vec<_>>(), expected);
        assert_eq!(notes.len(), variables.len());
    }
}
