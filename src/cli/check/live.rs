//! `plimsoll check` without a log: what runs on this computer.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::args::CheckArgs;
use super::super::config::Config;
use super::super::error::{CliError, one_line};
use super::super::out::print;
use super::super::resolve::{MachineSource, ParsedArgs};
use super::super::style::Style;
use super::super::{error, resolve};
use super::{DIFFERS, apply, compare, model};
use crate::answer::check::running::{HeldMemory, ListedModel, driver_overhead, machine_before};
use crate::engine::PlanRequest;
use crate::export::{Head, record};
use crate::hardware::processes::ServerProcess;
use crate::hardware::{DetectOptions, Detected, processes};
use crate::observed::{Load, Observation, ProcessMemory, PsRow, ShownCommand};
use crate::page::{Hue, Page, Span};
use crate::plan::{Confidence, OllamaPs, Plan};
use crate::running::held as held_by;
use crate::running::ollama::RunningOllama;
use crate::settings::{Context, Flag, Release};
use crate::source::Roots;
use crate::units::{Bytes, Tokens};
use crate::{hardware, text};

/// What was found.
pub(super) enum Live {
    /// Output with a load in it.
    Said(Observation),
    /// llama-server processes whose output tells nothing.
    Servers(Vec<ServerProcess>),
    /// Models that a running Ollama lists.
    Listed(Vec<PsRow>),
}

/// Looks for what runs: output with a load in it first, then command lines, then Ollama's own list.
pub(super) fn look() -> Result<Live, CliError> {
    let servers = processes::servers();
    let (mut looked, mut quiet) = (Vec::new(), None);
    for mut output in processes::outputs(&servers) {
        match Observation::read(&mut output.text) {
            Ok(seen) if seen.load().is_some_and(Load::has_memory) => {
                error::say(&format!("note: this is from {}", output.name));
                return Ok(Live::Said(seen));
            }
            Ok(seen) if !seen.loads.is_empty() => quiet = quiet.or_else(|| seen.missing.first().copied()),
            _ => {}
        }
        looked.push(output.name);
    }
    // an Ollama that the user named comes first
    let (listed, is_named) = listed();
    if !listed.is_empty() && (is_named || servers.is_empty()) {
        return Ok(Live::Listed(listed));
    }
    if !servers.is_empty() {
        return Ok(Live::Servers(servers));
    }
    Err(CliError::Model(match quiet {
        Some(missing) => missing.to_string(),
        None if looked.is_empty() => {
            "no output of Ollama or llama-server is readable here, and no Ollama answers: give \
                                      a log with 'plimsoll check FILE'"
                .to_owned()
        }
        None => {
            format!("no model is loaded in {}: load one, or give a log with 'plimsoll check FILE'", looked.join(" or "))
        }
    }))
}

/// The models that a running Ollama lists, and whether the user named it.
fn listed() -> (Vec<PsRow>, bool) {
    let Some(ollama) = RunningOllama::of(&Roots::of_this_machine()) else { return (Vec::new(), false) };
    (ollama.loaded().unwrap_or_default(), ollama.is_named)
}

/// Compares programs that say nothing with plans of what they were asked for.
pub(super) fn check(args: &CheckArgs, live: Live) -> Result<ExitCode, CliError> {
    let detected = hardware::detect(&DetectOptions { gpus: true, ..MachineSource::read(&args.machine)?.search });
    let checks = match live {
        Live::Said(_) => Vec::new(),
        Live::Servers(servers) => {
            servers.iter().map(|server| of_server(args, server, &detected)).collect::<Result<Vec<_>, _>>()?
        }
        Live::Listed(rows) => rows.iter().map(|row| of_row(args, row, &detected)).collect::<Result<Vec<_>, _>>()?,
    };
    let agrees = checks.iter().all(RunningCheck::agrees);
    let text = if args.json {
        let running = checks.iter().map(RunningRecord::of).collect();
        error::json("check", text::json(&RunningAnswer { head: Head::THIS, running, agrees }))?
    } else {
        checks.iter().map(|check| check.text(&Style::of_stdout())).collect::<Vec<_>>().join("\n")
    };
    print(&text)?;
    Ok(if agrees { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}

/// What the driver says of the program of `load`, as text; empty where it says nothing.
pub(super) fn held(args: &CheckArgs, load: &Load) -> String {
    let Ok(source) = MachineSource::read(&args.machine) else { return String::new() };
    let detected = hardware::detect(&DetectOptions { gpus: true, ..source.search });
    let Ok(found) = driver_overhead(load, &held_by(&detected.processes)) else {
        return String::new();
    };
    let mut page = Page::default();
    for overhead in found {
        let (process, mib) = (overhead.process.0, overhead.mib().0);
        let text = format!("the driver says {process:.0} MiB on {}: {mib:.0} MiB besides its buffers", overhead.device);
        page.item(&format!("{text}; --remember keeps that for later plans"));
    }
    Style::of_stdout().report(&page)
}

/// A running program beside the plan of what it was asked for.
pub(super) struct RunningCheck {
    name: String,
    plan: Plan,
    listed: Option<ListedModel>,
    held: Vec<HeldMemory>,
    /// The command line that says more, for a server that says too little.
    hint: Option<String>,
}

/// A llama-server by its command line.
fn of_server(args: &CheckArgs, server: &ServerProcess, detected: &Detected) -> Result<RunningCheck, CliError> {
    let seen = Observation::of(&server.command);
    let load = seen.loads.first().ok_or_else(|| {
        CliError::Model(format!("the command line of llama-server (process {}) cannot be read", server.pid))
    })?;
    let found = model(args, load)?;
    let own: Vec<ProcessMemory> = held_by(&detected.processes);
    let own: Vec<ProcessMemory> = own.into_iter().filter(|process| process.pid == u64::from(server.pid)).collect();
    // the settings of the command, on the machine as it was before
    let settings = compare(args, load, &found)?.request;
    let machine = machine_before(&resolved(args, detected)?, &own);
    let plan = PlanRequest { machine: Arc::new(machine), ..settings }.plan()?;
    Ok(RunningCheck {
        name: format!("llama-server (process {})", server.pid),
        held: HeldMemory::of(&plan, &own),
        listed: None,
        plan,
        hint: Some(format!(
            "it prints no buffers: start it as '{} -lv 4 2> server.log', then check that file",
            ShownCommand::read(&server.command)
        )),
    })
}

/// A model that Ollama lists.
fn of_row(args: &CheckArgs, row: &PsRow, detected: &Detected) -> Result<RunningCheck, CliError> {
    let start = ParsedArgs::by(&args.knobs, &args.machine, Config::default())?;
    let package = resolve::model(Path::new(&row.name))?;
    let ready = start.with(&package).complete();
    let mut request = ready.request(&package.model);
    if let Some(tokens) = row.context.filter(|_| !args.knobs.settings.is_given(Flag::Context)) {
        request.settings.ctx = Context::Tokens(tokens);
    }
    apply(&args.knobs, &mut request.settings);
    let is_own = |process: &ProcessMemory| process.name.contains("ollama") || process.name.contains("llama-server");
    let own: Vec<ProcessMemory> = held_by(&detected.processes).into_iter().filter(is_own).collect();
    request.machine = Arc::new(machine_before(&request.machine, &own));
    let plan = request.plan()?;
    let name = format!("{}, loaded by Ollama", one_line(&row.name));
    Ok(RunningCheck { name, listed: ListedModel::of(&plan, row), held: HeldMemory::of(&plan, &own), plan, hint: None })
}

/// The detected machine with what the user described over it.
fn resolved(args: &CheckArgs, detected: &Detected) -> Result<crate::machine::Machine, CliError> {
    Ok(MachineSource::read(&args.machine)?.described.complete(detected.machine.clone()))
}

impl RunningCheck {
    fn agrees(&self) -> bool {
        let any = self.listed.is_some() || !self.held.is_empty();
        any && self.listed.as_ref().is_none_or(ListedModel::agrees) && self.held.iter().all(HeldMemory::agrees)
    }

    fn text(&self, style: &Style) -> String {
        let (hue, word) = match (self.listed.is_none() && self.held.is_empty(), self.agrees()) {
            (true, _) => (Hue::Cache, "Nothing to compare"),
            (_, true) => (Hue::Graph, "Agrees"),
            _ => (Hue::Over, "Differs"),
        };
        let mut page = Page::default();
        page.line(vec![Span::new(word, hue.bold()), format!(": {}.", self.name).into()]);
        let plan = &self.plan;
        let planned = format!(
            "{}, planned for {} at {} tokens: {} on GPUs, {} in RAM.",
            plan.model.name,
            plan.engine_title(),
            Tokens(plan.settings.ctx),
            plan.totals.gpu,
            plan.totals.cpu
        );
        page.text(&planned, Hue::Text);
        if let Some(listed) = &self.listed {
            let columns = |ps: OllamaPs| format!("{}, {}", ps.size_column(), ps.processor_column());
            let of = |ps: OllamaPs| format!("{} ({} B, {} B on GPUs)", columns(ps), ps.size.0, ps.vram.0);
            let planned = listed.planned.map_or_else(|| "not known of this engine".to_owned(), of);
            page.item(&format!("ollama ps planned: {planned}"));
            page.item(&format!("ollama ps observed: {}", of(listed.observed)));
            if let Some((least, most)) = listed.range {
                page.item(&format!(
                    "a model of MLX changes its size while it is loaded: from its weights, {least}, to {most} with caches of {} tokens \
                     and snapshots of other chats",
                    Tokens(plan.settings.ctx)
                ));
            }
        }
        self.held.iter().for_each(|held| page.item(&format!("the driver says {}", held.clause())));
        if self.held.is_empty() {
            page.item("no driver tells what its process holds");
        }
        self.hint.iter().for_each(|hint| page.item(hint));
        style.report(&page)
    }
}

/// What runs, beside its plans.
#[derive(JsonSchema, Serialize)]
pub(in crate::cli) struct RunningAnswer<'a> {
    #[serde(flatten)]
    head: Head,
    /// Programs that serve models.
    running: Vec<RunningRecord<'a>>,
    /// Whether all agree with their plans.
    agrees: bool,
}

record! {
    /// A program beside the plan of what it was asked for.
    RunningRecord<'a>(check: &'a RunningCheck) {
        name: &'a str = &check.name,
        engine: &'static str = check.plan.engine.name(),
        release: Option<Release> = check.plan.settings.release,
        confidence: Confidence = check.plan.confidence,
        /// The model's name.
        model: &'a str = &check.plan.model.name,
        ctx: u64 = check.plan.settings.ctx,
        /// What Ollama lists; null of another program.
        ollama_ps: Option<ListedRecord> = check.listed.as_ref().map(ListedRecord::from),
        /// What drivers say; none where they say nothing.
        held: Vec<HeldRecord<'a>> = check.held.iter().map(HeldRecord::of).collect(),
        agrees: bool = check.agrees(),
    }
}

/// What Ollama lists, in bytes, beside the plan.
#[derive(JsonSchema, Serialize)]
pub(in crate::cli) struct ListedRecord {
    /// Null of an engine whose list is not known.
    planned: Option<ListedBytes>,
    /// The least and the most, in bytes, of a model whose size changes while it is loaded; null of others.
    range: Option<[Bytes; 2]>,
    observed: ListedBytes,
    agrees: bool,
}

/// The bytes of `/api/ps`.
#[derive(JsonSchema, Serialize)]
pub(in crate::cli) struct ListedBytes {
    size: Bytes,
    /// The part on GPUs.
    size_vram: Bytes,
}

impl From<OllamaPs> for ListedBytes {
    fn from(listed: OllamaPs) -> Self {
        Self { size: listed.size, size_vram: listed.vram }
    }
}

impl From<&ListedModel> for ListedRecord {
    fn from(listed: &ListedModel) -> Self {
        let ListedModel { planned, range, observed, .. } = *listed;
        Self {
            planned: planned.map(ListedBytes::from),
            range: range.map(|(least, most)| [least, most]),
            observed: observed.into(),
            agrees: listed.agrees(),
        }
    }
}

record! {
    /// What a driver says of a program on a GPU, in bytes, beside the plan.
    HeldRecord<'a>(held: &'a HeldMemory) {
        device: &'a str = &held.device,
        planned: Bytes = held.planned,
        observed: Bytes = held.observed,
        /// Whether it holds what is planned, and no more besides than a driver takes.
        agrees: bool = held.agrees(),
    }
}
