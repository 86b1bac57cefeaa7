//! The command line: arguments in, text or JSON out. The planner's screen is opened from here too.
#![allow(clippy::format_push_string, reason = "a report is written once; what reads best wins")]

mod args;
mod best;
#[cfg(feature = "net")]
mod cache;
mod devices;
mod environment;
mod explain;
mod export;
mod fault;
mod knobs;
mod list;
mod machines;
mod presets;
mod progress;
mod questions;
mod report;
mod start;
mod style;
mod together;
mod value;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::panic;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::hardware::saved::Saved;
use crate::tui::{self, Leave};
use args::{Cli, Command, DevicesArgs, ListArgs, MachineCommand, PlanArgs};
use fault::{Fault, written};
use start::Start;
use style::Style;

/// Runs the program and returns its exit status: 0 done (whatever a plan's verdict), 1 the answer could not be
/// written, 2 bad arguments or settings that the engine refuses, 3 the model could not be read.
pub fn main() -> ExitCode {
    hook_panics();
    match run(std::env::args_os()) {
        Ok(status) => status,
        Err(fault) => fault.report(),
    }
}

/// From now on what is said of a panic ends in what to do about it. The planner gives the terminal back before.
fn hook_panics() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        before(panic);
        eprintln!(
            "plimsoll {} has failed, which is a mistake in it and not yours: please report the lines above, and what you did",
            env!("CARGO_PKG_VERSION")
        );
    }));
}

fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<ExitCode, Fault> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(help) if matches!(help.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return written(help.print()).map(|()| ExitCode::SUCCESS);
        }
        Err(error) => return Err(fault::misread(error, &arguments)),
    };
    match cli.command {
        Some(Command::Plan(args)) => plan(&args)?,
        Some(Command::Max(args)) => print(&questions::max(&args)?)?,
        Some(Command::Why(args)) => print(&questions::why(&args)?)?,
        Some(Command::Best(args)) => print(&best::run(&args)?)?,
        Some(Command::Together(args)) => print(&together::run(&args)?)?,
        Some(Command::Sweep(args)) => print(&questions::sweep(&args)?)?,
        Some(Command::Matrix(args)) => print(&questions::matrix(&args)?)?,
        Some(Command::Export(args)) => export::run(&args)?,
        Some(Command::Explain(args)) => print(&explain::explain(&args)?)?,
        Some(Command::List(args)) => list(&args)?,
        Some(Command::Devices(args)) => devices(&args)?,
        #[cfg(feature = "net")]
        Some(Command::Cache(args)) => print(&cache::run(&args)?)?,
        Some(Command::Machine(command)) => machine(&command)?,
        Some(Command::Completions { shell }) => completions(shell)?,
        None => return planner(&cli),
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &PlanArgs) -> Result<(), Fault> {
    let start = Start::read(&args.knobs, &args.machine)?;
    let opened = start::quantised(start::model(&args.model)?, args.knobs.others.quant)?;
    let ready = start.with(&opened).complete();
    let plan = ready.plan(&opened.model)?;
    let text = if args.json {
        let json = crate::export::json(&plan);
        json.map_err(|error| Fault::Terminal(format!("the plan cannot be written as JSON: {error}")))? + "\n"
    } else {
        let limits = ready.limits(&opened.model, &plan);
        report::plan(&plan, Some(&limits), &Style::of_stdout())
    };
    print(&text)
}

fn list(args: &ListArgs) -> Result<(), Fault> {
    let mut ready = Start::read(&args.knobs, &args.machine)?.complete();
    let quant = args.knobs.others.quant;
    if args.json {
        let rows = list::rows(&mut ready, quant, args.fits, &mut |_| true);
        let json = list::json(&ready, &rows);
        let json = json.map_err(|error| Fault::Terminal(format!("the models cannot be written as JSON: {error}")))?;
        return print(&(json + "\n"));
    }
    // each line as soon as it is known: all of them together take a while
    let (style, mut of) = (Style::of_stdout(), "");
    let mut out = io::stdout().lock();
    let mut said = out.write_all(list::head(&style).as_bytes());
    let rows = list::rows(&mut ready, quant, args.fits, &mut |row| {
        if said.is_ok() {
            said = out.write_all(list::text(row, &mut of, &style).as_bytes());
        }
        said.is_ok()
    });
    written(said.and_then(|()| out.write_all(list::foot(&ready, &rows, &style).as_bytes())).and_then(|()| out.flush()))
}

fn devices(args: &DevicesArgs) -> Result<(), Fault> {
    if let Some(search) = &args.presets {
        let found = presets::found(search.as_deref())?;
        let text = if args.json {
            let json = presets::json(&found);
            json.map_err(|error| Fault::Terminal(format!("the presets cannot be written as JSON: {error}")))? + "\n"
        } else {
            presets::text(&found, &Style::of_stdout())
        };
        return print(&text);
    }
    let detected = start::Asked::read(&args.machine)?.look();
    let text = if args.json {
        let json = devices::json(&detected);
        json.map_err(|error| Fault::Terminal(format!("the devices cannot be written as JSON: {error}")))? + "\n"
    } else {
        devices::text(&detected, &Style::of_stdout())
    };
    print(&text)
}

fn machine(command: &MachineCommand) -> Result<(), Fault> {
    let saved = Saved::here().map_err(Fault::Arguments)?;
    let text = match command {
        MachineCommand::Save { name, machine } => {
            let machine = start::Asked::read(machine)?.look().machine;
            let path = saved.save(name, &machine).map_err(Fault::Arguments)?;
            machines::saved(name, &machine, &path)
        }
        MachineCommand::List { json } => {
            let entries = saved.list().map_err(Fault::Arguments)?;
            if *json { machines::json(&entries)? } else { machines::text(&entries, &Style::of_stdout()) }
        }
        MachineCommand::Remove { name } => {
            saved.remove(name).map_err(Fault::Arguments)?;
            format!("removed '{name}'\n")
        }
    };
    print(&text)
}

fn completions(shell: clap_complete::Shell) -> Result<(), Fault> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "plimsoll", &mut script);
    written(io::stdout().lock().write_all(&script))
}

/// Opens the planner. The model is read first, which takes milliseconds, so that a wrong path is said where it was
/// written; GPUs are looked for while the planner is open already.
fn planner(cli: &Cli) -> Result<ExitCode, Fault> {
    let start = Start::read(&cli.knobs, &cli.machine)?;
    let opened = match &cli.model {
        Some(named) => start::model(named).map_err(|fault| fault.or_a_command(named))?,
        None => start::default_model()?,
    };
    // refused here, where it was written; in the planner it is a knob
    start::quantised(opened.clone(), cli.knobs.others.quant)?;
    if !io::stdout().is_terminal() {
        let sentence = "the planner needs a terminal: use 'plimsoll plan MODEL' to print the same plan";
        return Err(Fault::Arguments(sentence.to_owned()));
    }
    for note in &start.notes {
        // behind the planner's screen, and there again when it is closed
        eprintln!("note: {note}");
    }
    let found = cli.model.as_deref().map(|named| export::found(named, None));
    match tui::run(tui::Start { found, ..start.planner(opened, cli.model.as_deref(), cli.refresh) }) {
        Ok(Leave::Quit) => Ok(ExitCode::SUCCESS),
        // as shells count a program that a signal ended
        Ok(Leave::Signal(number)) => Ok(ExitCode::from(u8::try_from(128 + number).unwrap_or(1))),
        Ok(Leave::InputClosed) => Err(Fault::Terminal("the terminal is gone".to_owned())),
        Err(error) => Err(Fault::Terminal(format!("the planner cannot use this terminal: {error}"))),
    }
}

fn print(text: &str) -> Result<(), Fault> {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}
