//! A faster placement as a page.

use super::source;
use crate::answer::place::Placed;
use crate::answer::verdict;
use crate::page::{Column, Hue, Narrow, Page, Span};
use crate::plan::Plan;
use crate::speed::Speeds;

/// A placement that is faster than that of `plan`, with its command and what that cannot express; or that there is none.
/// `speeds` are those of `plan`.
pub fn place(plan: &Plan, speeds: Option<&Speeds>, placed: Option<(&Placed, &str, &[String])>) -> Page {
    let mut page = Page::default();
    let Some((placed, command, comments)) = placed else {
        page.text(nothing(speeds), Hue::Text);
        source(plan, &mut page);
        return page;
    };
    page.spans("", vec![Span::new(&placed.headline(), Hue::Text.bold()), format!(" {}", placed.reason).into()]);
    page.blank();
    page.verbatim(&format!("  {command}"), Hue::Text);
    page.blank();
    let speed = |speeds: Option<&Speeds>| speeds.map_or_else(|| "does not fit".to_owned(), ToString::to_string);
    let row = |name: &str, plan: &Plan, speeds: Option<&Speeds>| {
        vec![name.into(), Span::new(&verdict::headline(plan), Hue::Text), speed(speeds).into()]
    };
    let rows = vec![row("now", plan, speeds), row("placed", &placed.plan, Some(&placed.after))];
    let width = rows.iter().map(|row| row[1].text.chars().count()).max().unwrap_or(0);
    page.table(vec![Column::left("", 6), Column::left("", width), Column::left("", 0)], rows, Narrow::Cut(2));
    source(&placed.plan, &mut page);
    comments.iter().for_each(|comment| page.item(comment));
    page
}

/// Why there is no faster placement.
const fn nothing(speeds: Option<&Speeds>) -> &'static str {
    if speeds.is_some() {
        "No placement was found that is faster: as llama-server's fit decides is as fast as any that was tried."
    } else {
        "No placement was found, and without its speed none can be called faster: it does not fit, or the bandwidth of a GPU \
         is not known."
    }
}
