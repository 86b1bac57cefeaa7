//! Questions about a plan, a file each: how one is asked, and its answer step by step, as a page, as JSON, as rows and as a
//! picture. The search for the answer is a file of [`answer`](crate::answer).
//!
//! To add one: its file here, with a [`Question`] and its [`arguments`]; a line in each of both lists of `cli/commands.rs`,
//! and a row in `cli/schema.rs`. A screen asks any that is [`Stepwise`].

#[cfg(feature = "cli")]
pub mod arguments;
pub mod best;
mod figures;
pub mod glance;
mod json_value;
pub mod matrix;
pub mod max;
pub mod need;
#[cfg(feature = "cli")]
pub(crate) mod parse;
pub mod place;
pub mod sweep;
pub mod together;
pub mod why;

use std::fmt::Debug;

use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::verdict;
use crate::engine::PlanRequest;
use crate::export::ModelSource;
use crate::page::{Hue, Page, joined};
use crate::plan::Plan;
use crate::settings::Context;
use crate::speed::Speeds;
use crate::units::{Tokens, grouped};

/// What a question is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Engine, model, machine and knobs.
    pub request: &'a PlanRequest,
    /// The plan of these.
    pub plan: &'a Plan,
    /// Where the model was read.
    pub source: &'a ModelSource,
}

/// A question that a command answers.
pub trait Question {
    /// Its name: that of the command, and of the schema of what it prints.
    const NAME: &'static str;
    /// What it prints as JSON, in a few words.
    const PRINTS: &'static str;
    /// Its answer.
    type Answer;
    /// The answer as JSON.
    type Record<'a>: JsonSchema + Serialize
    where
        Self: 'a;

    /// The answer, for which many plans are spread over cores.
    ///
    /// # Errors
    /// One sentence.
    fn answer(&self, about: About<'_>) -> Result<Self::Answer, String>;

    /// The answer as a page.
    fn page(&self, about: About<'_>, answer: &Self::Answer) -> Page;

    /// The answer as JSON.
    fn record<'a>(&'a self, about: About<'a>, answer: &'a Self::Answer) -> Self::Record<'a>;

    /// The answer as CSV, if it has rows.
    fn csv(&self, _: About<'_>, _: &Self::Answer) -> Option<String> {
        None
    }

    /// The answer as an SVG picture, if it can be drawn.
    fn svg(&self, _: About<'_>, _: &Self::Answer) -> Option<String> {
        None
    }
}

/// A question whose answer comes in steps, so that a screen shows what is known so far and may ask something else.
pub trait Stepwise: Debug + Send + Sync + 'static {
    /// A part of the answer.
    type Part: Clone + Send + Sync + 'static;

    /// The parts of the answer about `of`. A step without a part gives the caller a chance to cancel.
    fn steps<'a>(&'a self, of: &'a PlanRequest) -> impl Iterator<Item = Option<Self::Part>>;
}

/// Adds the model, the engine with its confidence, and the notes.
fn source(plan: &Plan, page: &mut Page) {
    source_line(plan, page);
    plan.notes.iter().for_each(|note| page.item(note));
}

/// Where the engine plans less context than was given: a sentence, which comes first.
fn not_as_asked(asked: Context, plan: &Plan) -> Option<String> {
    let Context::Tokens(asked) = asked else { return None };
    let taken = plan.settings.ctx;
    let trained = plan.model.context_train == Some(plan.settings.ctx_per_sequence);
    let why = if trained { ", which is all that the model was trained for" } else { "" };
    (taken < asked).then(|| {
        format!(
            "Not the context that was given: {} plans {} tokens instead of {}{why}.",
            plan.engine_title(),
            Tokens(taken),
            Tokens(asked)
        )
    })
}

/// Adds the model and the engine with its confidence.
fn source_line(plan: &Plan, page: &mut Page) {
    let parts = [
        plan.model.name.clone(),
        plan.source(),
        format!("context {}", Tokens(plan.settings.ctx)),
        format!("parallel {}", grouped(plan.settings.parallel, '\u{2009}')),
        format!("KV cache {}", plan.settings.cache_type_k),
    ];
    page.blank();
    page.text(&joined(parts), Hue::Text);
}

/// The verdict on a plan, its sign and headline in colour.
fn verdict_of(plan: &Plan, speeds: Option<&Speeds>, page: &mut Page) {
    page.text(&format!("{}: {}", verdict::headline(plan), verdict::sentence(plan, None, speeds)), Hue::Text);
}
