//! `plimsoll explain`: pages of the teach screen as text, Markdown, SVG or JSON, and a handout of all of them.

mod handout;

use std::sync::Arc;

use super::args::{ExplainArgs, PageChoice};
use super::error::{self, CliError};
use super::questions;
use super::resolve::ResolvedArgs;
use super::style::{BarGlyphs, Style};
use crate::engine::{EngineVersion, PlanRequest};
use crate::export::caption::Caption;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::source::{Package, catalogue};
use crate::teach::{Page, PageContent, Topic, lessons};
use crate::text;
use crate::tui::app::{Detection, InitialState, LiveMemory};
use crate::tui::theme::{Appearance, Glyphs, Theme, Tone};
use crate::tui::{picture, printout};

/// Columns and rows of a printed page.
const PAGE_SIZE: (u16, u16) = (120, 44);
/// Minimum columns of a printed page.
const MIN_COLUMNS: u16 = 60;

/// As wide as the terminal within limits; with fewer columns a page has more rows.
fn page_size(columns: Option<usize>) -> (u16, u16) {
    let (most, rows) = PAGE_SIZE;
    let columns = columns.and_then(|columns| u16::try_from(columns).ok()).unwrap_or(most).clamp(MIN_COLUMNS, most);
    (columns, rows + (most - columns) / 4)
}

/// The page in the requested format, or what was written into a folder.
pub(super) fn explain(args: &ExplainArgs) -> Result<String, CliError> {
    let topics = topics(args)?;
    let (ready, opened) = questions::ready(&args.asked)?;
    if args.json || args.markdown {
        let request = ready.request(&opened.model);
        let plan = request.plan()?;
        if let Some(folder) = &args.output {
            return handout::write(folder, &ready, &opened, &request, &plan, &topics);
        }
        let pages = topics.iter().map(|topic| topic.content(&request, &plan, &catalogue::model_and_projector));
        let pages = pages.collect::<Result<Vec<PageContent>, _>>()?;
        if args.markdown {
            let captioned = pages.iter().map(|page| captioned(page, &request, &plan));
            return Ok(captioned.collect::<Vec<_>>().join("\n"));
        }
        let object = match pages.as_slice() {
            [one] => one.json(),
            all => all.iter().map(PageContent::json).collect(),
        };
        return error::json("page", text::json(&object));
    }
    let PageChoice::One(page) = args.page else {
        return Err(CliError::Arguments("--page all is for --markdown and --json: choose one page".to_owned()));
    };
    let topic = topics.first().copied().unwrap_or(page.topic());
    if args.svg {
        let tone = if args.light { Tone::Light } else { Tone::Dark };
        return drawn_picture(&ready, &opened, topic, tone);
    }
    let style = Style::of_stdout();
    let glyphs = if style.bars == BarGlyphs::Ascii { Glyphs::Ascii } else { Glyphs::Unicode };
    let look = Appearance { tone: Tone::Mono, glyphs, keys: false, ..Appearance::BEST };
    let size = page_size((style.bars != BarGlyphs::None).then_some(style.lines));
    let drawn = printout::draw(initial_state(&ready, &opened, look, size), topic).map_err(CliError::Arguments)?;
    Ok(printout::text(&drawn))
}

/// The page as Markdown, and below it what its figures are for.
fn captioned(page: &PageContent, request: &PlanRequest, plan: &Plan) -> String {
    let caption = match page {
        PageContent::Lessons(lesson) => lesson.lesson.caption.clone(),
        _ => Caption::of(request, plan),
    };
    format!("{}\n*{caption}*\n", page.markdown())
}

/// The page of `topic` as an SVG picture.
fn drawn_picture(ready: &ResolvedArgs, opened: &Package, topic: Topic, tone: Tone) -> Result<String, CliError> {
    let look = Appearance { tone, keys: false, ..Appearance::BEST };
    let start = initial_state(ready, opened, look, PAGE_SIZE);
    let drawn = printout::draw(start, topic).map_err(CliError::Arguments)?;
    let title = match topic {
        Topic::Lessons(at) => lessons::all().get(at).map_or_else(String::new, |lesson| lesson.title.clone()),
        topic => topic.page().title().to_owned(),
    };
    Ok(picture::svg(&drawn, tone, &title))
}

fn initial_state(ready: &ResolvedArgs, opened: &Package, look: Appearance, size: (u16, u16)) -> InitialState {
    InitialState {
        engine: ready.engine,
        settings: ready.settings.clone(),
        model: Some(Arc::clone(&opened.model)),
        machine: Machine::clone(&ready.machine),
        detection: Detection::Done,
        live: LiveMemory::Off,
        held: ready.held,
        preferences: ready.config.preferences,
        theme: Theme::new(look),
        size,
    }
}

/// The pages to print: one, every lesson if none is chosen, or all.
fn topics(args: &ExplainArgs) -> Result<Vec<Topic>, CliError> {
    let versus = args.versus.map(|engine| EngineVersion { engine, release: engine.facts().releases.first().copied() });
    if args.versus.is_some() && !matches!(args.page, PageChoice::One(Page::Formulas) | PageChoice::All) {
        return Err(CliError::Arguments("--versus belongs to --page formulas".to_owned()));
    }
    let topics = |page: Page| match page {
        Page::Lessons => (0..lessons::all().len()).map(Topic::Lessons).collect(),
        Page::Formulas => vec![Topic::Formulas(versus)],
        page => vec![page.topic()],
    };
    match (args.page, args.lesson) {
        (PageChoice::All, None) => Ok(Page::ALL.into_iter().flat_map(topics).collect()),
        (PageChoice::One(page), None) => Ok(topics(page)),
        (PageChoice::One(Page::Lessons), Some(number @ 1..)) if number <= lessons::all().len() => {
            Ok(vec![Topic::Lessons(number - 1)])
        }
        (PageChoice::One(Page::Lessons), Some(number)) => {
            Err(CliError::Arguments(format!("--lesson {number}: use a number from 1 to {}", lessons::all().len())))
        }
        (_, Some(_)) => Err(CliError::Arguments("--lesson belongs to --page lessons".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_as_wide_as_the_terminal() {
        assert_eq!([None, Some(300), Some(120)].map(page_size), [PAGE_SIZE; 3]);
        assert_eq!([Some(80), Some(60), Some(1), Some(0)].map(page_size), [(80, 54), (60, 59), (60, 59), (60, 59)]);
    }
}
