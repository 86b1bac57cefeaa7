//! The command line interface, which also opens the planner's screen.
#![allow(clippy::format_push_string, reason = "written once; readability wins")]

mod apply;
mod args;
mod bundle;
#[cfg(feature = "net")]
mod cache;
mod check;
mod command;
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
mod questions;
mod report;
mod resolve;
mod scenario;
mod schema;
mod style;
mod surroundings;
mod value;
mod watch;

/// What the fuzz targets read with.
#[cfg(any(fuzzing, test))]
pub mod fuzz {
    pub use super::config::check as config;
    pub use super::scenario::check as scenario;
}

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::panic;
use std::path::Path;
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::ErrorKind;

use crate::answer::ram::{self, RamUse};
use crate::engine::PlanRequest;
use crate::export::Besides;
use crate::hardware::remembered::Remembered;
use crate::hardware::remembered::SavedMachines;
use crate::library::ModelFilter;
use crate::model::Modalities;
use crate::settings::{Context, Flag, Turn};
use crate::source::{HfReference, Roots};
use crate::speed::prompt::PromptSpeed;
use crate::speed::turn::{Reuse, TurnTime};
use crate::speed::{Speed, Speeds};
use crate::teach::Page;
use crate::text;
use crate::tui::app::App;
use crate::tui::screens::teach::TeachStart;
use crate::tui::theme::{Appearance, Theme};
use crate::tui::{self, ExitReason};
use args::{Cli, Commands, ConfigArgs, DevicesArgs, ListArgs, MachineCommand, PlanArgs};
use command::Expanded;
use config::Config;
use error::{CliError, written};
use resolve::ParsedArgs;
use scenario::PinnedArgs;
use style::Style;

/// Runs the program and returns its exit status: `manual` has the table.
pub fn main() -> ExitCode {
    install_panic_hook();
    let status = match run(command::expand(std::env::args_os())) {
        Ok(status) => status,
        Err(error) => error.report(),
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

fn run(Expanded { arguments, remarks, declined }: Expanded) -> Result<ExitCode, CliError> {
    let parsed = manual::command().try_get_matches_from(&arguments);
    let parsed = parsed.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    let mut cli = match parsed.map_err(|error| error.format(&mut manual::command())) {
        Ok(cli) => cli,
        Err(help) if matches!(help.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return written(help.print()).map(|()| ExitCode::SUCCESS);
        }
        Err(error) => return Err(error::usage_error(error, &arguments)),
    };
    #[cfg(feature = "net")]
    crate::source::limit_network(cli.offline, cli.timeout);
    surroundings::start(cli.log_file.as_deref(), &arguments)?;
    if let Some(knobs) = cli.knobs_mut() {
        (knobs.remarks, knobs.declined) = (remarks, declined);
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
            (several, _) if several.is_empty() => plan(&args)?,
            (several, router) => print(&questions::started(&args, &several, router)?)?,
        },
        Some(Commands::Max(args)) => print(&questions::max(&args)?)?,
        Some(Commands::Why(args)) => print(&questions::why(&args)?)?,
        Some(Commands::Best(args)) => print(&questions::best(&args)?)?,
        Some(Commands::Place(mut args)) => print(&questions::place(&mut args)?)?,
        Some(Commands::Need(args)) => print(&questions::need(&args)?)?,
        Some(Commands::Check(mut args)) => {
            args.take_command()?;
            return check::run(&args);
        }
        Some(Commands::Apply(args)) => return apply::run(&args),
        Some(Commands::Watch(args)) => return watch::run(&args),
        Some(Commands::Together(args)) => print(&questions::together(&args)?)?,
        Some(Commands::Sweep(args)) => print(&questions::sweep(&args)?)?,
        Some(Commands::Matrix(args)) => print(&questions::matrix(&args)?)?,
        Some(Commands::Export(args)) => questions::export(&args)?,
        Some(Commands::Explain(args)) => print(&explain::explain(&args)?)?,
        Some(Commands::List(args)) => list(&args)?,
        Some(Commands::Devices(args)) => devices(&args)?,
        #[cfg(feature = "net")]
        Some(Commands::Cache(args)) => print(&cache::run(&args)?)?,
        Some(Commands::Machine(command)) => machine(&command)?,
        Some(Commands::Config(args)) => print(&config(args)?)?,
        Some(Commands::Schema { name }) => print(&schema::run(name.as_ref())?)?,
        Some(Commands::Report(args)) => print(&bundle::run(&args, &arguments)?)?,
        Some(Commands::Completions { shell }) => completions::print(shell)?,
        Some(Commands::CompleteValues { kind, prefix }) => print(&completions::values(kind, &prefix))?,
        Some(Commands::Man(args)) => manual::run(&args)?,
        None => return planner(&cli, &mut pins),
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &PlanArgs) -> Result<(), CliError> {
    let start = ParsedArgs::read(&args.knobs, &args.machine)?;
    let model = args.model.as_deref().unwrap_or(Path::new(""));
    let opened = if args.command.names_model {
        resolve::package_or_namesake(model, &args.knobs)?
    } else {
        resolve::package(model, &args.knobs)?
    };
    let mut ready = start.with(&opened).complete();
    let named = args.model.as_deref().unwrap_or(Path::new("")).to_string_lossy();
    ready.notes.extend(opened.notes_on_source(&named));
    let mut plan = ready.plan(&opened.model)?;
    machines::apply(args, &mut ready, &opened.model, &mut plan)?;
    machines::apply_prompt(args, &mut ready, &opened.model, &mut plan)?;
    let turn = plan.settings.turn.map(|turn| {
        let time = TurnTime::of(&opened.model, &ready.machine, &plan, turn);
        (time, Reuse::of(&opened.model, &plan, ready.request(&opened.model).settings.swa_full))
    });
    let releases = args.releases.then(|| ready.request(&opened.model).neighbouring_releases(&plan));
    if releases.is_some() && plan.settings.release.is_none() {
        let sentence = format!("{} does not run llama.cpp's server: use another --engine", plan.engine_title());
        return Err(CliError::flag("--releases", &sentence));
    }
    let text = if args.json {
        let speed = Speed::of(&opened.model, &ready.machine, &plan, args.depth);
        let prompt = PromptSpeed::of_plan(&opened.model, &ready.machine, &plan);
        let starts = ready.starts(&opened.model)?;
        let ram = RamUse::of(&ready.request(&opened.model), &plan);
        let source = resolve::source(&opened, model);
        let besides = Besides {
            source: Some(&source),
            speed: speed.as_ref(),
            prompt: Some(&prompt),
            turn: turn.as_ref().map(|(time, reuse)| (time, reuse)),
            ram: Some(&ram),
            starts: starts.as_ref(),
            releases: releases.as_deref(),
        };
        error::json("plan", crate::export::json_with(&plan, &besides))?
    } else {
        let limits = ready.limits(&opened.model, &plan);
        let speeds = Speeds::of(&opened.model, &ready.machine, &plan, args.depth);
        let detail = if args.verbose { report::Detail::Verbose } else { report::Detail::Usual };
        let request = ready.request(&opened.model);
        let ram = RamUse::of(&request, &plan);
        let mut sentences: Vec<String> = ram::spills(&request.machine, &plan);
        sentences.extend(ram.shortage(&plan));
        sentences.extend(ram::largest_buffers(&plan));
        sentences.push(format!("RAM: {}.", ram.sentence()));
        sentences.extend(ram.in_use());
        sentences.extend(report::prompts(speeds.as_ref(), turn.as_ref(), request.larger_ubatch(&plan).as_ref()));
        report::plan(
            &plan,
            Some(&limits),
            speeds.as_ref(),
            &report::Extent { detail, ram: &sentences, releases: releases.as_deref().unwrap_or_default() },
            &Style::of_stdout(),
        )
    };
    print(&text)
}

fn list(args: &ListArgs) -> Result<(), CliError> {
    let mut parsed = ParsedArgs::read(&args.knobs, &args.machine)?;
    // --ctx is such a context too
    let preferred = parsed.config.preferences.need.filter(|_| !args.knobs.is_given(Flag::Context)).map(Context::Tokens);
    parsed.judge_by(args.need.or(preferred));
    let mut ready = parsed.complete();
    let roots = Roots::of_this_machine();
    let (repositories, words): (Vec<String>, Vec<String>) =
        args.words.iter().cloned().partition(|word| HfReference::parse(word, roots.hub()).is_some());
    let (typed, words) = ModelFilter::typed(&words.join(" "));
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let filter = ModelFilter {
        experts: args.moe.then_some(true).or(args.dense.then_some(false)).or(typed.experts),
        min: args.min.or(typed.min),
        max: args.max.or(typed.max),
        fits: args.fits,
        reads: Modalities { vision: args.vision || typed.reads.vision, audio: args.audio || typed.reads.audio },
        uses: typed.uses,
        min_speed: args.min_tps,
    };
    let wanted = list::Wanted {
        repositories: &repositories,
        words: &words,
        filter,
        quant: args.knobs.settings.quant,
        floors: args.floors.over(ready.config.preferences.floors),
        sort: args.sort,
        limit: args.limit,
    };
    let rows = list::rows(&mut ready, &wanted)?;
    if args.json {
        return print(&error::json("models", list::json(&ready, &rows))?);
    }
    if args.csv {
        return print(&list::csv(&rows));
    }
    let (style, mut last_source) = (Style::of_stdout(), "");
    let mut text = list::header(list::needed(&ready), Turn::asked(&ready.settings).is_some(), &style);
    for row in &rows {
        text += &list::text(row, &mut last_source, &style);
    }
    text += &list::footer(&ready, &wanted, &rows, &style);
    print(&text)
}

fn devices(args: &DevicesArgs) -> Result<(), CliError> {
    if let Some(search) = &args.presets {
        let found = machines::presets_found(search.as_deref())?;
        let text = if args.json {
            error::json("presets", machines::presets_json(&found))?
        } else if args.csv {
            machines::presets_csv(&found)
        } else {
            machines::presets_text(&found, &Style::of_stdout())
        };
        return print(&text);
    }
    let detected = resolve::MachineSource::read(&args.machine)?.detect();
    let text = if args.json {
        error::json("devices", machines::devices_json(&detected))?
    } else if args.csv {
        machines::devices_csv(&detected)
    } else {
        machines::devices_text(&detected, &Style::of_stdout())
    };
    print(&text)
}

fn machine(command: &MachineCommand) -> Result<(), CliError> {
    let saved = SavedMachines::here().map_err(CliError::Arguments)?;
    let text = match command {
        MachineCommand::Save { name, machine, force } => {
            let machine = resolve::MachineSource::read(machine)?.detect().machine;
            let path = saved.save(name, &machine, *force).map_err(CliError::Arguments)?;
            machines::saved(name, &machine, &path)
        }
        MachineCommand::List { json, csv } => {
            let entries = saved.list().map_err(CliError::Arguments)?;
            match (json, csv) {
                (true, _) => machines::saved_json(&entries)?,
                (_, true) => machines::saved_csv(&entries),
                _ => machines::saved_text(&entries, &Style::of_stdout()),
            }
        }
        MachineCommand::Forget => {
            machines::forgotten(&Remembered::here().and_then(|kept| kept.forget()).map_err(CliError::Arguments)?)
        }
        MachineCommand::Remove { name } => {
            saved.remove(name).map_err(CliError::Arguments)?;
            format!("removed '{name}'\n")
        }
    };
    print(&text)
}

fn config(args: ConfigArgs) -> Result<String, CliError> {
    if args.example {
        return Ok(config::example());
    }
    let (config, variable) = (Config::here()?, |name: &str| std::env::var(name).ok());
    match (args.json, args.csv) {
        (true, _) => error::json("configuration", config::json(&config, &variable)),
        (_, true) => Ok(config::csv(&config, &variable)),
        _ => Ok(config::text(&config, &variable, &Style::of_stdout())),
    }
}

/// Opens the planner. The model is read first, which takes milliseconds, so that a wrong path is reported where it was
/// written; GPUs are detected while the planner is already open.
fn planner(cli: &Cli, pins: &mut [PinnedArgs]) -> Result<ExitCode, CliError> {
    lessons::append(cli.lessons.as_deref())?;
    let start = ParsedArgs::read(&cli.knobs, &cli.machine)?;
    let opened = match &cli.model {
        Some(named) => resolve::model(named).map_err(|error| error.or_suggest_command(named))?,
        None => resolve::default_model()?,
    };
    let opened = resolve::with_draft(resolve::with_keys(opened, &cli.knobs.settings)?, &cli.knobs)?;
    // a wrong --quant is reported here; in the planner it is a knob
    resolve::changed(opened.clone(), &cli.knobs.settings)?;
    if cli.plain {
        let ready = start.with(&opened).complete();
        let model = resolve::changed(opened.clone(), &ready.settings)?.model;
        ready.notes.iter().for_each(|note| error::say(&format!("note: {note}")));
        let theme = Theme::new(Appearance::BEST);
        let request = PlanRequest { opened: opened.model, ..ready.request(&model) };
        let app = App::on(request, theme, tui::regions::MIN_SCREEN);
        return written(tui::plain::run(app, io::stdin().lock(), io::stdout().lock())).map(|()| ExitCode::SUCCESS);
    }
    if !io::stdout().is_terminal() {
        let sentence = "the planner needs a terminal: use 'plimsoll plan MODEL' to print the same plan, or --plain";
        return Err(CliError::Arguments(sentence.to_owned()));
    }
    for note in &start.notes {
        // visible again when the planner's screen is closed
        error::say(&format!("note: {note}"));
    }
    let found = cli.model.as_deref().map(|named| questions::model_location(named, None));
    let (mut requests, mut pinned) = (Vec::new(), Vec::new());
    for pin in pins {
        let (request, reference) = pin.request()?;
        requests.push(request);
        pinned.push(reference);
    }
    let number = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    let page = cli.page.or(cli.lesson.map(|_| Page::Lessons));
    let teach = page.map(|page| TeachStart { page, lesson: number(cli.lesson), step: number(cli.step) });
    let mut start = start.planner(opened, cli.model.as_deref(), cli.refresh);
    start.preferences.server.clone_from(&cli.server);
    let ended = tui::run(tui::PlannerStart { found, pins: requests, pinned, teach, ..start });
    if let Ok(tui::Ended { changed: Some(changed), .. }) = &ended
        && let Err(why) = scenario::keep_last(changed)
    {
        error::say(&format!("note: the plan is not kept: {why}"));
    }
    match ended.map(|ended| ended.why) {
        Ok(ExitReason::Quit) => Ok(ExitCode::SUCCESS),
        // the exit status that shells give a program ended by a signal
        Ok(ExitReason::Signal(number)) => Ok(ExitCode::from(u8::try_from(128 + number).unwrap_or(1))),
        Ok(ExitReason::InputClosed) => Err(CliError::Terminal("the terminal is gone".to_owned())),
        Err(error) => Err(CliError::Terminal(format!("the planner cannot use this terminal: {error}"))),
    }
}

/// `text` as standard output may get it: with the colours that only a terminal gets.
fn shown(text: &str) -> Cow<'_, str> {
    text::shown(text, io::stdout().is_terminal())
}

fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    written(out.write_all(shown(text).as_bytes()).and_then(|()| out.flush()))
}
