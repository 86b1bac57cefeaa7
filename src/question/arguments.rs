//! What the command line asks a question with, besides a model and everything that a plan of it depends on.
#![allow(clippy::struct_excessive_bools, reason = "flags are what they are")]

use clap::Args;

use super::{About, Question};
use crate::answer::best::Minimums;
use crate::engine::EngineId;
use crate::export::ModelLocation;
use crate::settings::knob::Knob;
use crate::units::Bytes;

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
    fn before(&self, _engine: &mut Option<EngineId>, _machine: &[&'static str]) -> Result<(), String> {
        Ok(())
    }

    /// The question, about what was planned.
    ///
    /// # Errors
    /// If the plan has no such thing, or no such value.
    fn question(&self, about: About<'_>, given: &AskedWith) -> Result<Self::Question, String>;
}

/// What else is known of how the plan was asked for.
#[derive(Clone, Debug)]
pub struct AskedWith {
    /// The knobs, in the order of the screen.
    pub knobs: Vec<Knob>,
    /// RAM is specified.
    pub ram: bool,
    /// What the configuration leaves free on every GPU.
    pub margin: Option<Bytes>,
    /// The narrowest types that the configuration allows.
    pub minimums: Minimums,
    /// Where other programs find the model.
    pub location: ModelLocation,
    /// What else there is to say of what was given.
    pub notes: Vec<String>,
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

impl Form {
    /// That of the option which is given.
    pub const fn of(json: bool, csv: bool, svg: bool) -> Self {
        match (json, csv, svg) {
            (true, ..) => Self::Json,
            (_, true, _) => Self::Csv,
            (_, _, true) => Self::Svg,
            _ => Self::Page,
        }
    }
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

impl Table {
    /// The one that is asked for.
    pub const fn form(self) -> Form {
        Form::of(self.json, self.csv, false)
    }
}

/// The forms of a table that can be drawn.
#[derive(Clone, Copy, Debug, Args)]
pub struct Drawn {
    #[command(flatten)]
    table: Table,
    /// Print an SVG picture.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["json", "csv"])]
    svg: bool,
}

impl Drawn {
    /// The one that is asked for.
    pub const fn form(self) -> Form {
        Form::of(self.table.json, self.table.csv, self.svg)
    }
}

/// That the value of `flag` is wrong.
pub(super) fn wrong_flag(flag: &str, sentence: &str) -> String {
    format!("{flag}: {sentence}")
}

/// The value of `flag` is the number of a layer.
pub(super) fn within(flag: &str, value: Option<u64>, least: u64, most: u64) -> Result<(), String> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(wrong_flag(flag, &format!("the model has no layer {value}: use a number from {least} to {most}")))
        }
        _ => Ok(()),
    }
}
