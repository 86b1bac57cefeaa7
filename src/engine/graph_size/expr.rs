//! A formula as data, evaluated and printed from the same definition.
//!
//! Arithmetic is that of Go's `uint64`: it wraps, and quotients truncate.

use std::fmt::{self, Write};

use super::letters::{Letter, LetterValues};

/// An expression over [`Letter`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A constant.
    Number(u64),
    /// A letter of the legend.
    Letter(Letter),
    /// `a + b + …`
    Sum(&'static [Expr]),
    /// `a·b·…`
    Product(&'static [Expr]),
    /// `a − b`
    Difference(&'static Expr, &'static Expr),
    /// `a ÷ b`, truncated.
    Quotient(&'static Expr, &'static Expr),
    /// The larger of two.
    Max(&'static Expr, &'static Expr),
    /// Cache elements to bytes: times [`Letter::P`], as a float64.
    Elements(&'static Expr),
}

/// The formula divides by a letter that is zero for this model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivisionByZero;

impl Expr {
    /// Its value.
    ///
    /// # Errors
    /// Where it divides by zero.
    pub fn value(&self, values: &LetterValues) -> Result<u64, DivisionByZero> {
        Ok(match *self {
            Self::Number(number) => number,
            Self::Letter(letter) => values.get(letter),
            Self::Sum(terms) => fold(terms, values, 0, u64::wrapping_add)?,
            Self::Product(factors) => fold(factors, values, 1, u64::wrapping_mul)?,
            Self::Difference(a, b) => a.value(values)?.wrapping_sub(b.value(values)?),
            Self::Quotient(a, b) => a.value(values)?.checked_div(b.value(values)?).ok_or(DivisionByZero)?,
            Self::Max(a, b) => a.value(values)?.max(b.value(values)?),
            Self::Elements(count) => (count.value(values)? as f64 * values.bytes_per_element()) as u64,
        })
    }

    /// `4·B·C·H`
    pub fn formula(&self) -> String {
        self.text(&Letters)
    }

    /// `4·512·8192·32`
    pub fn numbers(&self, values: &LetterValues) -> String {
        self.text(values)
    }

    fn text(&self, writer: &impl LetterFormat) -> String {
        let mut text = String::with_capacity(32);
        // writing to a String does not fail
        let _ = self.write(&mut text, writer, Precedence::Alone);
        text
    }

    fn write(&self, out: &mut String, spell: &impl LetterFormat, place: Precedence) -> fmt::Result {
        let bracketed = match self {
            Self::Sum(_) | Self::Difference(..) => place != Precedence::Alone,
            Self::Quotient(..) => matches!(place, Precedence::Factor | Precedence::Divisor),
            Self::Product(_) | Self::Elements(_) => place == Precedence::Divisor,
            Self::Number(_) | Self::Letter(_) | Self::Max(..) => false,
        };
        if bracketed {
            out.push('(');
        }
        match *self {
            Self::Number(number) => write!(out, "{number}")?,
            Self::Letter(letter) => spell.letter(letter, out)?,
            Self::Sum(terms) => joined(terms, " + ", out, spell, Precedence::Summand)?,
            Self::Product(factors) => joined(factors, "·", out, spell, Precedence::Factor)?,
            Self::Difference(a, b) => {
                a.write(out, spell, Precedence::Summand)?;
                out.push_str(" − ");
                b.write(out, spell, Precedence::Factor)?;
            }
            Self::Quotient(a, b) => {
                a.write(out, spell, Precedence::Dividend)?;
                out.push('/');
                b.write(out, spell, Precedence::Divisor)?;
            }
            Self::Max(a, b) => {
                out.push_str("max(");
                a.write(out, spell, Precedence::Alone)?;
                out.push_str(", ");
                b.write(out, spell, Precedence::Alone)?;
                out.push(')');
            }
            Self::Elements(count) => {
                count.write(out, spell, Precedence::Factor)?;
                out.push('·');
                spell.letter(Letter::P, out)?;
            }
        }
        if bracketed {
            out.push(')');
        }
        Ok(())
    }

    /// Calls `visit` with every letter in it.
    pub fn letters(&self, visit: &mut impl FnMut(Letter)) {
        match *self {
            Self::Number(_) => {}
            Self::Letter(letter) => visit(letter),
            Self::Sum(parts) | Self::Product(parts) => parts.iter().for_each(|part| part.letters(visit)),
            Self::Difference(a, b) | Self::Quotient(a, b) | Self::Max(a, b) => {
                a.letters(visit);
                b.letters(visit);
            }
            Self::Elements(count) => {
                count.letters(visit);
                visit(Letter::P);
            }
        }
    }
}

fn fold(parts: &[Expr], values: &LetterValues, start: u64, step: fn(u64, u64) -> u64) -> Result<u64, DivisionByZero> {
    parts.iter().try_fold(start, |sum, part| Ok(step(sum, part.value(values)?)))
}

fn joined(
    parts: &[Expr],
    between: &str,
    out: &mut String,
    spell: &impl LetterFormat,
    place: Precedence,
) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.push_str(between);
        }
        part.write(out, spell, place)?;
    }
    Ok(())
}

/// The context of a subexpression, which decides whether it needs brackets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Precedence {
    Alone,
    Summand,
    Factor,
    Dividend,
    Divisor,
}

/// Prints letters as symbols or as values.
trait LetterFormat {
    fn letter(&self, letter: Letter, out: &mut String) -> fmt::Result;
}

struct Letters;

impl LetterFormat for Letters {
    fn letter(&self, letter: Letter, out: &mut String) -> fmt::Result {
        out.push_str(letter.symbol());
        Ok(())
    }
}

impl LetterFormat for LetterValues {
    fn letter(&self, letter: Letter, out: &mut String) -> fmt::Result {
        self.write(letter, out)
    }
}

/// `product!(4, B, C)`: product of numbers and letters; other expressions in brackets.
macro_rules! product {
    ($($factor:tt),+ $(,)?) => { $crate::engine::graph_size::expr::Expr::Product(&[$($crate::engine::graph_size::expr::part!($factor)),+]) };
}

/// `sum!(1, E, (product!(2, E)))`: sum of numbers, letters and bracketed expressions.
macro_rules! sum {
    ($($term:tt),+ $(,)?) => { $crate::engine::graph_size::expr::Expr::Sum(&[$($crate::engine::graph_size::expr::part!($term)),+]) };
}

/// `quotient!((product!(105, E, V)), 128)`: truncating division.
macro_rules! quotient {
    ($a:tt, $b:tt) => {
        $crate::engine::graph_size::expr::Expr::Quotient(
            &$crate::engine::graph_size::expr::part!($a),
            &$crate::engine::graph_size::expr::part!($b),
        )
    };
}

/// `larger!(C, E)`: the larger of two.
macro_rules! larger {
    ($a:tt, $b:tt) => {
        $crate::engine::graph_size::expr::Expr::Max(
            &$crate::engine::graph_size::expr::part!($a),
            &$crate::engine::graph_size::expr::part!($b),
        )
    };
}

/// A number, a letter's constant or a bracketed expression.
macro_rules! part {
    ($number:literal) => {
        $crate::engine::graph_size::expr::Expr::Number($number)
    };
    ($expr:tt) => {
        $expr
    };
}

pub(super) use {larger, part, product, quotient, sum};

#[cfg(test)]
mod tests {
    use super::super::letters::*;
    use super::*;

    fn values() -> LetterValues {
        LetterValues::default().with(Letter::B, 512).with(Letter::C, 8192).with(Letter::E, 4096).with(Letter::V, 1001)
    }

    #[test]
    fn a_formula_prints_and_evaluates_from_one_definition() {
        for (expr, formula, numbers, value) in [
            (product!(4, B, C), "4·B·C", "4·512·8192", 4 * 512 * 8192),
            (quotient!((product!(105, E, V)), 128), "105·E·V/128", "105·4096·1001/128", 105 * 4096 * 1001 / 128),
            (product!(E, (quotient!((product!(9, E)), 16))), "E·(9·E/16)", "4096·(9·4096/16)", 4096 * (9 * 4096 / 16)),
            (product!(4, B, (larger!(C, E))), "4·B·max(C, E)", "4·512·max(8192, 4096)", 4 * 512 * 8192),
            (product!((sum!(E, (product!(2, V)))), 4), "(E + 2·V)·4", "(4096 + 2·1001)·4", (4096 + 2 * 1001) * 4),
            (Expr::Difference(&E, &Expr::Number(1)), "E − 1", "4096 − 1", 4095),
        ] {
            assert_eq!(expr.formula(), formula);
            assert_eq!(expr.numbers(&values()), numbers);
            assert_eq!(expr.value(&values()), Ok(value), "{formula}");
        }
    }

    #[test]
    fn arithmetic_wraps_truncates_and_names_a_division_by_zero() {
        let huge = LetterValues::default().with(Letter::B, u64::MAX);
        assert_eq!(product!(2, B).value(&huge), Ok(u64::MAX - 1));
        assert_eq!(sum!(2, B).value(&huge), Ok(1));
        assert_eq!(quotient!(7, 2).value(&huge), Ok(3));
        assert_eq!(quotient!(7, H).value(&huge), Err(DivisionByZero));
    }

    #[test]
    fn cache_elements_go_through_a_float() {
        let half = LetterValues::default().with(Letter::C, 7).with_bytes_per_element(0.5);
        assert_eq!(Expr::Elements(&C).value(&half), Ok(3));
        assert_eq!(Expr::Elements(&C).formula(), "C·P");
        assert_eq!(Expr::Elements(&C).numbers(&half), "7·0.5");
    }
}
