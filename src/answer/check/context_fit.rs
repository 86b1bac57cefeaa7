//! LM Studio's line on the context that it takes, term by term beside the model's own.

use crate::engine::PreparedModel;
use crate::observed::ObservedFit;
use crate::units::{Bytes, Tokens};

/// A term, planned and observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitTerm {
    /// Its name in the line.
    pub name: String,
    /// The model's own.
    pub planned: u64,
    /// That of the line.
    pub observed: u64,
    /// How far the line's figure may be off, as it is rounded.
    pub tolerance: u64,
    /// What it is counted in.
    pub unit: FitUnit,
}

/// What a term is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitUnit {
    /// Bytes.
    Bytes,
    /// Tokens.
    Tokens,
}

impl FitTerm {
    /// Whether both are the same, as far as the line's rounding tells.
    pub const fn agrees(&self) -> bool {
        self.planned.abs_diff(self.observed) <= self.tolerance
    }

    /// A figure of it with its unit.
    pub fn shown(&self, figure: u64) -> String {
        match self.unit {
            FitUnit::Bytes if figure < 1 << 20 => format!("{figure} B"),
            FitUnit::Bytes => Bytes(figure).to_string(),
            FitUnit::Tokens => Tokens(figure).to_string(),
        }
    }
}

/// The line beside the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitCheck {
    /// Every term.
    pub terms: Vec<FitTerm>,
    /// The model's weights, and what was taken when it was loaded: towers for images and freed memory are in that too.
    pub loaded: (Bytes, Bytes),
}

/// Half of the last digit of a figure in GiB of two decimals, in bytes.
const HUNDREDTH: u64 = (1 << 30) / 200 + 1;

impl FitCheck {
    /// Compares what LM Studio said with the model's own terms.
    ///
    /// # Errors
    /// One sentence, if it has none.
    pub fn of(model: &PreparedModel, seen: &ObservedFit) -> Result<Self, String> {
        let known = model.context_fit().map_err(|error| error.to_string())?;
        let (own, weights) =
            known.ok_or_else(|| "LM Studio leaves the context of a model with such caches as it is".to_owned())?;
        let gib = |gib: f64| Bytes((gib * f64::from(1 << 30)).round() as u64);
        let term = |name: &str, planned: u64, observed: u64, tolerance: u64, unit: FitUnit| FitTerm {
            name: name.to_owned(),
            planned,
            observed,
            tolerance,
            unit,
        };
        let exact = |name: &str, planned: u64, observed: u64| term(name, planned, observed, 0, FitUnit::Bytes);
        let constant = gib(seen.rotating_constant).0;
        let mut terms = vec![
            term("max", own.longest, seen.longest, 0, FitUnit::Tokens),
            exact("full_kv", own.full_kv, seen.full_kv),
            exact("prompt_inputs", own.prompt_inputs, seen.prompt_inputs),
            exact("attention_coefficient", own.attention, seen.attention),
            term("rotating_constant", own.rotating_constant, constant, HUNDREDTH, FitUnit::Bytes),
            exact("rotating_per_step", own.rotating_per_step, seen.rotating_per_step),
        ];
        // both ends of what is rounded may be off
        let (most, loaded) = (gib(seen.working_set), gib(seen.baseline));
        let off = |step: u64| own.off_by(step, 2 * HUNDREDTH);
        terms.extend(seen.steps.iter().map(|&(step, tokens)| {
            let name = format!("steps {step}");
            term(&name, own.tokens_at(step, most, loaded), tokens, off(step), FitUnit::Tokens)
        }));
        if let Some((step, _)) = seen.steps.last() {
            let fitted = own.tokens_with(*step, most, loaded);
            terms.push(term("fitted", fitted, seen.fitted, off(*step), FitUnit::Tokens));
        }
        Ok(Self { terms, loaded: (weights, loaded) })
    }

    /// Whether every term is the same, and as much was loaded as the weights take.
    pub fn agrees(&self) -> bool {
        let (weights, loaded) = self.loaded;
        self.terms.iter().all(FitTerm::agrees) && loaded + Bytes(HUNDREDTH) >= weights
    }
}
