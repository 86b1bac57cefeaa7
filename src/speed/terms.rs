//! The parts of a token's time with their formulas, and the constants and families of devices in them.

use serde::Serialize;

use super::Term;
use super::range::Class;
use super::work::{DeviceWork, Work};
use crate::machine::presets::Preset;
use crate::machine::{Backend, Gpu, presets};
use crate::named::named;
use crate::units::Bandwidth;

/// The terms of `work` that take time.
pub(super) fn of(work: &Work, constants: &Constants) -> Vec<Term> {
    let devices = work.devices.iter().flat_map(|device| of_device(device, constants));
    let between = [
        term(
            "between cards".to_owned(),
            work.hops * constants.hop,
            format!("{} × {}", work.hops, milliseconds(constants.hop)),
        ),
        term(
            "waiting for RAM".to_owned(),
            work.synced * constants.sync,
            format!("{} layers × {}", work.synced.round(), milliseconds(constants.sync)),
        ),
    ];
    let disk = work.disk.map(|disk| {
        let formula = format!(
            "{:.2} GB, between {:.2} and {:.2}, / {}",
            disk.bytes() / 1e9,
            disk.least / 1e9,
            disk.most / 1e9,
            disk.bandwidth
        );
        term("weights from disk".to_owned(), disk.bytes() / disk.bandwidth.per_second(), formula)
    });
    devices.chain(between).chain(disk).filter(|term| term.milliseconds > 0.0).collect()
}

fn of_device(device: &DeviceWork, constants: &Constants) -> [Term; 4] {
    let fitted = constants.of(device.family);
    let name = |what: &str| format!("{} {what}", device.id);
    let read = |bytes: f64, share: f64| format!("{:.2} GB / ({share:.2} × {})", bytes / 1e9, device.bandwidth);
    [
        term(name("weights"), device.weights_seconds(constants, None), read(device.weights.bytes, fitted.weights)),
        term(name("cache"), device.cache_seconds(constants), read(device.cache, device.cache_efficiency(constants))),
        term(
            name("layers"),
            device.layers_seconds(constants),
            format!("{} layers × {}", device.layers, milliseconds(fitted.layer)),
        ),
        term(
            name("experts and states"),
            device.busy_seconds(constants),
            format!("{} layers × {}", device.busy, milliseconds(fitted.busy)),
        ),
    ]
}

fn term(name: String, seconds: f64, formula: String) -> Term {
    Term { name, milliseconds: seconds * 1e3, formula }
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3)
}

/// Everything that is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// In the order of [`Family::ALL`].
    pub families: [FamilyConstants; Family::ALL.len()],
    /// Seconds to hand a token from one card to the next.
    pub hop: f64,
    /// Seconds per layer to wait for experts in RAM.
    pub sync: f64,
}

/// What is fitted for one family of devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FamilyConstants {
    /// The share of the stated bandwidth at which weights are read.
    pub weights: f64,
    /// The same for the cache, with flash attention.
    pub cache_flash: f64,
    /// The same without it.
    pub cache_plain: f64,
    /// Seconds per layer besides, for launching its operations.
    pub layer: f64,
    /// Seconds besides for a layer with experts or a recurrent state.
    pub busy: f64,
}

impl Constants {
    /// Those of a family.
    pub const fn of(&self, family: Family) -> &FamilyConstants {
        &self.families[family as usize]
    }
}

/// `weights`, `cache_flash` and `cache_plain` as shares, `layer` and `busy` in microseconds.
const fn row(weights: f64, cache_flash: f64, cache_plain: f64, layer: f64, busy: f64) -> FamilyConstants {
    FamilyConstants { weights, cache_flash, cache_plain, layer: layer * 1e-6, busy: busy * 1e-6 }
}

/// The fitted constants.
#[rustfmt::skip]
pub const FITTED: Constants = Constants {
    families: [
        row(0.61, 0.70, 0.40, 76.3, 40.0), // CUDA, Pascal
        row(0.73, 0.89, 0.35, 69.0, 19.0), // CUDA, Volta and Turing
        row(0.85, 0.89, 0.35, 69.0, 19.0), // CUDA, Ampere
        row(0.54, 0.89, 0.35, 69.0, 19.0), // CUDA, A100 and H100
        row(0.93, 0.89, 0.35, 69.0, 19.0), // CUDA, Ada
        row(0.95, 0.89, 0.35, 69.0, 19.0), // CUDA, Blackwell
        row(0.74, 1.00, 0.35, 139.1, 35.6), // Metal
        row(0.80, 0.72, 0.38, 74.6, 20.1), // Vulkan, AMD
        row(0.95, 0.72, 0.38, 74.6, 20.1), // Vulkan, NVIDIA
        row(0.80, 0.72, 0.38, 74.6, 20.1), // Intel
        row(0.57, 0.85, 0.40, 31.3, 133.1), // ROCm, RDNA
        row(0.75, 0.85, 0.40, 31.3, 133.1), // ROCm, CDNA
        row(0.61, 0.11, 0.51, 275.4, 25.6), // CPU
    ],
    hop: 363.0e-6,
    sync: 407.0e-6,
};

/// Measured over modelled, for a tenth and for nine tenths of the measurements that a fit had not seen.
pub const fn spread(class: Class) -> (f64, f64) {
    match class {
        Class::OneGpu => (0.69, 1.19),
        Class::SeveralGpus => (0.70, 1.12),
        Class::Ram => (0.52, 1.48),
    }
}

named! {
    /// A family of devices with one set of constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
    #[allow(missing_docs, reason = "the names say it")]
    pub enum Family {
        /// Compute capability 6 and below.
        Pascal = "CUDA, Pascal",
        /// Volta and Turing: compute capability 7.
        Turing = "CUDA, Volta and Turing",
        /// Compute capability 8.6 and 8.7.
        Ampere = "CUDA, Ampere",
        /// Cards of data centres with HBM: compute capability 8.0 and 9.0.
        Hopper = "CUDA, A100 and H100",
        /// Compute capability 8.9.
        Ada = "CUDA, Ada",
        /// Compute capability 10 and above.
        Blackwell = "CUDA, Blackwell",
        Metal = "Metal",
        VulkanAmd = "Vulkan, AMD",
        VulkanNvidia = "Vulkan, NVIDIA",
        /// Vulkan and SYCL on Intel's cards.
        Intel = "Intel",
        Rdna = "ROCm, RDNA",
        Cdna = "ROCm, CDNA",
        Cpu = "CPU",
    }
}

impl Family {
    /// The family of `gpu`, which is a card of this preset; none for a backend of which nothing is known.
    fn of(gpu: &Gpu, preset: &Preset) -> Option<Self> {
        Some(match (gpu.backend, preset.backend) {
            (Backend::Cuda, _) => match gpu.compute.or(preset.compute)? {
                (..=6, _) => Self::Pascal,
                (7, _) => Self::Turing,
                (8, 0) | (9, _) => Self::Hopper,
                (8, 9) => Self::Ada,
                (8, _) => Self::Ampere,
                _ => Self::Blackwell,
            },
            (Backend::Metal, _) => Self::Metal,
            (Backend::Vulkan, Backend::Cuda) => Self::VulkanNvidia,
            (Backend::Vulkan, Backend::Rocm) => Self::VulkanAmd,
            (Backend::Vulkan | Backend::Sycl, Backend::Vulkan | Backend::Sycl) => Self::Intel,
            (Backend::Rocm, Backend::Rocm) if preset.name.starts_with("MI") => Self::Cdna,
            (Backend::Rocm, Backend::Rocm) => Self::Rdna,
            _ => return None,
        })
    }
}

/// The family and the memory bandwidth of `gpu`, by its name; none if it is not known, or in another computer.
pub fn known(gpu: &Gpu) -> Option<(Family, Bandwidth)> {
    if gpu.computer.is_some() {
        return None;
    }
    let preset = presets::of_gpu(&gpu.name, gpu.total)?;
    Some((Family::of(gpu, preset)?, Bandwidth::gbps(preset.gbps)))
}

/// The bandwidth of RAM at which devices do `work` at a measured speed.
///
/// Reading RAM is the only part of a token's time that goes with its bandwidth, so two bandwidths tell how large it is.
///
/// # Errors
/// One clause, if no RAM takes part or no plausible bandwidth explains the speed.
pub fn ram_bandwidth(work: &Work, tokens_per_second: f64) -> Result<Bandwidth, String> {
    let ram = work.devices.iter().find(|device| device.family == Family::Cpu);
    let ram = ram.ok_or("nothing of this plan is read from RAM, so the measurement tells nothing of it")?.bandwidth;
    let seconds = |work: &Work| work.seconds(&FITTED, None);
    let once = seconds(work);
    let reading = 2.0 * (once - seconds(&work.clone().with_ram(2.0)));
    let others = once - reading;
    let left = tokens_per_second.recip() - others;
    if left <= 0.0 {
        return Err(format!(
            "{tokens_per_second} tokens per second cannot be: what does not depend on RAM allows {:.0} at most",
            others.recip()
        ));
    }
    Bandwidth::checked((ram.per_second() * reading / left) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_of_the_family_of_their_backend_and_generation() {
        for (name, backend, family) in [
            ("RTX 4090", Backend::Cuda, Some(Family::Ada)),
            ("RTX 4090", Backend::Vulkan, Some(Family::VulkanNvidia)),
            ("RTX 3090", Backend::Cuda, Some(Family::Ampere)),
            ("GTX 1070", Backend::Cuda, Some(Family::Pascal)),
            ("A100 80GB", Backend::Cuda, Some(Family::Hopper)),
            ("DGX Spark", Backend::Cuda, Some(Family::Blackwell)),
            ("RX 7900 XTX", Backend::Rocm, Some(Family::Rdna)),
            ("RX 7900 XTX", Backend::Vulkan, Some(Family::VulkanAmd)),
            ("RX 7900 XTX", Backend::Cuda, None),
            ("MI210", Backend::Rocm, Some(Family::Cdna)),
            ("M4 Max 64GB", Backend::Metal, Some(Family::Metal)),
            ("Arc B580", Backend::Sycl, Some(Family::Intel)),
            ("RTX 4090", Backend::Plain, None),
        ] {
            let preset = presets::find(name).unwrap();
            let gpu = Gpu { backend, ..preset.gpu() };
            assert_eq!(known(&gpu).map(|(family, _)| family), family, "{name} {}", backend.name());
        }
        let card = presets::find("RTX 4090").unwrap().gpu();
        assert_eq!(known(&card), Some((Family::Ada, Bandwidth::gbps(1008))));
        assert_eq!(known(&Gpu { name: "a card".to_owned(), ..card.clone() }), None);
        assert_eq!(known(&Gpu { computer: Some("garage".into()), ..card }), None);
    }
}
