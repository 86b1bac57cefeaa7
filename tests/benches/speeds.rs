//! Fits the constants of the model of speed and prints them as `src/speed/constants.rs` has them, with the errors on
//! what a fit had not seen. `cargo bench --bench speeds`
#![allow(clippy::unwrap_used, clippy::panic, reason = "a fit that cannot start should say so")]

#[path = "../speeds/cases.rs"]
mod cases;
#[path = "../speeds/fit.rs"]
mod fit;
#[path = "../speeds/folds.rs"]
mod folds;

use cases::{Case, Cases};
use plimsoll::speed::range::Class;
use plimsoll::speed::terms::FITTED;
use plimsoll::speed::terms::Family;

fn main() {
    let Cases { cases, left_out } = Cases::read();
    println!("{} compared; left out: {left_out:?}", cases.len());
    let known: Vec<&Case> = cases.iter().filter(|case| !case.work.assumed).collect();
    let fitted = fit::fit(&known);
    println!("cost {:.3}, of the constants in use {:.3}", fit::cost(&known, &fitted), fit::cost(&known, &FITTED));
    for family in Family::ALL {
        let one = fitted.of(family);
        println!(
            "        row({:.2}, {:.2}, {:.2}, {:.1}, {:.1}), // {}",
            one.weights,
            one.cache_flash,
            one.cache_plain,
            one.layer * 1e6,
            one.busy * 1e6,
            family.name()
        );
    }
    println!("    hop: {:.0}.0e-6,\n    sync: {:.0}.0e-6,", fitted.hop * 1e6, fitted.sync * 1e6);
    let held_out = folds::held_out(&known);
    for class in [Class::OneGpu, Class::SeveralGpus, Class::Ram] {
        let (low, high) = folds::spread(&known, &held_out, class);
        println!("        Class::{class:?} => ({low:.2}, {high:.2}),");
    }
    let seen: Vec<f64> = known.iter().map(|case| fit::error(case, &fitted)).collect();
    for (name, group) in folds::GROUPS {
        for (kind, errors) in [("held out", &held_out), ("seen", &seen)] {
            let errors = folds::errors(&known, errors, group);
            let [median, nine, covered] =
                [errors.median, errors.nine_of_ten, errors.covered].map(|share| share * 100.0);
            println!("{name}, {kind}: {} median {median:.1} nine of ten {nine:.1} covered {covered:.0}", errors.count);
        }
    }
    if std::env::args().any(|argument| argument == "--lines") {
        for (case, error) in known.iter().zip(&held_out) {
            println!(
                "{} {:?} {} {:.1} {:.2} {}",
                case.id,
                case.work.class(),
                case.depth,
                case.measured,
                error.exp(),
                case.thread
            );
        }
    }
}
