//! Devices that a program names, and its build.

use serde::Serialize;

use super::said::Said;
use super::{Mib, Program, scan};
use crate::machine::CpuInstructions;

/// A device as a program names it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObservedDevice {
    /// The backend's name for it: `CUDA0`, `Vulkan1`, `CPU`.
    pub name: String,
    /// What the driver calls it: `NVIDIA GeForce RTX 3090`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its place on the bus: `0000:c1:00.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// All memory, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Mib>,
    /// Free memory before the load, in MiB; the last figure that was printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<Mib>,
}

impl ObservedDevice {
    /// Takes over what `later` knows.
    pub(super) fn update(&mut self, later: Self) {
        self.description = later.description.or(self.description.take());
        self.bus = later.bus.or(self.bus.take());
        (self.total, self.free) = (later.total.or(self.total), later.free.or(self.free));
    }
}

/// A line that names a device: of `device_info`, of the loader (`using device`), or of `ggml_cuda_init`.
pub(super) fn read(text: &str) -> Option<ObservedDevice> {
    if !text.contains("MiB") {
        return None;
    }
    if let Some(rest) = scan::after(text, "using device ") {
        return used(rest);
    }
    if let Some(device) = scan::after(text, "Device ").and_then(cuda) {
        return Some(device);
    }
    let text = text.trim_start();
    let text = scan::after(text, "common_param:").unwrap_or(text).trim_start();
    // `--list-devices` has no dash
    listed(text.strip_prefix("- ").unwrap_or(text))
}

/// `CUDA0 (NVIDIA GeForce RTX 3090) (0000:c1:00.0) - 23774 MiB free`
fn used(text: &str) -> Option<ObservedDevice> {
    let (head, free) = text.rsplit_once(" - ")?;
    let (free, _) = scan::mib(free)?;
    let (name, rest) = head.split_once(" (")?;
    let rest = rest.trim_end().strip_suffix(')').unwrap_or(rest);
    let (description, bus) = match rest.rsplit_once(") (") {
        Some((description, bus)) => (description, Some(scan::clip(bus, 32))),
        None => (rest, None),
    };
    Some(ObservedDevice {
        name: device_name(name)?,
        description: Some(scan::clip(description, 128)),
        bus: bus.filter(|bus| bus.contains(':')),
        total: None,
        free: Some(free),
    })
}

/// `Vulkan1 : NVIDIA GeForce RTX 4060 Laptop GPU (7956 MiB, 7188 MiB free)`
fn listed(text: &str) -> Option<ObservedDevice> {
    let (name, rest) = text.split_once(':')?;
    let (description, memory) = rest.rsplit_once(" (")?;
    let (total, rest) = scan::mib(memory)?;
    let (free, rest) = scan::mib(rest.strip_prefix(',')?)?;
    rest.trim_start().starts_with("free").then_some(())?;
    Some(ObservedDevice {
        name: device_name(name)?,
        description: Some(scan::clip(description, 128)),
        bus: None,
        total: Some(total),
        free: Some(free),
    })
}

/// `0: NVIDIA GeForce RTX 5090, compute capability 12.0, VMM: yes, VRAM: 32105 MiB (31599 MiB free)`
fn cuda(text: &str) -> Option<ObservedDevice> {
    let (index, rest) = scan::count(text)?;
    let rest = rest.strip_prefix(':')?;
    let (total, behind) = scan::mib(scan::after(rest, "VRAM: ")?)?;
    let free = scan::after(behind, "(").and_then(scan::mib).map(|(mib, _)| mib);
    let backend = if rest.contains("gfx") { "ROCm" } else { "CUDA" };
    let description = rest.split(',').next().unwrap_or(rest);
    Some(ObservedDevice {
        name: format!("{backend}{index}"),
        description: Some(scan::clip(description, 128)),
        bus: None,
        total: Some(total),
        free,
    })
}

fn device_name(text: &str) -> Option<String> {
    let name = text.trim();
    let name = if name.ends_with(']') { name.split('[').next()? } else { name };
    let fits = !name.is_empty() && name.len() <= 64 && !name.contains(char::is_whitespace);
    fits.then(|| name.to_owned())
}

/// The vector instructions in llama.cpp's line of features: `system_info: … | CPU : AVX2 = 1 | AVX512 = 1 | … |`.
pub(super) fn instructions(text: &str) -> Option<CpuInstructions> {
    let features = scan::after(text, "system_info: ")?;
    let has = |name: &str| {
        features.split('|').any(|part| part.trim().trim_start_matches("CPU : ").trim() == format!("{name} = 1"))
    };
    let known = [
        ("AMX_INT8", CpuInstructions::Amx),
        ("AVX512", CpuInstructions::Avx512),
        ("AVX2", CpuInstructions::Avx2),
        ("MATMUL_INT8", CpuInstructions::NeonI8mm),
        ("DOTPROD", CpuInstructions::NeonDotprod),
    ];
    known.into_iter().find(|(name, _)| has(name)).map(|(_, instructions)| instructions)
}

/// A build's number and commit, or a program's version.
pub(super) fn build(text: &str) -> Option<Said<'_>> {
    if let Some(rest) = scan::after(text, "Welcome to KoboldCpp - Version ") {
        return Some(Said::Version(Program::KoboldCpp, rest.trim()));
    }
    let numbered = scan::after(text, "print_info: build ").or_else(|| text.strip_prefix("build: "));
    if let Some(rest) = numbered.or_else(|| scan::after(text, "main: build = ")) {
        // number first, but `build: 5854625 (43)` existed
        let (first, rest) = rest.trim_start().split_once(' ')?;
        let inner = scan::between(rest, "(", ")").unwrap_or_default();
        return Some(Said::Build(first.parse().ok(), inner.trim()));
    }
    if let Some(rest) = scan::after(text, "build_info: ").or_else(|| scan::after(text, "build_info = ")) {
        let word = rest.trim().split(' ').next().unwrap_or_default();
        let (number, commit) = word.strip_prefix('b')?.split_once('-')?;
        return Some(Said::Build(number.parse().ok(), commit));
    }
    let rest = text.strip_prefix("version: ")?;
    if let Some((number, commit)) = rest.trim().strip_prefix('b').and_then(|rest| rest.split_once('-')) {
        return number.parse().ok().map(|number| Said::Build(Some(number), commit));
    }
    let (number, rest) = scan::count(rest)?;
    Some(Said::Build(Some(number), scan::between(rest, "(", ")")?))
}
