//! What a lesson claims: its sentences, the comparisons of figures behind them, and where each is told.

use super::measure::FigureValue;
use crate::units::Bytes;
use serde::{Deserialize, Deserializer, de::Error};
use std::collections::BTreeMap;
use std::str::FromStr;

/// A sentence of a lesson. Either figures show what it says, or it says where that is from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sentence {
    /// Its words.
    pub say: String,
    /// What figures show wherever it is said.
    #[serde(default)]
    pub shows: Vec<Comparison>,
    /// The file that says so, or the document, if no figure of a plan shows it.
    pub from: Option<String>,
    /// It is said only where this holds.
    pub only: Option<Comparison>,
}

impl Sentence {
    /// The figures that it compares.
    pub(super) fn figures(&self) -> impl Iterator<Item = &str> {
        self.shows.iter().chain(&self.only).flat_map(Comparison::figures)
    }

    /// Whether it is said where the figures are these.
    pub(super) fn is_said(&self, figures: &BTreeMap<String, FigureValue>) -> bool {
        self.only.as_ref().is_none_or(|only| only.is_met_by(figures))
    }

    /// Whether what it says is so, where it is said.
    pub(super) fn holds(&self, figures: &BTreeMap<String, FigureValue>) -> bool {
        !self.is_said(figures) || self.shows.iter().all(|shown| shown.is_met_by(figures))
    }
}

/// Whether `text` has the figure `name` in it.
pub(super) fn mentions(text: &str, name: &str) -> bool {
    text.contains(&format!("{{{name}}}"))
}

/// The names of figures in `text`.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}

/// A comparison that must hold wherever the lesson is told, and what to say where it does not.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The comparison.
    pub holds: Comparison,
    /// Why the lesson is not told where it does not hold, as part of a sentence on the model.
    pub(super) otherwise: String,
}

/// A figure compared with another one or with a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    figure: String,
    relation: Relation,
    with: Operand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    AtMost,
    Equal,
    AtLeast,
    More,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Figure(String),
    /// Bytes, a count, a factor, or a share of one.
    Constant(f64),
}

impl Claim {
    /// The figures in its sentence.
    pub(super) fn mentioned<'a, V>(&'a self, figures: &'a BTreeMap<String, V>) -> impl Iterator<Item = &'a str> {
        figures.keys().map(String::as_str).filter(|name| mentions(&self.otherwise, name))
    }
}

impl Comparison {
    /// Whether it holds for `figures`; it does not if one of them is missing or has no size.
    pub fn is_met_by(&self, figures: &BTreeMap<String, FigureValue>) -> bool {
        let size = |name: &String| figures.get(name)?.size();
        let with = match &self.with {
            Operand::Figure(name) => size(name),
            Operand::Constant(constant) => Some(*constant),
        };
        let (Some(figure), Some(with)) = (size(&self.figure), with) else { return false };
        match self.relation {
            Relation::Less => figure < with,
            Relation::AtMost => figure <= with,
            // sizes are whole numbers of bytes or tokens, which a float of this size holds exactly
            Relation::Equal => (figure - with).abs() < f64::EPSILON,
            Relation::AtLeast => figure >= with,
            Relation::More => figure > with,
        }
    }

    /// The figures that it compares.
    pub fn figures(&self) -> impl Iterator<Item = &str> {
        let with = if let Operand::Figure(name) = &self.with { Some(name.as_str()) } else { None };
        std::iter::once(self.figure.as_str()).chain(with)
    }
}

impl FromStr for Comparison {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no comparison of figures, such as 'more >= 1 GiB'");
        let mut words = text.split_whitespace();
        let (Some(figure), Some(relation)) = (words.next(), words.next()) else { return Err(wrong()) };
        let relation = match relation {
            "<" => Relation::Less,
            "<=" => Relation::AtMost,
            "=" => Relation::Equal,
            ">=" => Relation::AtLeast,
            ">" => Relation::More,
            _ => return Err(wrong()),
        };
        let with = words.collect::<Vec<_>>().join(" ");
        let percent = with.strip_suffix('%').and_then(|share| share.trim().parse::<f64>().ok());
        let bytes = || with.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64);
        let with = match percent.map(|share| share / 100.0).or_else(bytes).or_else(|| with.parse().ok()) {
            Some(constant) => Operand::Constant(constant),
            None if with.starts_with(char::is_alphabetic) && !with.contains(' ') => Operand::Figure(with),
            None => return Err(wrong()),
        };
        Ok(Self { figure: figure.to_owned(), relation, with })
    }
}

impl<'de> Deserialize<'de> for Comparison {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Ratio;

    #[test]
    fn figures_are_compared_with_figures_and_constants() {
        let figures = BTreeMap::from([
            ("planned".to_owned(), FigureValue::Bytes(Bytes::mib(1500))),
            ("own".to_owned(), FigureValue::Bytes(Bytes::mib(700))),
            ("share".to_owned(), FigureValue::Share(Ratio(0.53))),
            ("said".to_owned(), FigureValue::Quoted("5 GB".to_owned())),
        ]);
        let holds = |text: &str| text.parse::<Comparison>().unwrap().is_met_by(&figures);
        for text in
            ["planned > own", "own < planned", "planned >= 1 GiB", "own <= 700 MiB", "own = own", "share > 50 %"]
        {
            assert!(holds(text), "{text}");
        }
        for text in ["own > planned", "planned >= 1.5 GiB", "own > 700 MiB", "share <= 0.5", "none > 0", "said > 0"] {
            assert!(!holds(text), "{text}");
        }
        for text in ["", "planned", "planned >", "planned ! own", "planned > 1 parsec", "planned > own more"] {
            assert!(text.parse::<Comparison>().is_err(), "{text}");
        }
    }
}
