//! A load as a sample for others: what its program printed, without names, with its figures as they were read.

use schemars::JsonSchema;
use serde::Serialize;

use super::check::version;
use super::record;
use crate::answer::check::{Check, CheckedTerm, Compared, Part};
use crate::model::CATALOGUE;
use crate::observed::{Load, Mib, Program, share};
use crate::text;

/// `{"id","program","version","model","raw","figures":[{"device","part","term","mib","same"}]}`: the lines of the load
/// and every figure that was read in them, and whether a plan has the same. A test of this program reads such files again.
///
/// `private` are names of this user and this computer; `load` has its lines ([`Load::lines`]).
///
/// # Errors
/// None that a check can cause.
pub fn json(load: &Load, check: &Check, private: &[String]) -> serde_json::Result<String> {
    text::json(&Sample::of(load, check, private))
}

record! {
    Sample<'a>(load: &'a Load, check: &'a Check, private: &'a [String]) {
        id: String = id(load, check),
        program: Option<&'static str> = load.program.map(Program::name),
        version: Option<String> = version(load),
        /// The model that was planned, if it is one of the catalogue.
        model: Option<String> = reference(check),
        raw: Vec<String> = share::anonymous(&load.lines, private),
        figures: Vec<Figure<'a>> = check.rows.iter().filter_map(Figure::of).collect(),
    }
}

/// A figure in a log.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Figure<'a> {
    device: &'a str,
    part: Part,
    term: CheckedTerm,
    mib: Mib,
    /// Whether the plan has the same.
    same: bool,
}

impl<'a> Figure<'a> {
    fn of(row: &'a Compared) -> Option<Self> {
        let Compared { device, part, term, observed, .. } = row;
        Some(Self { device, part: *part, term: *term, mib: (*observed)?, same: row.is_same() })
    }
}

/// Program, version and model in one word: `llama.cpp-b11342-qwen3-8b-q4_k_m`.
fn id(load: &Load, check: &Check) -> String {
    let program = load.program.map_or("log", Program::name).to_owned();
    let parts = [Some(program), version(load), reference(check).or_else(|| load.models.first()?.architecture.clone())];
    let words: Vec<String> = parts.into_iter().flatten().map(|part| part.replace(CATALOGUE, "")).collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    words.join("-").chars().map(plain).collect()
}

/// The reference of the model in the catalogue, with the quantisation that was planned.
fn reference(check: &Check) -> Option<String> {
    let model = &check.request.model;
    let entry = model.entry.as_deref()?;
    let quantisation = check.quantisation.map(|quantisation| quantisation.to_string());
    let quantisation = quantisation.or_else(|| model.file_type.map(str::to_owned))?;
    Some(format!("{}{entry}@{}", CATALOGUE, quantisation.to_lowercase()))
}
