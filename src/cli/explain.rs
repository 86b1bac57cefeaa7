//! `plimsoll explain`: a page of the teach screen as a handout.

use std::sync::Arc;

use super::args::ExplainArgs;
use super::fault::Fault;
use super::questions;
use super::start::Ready;
use super::style::{Bars, Style};
use crate::machine::Machine;
use crate::source::catalogue;
use crate::teach::{Page, Sheet, Topic, lessons};
use crate::tui::app::{Beginning, Known, Live};
use crate::tui::theme::{Glyphs, Look, Theme, Tone};
use crate::tui::{handout, picture};

/// Columns and rows of a page that is drawn.
const PAPER: (u16, u16) = (120, 44);
/// No page is drawn in fewer columns.
const NARROWEST: u16 = 60;

/// As many columns as the terminal has, and more rows where they are fewer.
fn paper(columns: Option<usize>) -> (u16, u16) {
    let (most, rows) = PAPER;
    let columns = columns.and_then(|columns| u16::try_from(columns).ok()).unwrap_or(most).clamp(NARROWEST, most);
    (columns, rows + (most - columns) / 4)
}

/// The page, as it was asked for.
pub(super) fn explain(args: &ExplainArgs) -> Result<String, Fault> {
    let topics = topics(args)?;
    let (ready, opened) = questions::ready(&args.asked)?;
    if args.json || args.markdown {
        let request = ready.request(&opened.model);
        let plan = request.plan()?;
        let sheets = topics.iter().map(|topic| topic.sheet(&request, &plan, &catalogue::model));
        let sheets = sheets.collect::<Result<Vec<Sheet>, _>>()?;
        return match sheets.as_slice() {
            [one] if args.json => json(&one.json()),
            all if args.json => json(&all.iter().map(Sheet::json).collect()),
            all => Ok(all.iter().map(Sheet::markdown).collect::<Vec<_>>().join("\n")),
        };
    }
    let topic = topics.first().copied().unwrap_or(args.page.topic());
    let style = Style::of_stdout();
    let glyphs = if style.bars == Bars::Ascii { Glyphs::Ascii } else { Glyphs::Unicode };
    let look = if args.svg { Look::BEST } else { Look { tone: Tone::Mono, glyphs, ..Look::BEST } };
    let Ready { engine, settings, held, machine, .. } = ready;
    let beginning = Beginning {
        engine,
        settings,
        model: Some(Arc::clone(&opened.model)),
        machine: Machine::clone(&machine),
        known: Known::All,
        live: Live::Off,
        held,
        theme: Theme::new(look),
        size: if args.svg { PAPER } else { paper((style.bars != Bars::None).then_some(style.lines)) },
    };
    let drawn = handout::draw(beginning, topic).map_err(Fault::Arguments)?;
    let title = format!("plimsoll explain --page {}", args.page.name());
    Ok(if args.svg { picture::svg(&drawn, look.tone, &title) } else { handout::text(&drawn) })
}

/// What is to be printed: one page, or every lesson where none is chosen.
fn topics(args: &ExplainArgs) -> Result<Vec<Topic>, Fault> {
    match (args.page, args.lesson) {
        (Page::Lessons, None) => Ok((0..lessons::all().len()).map(Topic::Lessons).collect()),
        (Page::Lessons, Some(number @ 1..)) if number <= lessons::all().len() => Ok(vec![Topic::Lessons(number - 1)]),
        (Page::Lessons, Some(number)) => {
            Err(Fault::Arguments(format!("--lesson {number}: use a number from 1 to {}", lessons::all().len())))
        }
        (page, None) => Ok(vec![page.topic()]),
        (page, Some(_)) => Err(Fault::Arguments(format!("--lesson belongs to --page lessons, not to {}", page.name()))),
    }
}

fn json(page: &serde_json::Value) -> Result<String, Fault> {
    match serde_json::to_string_pretty(page) {
        Ok(json) => Ok(json + "\n"),
        Err(error) => Err(Fault::Terminal(format!("the page cannot be written as JSON: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paper_is_as_wide_as_the_terminal() {
        assert_eq!([None, Some(300), Some(120)].map(paper), [PAPER; 3]);
        assert_eq!([Some(80), Some(60), Some(1), Some(0)].map(paper), [(80, 54), (60, 59), (60, 59), (60, 59)]);
    }
}
