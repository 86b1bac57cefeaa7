//! Errors on measurements that a fit had not seen: five folds, each thread in one of them.

use std::collections::BTreeMap;

use plimsoll::speed::range::{Class, SHOWN};

use super::cases::Case;
use super::fit;

pub const FOLDS: usize = 10;

/// The log errors of `cases`, each by constants fitted on the other folds.
pub fn held_out(cases: &[&Case]) -> Vec<f64> {
    let fold = folds(cases);
    let mut errors = vec![0.0; cases.len()];
    for held in 0..FOLDS {
        let seen: Vec<&Case> =
            cases.iter().zip(&fold).filter(|(_, fold)| **fold != held).map(|(case, _)| *case).collect();
        let constants = fit::fit(&seen);
        for (index, case) in cases.iter().enumerate().filter(|(index, _)| fold[*index] == held) {
            errors[index] = fit::error(case, &constants);
        }
    }
    errors
}

fn folds(cases: &[&Case]) -> Vec<usize> {
    of_threads(&cases.iter().map(|case| case.thread.as_str()).collect::<Vec<_>>())
}

/// The fold of each row by its thread: threads from the largest to the smallest, each into the smallest fold.
pub fn of_threads(rows: &[&str]) -> Vec<usize> {
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for thread in rows {
        *sizes.entry(thread).or_default() += 1;
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
    rows.iter().map(|thread| of[thread]).collect()
}

/// Whether a measurement is of a group.
pub type Group = fn(&Case) -> bool;

/// Groups of measurements in the table of errors.
pub const GROUPS: [(&str, Group); 10] = [
    ("all", |_| true),
    ("one GPU", is_one),
    ("one GPU, 4096 tokens and more", |case| is_one(case) && case.depth >= 4096),
    ("CUDA, one GPU", |case| case.work.class() == Class::Cuda),
    ("Metal", |case| case.work.class() == Class::Metal),
    ("Vulkan, one GPU", |case| case.work.class() == Class::Vulkan),
    ("ROCm and SYCL, one GPU", |case| case.work.class() == Class::Rocm),
    ("several GPUs", |case| case.work.class() == Class::SeveralGpus),
    ("layers or experts in RAM", |case| case.work.class() == Class::Ram),
    ("CPU only", |case| case.work.class() == Class::Cpu),
];

fn is_one(case: &Case) -> bool {
    matches!(case.work.class(), Class::Cuda | Class::Metal | Class::Vulkan | Class::Rocm)
}

/// Errors of a group.
pub struct Errors {
    pub count: usize,
    /// Of |modelled / measured − 1|.
    pub median: f64,
    /// Nine of ten are at most this.
    pub nine_of_ten: f64,
    /// The share of measurements in the range shown.
    pub covered: f64,
}

/// The errors of the cases that `group` takes, with these log errors.
pub fn errors(cases: &[&Case], log_errors: &[f64], group: Group) -> Errors {
    let chosen: Vec<(&Case, f64)> =
        cases.iter().zip(log_errors).filter(|(case, _)| group(case)).map(|(case, error)| (*case, *error)).collect();
    let mut sizes: Vec<f64> = chosen.iter().map(|(_, error)| ((-error).exp() - 1.0).abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let at = |share: f64| sizes[((sizes.len() - 1) as f64 * share).round() as usize];
    let covered = chosen.iter().filter(|(case, error)| {
        let (low, high) = case.work.class().range(1.0);
        (low..=high).contains(&error.exp())
    });
    Errors {
        count: chosen.len(),
        median: at(0.5),
        nine_of_ten: at(0.9),
        covered: covered.count() as f64 / chosen.len() as f64,
    }
}

/// Measured over modelled, so that between the two are those of a class that ranges are made to hold. Few threads have most of the lines, so this is the
/// wider of two counts: each line as one, and a thread of n lines as √n.
pub fn spread(cases: &[&Case], log_errors: &[f64], class: Class) -> (f64, f64) {
    let of_class = cases.iter().zip(log_errors).filter(|(case, _)| case.work.class() == class);
    let (of_class, log_errors): (Vec<&Case>, Vec<f64>) = of_class.map(|(case, error)| (*case, *error)).unzip();
    let by_line = quantiles(&log_errors, &vec![1.0; log_errors.len()]);
    let by_thread = quantiles(&log_errors, &fit::weights(&of_class));
    (by_line.0.min(by_thread.0), by_line.1.max(by_thread.1))
}

/// What leaves out equally many weighted log errors below and above, as ratios.
pub fn quantiles(log_errors: &[f64], weights: &[f64]) -> (f64, f64) {
    let mut weighted: Vec<(f64, f64)> = log_errors.iter().copied().zip(weights.iter().copied()).collect();
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = weights.iter().sum();
    let quantile = |share: f64| {
        let mut sum = 0.0;
        let found = weighted.iter().find(|(_, weight)| {
            sum += weight;
            sum >= share * total
        });
        found.unwrap().0.exp()
    };
    (quantile((1.0 - SHOWN) / 2.0), quantile(f64::midpoint(1.0, SHOWN)))
}
