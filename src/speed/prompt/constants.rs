//! The constants in the time of a prompt, fitted on measurements by `tests/speeds/prompts.rs`, and the widths of its
//! ranges.

use crate::named::named;
use crate::speed::family::Family;

/// The share of the stated bandwidth at which an ubatch reads weights, where arithmetic does not take longer.
pub const READ: f64 = 0.75;

/// Everything that is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PromptConstants {
    /// In the order of [`Family::ALL`].
    pub families: [FamilyPrompts; Family::ALL.len()],
    /// The share of its link that copies by Vulkan reach; others reach all of what [`crate::machine::Link`] says.
    pub vulkan_copies: f64,
}

/// What is fitted for one family of devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FamilyPrompts {
    /// The share of the throughput at which dense weights are multiplied.
    pub dense: f64,
    /// The same for experts that have many tokens each.
    pub experts: f64,
    /// Tokens per expert with which half of that is reached.
    pub half: f64,
    /// The share of the throughput that attention reaches.
    pub attention: f64,
    /// Seconds per layer and ubatch besides.
    pub layer: f64,
}

impl PromptConstants {
    /// Those of a family.
    pub const fn of(&self, family: Family) -> &FamilyPrompts {
        &self.families[family as usize]
    }

    /// The share of a link that copies reach.
    pub const fn copies(&self, family: Family) -> f64 {
        if family.is_vulkan() { self.vulkan_copies } else { 1.0 }
    }
}

/// `dense`, `experts` and `attention` as shares, `half` in tokens, `layer` in microseconds.
const fn row(dense: f64, experts: f64, half: f64, attention: f64, layer: f64) -> FamilyPrompts {
    FamilyPrompts { dense, experts, half, attention, layer: layer * 1e-6 }
}

/// The fitted constants.
#[rustfmt::skip]
pub const FITTED: PromptConstants = PromptConstants {
    families: [
        row(0.44, 0.32, 77.0, 0.27, 59.0); Family::ALL.len()
    ],
    vulkan_copies: 0.45,
};

named! {
    /// Plans whose errors are alike.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[allow(missing_docs, reason = "the names say it")]
    pub enum PromptClass {
        Cuda = "CUDA, one GPU",
        Metal = "Metal",
        Vulkan = "Vulkan, one GPU",
        Rocm = "ROCm and SYCL, one GPU",
        SeveralGpus = "several GPUs",
        Ram = "experts or layers in RAM",
    }
}

/// Measured over modelled, for a tenth and for nine tenths of the measurements that a fit had not seen.
pub const fn spread(class: PromptClass) -> (f64, f64) {
    match class {
        PromptClass::Cuda | PromptClass::Metal => (0.625, 1.6),
        PromptClass::Vulkan | PromptClass::Rocm | PromptClass::SeveralGpus | PromptClass::Ram => (0.4, 2.5),
    }
}
