//! The planner, opened from the command line.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use super::commands::Cli;
use super::error::{self, CliError, written};
use super::resolve::{self, ParsedArgs};
use super::scenario::{self, PinnedArgs};
use super::{lessons, questions, usage};
use crate::engine::PlanRequest;
use crate::teach::Tab;
use crate::tui::app::App;
use crate::tui::screens::teach::TeachStart;
use crate::tui::theme::{Appearance, Theme};
use crate::tui::{self, ExitReason};

/// Opens the planner. The model is read first, which takes milliseconds, so that a wrong path is reported where it was
/// written; GPUs are detected while the planner is already open.
pub(super) fn run(cli: &Cli, pins: &mut [PinnedArgs]) -> Result<ExitCode, CliError> {
    lessons::append(cli.lessons.as_deref())?;
    let start = ParsedArgs::read(&cli.knobs, &cli.machine)?;
    let opened = match &cli.model {
        Some(named) => resolve::model(named).map_err(|error| usage::or_suggest_command(error, named))?,
        None => resolve::default_model()?,
    };
    let opened = resolve::for_engine(opened, &cli.knobs)?;
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
    let found = cli.model.as_deref().map(|named| questions::location_of(&opened, named, None));
    let (mut requests, mut pinned) = (Vec::new(), Vec::new());
    for pin in pins {
        let (request, reference) = pin.request()?;
        requests.push(request);
        pinned.push(reference);
    }
    let number = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    let page = cli.page.or(cli.lesson.map(|_| Tab::Lessons));
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
