//! Fits the constants of the model of prompts, and judges it: as `fit.rs` and `folds.rs` do for generation.
//!
//! Coordinate descent on the logarithms of the constants: the sum of |log(modelled / measured)|, in which a thread of n
//! measurements counts as √n, and a pull to what is expected. Held-out errors are of fits that expect the same of every
//! family. The constants of the program expect what a wider collection gave (705 measurements of 58 threads, of which
//! those in the file are a part): that decides where a family is in few lines here.

use std::collections::BTreeMap;

use plimsoll::speed::family::Family;
use plimsoll::speed::prompt::constants::{FamilyPrompts, PromptClass, PromptConstants};

use super::cases::Prompt;

const FOLDS: usize = 5;

/// A group of families with one row of constants, and what the wider collection gave: `dense`, `experts`, `half`,
/// `attention`, and microseconds per layer.
pub type Row = (&'static [Family], [f64; 5]);

pub const ROWS: [Row; 16] = [
    (&[Family::Ampere, Family::Ada, Family::Blackwell], [0.44, 0.32, 77.0, 0.27, 59.0]),
    (&[Family::Gb10], [0.29, 0.25, 76.0, 0.25, 1960.0]),
    (&[Family::Turing, Family::Volta], [0.30, 0.21, 112.0, 0.25, 520.0]),
    (&[Family::Hopper], [0.40, 0.16, 70.0, 0.27, 145.0]),
    (&[Family::Pascal], NEUTRAL),
    (&[Family::Metal], [0.70, 0.33, 1.0, 0.25, 890.0]),
    (&[Family::MetalMatrix], [0.41, 0.21, 1.0, 0.16, 1040.0]),
    (&[Family::VulkanNvidia], [0.46, 0.31, 69.0, 0.41, 197.0]),
    (&[Family::VulkanRdna3, Family::VulkanRdna2, Family::VulkanGcn], [0.23, 0.29, 36.0, 0.095, 250.0]),
    (&[Family::VulkanRdna35], [0.24, 0.25, 79.0, 0.13, 620.0]),
    (&[Family::VulkanRdna4], [0.33, 0.25, 61.0, 0.046, 1940.0]),
    (&[Family::Rdna3, Family::Rdna2], [0.39, 0.12, 2.0, 0.25, 1.0]),
    (&[Family::Rdna35], [0.35, 0.20, 33.0, 0.12, 1990.0]),
    (&[Family::Rdna4], [0.39, 0.075, 31.0, 0.064, 970.0]),
    (&[Family::Sycl, Family::VulkanIntel], [0.23, 0.14, 198.0, 0.018, 875.0]),
    (&[Family::Gcn], NEUTRAL),
];

/// What is expected of a family of which nothing is known.
pub const NEUTRAL: [f64; 5] = [0.38, 0.22, 50.0, 0.15, 400.0];

/// The pull of each constant to what is expected of it: the cost of being off by a factor of e.
const PULLS: [f64; 5] = [0.3, 0.3, 0.1, 0.2, 0.05];

type Field = fn(&mut FamilyPrompts) -> &mut f64;
const FIELDS: [Field; 5] =
    [|one| &mut one.dense, |one| &mut one.experts, |one| &mut one.half, |one| &mut one.attention, |one| &mut one.layer];

fn expected(row: &Row, neutral: bool) -> [f64; 5] {
    let [dense, experts, half, attention, layer] = if neutral { NEUTRAL } else { row.1 };
    [dense, experts, half, attention, layer * 1e-6]
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

fn pull(constants: &PromptConstants, neutral: bool) -> f64 {
    let of_row = |row: &Row| {
        let expected = expected(row, neutral);
        let mut one = *constants.of(row.0[0]);
        let pulls = FIELDS.iter().zip(expected).zip(PULLS);
        pulls.map(|((field, expected), pull)| pull * (*field(&mut one) / expected).ln().powi(2)).sum::<f64>()
    };
    ROWS.iter().map(of_row).sum()
}

/// What the fit makes small.
pub fn cost(prompts: &[&Prompt], constants: &PromptConstants, neutral: bool) -> f64 {
    let data = prompts.iter().zip(weights(prompts)).map(|(prompt, weight)| weight * error(prompt, constants).abs());
    data.sum::<f64>() + pull(constants, neutral)
}

/// The constants fitted on `prompts`.
pub fn fit(prompts: &[&Prompt], neutral: bool) -> PromptConstants {
    let mut constants = plimsoll::speed::prompt::constants::FITTED;
    for row in &ROWS {
        for family in row.0 {
            let one = &mut constants.families[*family as usize];
            FIELDS.iter().zip(expected(row, neutral)).for_each(|(field, value)| *field(one) = value);
        }
    }
    let weights = weights(prompts);
    // a row moves only the measurements of its families
    for row in &ROWS {
        let uses = |prompt: &Prompt| prompt.work.devices.iter().any(|device| row.0.contains(&device.known.family));
        let of_row: Vec<(&Prompt, f64)> =
            prompts.iter().zip(&weights).filter(|(prompt, _)| uses(prompt)).map(|(prompt, weight)| (*prompt, *weight)).collect();
        if of_row.is_empty() {
            continue;
        }
        let cost = |constants: &PromptConstants| {
            of_row.iter().map(|(prompt, weight)| weight * error(prompt, constants).abs()).sum::<f64>()
                + pull(constants, neutral)
        };
        let mut best = cost(&constants);
        for step in [0.5_f64, 0.2, 0.05, 0.015, 0.2, 0.05, 0.015] {
            for _ in 0..40 {
                let before = best;
                for field in FIELDS {
                    for factor in [step.exp(), (-step).exp()] {
                        let mut tried = constants;
                        for family in row.0 {
                            *field(&mut tried.families[*family as usize]) *= factor;
                        }
                        let tried_cost = cost(&tried);
                        if tried_cost < best {
                            (best, constants) = (tried_cost, tried);
                        }
                    }
                }
                if before - best < 1e-5 * best {
                    break;
                }
            }
        }
    }
    constants
}

/// The log errors of `prompts`, each by constants fitted on the other folds: whole threads, from the largest to the
/// smallest, each into the smallest fold.
pub fn held_out(prompts: &[&Prompt]) -> Vec<f64> {
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for prompt in prompts {
        *sizes.entry(&prompt.thread).or_default() += 1;
    }
    let mut threads: Vec<_> = sizes.into_iter().collect();
    threads.sort_by_key(|&(thread, size)| (std::cmp::Reverse(size), thread));
    let mut filled = [0; FOLDS];
    let mut of: BTreeMap<&str, usize> = BTreeMap::new();
    for (thread, size) in threads {
        let fold = (0..FOLDS).min_by_key(|fold| filled[*fold]).unwrap();
        filled[fold] += size;
        of.insert(thread, fold);
    }
    let mut errors = vec![0.0; prompts.len()];
    for held in 0..FOLDS {
        let seen: Vec<&Prompt> =
            prompts.iter().filter(|prompt| of[prompt.thread.as_str()] != held).copied().collect();
        let constants = fit(&seen, true);
        for (error_of, prompt) in errors.iter_mut().zip(prompts).filter(|(_, prompt)| of[prompt.thread.as_str()] == held)
        {
            *error_of = error(prompt, &constants);
        }
    }
    errors
}

/// Groups of measurements in the table of errors.
pub type Group = fn(&Prompt) -> bool;
pub const GROUPS: [(&str, Group); 8] = [
    ("CUDA, one GPU", |prompt| prompt.work.class() == PromptClass::Cuda),
    ("Metal", |prompt| prompt.work.class() == PromptClass::Metal),
    ("Vulkan, one GPU", |prompt| prompt.work.class() == PromptClass::Vulkan),
    ("ROCm and SYCL, one GPU", |prompt| prompt.work.class() == PromptClass::Rocm),
    ("one GPU, dense, under 8192 tokens", |prompt| is_one(prompt) && !prompt.has_experts && end(prompt) < 8192),
    ("one GPU, experts, under 8192 tokens", |prompt| is_one(prompt) && prompt.has_experts && end(prompt) < 8192),
    ("one GPU, 8192 tokens and more", |prompt| is_one(prompt) && end(prompt) >= 8192),
    ("several GPUs", |prompt| prompt.work.class() == PromptClass::SeveralGpus),
];

fn is_one(prompt: &Prompt) -> bool {
    prompt.work.devices.len() == 1
}

fn end(prompt: &Prompt) -> u64 {
    prompt.depth + prompt.tokens
}
