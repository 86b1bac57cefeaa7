//! `plimsoll explain`: a page of the teach screen as a handout.

use std::sync::Arc;

use super::args::ExplainArgs;
use super::fault::Fault;
use super::questions;
use super::start::Ready;
use super::style::{Bars, Style};
use crate::engine;
use crate::tui::app::{Beginning, Known, Live};
use crate::tui::effect::library;
use crate::tui::theme::{Glyphs, Look, Theme, Tone};
use crate::tui::{handout, picture};

/// Columns and rows of a page that is drawn.
const PAPER: (u16, u16) = (120, 44);

/// The page, as it was asked for.
pub(super) fn explain(args: &ExplainArgs) -> Result<String, Fault> {
    let (ready, opened) = questions::ready(&args.asked)?;
    if args.json || args.markdown {
        let case = ready.case(&opened.model);
        let plan = engine::plan(case.engine, case.model, case.machine, case.settings)?;
        let sheet = args.page.topic().sheet(&case, &plan, &library)?;
        return if args.json { json(&sheet.json()) } else { Ok(sheet.markdown()) };
    }
    let style = Style::of_stdout();
    let glyphs = if style.bars == Bars::Ascii { Glyphs::Ascii } else { Glyphs::Unicode };
    let look = if args.svg { Look::BEST } else { Look { tone: Tone::Mono, glyphs, ..Look::BEST } };
    let Ready { engine, settings, held, machine, .. } = ready;
    let beginning = Beginning {
        engine,
        settings,
        model: Some(Arc::clone(&opened.model)),
        machine,
        known: Known::All,
        live: Live::Off,
        held,
        theme: Theme::new(look),
        size: PAPER,
    };
    let drawn = handout::draw(beginning, args.page).map_err(Fault::Arguments)?;
    let title = format!("plimsoll explain --page {}", args.page.name());
    Ok(if args.svg { picture::svg(&drawn, look.tone, &title) } else { handout::text(&drawn) })
}

fn json(page: &serde_json::Value) -> Result<String, Fault> {
    match serde_json::to_string_pretty(page) {
        Ok(json) => Ok(json + "\n"),
        Err(error) => Err(Fault::Terminal(format!("the page cannot be written as JSON: {error}"))),
    }
}
