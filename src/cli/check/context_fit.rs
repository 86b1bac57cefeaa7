//! `plimsoll check` on LM Studio's line about the context that it takes.

use std::path::Path;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::args::CheckArgs;
use super::super::error::{self, CliError};
use super::super::out::print;
use super::super::resolve;
use super::super::style::Style;
use super::DIFFERS;
use crate::answer::check::context_fit::{FitCheck, FitTerm};
use crate::export::{Head, record};
use crate::observed::ObservedFit;
use crate::page::{Column, Hue, Narrow, Page, Span};
use crate::text;
use crate::units::{Bytes, Tokens};

/// Compares the line with the model that the user names, which it does not.
pub(super) fn check(args: &CheckArgs, seen: &ObservedFit) -> Result<ExitCode, CliError> {
    let named = args.model.as_deref().ok_or_else(|| {
        CliError::Arguments(
            "LM Studio's line does not name its model: give its folder or repository with --model".to_owned(),
        )
    })?;
    let found = compared(named, args, seen)?;
    let text = if args.json {
        error::json("check", text::json(&FitAnswer::of(&found, seen)))?
    } else {
        page(&found, seen, &Style::of_stdout())
    };
    print(&text)?;
    Ok(if found.agrees() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}

fn compared(named: &Path, args: &CheckArgs, seen: &ObservedFit) -> Result<FitCheck, CliError> {
    let package = resolve::changed(resolve::model(named)?, &args.knobs.settings)?;
    let package = package.for_mlx().map_err(|error| CliError::Model(error.to_string()))?;
    FitCheck::of(&package.model, seen).map_err(CliError::Model)
}

fn page(found: &FitCheck, seen: &ObservedFit, style: &Style) -> String {
    let (hue, word) = if found.agrees() { (Hue::Graph, "Agrees") } else { (Hue::Over, "Differs") };
    let mut page = Page::default();
    let fitted = format!(": LM Studio takes a context of {} tokens for this model.", Tokens(seen.fitted));
    page.line(vec![Span::new(word, hue.bold()), fitted.into()]);
    let columns = vec![
        Column::left("term", 22),
        Column::right("planned", 12),
        Column::right("in the log", 12),
        Column::left("", 8),
    ];
    let rows = found.terms.iter().map(|term| {
        let (hue, word) = if term.agrees() { (Hue::Text, "same") } else { (Hue::Over, "differs") };
        let cells = [term.name.clone(), term.shown(term.planned), term.shown(term.observed)];
        let cells = cells.iter().map(|cell| Span::from(cell.as_str())).collect::<Vec<_>>();
        cells.into_iter().chain([Span::new(word, hue)]).collect()
    });
    page.table(columns, rows.collect(), Narrow::Cut(0));
    let (weights, loaded) = found.loaded;
    page.item(&format!(
        "baseline: {loaded} were taken when the model was loaded, of which its weights are {weights}; towers for images and memory \
         that loading freed are the rest"
    ));
    style.report(&page)
}

/// LM Studio's line beside the model's own terms.
#[derive(JsonSchema, Serialize)]
pub(in crate::cli) struct FitAnswer<'a> {
    #[serde(flatten)]
    head: Head,
    /// The type of model that LM Studio takes it for.
    family: &'a str,
    /// The context that it takes.
    fitted: u64,
    terms: Vec<TermRecord<'a>>,
    /// Bytes of the model's weights.
    weights: Bytes,
    /// What was taken when it was loaded.
    loaded: Bytes,
    agrees: bool,
}

impl<'a> FitAnswer<'a> {
    fn of(found: &'a FitCheck, seen: &'a ObservedFit) -> Self {
        let (weights, loaded) = found.loaded;
        Self {
            head: Head::THIS,
            family: &seen.family,
            fitted: seen.fitted,
            terms: found.terms.iter().map(TermRecord::of).collect(),
            weights,
            loaded,
            agrees: found.agrees(),
        }
    }
}

record! {
    /// A term, in bytes or tokens.
    TermRecord<'a>(term: &'a FitTerm) {
        name: &'a str = &term.name,
        planned: u64 = term.planned,
        observed: u64 = term.observed,
        /// How far the log's figure may be off, as it is rounded.
        tolerance: u64 = term.tolerance,
        agrees: bool = term.agrees(),
    }
}
