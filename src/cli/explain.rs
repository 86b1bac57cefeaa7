//! `plimsoll explain`: a page of the teach screen as text, Markdown, SVG or JSON.

use std::sync::Arc;

use super::args::ExplainArgs;
use super::error::{self, CliError};
use super::questions;
use super::resolve::ResolvedArgs;
use super::style::{BarGlyphs, Style};
use crate::machine::Machine;
use crate::source::catalogue;
use crate::teach::{Page, PageContent, Topic, lessons};
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

/// The page in the requested format.
pub(super) fn explain(args: &ExplainArgs) -> Result<String, CliError> {
    let topics = topics(args)?;
    let (ready, opened) = questions::ready(&args.asked)?;
    if args.json || args.markdown {
        let request = ready.request(&opened.model);
        let plan = request.plan()?;
        let pages = topics.iter().map(|topic| topic.content(&request, &plan, &catalogue::model));
        let pages = pages.collect::<Result<Vec<PageContent>, _>>()?;
        if args.markdown {
            return Ok(pages.iter().map(PageContent::markdown).collect::<Vec<_>>().join("\n"));
        }
        let object = match pages.as_slice() {
            [one] => one.json(),
            all => all.iter().map(PageContent::json).collect(),
        };
        return error::json("page", serde_json::to_string_pretty(&object));
    }
    let topic = topics.first().copied().unwrap_or(args.page.topic());
    let style = Style::of_stdout();
    let glyphs = if style.bars == BarGlyphs::Ascii { Glyphs::Ascii } else { Glyphs::Unicode };
    let look = if args.svg { Appearance::BEST } else { Appearance { tone: Tone::Mono, glyphs, ..Appearance::BEST } };
    let ResolvedArgs { engine, settings, held, machine, config, .. } = ready;
    let initial_state = InitialState {
        engine,
        settings,
        model: Some(Arc::clone(&opened.model)),
        machine: Machine::clone(&machine),
        detection: Detection::Done,
        live: LiveMemory::Off,
        held,
        preferences: config.preferences,
        theme: Theme::new(look),
        size: if args.svg { PAGE_SIZE } else { page_size((style.bars != BarGlyphs::None).then_some(style.lines)) },
    };
    let drawn = printout::draw(initial_state, topic).map_err(CliError::Arguments)?;
    let title = format!("plimsoll explain --page {}", args.page.name());
    Ok(if args.svg { picture::svg(&drawn, look.tone, &title) } else { printout::text(&drawn) })
}

/// The pages to print: one, or every lesson if none is chosen.
fn topics(args: &ExplainArgs) -> Result<Vec<Topic>, CliError> {
    match (args.page, args.lesson) {
        (Page::Lessons, None) => Ok((0..lessons::all().len()).map(Topic::Lessons).collect()),
        (Page::Lessons, Some(number @ 1..)) if number <= lessons::all().len() => Ok(vec![Topic::Lessons(number - 1)]),
        (Page::Lessons, Some(number)) => {
            Err(CliError::Arguments(format!("--lesson {number}: use a number from 1 to {}", lessons::all().len())))
        }
        (page, None) => Ok(vec![page.topic()]),
        (page, Some(_)) => {
            Err(CliError::Arguments(format!("--lesson belongs to --page lessons, not to {}", page.name())))
        }
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
