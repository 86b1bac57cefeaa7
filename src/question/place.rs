//! `plimsoll place`: a faster placement than llama-server's fit decides, with its command, and whether less kept free would do.

#[cfg(feature = "cli")]
pub mod arguments;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{About, Question, source};
use crate::answer::Remedy;
use crate::answer::place::Placed;
use crate::answer::sweep::PlanFigures;
use crate::answer::verdict;
use crate::export::{ModelLocation, PlanSource, llama_server};
use crate::page::{Hue, Page, Span};
use crate::plan::Plan;
use crate::speed::Speeds;

/// What its command needs besides the placement.
#[derive(Clone, Debug)]
pub struct PlaceRequest {
    /// Where llama-server finds the model.
    pub location: ModelLocation,
    /// What else there is to say.
    pub notes: Vec<String>,
}

/// A placement.
#[derive(Debug)]
pub struct PlaceFound {
    /// The speeds of the engine's own placement, where they can be known.
    speeds: Option<Speeds>,
    /// The faster one, llama-server's command and remarks on that; none where nothing is faster.
    placed: Option<(Placed, String, Vec<String>)>,
    /// All in VRAM with less kept free, where that brings it there.
    margin: Option<LessKept>,
}

/// All in VRAM with less kept free.
#[derive(Debug)]
struct LessKept {
    remedy: Remedy,
    plan: Plan,
    speeds: Option<Speeds>,
    /// llama-server's command.
    command: String,
}

impl LessKept {
    /// `All in VRAM with --fit-target 512 (about 1.2 times as fast): 178 MiB stay free beside …`
    fn headline(&self, now: Option<&Speeds>) -> String {
        let options = self.remedy.options().unwrap_or_default();
        let range = |speeds: &Speeds| speeds.start.range();
        let times = self.speeds.as_ref().and_then(|then| range(then).against(&range(now?)));
        let times = times.map_or_else(String::new, |times| format!(", {times}"));
        let cost = self.remedy.cost.as_ref().map_or_else(String::new, |cost| format!(": {cost}"));
        format!("All in VRAM with {options}{times}{cost}.")
    }
}

impl Question for PlaceRequest {
    const NAME: &'static str = "place";
    const PRINTS: &'static str = "a faster placement";
    type Answer = PlaceFound;
    type Record<'a> = PlaceAnswer<'a>;

    fn answer(&self, About { request, plan, .. }: About<'_>) -> Result<PlaceFound, String> {
        let placed = request.placed(plan).map(|placed| -> Result<_, String> {
            let (command, mut remarks) = llama_server::with_remarks(&placed.request, &placed.plan, &self.location)?;
            remarks.extend(self.notes.iter().cloned());
            Ok((placed, command, remarks))
        });
        let margin = request.remedy_by_margin(plan).and_then(|remedy| {
            let then = remedy.then.plan().ok()?;
            let (command, _) = llama_server::with_remarks(&remedy.then, &then, &self.location).ok()?;
            let speeds = Speeds::of(&remedy.then.model, &remedy.then.machine, &then, 0);
            Some(LessKept { remedy, plan: then, speeds, command })
        });
        let speeds = Speeds::of(&request.model, &request.machine, plan, 0);
        Ok(PlaceFound { placed: placed.transpose()?, speeds, margin })
    }

    fn page(&self, About { plan, .. }: About<'_>, PlaceFound { speeds, placed, margin }: &PlaceFound) -> Page {
        let mut page = Page::default();
        let speeds = speeds.as_ref();
        let Some((placed, command, remarks)) = placed else {
            if margin.is_none() {
                page.text(nothing(speeds), Hue::Text);
            }
            less_kept((plan, speeds), margin.as_ref(), &mut page);
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
        if margin.is_some() {
            page.blank();
            less_kept((plan, speeds), margin.as_ref(), &mut page);
        }
        source(&placed.plan, &mut page);
        for remark in remarks {
            page.item(remark);
        }
        page
    }

    fn record<'a>(&'a self, about: About<'a>, found: &'a PlaceFound) -> PlaceAnswer<'a> {
        let placed = found.placed.as_ref().map(|(placed, command, remarks)| PlacedRecord {
            command,
            remarks,
            settings: placed.options(),
            times: placed.times().map(|times| times.0),
            reason: &placed.reason,
            plan: PlanFigures::of(&placed.plan, Some(&placed.after)),
        });
        let now = PlanFigures::of(about.plan, found.speeds.as_ref());
        let less_kept_free = found.margin.as_ref().map(|less| LessKeptRecord {
            command: &less.command,
            options: less.remedy.options(),
            stays_free: less.remedy.cost.as_deref(),
            plan: PlanFigures::of(&less.plan, less.speeds.as_ref()),
        });
        PlaceAnswer { head: PlanSource::of(about.plan, about.source), now, placed, less_kept_free }
    }
}

/// A faster placement than the engine's.
#[derive(JsonSchema, Serialize)]
pub struct PlaceAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    /// The engine's own placement.
    now: PlanFigures,
    /// The faster one; null where nothing is faster.
    placed: Option<PlacedRecord<'a>>,
    /// All in VRAM with less kept free; null where that is so already, or no margin brings it there.
    less_kept_free: Option<LessKeptRecord<'a>>,
}

/// All in VRAM with less kept free on GPUs.
#[derive(JsonSchema, Serialize)]
pub struct LessKeptRecord<'a> {
    /// llama-server's command.
    command: &'a str,
    /// The option that keeps less free.
    options: Option<String>,
    /// What stays free then, and beside what.
    stays_free: Option<&'a str>,
    plan: PlanFigures,
}

/// A placement.
#[derive(JsonSchema, Serialize)]
pub struct PlacedRecord<'a> {
    /// llama-server's command.
    command: &'a str,
    /// What else there is to say of it.
    remarks: &'a [String],
    /// Its options by their names.
    settings: BTreeMap<&'static str, String>,
    /// How many times as fast, in the middle of both ranges; null where no speed was known before.
    times: Option<f64>,
    /// Why it is faster.
    reason: &'a str,
    plan: PlanFigures,
}

/// Adds that all would be in VRAM with less kept free.
fn less_kept((now, speeds): (&Plan, Option<&Speeds>), margin: Option<&LessKept>, page: &mut Page) {
    let Some(less) = margin else { return };
    page.text(&less.headline(speeds), Hue::Text.bold());
    page.blank();
    page.verbatim(&format!("  {}", less.command), Hue::Text);
    page.blank();
    for (name, plan, speeds) in [("as it is", now, speeds), ("then", &less.plan, less.speeds.as_ref())] {
        let what = speeds.map_or_else(String::new, |speeds| format!("{speeds}: "));
        page.pair(name, 8, &format!("{what}{}", verdict::headline(plan)), Hue::Text);
    }
}

/// Why there is no faster placement.
const fn nothing(speeds: Option<&Speeds>) -> &'static str {
    if speeds.is_some() {
        "No placement was found that is faster than the one that llama-server's fit decides."
    } else {
        "No placement was found, and without its speed none can be called faster: it does not fit, or the bandwidth of a GPU \
         is not known."
    }
}
