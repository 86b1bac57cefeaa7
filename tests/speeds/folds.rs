//! Errors on measurements that a fit had not seen: five folds, each thread in one of them.

use std::collections::BTreeMap;

use plimsoll::speed::range::{Class, Part, SHOWN};
use plimsoll::speed::terms::Constants;

use super::cases::Case;
use super::fit;

pub const FOLDS: usize = 10;

/// A measurement beside what constants make of it.
#[derive(Clone, Default)]
pub struct Judged {
    /// log(measured / modelled)
    pub error: f64,
    /// The parts of a token's time.
    pub parts: Vec<Part>,
}

impl Judged {
    pub fn by(case: &Case, constants: &Constants) -> Self {
        Self { error: fit::error(case, constants), parts: case.work.parts(constants) }
    }

    /// Whether the range that is shown holds what was measured.
    fn is_covered(&self, measured: f64) -> bool {
        let (fast, slow) = sum(self.parts.iter().map(|part| (part.fast, part.slow)));
        (slow.recip()..=fast.recip()).contains(&measured)
    }

    /// Measured over modelled of the parts of a class, where the others are at their slowest and at their fastest: the
    /// first is what the lower end must not be above, the second what the upper end must not be below.
    fn ratios(&self, measured: f64, class: Class) -> (f64, f64) {
        let (own, others): (Vec<&Part>, Vec<&Part>) = self.parts.iter().partition(|part| part.class == class);
        let own: f64 = own.iter().map(|part| part.seconds).sum();
        let (fast, slow) = sum(others.iter().map(|part| (part.fast, part.slow)));
        let left = |others: f64| Some(measured.recip() - others).filter(|left| *left > 0.0);
        let ratio = |others| left(others).map_or(f64::INFINITY, |left| own / left);
        (ratio(slow), ratio(fast))
    }
}

fn sum(of: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    of.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// `cases`, each judged by constants fitted on the other folds.
pub fn held_out(cases: &[&Case]) -> Vec<Judged> {
    let fold = folds(cases);
    let mut judged = vec![Judged::default(); cases.len()];
    for held in 0..FOLDS {
        let seen: Vec<&Case> =
            cases.iter().zip(&fold).filter(|(_, fold)| **fold != held).map(|(case, _)| *case).collect();
        let constants = fit::fit(&seen);
        for (index, case) in cases.iter().enumerate().filter(|(index, _)| fold[*index] == held) {
            judged[index] = Judged::by(case, &constants);
        }
    }
    judged
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

/// The errors of the cases that `group` takes, judged so.
pub fn errors(cases: &[&Case], judged: &[Judged], group: Group) -> Errors {
    let chosen: Vec<(&Case, &Judged)> =
        cases.iter().zip(judged).filter(|(case, _)| group(case)).map(|(case, judged)| (*case, judged)).collect();
    let mut sizes: Vec<f64> = chosen.iter().map(|(_, judged)| ((-judged.error).exp() - 1.0).abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let at = |share: f64| sizes[((sizes.len() - 1) as f64 * share).round() as usize];
    let covered = chosen.iter().filter(|(case, judged)| judged.is_covered(case.measured));
    Errors {
        count: chosen.len(),
        median: at(0.5),
        nine_of_ten: at(0.9),
        covered: covered.count() as f64 / chosen.len() as f64,
    }
}

/// Measured over modelled of the parts of a class, so that between the two are those that ranges are made to hold. Few
/// threads have most of the lines, so this is the wider of two counts: each line as one, and a thread of n lines as √n.
pub fn spread(cases: &[&Case], judged: &[Judged], class: Class) -> (f64, f64) {
    let of_class = cases.iter().zip(judged).filter(|(case, _)| case.work.class() == class);
    let (of_class, ratios): (Vec<&Case>, Vec<(f64, f64)>) =
        of_class.map(|(case, judged)| (*case, judged.ratios(case.measured, class))).unzip();
    let (lower, upper): (Vec<f64>, Vec<f64>) = ratios.into_iter().map(|(low, high)| (low.ln(), high.ln())).unzip();
    let ends = |weights: &[f64]| (quantiles(&lower, weights).0.min(1.0), quantiles(&upper, weights).1.max(1.0));
    let (by_line, by_thread) = (ends(&vec![1.0; lower.len()]), ends(&fit::weights(&of_class)));
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
