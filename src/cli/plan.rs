//! `plimsoll plan`: a plan as text or JSON, with what it says besides.

use std::path::Path;

use super::args::PlanArgs;
use super::error::{self, CliError};
use super::out::print;
use super::resolve::{self, ParsedArgs};
use super::style::Style;
use super::{machines, report};
use crate::answer::ram::{self, RamUse};
use crate::export::Besides;
use crate::speed::prompt::PromptSpeed;
use crate::speed::turn::{Reuse, TurnTime};
use crate::speed::{Speed, Speeds};

pub(super) fn run(args: &PlanArgs) -> Result<(), CliError> {
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
    print(&text)?;
    match args.fits.and_then(|fit| Some((fit, fit.why_not(&plan)?))) {
        Some((fit, why)) => Err(CliError::DoesNotFit(format!("--fits {fit}: {why}"))),
        None => Ok(()),
    }
}
