//! `plimsoll check`: a plan beside what a program said that it took.

mod context_fit;
mod live;
pub(super) mod report;
mod share;

pub(super) use context_fit::FitAnswer;
pub(super) use live::{HeldRecord, ListedRecord, RunningAnswer};

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use self::live::Live;
use super::args::{CheckArgs, KnobArgs};
use super::config::Config;
use super::error::CliError;
use super::out::print;
use super::resolve::{MachineSource, ParsedArgs};
use super::style::Style;
use super::{error, resolve};
use crate::answer::check::running::{driver_overhead, explain_column};
use crate::answer::check::{Check, CheckRequest, check, override_kv};
use crate::engine::EngineId;
use crate::export::check as export;
use crate::files::{self, Within};
use crate::hardware::DetectOptions;
use crate::hardware::remembered::{Remembered, RememberedDriver};
use crate::library::check as library;
use crate::library::check::FoundModel;
use crate::library::check::example;
use crate::machine::{Machine, short_name};
use crate::model::Projector;
use crate::observed::{Load, Missing, Observation, ProcessMemory, Reader};
use crate::running::held;
use crate::settings::{Flag, Settings};
use crate::source::Roots;
use crate::units::Bytes;
use crate::{hardware, source};

/// The status of a comparison that differs.
const DIFFERS: u8 = 1;

/// Compares, prints, and returns 0 if it agrees, else 1.
pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, CliError> {
    if let Some(column) = &args.ps {
        return ps(args, column);
    }
    let reader = if args.share.is_some() { Reader::keeping_lines() } else { Reader::default() };
    let mut seen = match &args.log {
        Some(log) => read(log, reader)?,
        None => match live::look()? {
            Live::Said(seen) => seen,
            live => return live::check(args, live),
        },
    };
    if !seen.loads.iter().any(Load::has_memory) {
        if let Some(fit) = seen.fits.last() {
            return context_fit::check(args, fit);
        }
        if args.log.is_some() && !seen.ps.is_empty() {
            return live::check(args, Live::Listed(seen.ps));
        }
    }
    let chosen = chosen(&seen, args.load)?;
    let load = seen.loads.get(chosen).ok_or_else(|| nothing(&seen))?;
    let (found, compared) = match model(args, load).and_then(|found| Ok((compare(args, load, &found)?, found))) {
        Ok((compared, found)) => (found, compared),
        Err(CliError::Model(_)) if !load.has_memory() && load.figures().is_empty() => return Err(nothing(&seen)),
        // what was read is worth something without a plan
        Err(why @ CliError::Model(_)) => {
            let read = if args.json {
                error::json("check", export::json(&seen, chosen, None))?
            } else {
                report::observed(load)
            };
            print(&read)?;
            return Err(why);
        }
        Err(why) => return Err(why),
    };
    if let Some(file) = &args.share {
        return share::run(file, load, &compared);
    }
    let text = if args.json {
        error::json("check", export::json(&seen, chosen, Some(&compared)))?
    } else if args.csv {
        export::csv(&compared)
    } else if args.markdown {
        export::markdown(load, &compared)
    } else {
        seen.missing.retain(|missing| *missing != Missing::Name);
        report::text(&seen, chosen, &found, &compared, &Style::of_stdout())
    };
    print(&text)?;
    if args.log.is_none() && !args.json && !args.csv && !args.markdown {
        print(&live::held(args, load))?;
    }
    if args.remember {
        error::say(&remember(args, &seen, load)?);
    }
    Ok(if compared.agrees() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}

/// Which settings show this column; 0 if those that were given do.
fn ps(args: &CheckArgs, column: &str) -> Result<ExitCode, CliError> {
    let named: &Path = match args.model.as_deref().or(args.log.as_deref()) {
        Some(named) => named,
        None => return Err(CliError::Arguments("--ps needs a model: plimsoll check llama3.1:8b --ps …".to_owned())),
    };
    let start = ParsedArgs::by(&args.knobs, &args.machine, Config::default())?;
    let opened = resolve::changed(resolve::for_engine(resolve::model(named)?, &args.knobs)?, &args.knobs.settings)?;
    let ready = start.with(&opened).complete();
    let request = ready.request(&opened.model);
    let plan = ready.plan(&opened.model)?;
    let answer = explain_column(&request, column).map_err(|sentence| CliError::flag("--ps", &sentence))?;
    let text = if args.json {
        error::json("answer", export::ps_json((&plan, &resolve::source(&opened, named)), &answer))?
    } else {
        report::ps(&request, &answer, &ready.notes, &Style::of_stdout())
    };
    print(&text)?;
    Ok(if answer.agrees() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}

/// Reads a log.
fn read(log: &Path, reader: Reader) -> Result<Observation, CliError> {
    let cannot = |why: io::Error| CliError::Model(format!("the log {}", files::cannot_read(log, &why.to_string())));
    if let Some(text) = log.to_str().and_then(example).filter(|_| !log.exists()) {
        return Observation::read_by(reader, &mut text.as_bytes()).map_err(cannot);
    }
    if log == Path::new("-") {
        return Observation::read_by(reader, &mut Within::new(io::stdin().lock(), files::LOG)).map_err(cannot);
    }
    let mut file = files::log(log).map_err(|why| CliError::Model(format!("the log {why}, or - for standard input")))?;
    Observation::read_by(reader, &mut file).map_err(cannot)
}

/// What is missing, with what to do.
fn nothing(seen: &Observation) -> CliError {
    let missing = seen.missing.first().map_or_else(|| "no load of a model is in it".to_owned(), ToString::to_string);
    CliError::Model(missing)
}

/// Index of the load to compare.
fn chosen(seen: &Observation, asked: Option<u64>) -> Result<usize, CliError> {
    let Some(number) = asked else { return seen.chosen.ok_or_else(|| nothing(seen)) };
    let count = seen.loads.len() as u64;
    if (1..=count).contains(&number) {
        return Ok(usize::try_from(number - 1).unwrap_or(usize::MAX));
    }
    Err(CliError::flag("--load", &format!("there is no load {number}: the log has {count}")))
}

/// The model that the user names, else the one that the log names.
fn model(args: &CheckArgs, load: &Load) -> Result<FoundModel, CliError> {
    let found = match &args.model {
        Some(named) => FoundModel {
            package: resolve::model(named)?,
            // a model of the catalogue is like a file, but not the file
            is_same_file: named.is_file(),
            how: "as given with --model".to_owned(),
        },
        None => library::find(load, &Roots::of_this_machine()).map_err(CliError::Model)?,
    };
    let is_same_file = found.is_same_file && args.knobs.settings.quant.is_none();
    let mut changes = args.knobs.settings.clone();
    changes.override_kv.splice(..0, override_kv(load));
    let package = resolve::changed(found.package, &changes)?;
    Ok(FoundModel { package: resolve::with_draft(package, &args.knobs)?, is_same_file, ..found })
}

fn compare(args: &CheckArgs, load: &Load, found: &FoundModel) -> Result<Check, CliError> {
    let MachineSource { described, .. } = MachineSource::read(&args.machine)?;
    let request = CheckRequest {
        model: found.package.model.clone(),
        projector: projector(args, found)?,
        is_same_file: found.is_same_file,
        machine: &described,
        // the default is what the log shows
        engine: args.knobs.engine.filter(|&engine| engine != EngineId::default()),
        release: args.knobs.settings.release,
        knobs: &|settings| apply(&args.knobs, settings),
    };
    Ok(check(load, &request)?)
}

/// The projector that the user names, else the one that was found with the model.
fn projector(args: &CheckArgs, found: &FoundModel) -> Result<Option<Arc<Projector>>, CliError> {
    match &args.knobs.mmproj {
        Some(named) => Ok(Some(source::projector(named, &mut source::no_progress)?)),
        None => Ok(found.package.projector.clone().filter(|_| !args.knobs.settings.is_given(Flag::NoMmproj))),
    }
}

/// Knobs that are given stand over the log.
fn apply(knobs: &KnobArgs, settings: &mut Settings) {
    // the release is asked for apart, and what has an opened file too
    let given = knobs.settings.given_options().filter(|flag| !matches!(flag, Flag::Release | Flag::Quant));
    given.for_each(|flag| flag.copy(&knobs.settings, settings));
}

/// Remembers it, and returns a sentence on it. Figures of `nvidia-smi` in the text stand over those that NVML has now.
fn remember(args: &CheckArgs, seen: &Observation, load: &Load) -> Result<String, CliError> {
    let detected = hardware::detect(&DetectOptions { gpus: true, ..MachineSource::read(&args.machine)?.search });
    let processes = if seen.processes.is_empty() { held(&detected.processes) } else { seen.processes.clone() };
    remember_of(&detected.machine, &processes, load)
}

/// Remembers what `processes` hold besides the buffers of `load`, and returns a sentence on it.
pub(super) fn remember_of(machine: &Machine, processes: &[ProcessMemory], load: &Load) -> Result<String, CliError> {
    let cannot = |why: String| CliError::Model(format!("--remember: {why}"));
    let found = driver_overhead(load, processes).map_err(cannot)?;
    let version = export::version(load).unwrap_or_default();
    let program = load.program.map_or("a program", crate::observed::Program::name);
    let program = format!("{program} {version}").trim_end().to_owned();
    let entries = found.iter().map(|found| {
        let gpu = found.gpu.clone().or_else(|| only_gpu(machine, found.backend));
        let gpu = gpu.ok_or_else(|| cannot(format!("the log does not name the card of {}", found.device)))?;
        let bytes = found.mib().bytes().0;
        Ok(RememberedDriver { gpu, backend: found.backend, bytes, program: program.clone() })
    });
    let entries: Vec<RememberedDriver> = entries.collect::<Result<_, CliError>>()?;
    Remembered::here().and_then(|kept| kept.keep(&entries)).map_err(cannot)?;
    let each = entries.iter().map(|entry| {
        format!("{} takes {} besides buffers on {}", entry.backend.name(), Bytes(entry.bytes), short_name(&entry.gpu))
    });
    let each: Vec<String> = each.collect();
    Ok(format!("remembered: {}; plans for this machine say so from now on", each.join(", ")))
}

/// The name of the machine's GPU, if it has only one of this backend.
fn only_gpu(machine: &Machine, backend: crate::machine::Backend) -> Option<String> {
    let mut gpus = machine.gpus.iter().filter(|gpu| gpu.backend == backend);
    gpus.next().filter(|_| gpus.next().is_none()).map(|gpu| gpu.name.clone())
}
