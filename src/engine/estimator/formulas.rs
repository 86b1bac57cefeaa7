//! Formulas as data, over the [`Letter`]s: `expr!` reads them, and they are evaluated and printed from that one
//! definition.
//!
//! Arithmetic is that of Go's `uint64`: it wraps, and quotients truncate.

use std::fmt::{self, Write};

use crate::plan::{Branch, GraphSize, Symbol, Term};
use crate::units::Bytes;

pub use super::header::ModelTraits;
pub use super::sizes::{CacheFormula, PlanFormulas};
pub use crate::engine::request::DEFAULT_BATCH;

/// Defines the letters, one line each in the order of the legend: name, symbol, meaning, and its place in the file if
/// that is all there is to say of its value.
macro_rules! letters {
    ($($name:ident $symbol:literal $meaning:literal $(= $source:expr)?;)+) => {
        /// A letter of a formula.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum Letter { $($name),+ }

        impl Letter {
            /// All letters, in the order of the legend.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The symbol in formulas.
            pub const fn symbol(self) -> &'static str {
                match self { $(Self::$name => $symbol),+ }
            }

            /// The meaning.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning),+ }
            }

            pub(super) fn source(self) -> Option<Source> {
                let source: &[Source] = match self { $(Self::$name => &[$($source)?]),+ };
                source.first().copied()
            }
        }
    };
}

/// Where a letter's value is in a file.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// A key that holds a u32; 0 without it.
    Key(&'static str),
    /// The bytes of a tensor, without which the formula is not that of the model.
    Bytes(&'static str),
    /// The size of a tensor in one dimension, likewise.
    Dimension(&'static str, usize),
    /// The elements of a tensor; 0 without it.
    Elements(&'static str),
}

letters! {
    B "B" "batch, in tokens";
    C "C" "context of all sequences, in tokens";
    Np "N_p" "parallel sequences";
    E "E" "embedding length" = Source::Key("embedding_length");
    H "H" "attention heads, maximum over the layers";
    Hkv "H_kv" "KV heads, maximum over the layers";
    HkvMin "H_kv,min" "KV heads, minimum over the layers";
    HkvLayer "H_kv,i" "KV heads of this layer";
    D "D" "embedding length per head, for the fewest heads";
    Dk "D_k" "length of a key head";
    Dv "D_v" "length of a value head";
    V "V" "vocabulary, in tokens";
    P "P" "bytes per element of the KV cache";
    Ff "FF" "feed-forward length" = Source::Key("feed_forward_length");
    Wgate "W_gate" "bytes of blk.0.ffn_gate_exps.weight" = Source::Bytes("blk.0.ffn_gate_exps.weight");
    Wdim "W_dim" "second dimension of blk.0.ffn_gate.0.weight" = Source::Dimension("blk.0.ffn_gate.0.weight", 1);
    Rfreq "R_freq" "elements of rope_freqs.weights" = Source::Elements("rope_freqs.weights");
    Sbias "S_bias" "length of blk.0.attn_qkv.bias" = Source::Dimension("blk.0.attn_qkv.bias", 0);
    Window "S" "sliding window, in tokens" = Source::Key("attention.sliding_window");
    KvUnwindowed "Σkv,full" "bytes of all caches if no layer had a sliding window";
    Kv "Σkv" "bytes of all caches";
    Dconv "d_conv" "width of the recurrent layers' convolution" = Source::Key("ssm.conv_kernel");
    Dstate "d_state" "size of a recurrent state" = Source::Key("ssm.state_size");
    Dinner "d_inner" "inner size of the recurrent layers" = Source::Key("ssm.inner_size");
    Ngroups "n_groups" "groups of the recurrent layers" = Source::Key("ssm.group_count");
    Image "I" "width of an image, in pixels" = Source::Key("vision.image_size");
    Patch "p" "width of a patch of an image, in pixels" = Source::Key("vision.patch_size");
    Channels "n_ch" "channels of an image" = Source::Key("vision.num_channels");
    Pixels "N_px" "pixels of the largest image";
    Patches "N_patch" "patches of an image";
    Padded "N_pad" "patches of an image, rounded up to a multiple of 8";
    Tiles "N_tiles" "tiles of an image" = Source::Key("vision.max_num_tiles");
    Hvision "H_v" "attention heads of the vision layers" = Source::Key("vision.attention.head_count");
    Evision "E_v" "embedding length of the vision layers" = Source::Key("vision.embedding_length");
}

/// The value of every letter in one plan.
#[derive(Clone, Debug, PartialEq)]
pub struct LetterValues {
    whole: [u64; Letter::ALL.len()],
    bytes_per_element: f64,
}

impl Default for LetterValues {
    fn default() -> Self {
        Self { whole: [0; Letter::ALL.len()], bytes_per_element: 0.0 }
    }
}

impl LetterValues {
    /// The value of `letter`, except for [`Letter::P`]: see [`Self::bytes_per_element`].
    pub fn get(&self, letter: Letter) -> u64 {
        self.whole[letter as usize]
    }

    /// Bytes per element of the KV cache.
    pub fn bytes_per_element(&self) -> f64 {
        self.bytes_per_element
    }

    /// Sets `letter`.
    pub fn set(&mut self, letter: Letter, value: u64) {
        self.whole[letter as usize] = value;
    }

    /// The same with `letter` set.
    #[must_use]
    pub fn with(mut self, letter: Letter, value: u64) -> Self {
        self.set(letter, value);
        self
    }

    /// The same with `bytes` per element of the KV cache.
    #[must_use]
    pub fn with_bytes_per_element(mut self, bytes: f64) -> Self {
        self.bytes_per_element = bytes;
        self
    }

    fn write(&self, letter: Letter, out: &mut String) -> fmt::Result {
        match letter {
            Letter::P => write!(out, "{}", self.bytes_per_element),
            _ => write!(out, "{}", self.get(letter)),
        }
    }

    /// The legend entry of `letter`.
    pub fn symbol(&self, letter: Letter) -> Symbol {
        let mut value = String::new();
        // writing to a String does not fail
        let _ = self.write(letter, &mut value);
        Symbol { letter: letter.symbol(), meaning: letter.meaning(), value }
    }
}

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

/// Reads an [`Expr`] of numbers, letters and bracketed expressions: `4 B C` is a product, and the others are `E + V + 1`,
/// `E - 1`, `(9 E E) / 16`, `max C E`, and `(C Hkv) P`, cache elements to bytes.
macro_rules! expr {
    ($number:literal) => { Expr::Number($number) };
    ($letter:ident) => { Expr::Letter(Letter::$letter) };
    (($($inner:tt)+)) => { expr!($($inner)+) };
    ($count:tt P) => { Expr::Elements(&expr!($count)) };
    ($a:tt / $b:tt) => { Expr::Quotient(&expr!($a), &expr!($b)) };
    ($a:tt - $b:tt) => { Expr::Difference(&expr!($a), &expr!($b)) };
    (max $a:tt $b:tt) => { Expr::Max(&expr!($a), &expr!($b)) };
    ($a:tt $(+ $b:tt)+) => { Expr::Sum(&[expr!($a) $(, expr!($b))+]) };
    ($($factor:tt)+) => { Expr::Product(&[$(expr!($factor)),+]) };
}

/// Reads a [`BranchRule`], `["logits": "activations" (4 B E), "logits" (4 B V)]`, or names a shared one.
macro_rules! branch {
    ([$name:literal: $($part:literal $bytes:tt),+]) => {
        BranchRule { name: $name, parts: &[$(TermRule { name: $part, bytes: expr!($bytes) }),+] }
    };
    ($shared:ident) => { $shared };
}

/// Reads the [`GraphRule`] that is the largest of these branches.
macro_rules! graph {
    ($($branch:tt)*) => { GraphRule { times: 1, always: &[], choices: &[$(branch!($branch)),*] } };
}

pub(super) use {branch, expr, graph};

/// The formula divides by a letter that is zero for this model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivisionByZero;

impl Expr {
    /// Its value.
    ///
    /// # Errors
    /// Where it divides by zero.
    pub fn value(&self, values: &LetterValues) -> Result<u64, DivisionByZero> {
        let fold = |parts: &[Self], start: u64, step: fn(u64, u64) -> u64| {
            parts.iter().try_fold(start, |sum, part| Ok(step(sum, part.value(values)?)))
        };
        Ok(match *self {
            Self::Number(number) => number,
            Self::Letter(letter) => values.get(letter),
            Self::Sum(terms) => fold(terms, 0, u64::wrapping_add)?,
            Self::Product(factors) => fold(factors, 1, u64::wrapping_mul)?,
            Self::Difference(a, b) => a.value(values)?.wrapping_sub(b.value(values)?),
            Self::Quotient(a, b) => a.value(values)?.checked_div(b.value(values)?).ok_or(DivisionByZero)?,
            Self::Max(a, b) => a.value(values)?.max(b.value(values)?),
            Self::Elements(count) => (count.value(values)? as f64 * values.bytes_per_element()) as u64,
        })
    }

    /// `4·B·C·H`
    pub fn formula(&self) -> String {
        self.text(None)
    }

    /// `4·512·8192·32`
    pub fn numbers(&self, values: &LetterValues) -> String {
        self.text(Some(values))
    }

    fn text(&self, values: Option<&LetterValues>) -> String {
        let mut text = String::with_capacity(32);
        // writing to a String does not fail
        let _ = self.write(&mut text, values, Precedence::Alone);
        text
    }

    /// Letters are written as their values, or as symbols without any.
    fn write(&self, out: &mut String, values: Option<&LetterValues>, place: Precedence) -> fmt::Result {
        let joined = |parts: &[Self], between: &str, place: Precedence, out: &mut String| {
            parts.iter().enumerate().try_for_each(|(i, part)| {
                out.push_str(if i > 0 { between } else { "" });
                part.write(out, values, place)
            })
        };
        let pair = |(a, before): (&Self, _), between: &str, (b, after): (&Self, _), out: &mut String| {
            a.write(out, values, before)?;
            out.push_str(between);
            b.write(out, values, after)
        };
        let bracketed = match self {
            Self::Sum(_) | Self::Difference(..) => place >= Precedence::Summand,
            Self::Quotient(..) => place >= Precedence::Factor,
            Self::Product(_) | Self::Elements(_) => place >= Precedence::Divisor,
            Self::Number(_) | Self::Letter(_) | Self::Max(..) => false,
        };
        if bracketed {
            out.push('(');
        }
        match *self {
            Self::Number(number) => write!(out, "{number}")?,
            Self::Letter(letter) => match values {
                Some(values) => values.write(letter, out)?,
                None => out.push_str(letter.symbol()),
            },
            Self::Sum(terms) => joined(terms, " + ", Precedence::Summand, out)?,
            Self::Product(factors) => joined(factors, "·", Precedence::Factor, out)?,
            Self::Difference(a, b) => pair((a, Precedence::Summand), " − ", (b, Precedence::Factor), out)?,
            Self::Quotient(a, b) => pair((a, Precedence::Dividend), "/", (b, Precedence::Divisor), out)?,
            Self::Max(a, b) => {
                out.push_str("max(");
                pair((a, Precedence::Alone), ", ", (b, Precedence::Alone), out)?;
                out.push(')');
            }
            Self::Elements(count) => {
                pair((count, Precedence::Factor), "·", (&Self::Letter(Letter::P), Precedence::Factor), out)?;
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

/// The context of a subexpression, which decides whether it needs brackets: those that need more of them later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    Alone,
    Summand,
    Dividend,
    Factor,
    Divisor,
}

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

/// A graph's size: `times · (always + max(choices))`.
#[derive(Debug)]
pub struct GraphRule {
    /// The factor of the whole sum.
    pub times: u64,
    /// Terms of every branch.
    pub always: &'static [TermRule],
    /// The branches.
    pub choices: &'static [BranchRule],
}

impl TermRule {
    /// `times` its size, with formula and numbers.
    pub(super) fn term(&self, times: u64, values: &LetterValues) -> Result<Term, DivisionByZero> {
        let factor = |text: String| match self.bytes {
            _ if times == 1 => text,
            Expr::Number(_) | Expr::Letter(_) | Expr::Product(_) => format!("{times}·{text}"),
            _ => format!("{times}·({text})"),
        };
        Ok(Term {
            name: self.name.to_owned(),
            formula: factor(self.bytes.formula()),
            numbers: factor(self.bytes.numbers(values)),
            bytes: Bytes(self.bytes.value(values)?.wrapping_mul(times)),
        })
    }
}

impl GraphRule {
    /// The size, branch by branch and term by term; the first of the largest branches wins.
    pub(super) fn size(&self, values: &LetterValues) -> Result<GraphSize, DivisionByZero> {
        let (always, sums) = self.sums(values)?;
        let largest = sums.iter().copied().max().unwrap_or(0);
        let winner = sums.iter().position(|&sum| sum == largest).unwrap_or(0);
        let branch = |(choice, &sum): (&BranchRule, &u64)| {
            let terms = self.always.iter().chain(choice.parts).map(|part| part.term(self.times, values));
            let mut terms = terms.collect::<Result<Vec<Term>, _>>()?;
            terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
            Ok(Branch { name: choice.name.to_owned(), bytes: Bytes(self.whole(always, sum)), terms })
        };
        let branches = self.choices.iter().zip(&sums).map(branch).collect::<Result<_, _>>()?;
        let bytes = Bytes(self.whole(always, largest));
        Ok(GraphSize { bytes, own: bytes, branches, winner })
    }

    /// The size of each branch in order; the first of the largest wins.
    ///
    /// # Errors
    /// If the formula divides by zero.
    pub fn contenders(&self, values: &LetterValues) -> Result<Vec<u64>, DivisionByZero> {
        let (always, sums) = self.sums(values)?;
        Ok(sums.into_iter().map(|sum| self.whole(always, sum)).collect())
    }

    /// The sum of the terms of every branch, and those of each.
    fn sums(&self, values: &LetterValues) -> Result<(u64, Vec<u64>), DivisionByZero> {
        let sum = |parts: &[TermRule]| {
            parts.iter().try_fold(0u64, |sum, part| Ok(sum.wrapping_add(part.bytes.value(values)?)))
        };
        Ok((sum(self.always)?, self.choices.iter().map(|choice| sum(choice.parts)).collect::<Result<_, _>>()?))
    }

    const fn whole(&self, always: u64, branch: u64) -> u64 {
        always.wrapping_add(branch).wrapping_mul(self.times)
    }

    /// Every letter in it.
    pub(super) fn letters(&self) -> Vec<Letter> {
        let mut letters = Vec::new();
        for part in self.always.iter().chain(self.choices.iter().flat_map(|choice| choice.parts)) {
            part.bytes.letters(&mut |letter| letters.push(letter));
        }
        letters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> LetterValues {
        LetterValues::default().with(Letter::B, 512).with(Letter::C, 8192).with(Letter::E, 4096).with(Letter::V, 1001)
    }

    #[test]
    fn a_formula_prints_and_evaluates_from_one_definition() {
        for (expr, formula, numbers, value) in [
            (expr!(4 B C), "4·B·C", "4·512·8192", 4 * 512 * 8192),
            (expr!((105 E V) / 128), "105·E·V/128", "105·4096·1001/128", 105 * 4096 * 1001 / 128),
            (expr!(E ((9 E) / 16)), "E·(9·E/16)", "4096·(9·4096/16)", 4096 * (9 * 4096 / 16)),
            (expr!(4 B (max C E)), "4·B·max(C, E)", "4·512·max(8192, 4096)", 4 * 512 * 8192),
            (expr!((E + (2 V)) 4), "(E + 2·V)·4", "(4096 + 2·1001)·4", (4096 + 2 * 1001) * 4),
            (expr!(E - 1), "E − 1", "4096 − 1", 4095),
            (expr!(V / (2 E)), "V/(2·E)", "1001/(2·4096)", 0),
        ] {
            assert_eq!(expr.formula(), formula);
            assert_eq!(expr.numbers(&values()), numbers);
            assert_eq!(expr.value(&values()), Ok(value), "{formula}");
        }
    }

    #[test]
    fn arithmetic_wraps_truncates_and_names_a_division_by_zero() {
        let huge = LetterValues::default().with(Letter::B, u64::MAX);
        assert_eq!(expr!(2 B).value(&huge), Ok(u64::MAX - 1));
        assert_eq!(expr!(2 + B).value(&huge), Ok(1));
        assert_eq!(expr!(7 / 2).value(&huge), Ok(3));
        assert_eq!(expr!(7 / H).value(&huge), Err(DivisionByZero));
    }

    #[test]
    fn cache_elements_go_through_a_float() {
        let half = LetterValues::default().with(Letter::C, 7).with_bytes_per_element(0.5);
        let elements = expr!(C P);
        assert_eq!(
            (elements.value(&half), elements.formula(), elements.numbers(&half)),
            (Ok(3), "C·P".to_owned(), "7·0.5".to_owned())
        );
    }
}
