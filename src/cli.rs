//! The command line interface, which also opens the planner's screen.
#![allow(clippy::format_push_string, reason = "written once; readability wins")]

mod apply;
mod args;
mod bundle;
#[cfg(feature = "net")]
mod cache;
mod check;
mod command;
mod commands;
mod completions;
mod config;
mod error;
mod explain;
mod interrupt;
mod knobs;
mod lessons;
mod list;
mod machines;
mod manual;
mod mcp;
mod out;
mod plan;
mod planner;
mod questions;
mod report;
mod resolve;
mod scenario;
mod schema;
mod status_line;
mod style;
mod surroundings;
mod usage;
mod value;
mod variables;
mod watch;

/// What the fuzz targets read with.
#[cfg(any(fuzzing, test))]
pub mod fuzz {
    pub use super::config::check as config;
    pub use super::scenario::check as scenario;
}

use std::panic;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use args::AboutPlan;
use command::Expanded;
use commands::{Cli, Commands};
use error::{CliError, written};
use out::print;

use crate::settings::Source;

/// Runs the program and returns its exit status: `manual` has the table.
pub fn main() -> ExitCode {
    install_panic_hook();
    let command_line = Cli::command();
    let expanded = command::expand(std::env::args_os(), &command_line);
    let status = match run(expanded, command_line) {
        Ok(status) => status,
        Err(error) => surroundings::report(&error),
    };
    surroundings::end();
    status
}

/// Adds a request to report the panic to its message. The planner restores the terminal before.
fn install_panic_hook() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        before(panic);
        tracing::error!("{panic}");
        let version = env!("CARGO_PKG_VERSION");
        error::say(&format!(
            "This is a bug in plimsoll {version}. Please report it, with the lines above, what you did and the output of \
             'plimsoll report'."
        ));
    }));
}

fn run(Expanded { arguments, remarks, declined }: Expanded, command_line: clap::Command) -> Result<ExitCode, CliError> {
    let mut parsed = command_line.try_get_matches_from(&arguments);
    // the help of every command is made only where one is printed
    if parsed.as_ref().is_err_and(|error| error.kind() == ErrorKind::DisplayHelp) {
        parsed = manual::command().try_get_matches_from(&arguments);
    }
    let parsed = parsed.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    let mut cli = match parsed.map_err(|error| error.format(&mut manual::command())) {
        Ok(cli) => cli,
        Err(help) if matches!(help.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return written(help.print()).map(|()| ExitCode::SUCCESS);
        }
        Err(error) => return Err(usage::usage_error(error, &arguments)),
    };
    #[cfg(feature = "net")]
    crate::source::limit_network(cli.offline, cli.timeout);
    surroundings::start(cli.log_file.as_deref(), &arguments)?;
    if let Some(knobs) = cli.knobs_mut() {
        knobs.remarks = remarks;
        for flag in declined {
            knobs.settings.turn_off(flag, Source::CommandLine);
        }
    }
    if cli.last {
        cli.model = Some(scenario::last().map_err(CliError::Arguments)?);
    }
    if let Some(asked) = cli.query_mut() {
        asked.take_command()?;
    }
    let mut pins = cli.asked_mut().map_or(Ok(Vec::new()), scenario::take)?;
    match cli.command {
        Some(Commands::Plan(mut args)) => match args.take_command()? {
            (several, _) if several.is_empty() => plan::run(&args)?,
            _ if args.fits.is_some() => {
                let several = "it asks of one plan, and the command starts several models: choose one with --pick";
                return Err(CliError::flag("--fits", several));
            }
            (several, router) => print(&questions::started(&args, &several, router)?)?,
        },
        Some(Commands::Check(mut args)) => {
            args.take_command()?;
            return check::run(&args);
        }
        Some(Commands::Apply(args)) => return apply::run(&args),
        Some(Commands::Watch(args)) => return watch::run(&args),
        Some(Commands::Together(args)) => print(&questions::several(&args)?)?,
        Some(Commands::List(args)) => list::run(&args)?,
        Some(Commands::Devices(args)) => machines::devices(&args)?,
        #[cfg(feature = "net")]
        Some(Commands::Cache(args)) => print(&cache::run(&args)?)?,
        Some(Commands::Machine(command)) => machines::saved_ones(&command)?,
        Some(Commands::Config(args)) => print(&config::run(args)?)?,
        Some(Commands::Schema { name }) => print(&schema::run(name)?)?,
        Some(Commands::Report(args)) => print(&bundle::run(&args, &arguments)?)?,
        Some(Commands::Completions { shell }) => completions::print(shell)?,
        Some(Commands::CompleteValues { kind, prefix }) => print(&completions::values(kind, &prefix))?,
        Some(Commands::Man(args)) => manual::run(&args)?,
        Some(Commands::Mcp) => mcp::run(cli.offline)?,
        Some(mut command) => command.about_plan().map_or(Ok(()), AboutPlan::run)?,
        None => return planner::run(&cli, &mut pins),
    }
    Ok(ExitCode::SUCCESS)
}
