//! A plan on what runs: loaded by a running Ollama, or started as llama-server; then what came of it, beside the plan.
//!
//! [`Prepared`] says beforehand what is started, loaded and unloaded; nothing happens before [`Prepared::run`].

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::held;
use super::ollama::RunningOllama;
use super::router::{self, RouterModel, RunningRouter};
use super::server::{self, Health, ServerChild};
use crate::answer::check::running::{HeldMemory, ListedModel, machine_before};
use crate::answer::check::{self, Check};
use crate::answer::live::{LiveDevice, RunningPlan, beside};
use crate::answer::together::{LoadOutcome, LoadRequest, load_together};
use crate::answer::{verdict, why};
use crate::engine::PlanRequest;
use crate::export::{ExportInput, ModelLocation, llama_server, ollama as export};
use crate::hardware::{DetectOptions, processes};
use crate::observed::sample::{Course, ProgramSample, Served};
use crate::observed::{Load, Mib, Observation, ProcessMemory, PsRow, ShownCommand};
use crate::plan::Plan;
use crate::settings::Context;
use crate::source::host::is_this_machine;
use crate::source::{self, Roots};
use crate::text::shell_word;
use crate::units::Tokens;
use crate::{hardware, text};

/// Time between reports of progress.
const STEP: Duration = Duration::from_millis(100);
/// Silence of a server that loads, after which it is given up.
const SILENCE: Duration = Duration::from_mins(10);
/// Changes that are offered after a failure.
const OFFERED: usize = 3;

/// What is applied.
#[derive(Clone, Debug)]
pub struct Target {
    /// Engine, model, machine and knobs.
    pub request: PlanRequest,
    /// Its plan.
    pub plan: Plan,
    /// Where the model is found.
    pub location: ModelLocation,
    /// llama-server's path, or the address of a router that runs; none: that on PATH.
    pub server: Option<PathBuf>,
    /// Whether the model stays loaded however long nothing asks it.
    pub stays: bool,
}

/// A plan that can be applied, and what that does.
pub struct Prepared {
    target: Target,
    way: Way,
    roots: Roots,
    /// What is started or loaded, as a sentence.
    pub what: String,
    /// What is unloaded for it, one sentence each.
    pub unloads: Vec<String>,
    /// What else is worth knowing before, one sentence each.
    pub notes: Vec<String>,
}

/// How it is applied.
enum Way {
    Ollama { ollama: Box<RunningOllama>, name: String, options: Map<String, Value>, before: Vec<PsRow> },
    Router { router: Box<RunningRouter>, model: RouterModel, loaded: Vec<String> },
    Server { program: PathBuf, arguments: Vec<String> },
}

/// What came of it.
#[derive(Debug)]
pub struct Applied {
    /// The plan and what was applied.
    pub target: Target,
    /// Lines of the program's log beside the plan; none is compared where its log cannot be read.
    pub check: Check,
    /// The load that its log shows.
    pub load: Option<Load>,
    /// What Ollama lists, beside the plan.
    pub listed: Option<ListedModel>,
    /// What drivers say, beside the plan.
    pub held: Vec<HeldMemory>,
    /// Each device, for a program of this computer whose memory is its own.
    pub live: Vec<LiveDevice>,
    /// Further differences, one sentence each.
    pub notes: Vec<String>,
    /// The server that was started; it ends with this value.
    pub server: Option<ServerChild>,
}

/// Why it did not load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened, with the program's own words.
    pub sentence: String,
    /// What the plan says to change, one sentence each.
    pub advice: Vec<String>,
}

/// Progress: how long it takes, and what is known of it now.
pub type Report<'r> = dyn FnMut(Duration, &str) -> ControlFlow<()> + 'r;

impl Applied {
    /// Whether anything was compared.
    pub fn is_compared(&self) -> bool {
        self.check.compared() > 0
            || self.listed.as_ref().is_some_and(|listed| listed.planned.is_some())
            || !self.held.is_empty()
    }

    /// Whether it was loaded as planned, as far as anything tells.
    pub fn agrees(&self) -> bool {
        let listed = self.listed.as_ref().filter(|listed| listed.planned.is_some());
        self.is_compared()
            && self.notes.is_empty()
            && (self.check.compared() == 0 || self.check.agrees())
            && listed.is_none_or(ListedModel::agrees)
            && self.held.iter().all(HeldMemory::agrees)
    }

    /// What is compared besides lines of a log, one sentence each.
    pub fn also(&self) -> Vec<String> {
        let mut also = Vec::new();
        if let Some(ListedModel { planned: Some(planned), observed, .. }) = &self.listed {
            let same = if self.listed.as_ref().is_some_and(ListedModel::agrees) {
                "as planned"
            } else {
                "otherwise than planned"
            };
            also.push(format!(
                "Ollama lists {} ({} on GPUs), {same}: {} ({})",
                observed.size, observed.vram, planned.size, planned.vram
            ));
        }
        also.extend(self.held.iter().map(|held| format!("the driver says {}", held.clause())));
        also.extend(self.notes.iter().cloned());
        if self.check.compared() == 0 {
            also.push("no log of it is readable here, so that its buffers are not compared".to_owned());
        }
        also
    }
}

/// Finds out how `target` can be applied and what that does.
///
/// # Errors
/// One sentence on why it cannot be applied here.
pub fn prepare(target: Target, roots: Roots) -> Result<Prepared, String> {
    if let Some(why) = &target.plan.refusal {
        return Err(format!("{} refuses this plan: {why}", target.plan.engine_title()));
    }
    match router::address(target.server.as_deref()) {
        Some(_) if target.plan.engine.facts().is_ollama => {
            Err("a router runs llama.cpp: plan with --engine llama.cpp to load on it".to_owned())
        }
        Some(address) => {
            let router = RunningRouter::at(address, &roots);
            with_router(target, roots, router)
        }
        None if target.plan.engine.facts().is_ollama => with_ollama(target, roots),
        None => with_server(target, roots),
    }
}

fn input(target: &Target) -> ExportInput<'_> {
    let Target { request, plan, location, .. } = target;
    ExportInput { request, plan, location, minimal: false, pinned: false, scenario: None }
}

fn with_server(target: Target, roots: Roots) -> Result<Prepared, String> {
    if let ModelLocation::Ollama(name) | ModelLocation::Unknown(name) = &target.location {
        return Err(format!("llama-server needs the file of {name}: name a .gguf file, or hf://owner/repository"));
    }
    let (_, words) = llama_server::command_words(&input(&target))?;
    let command = words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
    let mut arguments = words.into_iter();
    let name = arguments.next().unwrap_or_else(|| "llama-server".to_owned());
    let program = server::program(target.server.as_deref(), &name);
    let arguments: Vec<String> = arguments.collect();
    let what = format!("{} is started: {command}", program.display());
    let mut notes = Vec::new();
    let holding: Vec<String> =
        processes::serving().iter().map(|other| format!("{} (process {})", other.program, other.pid)).collect();
    if !holding.is_empty() {
        notes.push(format!("{} runs already and keeps what it holds", holding.join(" and ")));
    }
    Ok(Prepared { target, way: Way::Server { program, arguments }, roots, what, unloads: Vec::new(), notes })
}

fn with_router(target: Target, roots: Roots, router: RunningRouter) -> Result<Prepared, String> {
    let model = router.find(&target.location)?;
    if model.is_loaded() {
        return Err(format!(
            "{} is loaded by the router at {} already: 'plimsoll watch --once' shows what it holds",
            model.id, router.address
        ));
    }
    let others = router.models()?.into_iter().filter(RouterModel::is_loaded);
    let loaded: Vec<String> = others.map(|other| other.id).collect();
    let what = format!("the router at {} loads {}", router.address, model.id);
    let mut notes = Vec::new();
    if !model.command.is_empty() {
        notes.push(format!(
            "it loads by its own command, which no request changes: {}",
            ShownCommand::of(&model.command)
        ));
    }
    if !loaded.is_empty() {
        notes.push(format!(
            "{} is loaded; where --models-max is reached, the one that was used longest ago is ended",
            loaded.join(" and ")
        ));
    }
    Ok(Prepared {
        target,
        way: Way::Router { router: Box::new(router), model, loaded },
        roots,
        what,
        unloads: Vec::new(),
        notes,
    })
}

fn with_ollama(target: Target, roots: Roots) -> Result<Prepared, String> {
    let name = match &target.location {
        ModelLocation::Ollama(name) => Some(name.clone()),
        ModelLocation::HuggingFace(name) => Some(format!("hf.co/{name}")),
        _ => None,
    };
    let Some(name) = name else {
        return Err(
            "Ollama loads models by their names: name one that it has, such as llama3.1:8b, or make one of this file \
                    with 'plimsoll export --as modelfile' and 'ollama create'"
                .to_owned(),
        );
    };
    let ollama = RunningOllama::of(&roots).ok_or("this build asks no servers, and so no Ollama")?;
    let before = ollama.loaded()?;
    let options = export::options(&input(&target));
    let listed: Vec<String> = options.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let options: Map<String, Value> =
        options.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    let what = format!("Ollama at {} loads {name} with {}", ollama.address, listed.join(", "));
    let unloads = unloads(&target, &name, &before, &roots);
    let mut notes = Vec::new();
    let is_asked = |name: &str| match name {
        "OLLAMA_CONTEXT_LENGTH" => false,
        "OLLAMA_NUM_PARALLEL" => target.request.settings.parallel.is_some(),
        _ => true,
    };
    let server: Vec<String> = export::variables(&input(&target))
        .into_iter()
        .filter(|variable| is_asked(variable.name))
        .map(|variable| format!("{}={}", variable.name, variable.value))
        .collect();
    if !server.is_empty() {
        notes.push(format!(
            "the plan holds if Ollama's server was started with {}, which no request sets",
            server.join(" ")
        ));
    }
    Ok(Prepared {
        target,
        way: Way::Ollama { ollama: Box::new(ollama), name, options, before },
        roots,
        what,
        unloads,
        notes,
    })
}

/// Whether Ollama's list means the model of this name.
fn is_model(row: &PsRow, name: &str) -> bool {
    let tagged = |name: &str| {
        if name.rsplit('/').next().is_some_and(|last| last.contains(':')) {
            name.to_owned()
        } else {
            format!("{name}:latest")
        }
    };
    tagged(&row.name) == tagged(name)
}

/// What Ollama unloads by its own rules, one sentence each.
fn unloads(target: &Target, name: &str, before: &[PsRow], roots: &Roots) -> Vec<String> {
    if before.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = before.iter().map(|row| row.name.as_str()).collect();
    let unknown = |why: &str| {
        vec![format!("{} is loaded; what Ollama unloads of it is not known here: {why}", names.join(" and "))]
    };
    let others = before.iter().filter(|row| !is_model(row, name));
    let packages: Result<Vec<_>, String> = others
        .map(|row| {
            let opened = source::load(&row.name, roots, &mut source::no_progress);
            let package = opened.and_then(|opened| opened.package(&mut source::no_progress));
            Ok((row, package.map_err(|error| error.to_string())?))
        })
        .collect();
    let packages = match packages {
        Ok(packages) => packages,
        Err(why) => return unknown(&why),
    };
    let mut said = Vec::new();
    if before.iter().any(|row| is_model(row, name)) {
        said.push(format!("{name} is loaded: it is loaded anew where its options differ"));
    }
    let requests: Vec<_> = packages
        .iter()
        .map(|(row, package)| {
            let mut settings = target.request.settings.clone();
            settings.ctx = row.context.map_or(Context::Auto, Context::Tokens);
            (package, settings)
        })
        .collect();
    let loads = requests.iter().map(|(package, settings)| LoadRequest {
        model: &package.model,
        path: package.blob(),
        settings,
    });
    let this = LoadRequest { model: &target.request.model, path: None, settings: &target.request.settings };
    let all: Vec<LoadRequest<'_>> = loads.chain([this]).collect();
    let own = held(&hardware::detect(&DetectOptions::here()).processes);
    let machine = machine_before(&target.request.machine, &programs(&own));
    match load_together(target.request.engine, &machine, &all) {
        Ok(loaded) => {
            let outcomes = loaded.outcomes.iter().zip(&packages);
            said.extend(outcomes.filter_map(|(outcome, (row, _))| match outcome {
                LoadOutcome::Evicted { why, .. } => {
                    Some(format!("{} is unloaded for it: {why}", text::one_line(&row.name)))
                }
                _ => None,
            }));
            said
        }
        Err(error) => unknown(&error.to_string()),
    }
}

/// Of processes, those of Ollama.
fn programs(processes: &[ProcessMemory]) -> Vec<ProcessMemory> {
    let is_own = |process: &&ProcessMemory| process.name.contains("ollama") || process.name.contains("llama-server");
    processes.iter().filter(is_own).cloned().collect()
}

impl Prepared {
    /// Loads it, reporting progress, and compares. Where `report` breaks, a server that was started is ended.
    ///
    /// # Errors
    /// If it does not load.
    pub fn run(self, report: &mut Report<'_>) -> Result<Applied, Failure> {
        let Self { target, way, roots, .. } = self;
        match way {
            Way::Ollama { ollama, name, options, before } => {
                run_ollama(target, &ollama, &name, &options, &before, report)
            }
            Way::Router { router, model, loaded } => run_router(target, &router, &model, &loaded, report),
            Way::Server { program, arguments } => run_server(target, &roots, &program, &arguments, report),
        }
    }
}

fn run_ollama(
    target: Target,
    ollama: &RunningOllama,
    name: &str,
    options: &Map<String, Value>,
    before: &[PsRow],
    report: &mut Report<'_>,
) -> Result<Applied, Failure> {
    let loads = {
        let (ollama, name, options) = (ollama.clone(), name.to_owned(), options.clone());
        let (embeds, stays) = (target.plan.settings.embeddings.is_some(), target.stays);
        move || ollama.load(&name, &options, embeds, stays)
    };
    let (send, receive) = channel();
    // the send fails if nobody waits any more
    thread::spawn(move || drop(send.send(loads())));
    let since = Instant::now();
    let answer = loop {
        match receive.recv_timeout(STEP) {
            Ok(answer) => break answer,
            Err(RecvTimeoutError::Disconnected) => break Err("the request was lost".to_owned()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if report(since.elapsed(), "Ollama loads the model").is_break() {
            let sentence = format!("stopped waiting; Ollama goes on loading {name}");
            return Err(Failure { sentence, advice: Vec::new() });
        }
    };
    answer.map_err(|words| Failure::of(&target, &format!("Ollama did not load {name}: {words}")))?;
    let listed = ollama.loaded().map_err(|why| Failure { sentence: why, advice: Vec::new() })?;
    let mut notes = Vec::new();
    let row = listed.iter().find(|row| is_model(row, name));
    if row.is_none() {
        let sentence = format!("Ollama says that it loaded {name}, and does not list it");
        return Err(Failure { sentence, advice: Vec::new() });
    }
    if let Some(context) = row.and_then(|row| row.context).filter(|context| *context != target.plan.settings.ctx) {
        notes.push(format!(
            "its context is {} tokens, {} are planned",
            Tokens(context),
            Tokens(target.plan.settings.ctx)
        ));
    }
    let gone = before.iter().filter(|row| !listed.iter().any(|now| now.name == row.name));
    let gone: Vec<String> = gone.map(|row| text::one_line(&row.name).into_owned()).collect();
    if !gone.is_empty() {
        report_gone(&gone, report, since.elapsed());
    }
    // only a load of this request's time is this one
    let load = if ollama.is_here() { load_since(since.elapsed()) } else { None };
    let check = check::beside(load.as_ref().unwrap_or(&Load::default()), &target.request)
        .map_err(|error| Failure { sentence: error.to_string(), advice: Vec::new() })?;
    let own = if ollama.is_here() {
        programs(&held(&hardware::detect(&DetectOptions::here()).processes))
    } else {
        Vec::new()
    };
    // with others loaded, the driver's figures are not this model's
    let alone = listed.len() == 1;
    let held = if alone { HeldMemory::of(&target.plan, &own) } else { Vec::new() };
    let listed = row.and_then(|row| ListedModel::of(&target.plan, row));
    Ok(Applied { target, check, load, listed, held, live: Vec::new(), notes, server: None })
}

fn report_gone(gone: &[String], report: &mut Report<'_>, took: Duration) {
    // it is over: whether to go on is no question
    let _ = report(took, &format!("Ollama has unloaded {}", gone.join(" and ")));
}

/// The last load in Ollama's newest output, if that was written to within the last `took` and a little more.
fn load_since(took: Duration) -> Option<Load> {
    let mut output = processes::output_of_ollama(took + Duration::from_secs(5))?;
    let seen = Observation::read(&mut output.text).ok()?;
    seen.loads.last().filter(|load| load.has_memory()).cloned()
}

fn run_router(
    target: Target,
    router: &RunningRouter,
    model: &RouterModel,
    before: &[String],
    report: &mut Report<'_>,
) -> Result<Applied, Failure> {
    let RouterModel { id, .. } = model;
    let failed = |sentence: String| Failure { sentence, advice: Vec::new() };
    router.load(id).map_err(|words| Failure::of(&target, &format!("the router did not load {id}: {words}")))?;
    let since = Instant::now();
    loop {
        let now = router.model(id).map_err(failed)?;
        if now.is_loaded() {
            break;
        }
        if let Some(code) = now.failed {
            let sentence = format!("the server of {id} ended with status {code}: the router's own output says why");
            return Err(Failure::of(&target, &sentence));
        }
        if since.elapsed() > SILENCE {
            return Err(failed(format!("{id} is still not loaded after {} minutes", SILENCE.as_secs() / 60)));
        }
        if report(since.elapsed(), "the router loads the model").is_break() {
            return Err(failed(format!("stopped waiting; the router goes on loading {id}")));
        }
        thread::sleep(STEP);
    }
    let loaded = router.models().map_err(failed)?;
    let gone = before.iter().filter(|id| !loaded.iter().any(|now| now.id == **id && now.is_loaded()));
    let gone: Vec<String> = gone.cloned().collect();
    if !gone.is_empty() {
        let _ = report(since.elapsed(), &format!("the router has ended {}", gone.join(" and ")));
    }
    let check = check::beside(&Load::default(), &target.request).map_err(|error| failed(error.to_string()))?;
    // with others loaded, the driver's figures are not this model's
    let alone = loaded.iter().filter(|model| model.is_loaded()).count() == 1 && is_this_machine(&router.address);
    let own = if alone { programs(&held(&hardware::detect(&DetectOptions::here()).processes)) } else { Vec::new() };
    let held = HeldMemory::of(&target.plan, &own);
    Ok(Applied { target, check, load: None, listed: None, held, live: Vec::new(), notes: Vec::new(), server: None })
}

fn run_server(
    target: Target,
    roots: &Roots,
    program: &std::path::Path,
    arguments: &[String],
    report: &mut Report<'_>,
) -> Result<Applied, Failure> {
    let failed = |sentence: String| Failure { sentence, advice: Vec::new() };
    let mut child = ServerChild::start(program, arguments).map_err(failed)?;
    let since = Instant::now();
    let (mut printed, mut heard) = (0, Instant::now());
    loop {
        match child.health(roots) {
            Health::Ready => break,
            Health::Ended(status) => {
                let said = child.errors().join("; ");
                let sentence =
                    format!("llama-server ended ({status}): {said}. Its log: {}", child.kept_log().display());
                return Err(Failure::of(&target, &sentence));
            }
            Health::Loading => {}
        }
        let now = child.printed();
        if now != printed {
            (printed, heard) = (now, Instant::now());
        }
        if heard.elapsed() > SILENCE {
            let sentence = format!(
                "llama-server has printed nothing for {} minutes and was ended. Its log: {}",
                SILENCE.as_secs() / 60,
                child.kept_log().display()
            );
            return Err(Failure::of(&target, &sentence));
        }
        let last = child.last_lines(1).pop().unwrap_or_default();
        if report(since.elapsed(), &last).is_break() {
            child.end();
            return Err(failed("stopped; the server that was started has ended".to_owned()));
        }
        thread::sleep(STEP);
    }
    let seen = child.observation().map_err(failed)?;
    let load = seen.load().cloned();
    let check = check::beside(load.as_ref().unwrap_or(&Load::default()), &target.request)
        .map_err(|error| failed(error.to_string()))?;
    let own: Vec<ProcessMemory> = held(&hardware::detect(&DetectOptions::here()).processes)
        .into_iter()
        .filter(|process| process.pid == u64::from(child.pid))
        .collect();
    let held = HeldMemory::of(&target.plan, &own);
    let live = live(&target, child.pid, &own);
    Ok(Applied { target, check, load, listed: None, held, live, notes: Vec::new(), server: Some(child) })
}

/// The devices of a program that was just loaded.
fn live(target: &Target, pid: u32, own: &[ProcessMemory]) -> Vec<LiveDevice> {
    let on = |process: &ProcessMemory| {
        let bytes = process.used.map(Mib::bytes)?;
        Some(crate::observed::sample::OnGpu { device: format!("GPU{}", process.card?), bytes })
    };
    let now = ProgramSample {
        pid: Some(pid),
        name: "llama-server".to_owned(),
        gpus: own.iter().filter_map(on).collect(),
        ram: processes::held_in_ram(pid),
        served: Some(Served { ready: true, prompted: Some(false), ..Served::default() }),
        ..ProgramSample::default()
    };
    let course = Course { fresh: Some(now.clone()), prompted: None, now };
    RunningPlan::of(target.request.clone()).map_or_else(|_| Vec::new(), |running| beside(&course, &running))
}

impl Failure {
    /// What happened, with what the plan says to change.
    fn of(target: &Target, sentence: &str) -> Self {
        let Target { request, plan, .. } = target;
        let mut advice: Vec<String> = why::what_holds(plan).into_iter().collect();
        let one = why::closest_to_fitting(plan);
        let mut changes: Vec<_> = request.remedies(plan.clone(), one).flatten().take(OFFERED).collect();
        if changes.is_empty() {
            changes = request.remedies_of_two(plan);
            changes.truncate(OFFERED);
        }
        advice.extend(changes.iter().map(|remedy| {
            let options = remedy.options().map_or_else(String::new, |options| format!(" ({options})"));
            format!("{}{options} would help", verdict::capitalised(&remedy.says()))
        }));
        if advice.is_empty() {
            let free: Vec<String> = plan
                .devices
                .iter()
                .map(|device| format!("{} of {} free on {}", device.needed(), device.free, device.id))
                .collect();
            advice.push(format!(
                "By its plan it fits: {}. Where that has changed, 'plimsoll watch --once' shows what holds memory now",
                free.join(", ")
            ));
        }
        Self { sentence: sentence.to_owned(), advice }
    }
}
