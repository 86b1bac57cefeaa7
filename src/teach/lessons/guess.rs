//! What a lesson asks before it tells: a figure, a layer, or one of several answers; and how far off a guess is.

use super::claim::Comparison;
use super::measure::FigureValue;
use crate::settings::written;
use crate::units::{Bytes, Ratio, Tokens};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What is guessed, as in `assets/lessons.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a guess is a `figure`, a `layer` `of` a number of them, or `choices`, each with `say` and `shows`"
)]
pub(super) enum GuessSource {
    /// This figure.
    Figure { figure: String },
    /// The layer whose number is this figure, counted from 0, of as many as the other figure says.
    Layer { layer: String, of: String },
    /// One of these answers.
    Choice { choices: Vec<Choice> },
}

/// An answer that can be chosen.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Choice {
    /// Its words.
    say: String,
    /// It is the right one where these hold.
    shows: Vec<Comparison>,
}

/// What is guessed, with the answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Guess {
    /// A figure.
    Figure(FigureValue),
    /// A layer, counted from 0.
    Layer {
        /// The answer.
        right: u64,
        /// How many there are.
        count: u64,
    },
    /// One of several answers.
    Choice {
        /// The answers.
        offered: Vec<String>,
        /// The index of the right one.
        right: usize,
    },
}

impl GuessSource {
    /// The figures that it needs.
    pub(super) fn figures(&self) -> Vec<&str> {
        match self {
            Self::Figure { figure } => vec![figure],
            Self::Layer { layer, of } => vec![layer, of],
            Self::Choice { choices } => {
                choices.iter().flat_map(|choice| &choice.shows).flat_map(Comparison::figures).collect()
            }
        }
    }

    /// The words of the answers that can be chosen.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let choices = if let Self::Choice { choices } = self { choices.as_slice() } else { &[] };
        choices.iter().map(|choice| &*choice.say)
    }

    /// The figures that are the answer.
    pub(super) fn told(&self) -> Vec<&str> {
        match self {
            Self::Figure { figure } => vec![figure],
            Self::Layer { layer, .. } => vec![layer],
            Self::Choice { .. } => Vec::new(),
        }
    }

    /// What is guessed where the figures are these; `fill` writes them into texts. None if a figure is missing, or if
    /// not exactly one of the answers is right.
    pub(super) fn of(&self, figures: &BTreeMap<String, FigureValue>, fill: impl Fn(&str) -> String) -> Option<Guess> {
        let number = |name: &String| figures.get(name)?.number();
        match self {
            Self::Figure { figure } => Some(Guess::Figure(figures.get(figure)?.clone())),
            Self::Layer { layer, of } => Some(Guess::Layer { right: number(layer)?, count: number(of)? }),
            Self::Choice { choices } => {
                let mut right =
                    (0..).zip(choices).filter(|(_, choice)| choice.shows.iter().all(|shown| shown.is_met_by(figures)));
                let (one, _) = right.next()?;
                let offered = choices.iter().map(|choice| fill(&choice.say)).collect();
                right.next().is_none().then_some(Guess::Choice { offered, right: one })
            }
        }
    }
}

impl Guess {
    /// What to type, as part of a sentence.
    pub fn hint(&self) -> String {
        match self {
            Self::Figure(FigureValue::Share(_)) => "a share, such as 40 %".to_owned(),
            Self::Figure(FigureValue::Times(_)) => "a factor, such as 2.5".to_owned(),
            Self::Figure(FigureValue::Bytes(_) | FigureValue::Finely(_) | FigureValue::Small(_)) => {
                "a size, such as 1.5 GiB".to_owned()
            }
            Self::Figure(_) => "a number, such as 4096 or 4k".to_owned(),
            Self::Layer { count, .. } => format!("a layer from 0 to {}", count.saturating_sub(1)),
            Self::Choice { offered, .. } => format!("a number from 1 to {}", offered.len()),
        }
    }

    /// What to say to the guess `text`: how far off it is.
    ///
    /// # Errors
    /// If it is no guess of this kind, with what to type.
    pub fn judged(&self, text: &str) -> Result<String, String> {
        let wrong = || format!("'{}' is no such guess: type {}", text.trim(), self.hint());
        match self {
            Self::Figure(right) => {
                let guessed = guessed_like(right, text).ok_or_else(wrong)?;
                Ok(format!("You guessed {guessed}: {}", distance(&guessed, right)))
            }
            Self::Layer { right, count } => {
                let layer = text.trim().parse().ok().filter(|layer| layer < count).ok_or_else(wrong)?;
                let distance = match right.abs_diff(layer) {
                    0 => "right.".to_owned(),
                    1 => format!("it is layer {right}, the one beside it."),
                    off => format!("it is layer {right}, {} layers away.", Tokens(off)),
                };
                Ok(format!("You guessed layer {layer}: {distance}"))
            }
            Self::Choice { offered, right } => {
                let chosen: usize = text.trim().parse().map_err(|_| wrong())?;
                let answer = chosen.checked_sub(1).and_then(|at| offered.get(at)).ok_or_else(wrong)?;
                let said = if chosen == right + 1 {
                    "right.".to_owned()
                } else {
                    format!("no, it is “{}”.", offered.get(*right).map_or("", String::as_str))
                };
                Ok(format!("You chose “{answer}”: {said}"))
            }
        }
    }
}

/// The value that `text` says, of the kind of `right`.
fn guessed_like(right: &FigureValue, text: &str) -> Option<FigureValue> {
    let text = text.trim();
    let fraction =
        |text: &str| text.trim().replace(',', ".").parse::<f64>().ok().filter(|it| *it >= 0.0 && it.is_finite());
    match right {
        FigureValue::Bytes(_) | FigureValue::Finely(_) | FigureValue::Small(_) => {
            // a number alone could mean anything
            text.contains(char::is_alphabetic).then(|| text.replace(',', ".").parse().ok().map(FigureValue::Bytes))?
        }
        FigureValue::Number(_) => {
            let joined: String = text.split_whitespace().collect();
            written::count(&joined).ok().map(FigureValue::Number)
        }
        FigureValue::Share(_) => {
            let number = fraction(text.trim_end_matches('%'))?;
            // 0.4 may mean 40 %
            let percent = if text.contains('%') || number > 1.0 { number } else { number * 100.0 };
            Some(FigureValue::Share(Ratio(percent / 100.0)))
        }
        FigureValue::Times(_) => {
            fraction(text.trim_end_matches("times").trim_end().trim_end_matches(['x', '×'])).map(FigureValue::Times)
        }
        FigureValue::Bits(_) => fraction(text.trim_end_matches("bits")).map(FigureValue::Bits),
        FigureValue::Milliseconds(_) => fraction(text.trim_end_matches("ms")).map(FigureValue::Milliseconds),
        FigureValue::Speed(_) | FigureValue::Quoted(_) => None,
    }
}

/// How far `guessed` is from `right`, which is of the same kind.
fn distance(guessed: &FigureValue, right: &FigureValue) -> String {
    if guessed.to_string() == right.to_string() {
        return "right.".to_owned();
    }
    let (Some(guess), Some(truth)) = (guessed.size(), right.size()) else { return format!("it is {right}.") };
    let direction = if guess > truth { "too much" } else { "too little" };
    let off = match right {
        FigureValue::Bytes(_) | FigureValue::Finely(_) | FigureValue::Small(_) => {
            Bytes((guess - truth).abs() as u64).to_string()
        }
        FigureValue::Number(_) => Tokens((guess - truth).abs() as u64).to_string(),
        FigureValue::Share(_) => format!("{:.0} points", (guess - truth).abs() * 100.0),
        _ => {
            let factor = if guess > truth { guess / truth } else { truth / guess };
            return if factor.is_finite() && factor > 0.0 {
                format!("it is {right}, {direction} by a factor of {factor:.1}.")
            } else {
                format!("it is {right}.")
            };
        }
    };
    format!("it is {right}, so {off} {direction}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_is_judged_by_its_distance() {
        let size = Guess::Figure(FigureValue::Bytes(Bytes::mib(1536)));
        for (text, said) in [
            ("1.5 GiB", "You guessed 1.5 GiB: right."),
            ("1,5 GiB", "You guessed 1.5 GiB: right."),
            ("2GiB", "You guessed 2.0 GiB: it is 1.5 GiB, so 512 MiB too much."),
            ("512 MiB", "You guessed 512 MiB: it is 1.5 GiB, so 1.0 GiB too little."),
        ] {
            assert_eq!(size.judged(text).as_deref(), Ok(said));
        }
        assert!(size.judged("2").is_err_and(|why| why.contains("1.5 GiB")), "a number alone could mean anything");
        let share = Guess::Figure(FigureValue::Share(Ratio(0.53)));
        for text in ["53", "53 %", "0.53"] {
            assert_eq!(share.judged(text).as_deref(), Ok("You guessed 53 %: right."), "{text}");
        }
        assert_eq!(share.judged("50%").unwrap(), "You guessed 50 %: it is 53 %, so 3 points too little.");
        let tokens = Guess::Figure(FigureValue::Number(32_768));
        assert!(tokens.judged("32k").unwrap().ends_with("right."));
        assert!(tokens.judged("32 768").unwrap().ends_with("right."));
        let times = Guess::Figure(FigureValue::Times(2.0));
        assert!(times.judged("4x").unwrap().ends_with("too much by a factor of 2.0."));
    }

    #[test]
    fn layers_and_choices_are_numbers() {
        let layer = Guess::Layer { right: 12, count: 33 };
        assert_eq!(layer.judged("12").unwrap(), "You guessed layer 12: right.");
        assert_eq!(layer.judged("10").unwrap(), "You guessed layer 10: it is layer 12, 2 layers away.");
        assert!(layer.judged("33").is_err() && layer.judged("x").is_err());
        let choice = Guess::Choice { offered: vec!["its weights".to_owned(), "its cache".to_owned()], right: 1 };
        assert_eq!(choice.judged("2").unwrap(), "You chose “its cache”: right.");
        assert_eq!(choice.judged("1").unwrap(), "You chose “its weights”: no, it is “its cache”.");
        assert!(choice.judged("0").is_err() && choice.judged("3").is_err());
    }
}
