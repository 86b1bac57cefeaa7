//! `plimsoll place`: a faster placement than llama-server's fit decides, with its command.

#[cfg(feature = "cli")]
pub mod arguments;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{About, Question, source};
use crate::answer::place::Placed;
use crate::answer::sweep::PlanFigures;
use crate::answer::verdict;
use crate::export::{ModelLocation, PlanSource, llama_server};
use crate::page::{Hue, Page, Span};
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
}

impl Question for PlaceRequest {
    const NAME: &'static str = "place";
    const PRINTS: &'static str = "a faster placement";
    type Answer = PlaceFound;
    type Record<'a> = PlaceAnswer<'a>;

    fn answer(&self, About { request, plan, .. }: About<'_>) -> Result<PlaceFound, String> {
        let placed = request.placed(plan).map(|placed| -> Result<_, String> {
            let (command, mut remarks) = llama_server::of_placement(&placed, &self.location)?;
            remarks.extend(self.notes.iter().cloned());
            Ok((placed, command, remarks))
        });
        Ok(PlaceFound { placed: placed.transpose()?, speeds: Speeds::of(&request.model, &request.machine, plan, 0) })
    }

    fn page(&self, About { plan, .. }: About<'_>, PlaceFound { speeds, placed }: &PlaceFound) -> Page {
        let mut page = Page::default();
        let speeds = speeds.as_ref();
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
        PlaceAnswer { head: PlanSource::of(about.plan, about.source), now, placed }
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

/// Why there is no faster placement.
const fn nothing(speeds: Option<&Speeds>) -> &'static str {
    if speeds.is_some() {
        "No placement was found that is faster: as llama-server's fit decides is as fast as any that was tried."
    } else {
        "No placement was found, and without its speed none can be called faster: it does not fit, or the bandwidth of a GPU \
         is not known."
    }
}
