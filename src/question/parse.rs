//! Parsers for the values of questions; errors list the accepted forms.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};

use crate::answer::best::Objective;
use crate::answer::sweep::AxisKind;
use crate::gguf::{FileType, NotAFileType};
use crate::settings::knob::Knob;

pub(crate) use crate::settings::written::{count, layers};

/// Tokens per second.
pub(crate) fn speed(text: &str) -> Result<f64, String> {
    let speed = text.trim().parse::<f64>().ok().filter(|speed| speed.is_finite() && *speed > 0.0);
    speed.ok_or_else(|| format!("'{text}' is not a speed: use tokens per second, such as 23.4"))
}

/// A file type of llama.cpp.
pub(crate) fn file_type(text: &str) -> Result<FileType, String> {
    text.parse().map_err(|error: NotAFileType| error.to_string())
}

/// A knob by its name on the command line.
fn knob(text: &str) -> Result<Knob, String> {
    named(text, &engine_knobs())
}

/// All knobs that move plans, but the quantisation, which is a property of the model and parsed separately.
fn engine_knobs() -> Vec<Knob> {
    Knob::ALL.into_iter().filter(|&knob| knob != Knob::Quant && knob.moves_plans()).collect()
}

/// What settings should serve.
fn objective(text: &str) -> Result<Objective, String> {
    Objective::ALL.into_iter().find(|objective| objective.name() == text.trim()).ok_or_else(|| {
        format!("'{text}' is not an objective: use {}", Objective::ALL.map(Objective::name).join(" or "))
    })
}

/// Knobs whose values are numbers.
const NUMBER_KNOBS: [Knob; 4] = [Knob::Context, Knob::Parallel, Knob::Batch, Knob::GpuLayers];

/// A knob, or the quantisation.
fn knob_or_quant(text: &str) -> Result<AxisKind, String> {
    or_quant(text, &engine_knobs())
}

/// A knob whose values are numbers, or the quantisation.
fn number_knob_or_quant(text: &str) -> Result<AxisKind, String> {
    or_quant(text, &NUMBER_KNOBS)
}

fn or_quant(text: &str, knobs: &[Knob]) -> Result<AxisKind, String> {
    if text.trim() == "quant" {
        return Ok(AxisKind::Quantisation);
    }
    named(text, knobs).map(AxisKind::Knob).map_err(|sentence| format!("{sentence}, or quant"))
}

fn named(text: &str, knobs: &[Knob]) -> Result<Knob, String> {
    let names = || knobs.iter().map(|knob| knob.name()).collect::<Vec<_>>().join(", ");
    let found = knobs.iter().find(|knob| knob.name() == text.trim()).copied();
    found.ok_or_else(|| format!("'{text}' is not a knob that can be used here: use one of {}", names()))
}

/// A parser, and the names that it accepts.
#[derive(Clone)]
pub(crate) struct Listed<T> {
    pub(crate) parse: fn(&str) -> Result<T, String>,
    pub(crate) names: Vec<&'static str>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Listed<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        self.parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}

pub(crate) fn objectives() -> Listed<Objective> {
    Listed { parse: objective, names: Objective::ALL.map(Objective::name).to_vec() }
}

pub(crate) fn knobs() -> Listed<Knob> {
    Listed { parse: knob, names: knob_names(&engine_knobs()).collect() }
}

pub(crate) fn knobs_or_quant() -> Listed<AxisKind> {
    Listed { parse: knob_or_quant, names: knob_names(&engine_knobs()).chain(["quant"]).collect() }
}

pub(crate) fn number_knobs_or_quant() -> Listed<AxisKind> {
    Listed { parse: number_knob_or_quant, names: knob_names(&NUMBER_KNOBS).chain(["quant"]).collect() }
}

fn knob_names(knobs: &[Knob]) -> impl Iterator<Item = &'static str> {
    knobs.iter().map(|knob| knob.name())
}
