//! The rule for one graph size: branches of a `max`, each a sum of named terms.

use super::expr::{DivisionByZero, Expr};
use super::letters::{Letter, LetterValues};
use crate::plan::{Branch, GraphSize, Term};
use crate::units::Bytes;

/// A named term.
#[derive(Debug)]
pub struct TermRule {
    /// `attention scores`
    pub name: &'static str,
    /// Its size.
    pub bytes: Expr,
}

/// One branch of the `max`.
#[derive(Debug)]
pub struct BranchRule {
    /// `attention`, `logits`
    pub name: &'static str,
    /// Its terms.
    pub parts: &'static [TermRule],
}

/// `times · (always + max(choices))`
#[derive(Debug)]
pub struct GraphRule {
    /// The factor of the whole sum.
    pub times: u64,
    /// Terms of every branch.
    pub always: &'static [TermRule],
    /// The branches.
    pub choices: &'static [BranchRule],
}

pub(super) const fn part(name: &'static str, bytes: Expr) -> TermRule {
    TermRule { name, bytes }
}

pub(super) const fn branch(name: &'static str, parts: &'static [TermRule]) -> BranchRule {
    BranchRule { name, parts }
}

/// The maximum of `choices`.
pub(super) const fn max(choices: &'static [BranchRule]) -> GraphRule {
    GraphRule { times: 1, always: &[], choices }
}

impl GraphRule {
    /// The same plus the terms `always`.
    pub(super) const fn plus(self, always: &'static [TermRule]) -> Self {
        Self { always, ..self }
    }

    /// The same, multiplied.
    pub(super) const fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// The size, branch by branch and term by term.
    pub(super) fn size(&self, values: &LetterValues) -> Result<GraphSize, DivisionByZero> {
        let always = total(self.always, values)?;
        let mut winner = 0;
        let mut largest = 0;
        let mut branches = Vec::with_capacity(self.choices.len());
        for (i, choice) in self.choices.iter().enumerate() {
            let chosen = total(choice.parts, values)?;
            if chosen > largest {
                (winner, largest) = (i, chosen);
            }
            let bytes = Bytes(always.wrapping_add(chosen).wrapping_mul(self.times));
            let mut terms = Vec::with_capacity(self.always.len() + choice.parts.len());
            for part in self.always.iter().chain(choice.parts) {
                terms.push(self.term(part, values)?);
            }
            terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
            branches.push(Branch { name: choice.name.to_owned(), bytes, terms });
        }
        let bytes = Bytes(always.wrapping_add(largest).wrapping_mul(self.times));
        Ok(GraphSize { bytes, own: bytes, branches, winner })
    }

    /// The size of each branch in order; the first of the largest wins.
    ///
    /// # Errors
    /// If the formula divides by zero.
    pub fn contenders(&self, values: &LetterValues) -> Result<Vec<u64>, DivisionByZero> {
        let always = total(self.always, values)?;
        let size = |choice: &BranchRule| Ok(always.wrapping_add(total(choice.parts, values)?).wrapping_mul(self.times));
        self.choices.iter().map(size).collect()
    }

    fn term(&self, part: &TermRule, values: &LetterValues) -> Result<Term, DivisionByZero> {
        let Self { times, .. } = *self;
        let mut term = term(part.name, &part.bytes, values)?;
        if times != 1 {
            let factor = |text: String| match part.bytes {
                Expr::Product(_) => format!("{times}·{text}"),
                _ => format!("{times}·({text})"),
            };
            term = Term {
                name: term.name,
                formula: factor(term.formula),
                numbers: factor(term.numbers),
                bytes: Bytes(term.bytes.0.wrapping_mul(times)),
            };
        }
        Ok(term)
    }

    /// Calls `visit` with every letter in it.
    pub(super) fn letters(&self, visit: &mut impl FnMut(Letter)) {
        for part in self.always.iter().chain(self.choices.iter().flat_map(|choice| choice.parts)) {
            part.bytes.letters(visit);
        }
    }
}

fn total(parts: &[TermRule], values: &LetterValues) -> Result<u64, DivisionByZero> {
    parts.iter().try_fold(0u64, |sum, part| Ok(sum.wrapping_add(part.bytes.value(values)?)))
}

/// `bytes` as a named term with formula and numbers.
pub(super) fn term(name: &str, bytes: &Expr, values: &LetterValues) -> Result<Term, DivisionByZero> {
    Ok(Term {
        name: name.to_owned(),
        formula: bytes.formula(),
        numbers: bytes.numbers(values),
        bytes: Bytes(bytes.value(values)?),
    })
}
