//! Fits the constants of the model of speed on measurements.
//!
//! Coordinate descent on the logarithms of the constants: the sum of |log(modelled / measured)|, in which a thread of n
//! measurements counts as √n, and a weak pull to a prior that decides where there are no measurements. Families that
//! share a backend share the overheads of a layer.

use std::collections::BTreeMap;

use plimsoll::speed::family::Family;
use plimsoll::speed::terms::{Constants, FamilyConstants};

use super::cases::Case;

/// A constant to fit.
pub struct Parameter {
    pub place: Place,
    pub prior: f64,
    /// The pull to the prior: the cost of being off by a factor of e.
    pub pull: f64,
    /// Shares of a bandwidth are at most 1.
    pub most: f64,
}

/// Where a constant stands.
pub enum Place {
    /// One for all of these families.
    Of(&'static [Family], Field),
    Sync,
}

pub type Field = fn(&mut FamilyConstants) -> &mut f64;

impl Place {
    fn get(&self, constants: &Constants) -> f64 {
        match self {
            Self::Of(families, field) => *field(&mut constants.of(families[0]).clone()),
            Self::Sync => constants.sync,
        }
    }

    fn set(&self, constants: &mut Constants, value: f64) {
        match self {
            Self::Of(families, field) => {
                for family in *families {
                    *field(&mut constants.families[*family as usize]) = value;
                }
            }
            Self::Sync => constants.sync = value,
        }
    }
}

const CUDA: &[Family] =
    &[Family::Ada, Family::Blackwell, Family::Gb10, Family::Volta, Family::Turing, Family::Ampere, Family::Hopper];
const METAL: &[Family] = &[Family::Metal, Family::MetalMatrix];
const VULKAN: &[Family] = &[
    Family::VulkanGcn,
    Family::VulkanRdna2,
    Family::VulkanRdna3,
    Family::VulkanRdna35,
    Family::VulkanRdna4,
    Family::VulkanNvidia,
    Family::VulkanIntel,
    Family::Sycl,
];
const RADEON: &[Family] = &[Family::Gcn, Family::Rdna2, Family::Rdna3, Family::Rdna35, Family::Rdna4];
/// Families that share their share of the bandwidth: one each, but for those that are in no measurement.
const EACH: &[&[Family]] = &[
    &[Family::Pascal],
    &[Family::Volta],
    &[Family::Turing],
    &[Family::Ampere],
    &[Family::Hopper],
    &[Family::Ada],
    &[Family::Blackwell],
    &[Family::Gb10],
    &[Family::Metal],
    &[Family::MetalMatrix],
    &[Family::VulkanGcn],
    &[Family::VulkanRdna2, Family::VulkanRdna3],
    &[Family::VulkanRdna35],
    &[Family::VulkanRdna4],
    &[Family::VulkanNvidia],
    &[Family::VulkanIntel, Family::Sycl],
    &[Family::Gcn],
    &[Family::Rdna2, Family::Rdna3],
    &[Family::Rdna35],
    &[Family::Rdna4],
    &[Family::Cpu],
];
/// Families with the same overheads, and what to expect of them in microseconds.
const BACKENDS: [(&[Family], f64, f64); 6] = [
    (CUDA, 60.0, 20.0),
    (&[Family::Pascal], 100.0, 40.0),
    (METAL, 100.0, 30.0),
    (VULKAN, 50.0, 30.0),
    (RADEON, 50.0, 30.0),
    (&[Family::Cpu], 200.0, 30.0),
];

fn parameters() -> Vec<Parameter> {
    let mut parameters = Vec::new();
    let mut add = |place, prior, pull, most| parameters.push(Parameter { place, prior, pull, most });
    for &families in EACH {
        let prior = if families[0] == Family::Hopper { 0.6 } else { 0.75 };
        let pull = if is_alike(families[0]) { 0.05 } else { 1.5 };
        add(Place::Of(families, |one| &mut one.weights), prior, pull, 0.95);
    }
    for (families, layer, busy) in BACKENDS {
        add(Place::Of(families, |one| &mut one.layer), layer * 1e-6, 0.1, 1.0);
        add(Place::Of(families, |one| &mut one.busy), busy * 1e-6, 0.1, 1.0);
        add(Place::Of(families, |one| &mut one.cache_flash), 0.7, 0.1, 1.0);
        add(Place::Of(families, |one| &mut one.cache_plain), 0.4, 0.1, 1.0);
        add(Place::Of(families, |one| &mut one.hop), 0.3e-3, 0.1, 1.0);
    }
    add(Place::Sync, 0.2e-3, 0.1, 1.0);
    parameters
}

/// The weight of each measurement: a thread of n counts as √n.
pub fn weights(cases: &[&Case]) -> Vec<f64> {
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    for case in cases {
        *sizes.entry(&case.thread).or_default() += 1.0;
    }
    cases.iter().map(|case| sizes[case.thread.as_str()].sqrt().recip()).collect()
}

/// What the fit makes small.
pub fn cost(cases: &[&Case], constants: &Constants) -> f64 {
    let data: f64 = cases.iter().zip(weights(cases)).map(|(case, weight)| weight * error(case, constants).abs()).sum();
    data + pulls(&parameters(), constants)
}

fn pulls(parameters: &[Parameter], constants: &Constants) -> f64 {
    let own = pulls_to_priors(parameters, constants);
    let shares: Vec<f64> =
        EACH.iter().filter(|one| is_alike(one[0])).map(|one| constants.of(one[0]).weights.ln()).collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    own + shares.iter().map(|share| PULL_TOGETHER * (share - mean).powi(2)).sum::<f64>()
}

/// What it costs to be off the priors.
pub fn pulls_to_priors(parameters: &[Parameter], constants: &Constants) -> f64 {
    parameters.iter().map(|one| one.pull * (one.place.get(constants) / one.prior).ln().powi(2)).sum()
}

/// GPUs without HBM reach like shares of their bandwidth, so a family of few measurements is pulled to the others.
fn is_alike(family: Family) -> bool {
    !matches!(family, Family::Hopper | Family::Gcn | Family::VulkanGcn | Family::Cpu)
}
const PULL_TOGETHER: f64 = 0.5;

/// log(measured / modelled)
pub fn error(case: &Case, constants: &Constants) -> f64 {
    (case.measured * case.work.seconds(constants, case.threads)).ln()
}

/// The constants fitted on `cases`.
pub fn fit(cases: &[&Case]) -> Constants {
    let parameters = parameters();
    let weights = weights(cases);
    let nothing = FamilyConstants { weights: 1.0, cache_flash: 1.0, cache_plain: 1.0, layer: 1.0, busy: 1.0, hop: 1.0 };
    let constants = Constants { families: [nothing; Family::ALL.len()], sync: 1.0 };
    let cost = |constants: &Constants| {
        let data: f64 = cases.iter().zip(&weights).map(|(case, weight)| weight * error(case, constants).abs()).sum();
        data + pulls(&parameters, constants)
    };
    descend(constants, &parameters, cost)
}

/// The constants with these, which begin at their priors, where `cost` is least.
pub fn descend(mut constants: Constants, parameters: &[Parameter], cost: impl Fn(&Constants) -> f64) -> Constants {
    for parameter in parameters {
        parameter.place.set(&mut constants, parameter.prior);
    }
    let mut best = cost(&constants);
    for step in [0.3_f64, 0.1, 0.03, 0.01, 0.1, 0.03, 0.01] {
        for _ in 0..60 {
            let before = best;
            for parameter in parameters {
                for factor in [step.exp(), (-step).exp()] {
                    let mut tried = constants;
                    let value = (parameter.place.get(&constants) * factor).min(parameter.most);
                    parameter.place.set(&mut tried, value);
                    let tried_cost = cost(&tried);
                    if tried_cost < best {
                        (best, constants) = (tried_cost, tried);
                    }
                }
            }
            if before - best < 1e-6 * best {
                break;
            }
        }
    }
    constants
}
