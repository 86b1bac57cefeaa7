//! A faster placement as a page.

use super::source;
use crate::answer::place::Placed;
use crate::answer::verdict;
use crate::page::{Hue, Page, Span};
use crate::plan::Plan;
use crate::speed::Speeds;

/// A placement that is faster than that of `plan`, with its command and remarks on that; or that there is none.
/// `speeds` are those of `plan`.
pub fn place(plan: &Plan, speeds: Option<&Speeds>, placed: Option<(&Placed, &str, &[String])>) -> Page {
    let mut page = Page::default();
    let Some((placed, command, remarks)) = placed else {
        page.text(nothing(speeds), Hue::Text);
        source(plan, &mut page);
        return page;
    };
    page.spans("", vec![Span::new(&placed.headline(), Hue::Text.bold()), format!(" {}", placed.reason).into()]);
    page.blank();
    page.verbatim(&format!("  {command}"), Hue::Text);
    page.blank();
    for (name, plan, speeds) in [("as it is", plan, speeds), ("placed", &placed.plan, Some(&placed.after))] {
        let what = match speeds {
            Some(speeds) => format!("{speeds}: {}", verdict::headline(plan)),
            None => verdict::headline(plan),
        };
        page.pair(name, 8, &what, Hue::Text);
    }
    source(&placed.plan, &mut page);
    for remark in remarks {
        page.item(remark);
    }
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
