//! `plimsoll check MODEL --ps "27%/73% CPU/GPU"`.

use std::path::Path;
use std::process::ExitCode;

use super::super::args::CheckArgs;
use super::super::config::Config;
use super::super::error::CliError;
use super::super::questions::json;
use super::super::report::check as report;
use super::super::resolve::{self, ParsedArgs};
use super::super::style::Style;
use super::DIFFERS;
use crate::answer::check::running::explain_column;
use crate::export::check as export;

/// Which settings show this column; 0 if those that were given do.
pub(super) fn run(args: &CheckArgs, column: &str) -> Result<ExitCode, CliError> {
    let named: &Path = match args.model.as_deref().or(args.log.as_deref()) {
        Some(named) => named,
        None => return Err(CliError::Arguments("--ps needs a model: plimsoll check llama3.1:8b --ps …".to_owned())),
    };
    let start = ParsedArgs::by(&args.knobs, &args.machine, Config::default())?;
    let opened = resolve::quantised(resolve::model(named)?, args.knobs.settings.quant)?;
    let ready = start.with(&opened).complete();
    let request = ready.request(&opened.model);
    let answer = explain_column(&request, column).map_err(|sentence| CliError::flag("--ps", &sentence))?;
    let text = if args.json {
        json(export::ps_json(&request, &answer))?
    } else {
        report::ps(&request, &answer, &ready.notes, &Style::of_stdout())
    };
    super::super::print(&text)?;
    Ok(if answer.agrees() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}
