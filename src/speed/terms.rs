//! The parts of a token's time with their formulas, and the constants in them.

use super::Term;
use super::family::Family;
use super::range::Class;
use super::work::{DeviceWork, Work};
use crate::units::Bandwidth;

/// The terms of `work` that take time.
pub(super) fn of(work: &Work, constants: &Constants) -> Vec<Term> {
    let devices = work.devices.iter().flat_map(|device| of_device(device, constants));
    let between = [
        term(
            "between cards".to_owned(),
            work.hops * work.hop(constants),
            format!("{} × {}", work.hops, milliseconds(work.hop(constants))),
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
    let name = |what: &str| format!("{} {what}", device.id);
    let read =
        |bytes: f64, share: f64, at: &DeviceWork| format!("{:.2} GB / ({share:.2} × {})", bytes / 1e9, at.bandwidth);
    let layers = |count: f64, each: f64| format!("{count} layers × {}", milliseconds(each));
    // RAM that is not stated is taken to be no faster than a card: the formula is that of the slower one
    let weights = device.slowest(|one| one.weights_seconds(constants, None));
    let cache = device.slowest(|one| one.cache_seconds(constants));
    let launches = device.slowest(|one| one.layers_seconds(constants));
    let busy = device.slowest(|one| one.busy_seconds(constants));
    [
        term(
            name("weights"),
            weights.weights_seconds(constants, None),
            read(weights.weights.bytes, constants.of(weights.family).weights, &weights),
        ),
        term(
            name("cache"),
            cache.cache_seconds(constants),
            read(cache.cache, cache.cache_efficiency(constants), &cache),
        ),
        term(
            name("layers"),
            launches.layers_seconds(constants),
            layers(launches.layers, constants.of(launches.family).layer),
        ),
        term(
            name("experts and states"),
            busy.busy_seconds(constants),
            layers(busy.busy, constants.of(busy.family).busy),
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
    /// Seconds to hand a token to the next card.
    pub hop: f64,
}

impl Constants {
    /// Those of a family.
    pub const fn of(&self, family: Family) -> &FamilyConstants {
        &self.families[family as usize]
    }
}

/// `weights`, `cache_flash` and `cache_plain` as shares, `layer`, `busy` and `hop` in microseconds.
const fn row(weights: f64, cache_flash: f64, cache_plain: f64, layer: f64, busy: f64, hop: f64) -> FamilyConstants {
    FamilyConstants { weights, cache_flash, cache_plain, layer: layer * 1e-6, busy: busy * 1e-6, hop: hop * 1e-6 }
}

/// The fitted constants.
#[rustfmt::skip]
pub const FITTED: Constants = Constants {
    families: [
        row(0.63, 0.70, 0.40, 101.0, 40.0, 300.0), // CUDA, Pascal
        row(0.72, 0.90, 0.31, 61.2, 25.9, 345.0), // CUDA, Volta
        row(0.81, 0.90, 0.31, 61.2, 25.9, 345.0), // CUDA, Turing
        row(0.88, 0.90, 0.31, 61.2, 25.9, 345.0), // CUDA, Ampere
        row(0.52, 0.90, 0.31, 61.2, 25.9, 345.0), // CUDA, A100 and H100
        row(0.91, 0.90, 0.31, 61.2, 25.9, 345.0), // CUDA, Ada
        row(0.94, 0.90, 0.31, 61.2, 25.9, 345.0), // CUDA, Blackwell
        row(0.80, 0.90, 0.31, 61.2, 25.9, 345.0), // CUDA, GB10
        row(0.77, 0.95, 0.35, 153.7, 56.3, 300.0), // Metal, M1 to M4
        row(0.92, 0.95, 0.35, 153.7, 56.3, 300.0), // Metal, M5
        row(0.88, 0.67, 0.67, 71.8, 98.6, 300.0), // MLX: by tests/speeds/mlx.rs
        row(0.75, 0.41, 0.38, 73.1, 19.9, 490.0), // Vulkan, GCN and CDNA
        row(0.62, 0.41, 0.38, 73.1, 19.9, 490.0), // Vulkan, RDNA2
        row(0.62, 0.41, 0.38, 73.1, 19.9, 490.0), // Vulkan, RDNA3
        row(0.88, 0.41, 0.38, 73.1, 19.9, 490.0), // Vulkan, RDNA3.5
        row(0.84, 0.41, 0.38, 73.1, 19.9, 490.0), // Vulkan, RDNA4
        row(0.94, 0.41, 0.38, 73.1, 19.9, 490.0), // Vulkan, NVIDIA
        row(0.81, 0.41, 0.38, 73.1, 19.9, 490.0), // Vulkan, Intel
        row(0.81, 0.41, 0.38, 73.1, 19.9, 490.0), // SYCL
        row(0.57, 0.78, 0.40, 90.2, 27.1, 359.0), // ROCm, GCN and CDNA
        row(0.78, 0.78, 0.40, 90.2, 27.1, 359.0), // ROCm, RDNA2
        row(0.78, 0.78, 0.40, 90.2, 27.1, 359.0), // ROCm, RDNA3
        row(0.83, 0.78, 0.40, 90.2, 27.1, 359.0), // ROCm, RDNA3.5
        row(0.91, 0.78, 0.40, 90.2, 27.1, 359.0), // ROCm, RDNA4
        row(0.61, 0.11, 0.53, 292.5, 24.8, 300.0), // CPU
    ],
    sync: 423.0e-6,
};

/// Measured over modelled, of a part of a token's time: between these are [`super::range::SHOWN`] of the measurements that
/// a fit had not seen. What is assumed of RAM may be as much slower as what is stated, and a server has more channels.
pub const fn spread(class: Class) -> (f64, f64) {
    match class {
        Class::Cuda => (0.65, 1.25),
        Class::Metal => (0.61, 1.47),
        Class::Mlx => (0.74, 1.36),
        Class::Vulkan => (0.70, 1.39),
        Class::Rocm => (0.81, 1.26),
        Class::SeveralGpus => (0.38, 1.32),
        Class::RamAssumed => (0.46, 2.20),
        Class::Ram | Class::Cpu => (0.46, 1.79),
    }
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
    let seconds = |factor: f64| work.clone().with_ram(factor).seconds(&FITTED, None);
    let once = seconds(1.0);
    let reading = 2.0 * (once - seconds(2.0));
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
