//! Fits the constants of the model of speed and prints them as `src/speed/constants.rs` has them, with the errors on
//! what a fit had not seen. `cargo bench --bench speeds`
#![allow(clippy::unwrap_used, clippy::panic, reason = "a fit that cannot start should say so")]

#[path = "../speeds/cases.rs"]
mod cases;
#[path = "../speeds/fit.rs"]
mod fit;
#[path = "../speeds/folds.rs"]
mod folds;
#[path = "../speeds/prompts.rs"]
mod prompts;

use cases::{Case, Cases, Prompt};
use folds::Judged;
use plimsoll::speed::family::Family;
use plimsoll::speed::prompt::constants as prompt_constants;
use plimsoll::speed::range::Class;
use plimsoll::speed::terms::FITTED;

fn main() {
    let Cases { generation: cases, left_out, prompts, prompts_left_out } = Cases::read();
    prompt(&prompts);
    println!("{} prompts compared; left out: {prompts_left_out:?}", prompts.len());
    println!("{} compared; left out: {left_out:?}", cases.len());
    let known: Vec<&Case> = cases.iter().filter(|case| case.work.assumed.is_none()).collect();
    let fitted = fit::fit(&known);
    println!("cost {:.3}, of the constants in use {:.3}", fit::cost(&known, &fitted), fit::cost(&known, &FITTED));
    for family in Family::ALL {
        let one = fitted.of(family);
        println!(
            "        row({:.2}, {:.2}, {:.2}, {:.1}, {:.1}, {:.0}.0), // {}",
            one.weights,
            one.cache_flash,
            one.cache_plain,
            one.layer * 1e6,
            one.busy * 1e6,
            one.hop * 1e6,
            family.name()
        );
    }
    println!("    sync: {:.0}.0e-6,", fitted.sync * 1e6);
    let held_out = folds::held_out(&known);
    let judged = |cases: &[&Case]| cases.iter().map(|case| Judged::by(case, &fitted)).collect::<Vec<_>>();
    for class in Class::ALL.into_iter().filter(|class| !matches!(class, Class::RamAssumed | Class::Ram | Class::Mlx)) {
        let (low, high) = folds::spread(&known, &held_out, class);
        println!("        Class::{class:?} => ({low:.2}, {high:.2}),");
    }
    let seen = judged(&known);
    for (name, group) in folds::GROUPS {
        for (kind, errors) in [("held out", &held_out), ("seen", &seen)] {
            let errors = folds::errors(&known, errors, group);
            let [median, nine, covered] =
                [errors.median, errors.nine_of_ten, errors.covered].map(|share| share * 100.0);
            println!("{name}, {kind}: {} median {median:.1} nine of ten {nine:.1} covered {covered:.0}", errors.count);
        }
    }
    if std::env::args().any(|argument| argument == "--lines") {
        for (case, judged) in known.iter().zip(&held_out) {
            println!(
                "{} {:?} {} {:.1} {:.2} {}",
                case.id,
                case.work.class(),
                case.depth,
                case.measured,
                judged.error.exp(),
                case.thread
            );
        }
    }
}

fn prompt(all: &[Prompt]) {
    let on_cards: Vec<&Prompt> = all.iter().filter(|prompt| !prompt.work.copies()).collect();
    let fitted = prompts::fit(&on_cards);
    let cost = |constants| prompts::cost(&on_cards, constants);
    println!("cost {:.3}, of the constants in use {:.3}", cost(&fitted), cost(&prompt_constants::FITTED));
    for family in Family::ALL {
        let one = fitted.of(family);
        println!(
            "        row({:.3}, {:.3}, {:.1}, {:.3}, {:.1}), // {}",
            one.dense,
            one.experts,
            one.half,
            one.attention,
            one.layer * 1e6,
            family.name()
        );
    }
    let held_out = prompts::held_out(&on_cards);
    let seen: Vec<f64> = on_cards.iter().map(|prompt| prompts::error(prompt, &fitted)).collect();
    for (name, group) in prompts::GROUPS {
        for (kind, errors) in [("held out", &held_out), ("seen", &seen)] {
            let mut of: Vec<f64> =
                on_cards.iter().zip(errors).filter(|(prompt, _)| group(prompt)).map(|(_, error)| *error).collect();
            let mut sizes: Vec<f64> = of.iter().map(|error| ((-error).exp() - 1.0).abs()).collect();
            sizes.sort_by(f64::total_cmp);
            of.sort_by(f64::total_cmp);
            let at = |list: &[f64], share: f64| list[((list.len() - 1) as f64 * share).round() as usize];
            println!(
                "{name}, {kind}: {} median {:.0} nine of ten {:.0}; measured / modelled {:.2} {:.2} {:.2}",
                of.len(),
                at(&sizes, 0.5) * 100.0,
                at(&sizes, 0.9) * 100.0,
                at(&of, 0.1).exp(),
                at(&of, 0.5).exp(),
                at(&of, 0.9).exp()
            );
        }
    }
    for class in Class::ALL.into_iter().filter(|class| *class != Class::Mlx) {
        let of: Vec<_> = on_cards.iter().zip(&held_out).filter(|(prompt, _)| prompt.work.class() == class).collect();
        let of: Vec<(&Prompt, f64)> = of.into_iter().map(|(prompt, error)| (*prompt, *error)).collect();
        if !of.is_empty() {
            let (low, high) = prompts::spread(&of);
            println!("        Class::{class:?} => ({low:.2}, {high:.2}),");
        }
    }
    let copied = prompts::copied(&all.iter().collect::<Vec<_>>(), &fitted, |prompt| prompt.machine.clone());
    let assumed: Vec<_> = copied.iter().map(|(assumed, _)| assumed.clone()).collect();
    let told: Vec<_> = copied.iter().filter_map(|(_, told)| told.clone()).collect();
    let spread = |of: &[prompts::CopiedPrompt<'_>]| prompts::spread_of_copies(of, &fitted);
    let covered = |of: &[prompts::CopiedPrompt<'_>]| of.iter().filter(|one| one.is_covered(&fitted)).count();
    println!("assumed {:?}, told {:?}", spread(&assumed), spread(&told));
    println!("in the range: {} of {}, {} of {}", covered(&assumed), assumed.len(), covered(&told), told.len());
    if std::env::args().any(|argument| argument == "--prompts") {
        let held = |id| on_cards.iter().position(|prompt| prompt.id == id).map_or(0.0, |at| held_out[at]);
        for prompt in all {
            println!(
                "P {} {:?} {:?} d{} n{} u{} {:.1} {:.2} {:.2} {} {}",
                prompt.id,
                prompt.work.class(),
                prompt.work.devices[0].known.family,
                prompt.depth,
                prompt.tokens,
                prompt.work.ubatch,
                prompt.measured,
                if prompt.work.copies() { prompts::error(prompt, &fitted) } else { held(prompt.id) }.exp(),
                copied
                    .iter()
                    .find(|(other, _)| other.prompt.id == prompt.id)
                    .and_then(|(_, told)| Some(told.as_ref()?.error))
                    .unwrap_or_else(|| prompts::error(prompt, &fitted))
                    .exp(),
                prompt.has_experts,
                prompt.thread
            );
        }
    }
}
