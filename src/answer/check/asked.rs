//! A load beside the plan that it was started by: nothing is derived from the log, so that what the program decided
//! otherwise is a difference.

use super::rows::{self, Observed, Planned, SplitCheck};
use super::{Check, Compared, Reason, reason};
use crate::engine::{EngineError, PlanRequest};
use crate::observed::Load;
use crate::settings::Release;

/// Compares `load` with the plan of `request` itself.
///
/// # Errors
/// When the engine cannot plan it.
pub fn beside(load: &Load, request: &PlanRequest) -> Result<Check, EngineError> {
    let gpus = 0..request.machine.gpus.len();
    let names: Vec<String> = gpus.filter_map(|gpu| request.machine.device_name(gpu)).collect();
    let observed = Observed::of(load);
    let shown = observed.shown(&names);
    let plan = rows::plan(request, shown)?;
    let plan = Planned { beside: rows::beside(request, &names).unwrap_or_default(), ..plan };
    let mut rows = observed.beside(&plan, &names);
    for row in rows.iter_mut().filter(|row| !row.is_same()) {
        row.reason = reason::of_row(row, load);
    }
    let is_open = |row: &Compared| !row.agrees() && row.reason.is_none();
    for release in Release::ALL {
        if !rows.iter().any(is_open) || request.engine.facts().releases.is_empty() {
            break;
        }
        let Ok(then) = rows::plan(&request.changed(|settings| settings.release = Some(release)), shown) else {
            continue;
        };
        let then = observed.beside(&Planned { beside: plan.beside.clone(), ..then }, &names);
        for row in rows.iter_mut().filter(|row| is_open(row)) {
            let is_it =
                |other: &&Compared| (&other.device, other.part, other.term) == (&row.device, row.part, row.term);
            if then.iter().find(is_it).is_some_and(Compared::is_same) {
                row.reason = Some(Reason::Release(release));
            }
        }
    }
    // without a GPU, layers that would be on one are counted
    let seen = load.layers_on_gpus().filter(|_| !names.is_empty());
    Ok(Check {
        split: SplitCheck::of(seen, Some(request), &plan),
        request: request.clone(),
        names,
        release: None,
        quantisation: None,
        rows,
        assumed: Vec::new(),
        inferred: Vec::new(),
        inferred_context: None,
    })
}
