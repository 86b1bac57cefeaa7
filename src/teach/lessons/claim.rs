//! What the figures of a lesson must show, as in `assets/lessons.toml`: `more >= 1 GiB`, `planned > own`.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de::Error};

use super::measure::FigureValue;
use crate::units::Bytes;

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
    /// Whether its sentence has the figure `name` in it.
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.otherwise.contains(&format!("{{{name}}}"))
    }

    /// The figures in its sentence.
    pub(super) fn mentioned<'a, V>(&'a self, figures: &'a BTreeMap<String, V>) -> impl Iterator<Item = &'a str> {
        figures.keys().map(String::as_str).filter(|name| self.mentions(name))
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
