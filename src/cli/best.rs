//! `plimsoll best`: the best settings with the given knobs held.

use super::args::{BestArgs, KnobArgs};
use super::error::CliError;
use super::questions::{json, ready};
use super::style::Style;
use crate::answer::best::{BestRequest, DEFAULT_MARGIN, Objective};
use crate::export::answers;
use crate::page::answers as pages;
use crate::settings::knob::Knob;

pub(super) fn run(args: &BestArgs) -> Result<String, CliError> {
    let (ready, opened) = ready(&args.asked)?;
    let request = ready.request(&opened.model);
    let plan = ready.plan(&opened.model)?;
    let margin = args.margin.or(ready.config.preferences.margin).unwrap_or(DEFAULT_MARGIN);
    let question = BestRequest { held: held(&args.asked.knobs), margin };
    if args.objective == Some(Objective::Context) && question.held.contains(&Knob::Context) {
        return Err(CliError::flag("--for", "--ctx is given and therefore fixed: leave it out to have it chosen"));
    }
    let cards = match args.objective {
        Some(objective) => request.card(objective, &plan, &question).into_iter().collect(),
        None => request.best(&plan, &question),
    };
    if args.json {
        return json(answers::best_json(&plan, &request.settings, &question, &cards));
    }
    Ok(Style::of_stdout().page(&pages::best(&plan, &request.settings, &question, &cards)))
}

/// The knobs given as options, in the order of the screen.
fn held(knobs: &KnobArgs) -> Vec<Knob> {
    let is_given = |knob: &Knob| knobs.given.iter().any(|flag| flag.name() == knob.name());
    Knob::ALL.into_iter().filter(|knob| knob.moves_plans() && is_given(knob)).collect()
}
