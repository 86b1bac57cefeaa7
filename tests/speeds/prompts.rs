//! Fits the constants of the model of prompts, and judges it: as `fit.rs` and `folds.rs` do for generation.
//!
//! Coordinate descent on the logarithms of the constants: the sum of |log(modelled / measured)|, in which a thread of n
//! measurements counts as √n, and a pull to what is expected. Held-out errors are of fits that know nothing else: a
//! family is pulled to its backend. The constants of the program expect what a wider collection gave (705 measurements of 58 threads, of which
//! those in the file are a part): that decides where a family is in few lines here.

use std::collections::BTreeMap;

use plimsoll::speed::family::Family;
use plimsoll::speed::prompt::constants::{FamilyPrompts, PromptConstants};
use plimsoll::speed::prompt::link_bandwidth;
use plimsoll::speed::prompt::work::{Parts, PromptWork};
use plimsoll::speed::range::Class;

use super::cases::Prompt;
use super::folds::{FOLDS, of_threads, quantiles};

/// A group of families with one row of constants.
struct Row {
    families: &'static [Family],
    /// Its kernels are those of its backend.
    backend: PromptBackend,
    /// What the wider collection gave: `dense`, `experts`, `half`, `attention`, and microseconds per layer.
    collected: [f64; 5],
}

#[derive(Clone, Copy, PartialEq)]
enum PromptBackend {
    Cuda,
    Metal,
    Vulkan,
    Rocm,
    Sycl,
}

const fn row(families: &'static [Family], backend: PromptBackend, collected: [f64; 5]) -> Row {
    Row { families, backend, collected }
}

const ROWS: [Row; 16] = [
    row(&[Family::Ampere, Family::Ada, Family::Blackwell], PromptBackend::Cuda, [0.44, 0.32, 77.0, 0.27, 59.0]),
    row(&[Family::Gb10], PromptBackend::Cuda, [0.29, 0.25, 76.0, 0.25, 1960.0]),
    row(&[Family::Turing, Family::Volta], PromptBackend::Cuda, [0.30, 0.21, 112.0, 0.25, 520.0]),
    row(&[Family::Hopper], PromptBackend::Cuda, [0.40, 0.16, 70.0, 0.27, 145.0]),
    row(&[Family::Pascal], PromptBackend::Cuda, NEUTRAL),
    row(&[Family::Metal], PromptBackend::Metal, [0.70, 0.33, 1.0, 0.25, 890.0]),
    row(&[Family::MetalMatrix], PromptBackend::Metal, [0.41, 0.21, 1.0, 0.16, 1040.0]),
    row(&[Family::VulkanNvidia], PromptBackend::Vulkan, [0.46, 0.31, 69.0, 0.41, 197.0]),
    row(
        &[Family::VulkanRdna3, Family::VulkanRdna2, Family::VulkanGcn],
        PromptBackend::Vulkan,
        [0.23, 0.29, 36.0, 0.095, 250.0],
    ),
    row(&[Family::VulkanRdna35], PromptBackend::Vulkan, [0.24, 0.25, 79.0, 0.13, 620.0]),
    row(&[Family::VulkanRdna4], PromptBackend::Vulkan, [0.33, 0.25, 61.0, 0.046, 1940.0]),
    row(&[Family::Rdna3, Family::Rdna2], PromptBackend::Rocm, [0.39, 0.12, 2.0, 0.25, 1.0]),
    row(&[Family::Rdna35], PromptBackend::Rocm, [0.35, 0.20, 33.0, 0.12, 1990.0]),
    row(&[Family::Rdna4], PromptBackend::Rocm, [0.39, 0.075, 31.0, 0.064, 970.0]),
    row(&[Family::Gcn], PromptBackend::Rocm, NEUTRAL),
    row(&[Family::Sycl, Family::VulkanIntel], PromptBackend::Sycl, [0.23, 0.14, 198.0, 0.018, 875.0]),
];

/// What is expected of a family of which nothing is known.
const NEUTRAL: [f64; 5] = [0.38, 0.22, 50.0, 0.15, 400.0];

/// The pull of each constant to what is expected of it: the cost of being off by a factor of e.
const PULLS: [f64; 5] = [0.3, 0.3, 0.1, 0.2, 0.05];

type Field = fn(&mut FamilyPrompts) -> &mut f64;
const FIELDS: [Field; 5] =
    [|one| &mut one.dense, |one| &mut one.experts, |one| &mut one.half, |one| &mut one.attention, |one| &mut one.layer];

/// What is expected of every row.
type Expected = [[f64; 5]; ROWS.len()];

fn collected() -> Expected {
    std::array::from_fn(|row| ROWS[row].collected)
}

/// The weight of each measurement: a thread of n counts as √n.
fn weights(prompts: &[&Prompt]) -> Vec<f64> {
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    for prompt in prompts {
        *sizes.entry(&prompt.thread).or_default() += 1.0;
    }
    prompts.iter().map(|prompt| sizes[prompt.thread.as_str()].sqrt().recip()).collect()
}

/// log(measured / modelled)
pub fn error(prompt: &Prompt, constants: &PromptConstants) -> f64 {
    (prompt.measured * prompt.work.seconds(constants, prompt.depth, prompt.tokens) / prompt.tokens as f64).ln()
}

fn pull(constants: &PromptConstants, row: usize, expected: &Expected) -> f64 {
    let mut one = *constants.of(ROWS[row].families[0]);
    one.layer *= 1e6;
    let pulls = FIELDS.iter().zip(expected[row]).zip(PULLS);
    pulls.map(|((field, expected), pull)| pull * (*field(&mut one) / expected).ln().powi(2)).sum()
}

/// What the fit makes small.
pub fn cost(prompts: &[&Prompt], constants: &PromptConstants) -> f64 {
    let data = prompts.iter().zip(weights(prompts)).map(|(prompt, weight)| weight * error(prompt, constants).abs());
    data.sum::<f64>() + (0..ROWS.len()).map(|row| pull(constants, row, &collected())).sum::<f64>()
}

/// The constants fitted on `prompts`, as the program has them.
pub fn fit(prompts: &[&Prompt]) -> PromptConstants {
    fit_with(prompts, &collected())
}

/// The constants fitted on `prompts` by one who knows no others: a backend as a whole, then its families.
fn fit_unaware(prompts: &[&Prompt]) -> PromptConstants {
    let mut expected: Expected = [NEUTRAL; ROWS.len()];
    let mut constants = start(&expected);
    let weights = weights(prompts);
    for (first, of_first) in ROWS.iter().enumerate() {
        let of_backend: Vec<usize> = (0..ROWS.len()).filter(|row| ROWS[*row].backend == of_first.backend).collect();
        if of_backend[0] == first {
            descend(prompts, &weights, &mut constants, &of_backend, &expected);
            let one = constants.of(of_first.families[0]);
            // how many tokens fill a kernel, and attention, are the backend's own; how much of the throughput is reached is not
            for row in of_backend {
                (expected[row][2], expected[row][3]) = (one.half, one.attention);
            }
        }
    }
    fit_with(prompts, &expected)
}

fn fit_with(prompts: &[&Prompt], expected: &Expected) -> PromptConstants {
    let mut constants = start(expected);
    let weights = weights(prompts);
    for row in 0..ROWS.len() {
        descend(prompts, &weights, &mut constants, &[row], expected);
    }
    constants
}

fn start(expected: &Expected) -> PromptConstants {
    let mut constants = plimsoll::speed::prompt::constants::FITTED;
    for (row, expected) in ROWS.iter().zip(expected) {
        for family in row.families {
            let one = &mut constants.families[*family as usize];
            FIELDS.iter().zip(expected).for_each(|(field, value)| *field(one) = *value);
            one.layer *= 1e-6;
        }
    }
    constants
}

/// Moves the constants of `rows` together. They move only the measurements of their families.
fn descend(prompts: &[&Prompt], weights: &[f64], constants: &mut PromptConstants, rows: &[usize], expected: &Expected) {
    let families: Vec<Family> = rows.iter().flat_map(|row| ROWS[*row].families).copied().collect();
    let uses = |prompt: &Prompt| prompt.work.devices.iter().any(|device| families.contains(&device.known.family));
    let theirs: Vec<(&Prompt, f64)> = prompts.iter().copied().zip(weights.iter().copied()).collect();
    let theirs: Vec<_> = theirs.into_iter().filter(|(prompt, _)| uses(prompt)).collect();
    let cost = |constants: &PromptConstants| {
        let data = theirs.iter().map(|(prompt, weight)| weight * error(prompt, constants).abs());
        data.sum::<f64>() + pull(constants, rows[0], expected)
    };
    let mut best = cost(constants);
    for step in [0.5_f64, 0.2, 0.05, 0.015, 0.2, 0.05, 0.015] {
        for _ in 0..40 {
            let before = best;
            for field in FIELDS {
                for factor in [step.exp(), (-step).exp()] {
                    let mut tried = *constants;
                    for family in &families {
                        *field(&mut tried.families[*family as usize]) *= factor;
                    }
                    let tried_cost = cost(&tried);
                    if tried_cost < best {
                        (best, *constants) = (tried_cost, tried);
                    }
                }
            }
            if before - best < 1e-5 * best {
                break;
            }
        }
    }
}

/// The log errors of `prompts`, each by constants fitted on the other folds: whole threads, from the largest to the
/// smallest, each into the smallest fold.
pub fn held_out(prompts: &[&Prompt]) -> Vec<f64> {
    let folds = of_threads(&prompts.iter().map(|prompt| prompt.thread.as_str()).collect::<Vec<_>>());
    let mut errors = vec![0.0; prompts.len()];
    for held in 0..FOLDS {
        let outside = prompts.iter().zip(&folds).filter(|(_, fold)| **fold != held);
        let seen: Vec<&Prompt> = outside.map(|(prompt, _)| *prompt).collect();
        let constants = fit_unaware(&seen);
        for (error_of, prompt) in
            errors.iter_mut().zip(prompts).zip(&folds).filter_map(|(one, fold)| (*fold == held).then_some(one))
        {
            *error_of = error(prompt, &constants);
        }
    }
    errors
}

/// A prompt for which weights are copied, beside what constants make of it.
#[derive(Clone)]
pub struct CopiedPrompt<'a> {
    pub prompt: &'a Prompt,
    /// With the link that is judged.
    pub work: PromptWork,
    /// log(measured / modelled)
    pub error: f64,
}

impl<'a> CopiedPrompt<'a> {
    fn by(prompt: &'a Prompt, work: PromptWork, constants: &PromptConstants) -> Self {
        let seconds = work.seconds(constants, prompt.depth, prompt.tokens);
        Self { prompt, work, error: (prompt.measured * seconds / prompt.tokens as f64).ln() }
    }

    /// Whether the range that is shown holds what was measured.
    pub fn is_covered(&self, constants: &PromptConstants) -> bool {
        let Prompt { depth, tokens, measured, .. } = *self.prompt;
        let (fast, slow) = self.work.extremes(constants, depth, tokens);
        (fast..=slow).contains(&(tokens as f64 / measured))
    }

    /// Measured over modelled of what is copied, where cards are at their slowest and at their fastest.
    fn ratios(&self, constants: &PromptConstants) -> (f64, f64) {
        let Prompt { depth, tokens, measured, .. } = *self.prompt;
        let parts = self.work.parts(constants, depth, tokens);
        let copies: f64 = parts.iter().map(|parts| parts.copies).sum();
        let others = parts.iter().map(Parts::sum).sum::<f64>() - copies;
        let (low, high) = plimsoll::speed::prompt::constants::spread(self.work.class_of_cards());
        let ratio = |others: f64| {
            let left = tokens as f64 / measured - others;
            if left > 0.0 { copies / left } else { f64::INFINITY }
        };
        (ratio(others / low), ratio(others / high))
    }
}

/// Measured over modelled of what is copied, so that between the two are those that ranges are made to hold: as
/// [`spread`] of the whole.
pub fn spread_of_copies(of: &[CopiedPrompt<'_>], constants: &PromptConstants) -> (f64, f64) {
    let prompts: Vec<&Prompt> = of.iter().map(|one| one.prompt).collect();
    let (lower, upper): (Vec<f64>, Vec<f64>) =
        of.iter().map(|one| one.ratios(constants)).map(|(low, high)| (low.ln(), high.ln())).unzip();
    let ends = |weights: &[f64]| (quantiles(&lower, weights).0.min(1.0), quantiles(&upper, weights).1.max(1.0));
    let (by_line, by_thread) = (ends(&vec![1.0; lower.len()]), ends(&weights(&prompts)));
    (by_line.0.min(by_thread.0), by_line.1.max(by_thread.1))
}

/// Prompts for which weights are copied, by `constants`: with the link assumed, and with the link that one measurement of
/// the same machine tells, that in which copies take the largest share; none for that one. A machine is told by `machine`,
/// with the model or without.
pub fn copied<'a>(
    prompts: &[&'a Prompt],
    constants: &PromptConstants,
    machine: fn(&Prompt) -> String,
) -> Vec<(CopiedPrompt<'a>, Option<CopiedPrompt<'a>>)> {
    let mut copied: Vec<(&Prompt, f64)> = prompts
        .iter()
        .filter(|prompt| prompt.work.copies())
        .map(|prompt| {
            let parts = prompt.work.parts(constants, prompt.depth, prompt.tokens);
            let all: f64 = parts.iter().map(Parts::sum).sum();
            (*prompt, parts.iter().map(|parts| parts.copies).sum::<f64>() / all)
        })
        .collect();
    copied.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let mut links: BTreeMap<String, f64> = BTreeMap::new();
    let errors = copied.into_iter().map(|(prompt, _)| {
        let told = links.get(&machine(prompt)).map(|factor| {
            let mut work = prompt.work.clone().with_link(*factor);
            work.link_assumed = false;
            CopiedPrompt::by(prompt, work, constants)
        });
        if told.is_none()
            && let Ok(link) = link_bandwidth(&prompt.work, prompt.depth, prompt.tokens, prompt.measured)
        {
            let device = prompt.work.devices.iter().find(|device| device.copies()).unwrap();
            links.insert(machine(prompt), link.per_second() / device.link().per_second());
        }
        (CopiedPrompt::by(prompt, prompt.work.clone(), constants), told)
    });
    errors.collect()
}

/// Measured over modelled, so that between the two are those that ranges are made to hold. Few threads have most of the lines, so this is
/// the wider of two counts: each line as one, and a thread of n lines as √n.
pub fn spread(of: &[(&Prompt, f64)]) -> (f64, f64) {
    let (prompts, errors): (Vec<&Prompt>, Vec<f64>) = of.iter().copied().unzip();
    let by_line = quantiles(&errors, &vec![1.0; errors.len()]);
    let by_thread = quantiles(&errors, &weights(&prompts));
    (by_line.0.min(by_thread.0), by_line.1.max(by_thread.1))
}

/// Groups of measurements in the table of errors.
pub type Group = fn(&Prompt) -> bool;
pub const GROUPS: [(&str, Group); 9] = [
    ("CUDA and Metal, one GPU", |prompt| matches!(prompt.work.class(), Class::Cuda | Class::Metal)),
    ("CUDA, one GPU", |prompt| prompt.work.class() == Class::Cuda),
    ("Metal", |prompt| prompt.work.class() == Class::Metal),
    ("Vulkan, one GPU", |prompt| prompt.work.class() == Class::Vulkan),
    ("ROCm and SYCL, one GPU", |prompt| prompt.work.class() == Class::Rocm),
    ("one GPU, dense, under 8192 tokens", |prompt| is_one(prompt) && !prompt.has_experts && end(prompt) < 8192),
    ("one GPU, experts, under 8192 tokens", |prompt| is_one(prompt) && prompt.has_experts && end(prompt) < 8192),
    ("one GPU, 8192 tokens and more", |prompt| is_one(prompt) && end(prompt) >= 8192),
    ("several GPUs", |prompt| prompt.work.class() == Class::SeveralGpus),
];

fn is_one(prompt: &Prompt) -> bool {
    prompt.work.devices.len() == 1
}

fn end(prompt: &Prompt) -> u64 {
    prompt.depth + prompt.tokens
}
