//! `plimsoll apply`: a plan on a running Ollama or as llama-server, and what came of it.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;

use super::args::ApplyArgs;
use super::check::{self, HeldRecord, ListedRecord};
use super::error::{CliError, one_line};
use super::interrupt::{Interrupt, STATUS};
use super::out::print;
use super::questions::{location_of, ready};
use super::status_line::StatusLine;
use super::style::{BarGlyphs, Style};
use super::{error, resolve};
use crate::answer::live::LiveDevice;
use crate::export::check::LoadRecord;
use crate::export::{ModelSource, PlanSource, record};
use crate::page::live;
use crate::page::{Hue, Page, Span};
use crate::running::apply::{Applied, Failure, Target, prepare};
use crate::running::server::{self, ServerChild};
use crate::source::Roots;
use crate::text;

/// The status of what was loaded otherwise than planned.
const OTHERWISE: u8 = 1;

/// Says what it does, asks, loads and compares.
pub(super) fn run(args: &ApplyArgs) -> Result<ExitCode, CliError> {
    let (ready, opened) = ready(&args.asked)?;
    let plan = ready.plan(&opened.model)?;
    let location = location_of(&opened, &args.asked.model, args.asked.knobs.settings.quant);
    let request = ready.request(&opened.model);
    let target = Target { request, plan, location, server: args.server.clone(), stays: args.keep };
    let prepared = prepare(target, Roots::of_this_machine()).map_err(CliError::Arguments)?;
    for sentence in std::iter::once(&prepared.what).chain(&prepared.unloads).chain(&prepared.notes) {
        error::say(&one_line(sentence));
    }
    let interrupt = Interrupt::catch(server::end_started);
    if !args.yes {
        match interrupt.ask("Go on?") {
            Some(true) => {}
            Some(false) if interrupt.is_raised() => return Ok(ExitCode::from(STATUS)),
            Some(false) => return Err(CliError::Arguments("nothing was started or loaded".to_owned())),
            None => {
                let sentence =
                    "nothing was started or loaded, as there is no terminal to ask on: --yes goes on unasked";
                return Err(CliError::Arguments(sentence.to_owned()));
            }
        }
    }
    let mut line = StatusLine::on_stderr();
    let applied = prepared.run(&mut |took, what| {
        line.show(&format!("{} s: {what}", took.as_secs()));
        if interrupt.is_raised() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    drop(line);
    let mut applied = match applied {
        Ok(applied) => applied,
        Err(Failure { sentence, .. }) if interrupt.is_raised() => {
            error::say(&sentence);
            return Ok(ExitCode::from(STATUS));
        }
        Err(Failure { sentence, advice }) => {
            let all: Vec<String> =
                std::iter::once(sentence).chain(advice).map(|said| ended(&one_line(&said))).collect();
            return Err(CliError::NotLoaded(all.join(" ").trim_end_matches('.').to_owned()));
        }
    };
    let agrees = applied.agrees();
    print(&if args.json {
        json(&applied, &resolve::source(&opened, &args.asked.model))?
    } else {
        page(&applied, &Style::of_stdout())
    })?;
    if let Some(server) = applied.server.take() {
        let (address, log, pid) = (server.address.clone(), server.log.display().to_string(), server.pid);
        let it = format!("llama-server (process {pid}) at {address}");
        let keeps = args.keep || !args.yes && interrupt.ask("Keep it running?") == Some(true);
        if keeps && !interrupt.is_raised() {
            server.keep();
            error::say(&format!("{it}, its log in {log}, goes on running: 'kill {pid}' ends it"));
        } else {
            drop(server);
            error::say(&format!("{it} has ended, and its log is gone; --keep leaves it running"));
        }
    }
    Ok(match (interrupt.is_raised(), agrees) {
        (true, _) => ExitCode::from(STATUS),
        (_, true) => ExitCode::SUCCESS,
        (_, false) => ExitCode::from(OTHERWISE),
    })
}

fn ended(sentence: &str) -> String {
    if sentence.ends_with(['.', '!', '?']) { sentence.to_owned() } else { format!("{sentence}.") }
}

fn page(applied: &Applied, style: &Style) -> String {
    let (hue, word) = match (applied.is_compared(), applied.agrees()) {
        (false, _) => (Hue::Cache, "Loaded; nothing tells what it took"),
        (_, true) => (Hue::Graph, "Loaded as planned"),
        _ => (Hue::Over, "Loaded otherwise than planned"),
    };
    let mut page = Page::default();
    let plan = &applied.target.plan;
    page.line(vec![Span::new(word, hue.bold()), format!(": {}, {}.", plan.model.name, plan.engine_title()).into()]);
    if applied.check.compared() > 0 {
        page.blank();
        check::report::table(&applied.check, style, &mut page);
        check::report::layers(&applied.check, &mut page);
    }
    let also = applied.also();
    if !also.is_empty() {
        page.blank();
        for sentence in &also {
            page.item(&one_line(sentence));
        }
    }
    if !applied.live.is_empty() {
        page.heading("What it holds now");
        live::devices(&applied.live, style.bars != BarGlyphs::None, &mut page);
    }
    style.report(&page)
}

/// What came of a plan that was loaded.
#[derive(JsonSchema, Serialize)]
pub(super) struct ApplyAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    /// Whether it was loaded as planned, as far as anything tells.
    agrees: bool,
    /// The load in the program's log, in MiB; null where its log cannot be read.
    load: Option<LoadRecord<'a>>,
    /// What Ollama lists; null of llama-server.
    ollama_ps: Option<ListedRecord>,
    /// What drivers say; none where they say nothing.
    held: Vec<HeldRecord<'a>>,
    /// Each device, for a program of this computer whose memory is its own.
    beside: &'a [LiveDevice],
    /// Further differences, one sentence each.
    notes: &'a [String],
    /// The server that was started; null if none was.
    server: Option<ServerRecord<'a>>,
}

record! {
    /// A server that was started.
    ServerRecord<'a>(server: &'a ServerChild) {
        /// Its process ID.
        pid: u32 = server.pid,
        address: &'a str = &server.address,
        /// The file with its output, which goes with it unless it is kept running.
        log: Cow<'a, str> = server.log.to_string_lossy(),
    }
}

fn json(applied: &Applied, source: &ModelSource) -> Result<String, CliError> {
    let Applied { target, check, load, listed, held, live, notes, server } = applied;
    let answer = ApplyAnswer {
        head: PlanSource::of(&target.plan, source),
        agrees: applied.agrees(),
        load: load.as_ref().map(|load| LoadRecord::of(load, Some(check))),
        ollama_ps: listed.as_ref().map(ListedRecord::from),
        held: held.iter().map(HeldRecord::of).collect(),
        beside: live,
        notes,
        server: server.as_ref().map(ServerRecord::of),
    };
    error::json("apply", text::json(&answer))
}
