//! The order in which people look for models: what runs well first, and of that what is likely to be most capable.

use std::cmp::Ordering;

use super::Item;
use crate::answer::FitSummary;
use crate::answer::quality::{self, TRAINED_IN};
use crate::catalogue::{CatalogueEntry, Use};
use crate::model::mixture::Quantisation;
use crate::named::named;
use crate::plan::{Outcome, Plan};
use crate::speed::FAST_ENOUGH;

named! {
    /// What a list is sorted by.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum SortBy {
        /// What runs well first, and of that what is likely to be most capable.
        #[default]
        Best = "best",
        /// By name.
        Name = "name",
        /// The newest first.
        Released = "released",
        /// The most weights first.
        Parameters = "params",
        /// The largest first.
        Size = "size",
        /// The longest context first.
        Context = "context",
        /// The fastest first.
        Speed = "speed",
    }
}

/// Months in which models of one size are taken to become as capable as models of twice that size were. A rule of thumb:
/// Xiao et al., "Densing law of LLMs", 2024, find about a hundred days; half of that pace is taken.
const MONTHS_TO_HALVE: f64 = 6.0;

/// The month that a model of unknown age is taken to be of.
const UNKNOWN_AGE: f64 = 2023.0 * 12.0;

/// Where a model stands in the list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Whether it runs well; none as long as that is not known.
    runs: Option<bool>,
    /// Whether it writes text, as most that is looked for does.
    generates: bool,
    /// Whether no place is known that has it in its quantisation.
    to_be_made: bool,
    /// By size and age.
    merit: f64,
    outcome: Outcome,
    /// Tokens per second, as shown.
    speed: f64,
}

impl Standing {
    /// By what is known of a model: its entry in the catalogue and where it can be had, its plan, and its speed.
    pub fn of(item: &Item, plan: Option<&Plan>, fit: Option<&FitSummary>) -> Self {
        let entry = item.entry();
        let speed = fit.and_then(|fit| Some(fit.speed.as_ref()?.shown()));
        let runs = plan.map(|plan| match speed {
            Some(speed) => plan.outcome() < Outcome::FromDisk && speed >= FAST_ENOUGH,
            // most that is not all in VRAM is slow
            None => plan.outcome() <= Outcome::ExpertsInRam || plan.outcome() == Outcome::Cpu,
        });
        let text = [Use::Chat, Use::Code, Use::Reasoning, Use::Vision];
        Self {
            runs,
            generates: entry.is_none_or(|entry| entry.uses.iter().any(|use_| text.contains(use_))),
            to_be_made: item.is_to_be_made(plan),
            merit: plan.map_or(0.0, |plan| merit(plan, entry)),
            outcome: plan.map_or(Outcome::DoesNotFit, Plan::outcome),
            speed: speed.unwrap_or(0.0),
        }
    }

    /// Tokens per second; zero where they are not known.
    pub const fn speed(&self) -> f64 {
        self.speed
    }

    /// The better one is less.
    pub fn compare(&self, other: &Self) -> Ordering {
        // what is not planned yet stands between what runs and what does not
        let runs = |one: &Self| one.runs.map_or(1, |runs| if runs { 0 } else { 2 });
        let order = |one: &Self| (runs(one), !one.generates, one.to_be_made);
        order(self)
            .cmp(&order(other))
            .then(other.merit.total_cmp(&self.merit))
            .then(self.outcome.cmp(&other.outcome))
            .then(other.speed.total_cmp(&self.speed))
    }
}

/// What a quantisation may lose, in nats per token, that counts as half the size. A rule of thumb: a model of 70 billion
/// weights in two bits is about as good as one of a fourth of its size.
const LOSS_TO_HALVE: f64 = 0.15;

/// How capable a model is expected to be: a step for each doubling of its size, which for experts is the geometric mean of
/// all weights and the active ones, and one for each half year, less what its quantisation loses.
fn merit(plan: &Plan, entry: Option<&CatalogueEntry>) -> f64 {
    let weights = (plan.model.parameters as f64 * plan.model.active_parameters as f64).sqrt();
    let released = entry.and_then(|entry| month(entry.released.as_deref()?));
    // a packager's own name has the loss of the nearest type
    let quantised = plan.model.file_type.as_ref().and_then(|name| name.parse::<Quantisation>().ok());
    // experts that were trained in their type lose nothing
    let is_trained_in = |to: &Quantisation| to.file_type().is_some_and(|to| TRAINED_IN.contains(&to));
    let loss = quantised.filter(|to| !is_trained_in(to)).map_or(0.0, quality::of_weights);
    weights.max(1.0).log2() + released.unwrap_or(UNKNOWN_AGE) / MONTHS_TO_HALVE - loss / LOSS_TO_HALVE
}

/// `2025-04` in months; the middle of the year where the month is not known.
fn month(released: &str) -> Option<f64> {
    let (year, month) = released.split_once('-').unwrap_or((released, "06"));
    Some(year.parse::<f64>().ok()?.mul_add(12.0, month.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_counted_over_years() {
        assert_eq!(month("2025-04"), Some(24_304.0));
        assert_eq!(month("2026-01"), month("2025-12").map(|month| month + 1.0));
        assert_eq!(month("2025"), month("2025-06"));
        assert_eq!(month("soon"), None);
    }
}
