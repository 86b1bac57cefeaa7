//! Values that have names, which `--help` and completions list.

use std::ffi::OsStr;
use std::str::FromStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};

use super::super::args::{KnobOrQuant, PageChoice};
use super::{NUMBER_KNOBS, fits, objective};
use super::{engine_knobs, knob, knob_or_quant, number_knob_or_quant, page};
use crate::answer::best::Objective;
use crate::engine::EngineId;
use crate::export::ExportFormat;
use crate::plan::Outcome;
use crate::settings::knob::Knob;
use crate::teach::Page;

/// A parser, and the names that it accepts.
#[derive(Clone)]
pub(in super::super) struct Listed<T> {
    parse: fn(&str) -> Result<T, String>,
    names: Vec<&'static str>,
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

fn parsed<T: FromStr<Err = String>>(names: impl IntoIterator<Item = &'static str>) -> Listed<T> {
    Listed { parse: |text| text.parse(), names: names.into_iter().collect() }
}

pub(in super::super) fn engines() -> Listed<EngineId> {
    parsed(EngineId::ALL.map(EngineId::name))
}

pub(in super::super) fn formats() -> Listed<ExportFormat> {
    parsed(ExportFormat::ALL.map(ExportFormat::name))
}

pub(in super::super) fn pages() -> Listed<PageChoice> {
    Listed { parse: page, names: Page::ALL.into_iter().map(Page::name).chain(["all"]).collect() }
}

pub(in super::super) fn ways_to_fit() -> Listed<Outcome> {
    Listed { parse: fits, names: vec!["vram", "experts", "split"] }
}

pub(in super::super) fn objectives() -> Listed<Objective> {
    Listed { parse: objective, names: Objective::ALL.map(Objective::name).to_vec() }
}

pub(in super::super) fn knobs() -> Listed<Knob> {
    Listed { parse: knob, names: knob_names(&engine_knobs()).collect() }
}

pub(in super::super) fn knobs_or_quant() -> Listed<KnobOrQuant> {
    Listed { parse: knob_or_quant, names: knob_names(&engine_knobs()).chain(["quant"]).collect() }
}

pub(in super::super) fn number_knobs_or_quant() -> Listed<KnobOrQuant> {
    Listed { parse: number_knob_or_quant, names: knob_names(&NUMBER_KNOBS).chain(["quant"]).collect() }
}

fn knob_names(knobs: &[Knob]) -> impl Iterator<Item = &'static str> {
    knobs.iter().map(|knob| knob.name())
}
