//! The constants of the model of speed, and how they were found.
//!
//! Source: 368 speeds from public threads, in `tests/speeds`; `cargo bench --bench speeds` fits the constants on them
//! and prints these tables, and a test recomputes the errors that `tests/README.md` shows.

use super::family::Family;
use super::range::Class;

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
