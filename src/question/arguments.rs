//! What the command line asks a question with, besides a model and everything that a plan of it depends on.
#![allow(clippy::struct_excessive_bools, reason = "flags are what they are")]

use clap::Args;

use super::{About, Question};
use crate::engine::EngineId;

/// The arguments of a question.
pub trait Arguments: Args {
    /// The question.
    type Question: Question;
    /// What the command does, in a sentence without its full stop.
    const ABOUT: &'static str;
    /// Examples, below its help.
    const EXAMPLES: &'static str;

    /// In which form the answer is printed.
    fn form(&self) -> Form;

    /// Chooses the engine where only one can be asked; `machine` has the options that were given which describe or choose
    /// GPUs.
    ///
    /// # Errors
    /// If what was given makes no sense for this question.
    fn before(&self, _engine: &mut Option<EngineId>, _machine: &[&'static str]) -> Result<(), Wrong> {
        Ok(())
    }

    /// The question, about what was planned.
    ///
    /// # Errors
    /// If the plan has no such thing, or no such value.
    fn question(&self, about: About<'_>, given: &Given) -> Result<Self::Question, Wrong>;
}

/// What else is known of how the plan was asked for.
#[derive(Clone, Debug)]
pub struct Given {
    /// RAM is specified.
    pub ram: bool,
}

/// What is wrong with the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(String);

impl Wrong {
    /// The value of an option is.
    pub fn flag(flag: &str, sentence: &str) -> Self {
        Self(format!("{flag}: {sentence}"))
    }
}

impl From<String> for Wrong {
    fn from(sentence: String) -> Self {
        Self(sentence)
    }
}

impl From<Wrong> for String {
    fn from(Wrong(sentence): Wrong) -> Self {
        sentence
    }
}

/// In which form an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As text.
    Page,
    /// As one JSON object.
    Json,
    /// As CSV.
    Csv,
    /// As an SVG picture.
    Svg,
}

/// The forms of a table.
#[derive(Clone, Copy, Debug, Args)]
pub struct Table {
    /// Print one JSON object; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output", conflicts_with = "csv")]
    json: bool,
    /// Print CSV with a header line; all sizes are integers in bytes.
    #[arg(long, help_heading = "Output")]
    csv: bool,
}

impl From<Table> for Form {
    fn from(Table { json, csv }: Table) -> Self {
        match (json, csv) {
            (true, _) => Self::Json,
            (_, true) => Self::Csv,
            _ => Self::Page,
        }
    }
}
