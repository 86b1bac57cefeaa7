//! A load beside the plan that it was started by: nothing is derived from the log, so that what the program decided
//! otherwise is a difference.

use super::rows::{self, Observed, Planned, Shown, SplitCheck};
use super::{Check, reason};
use crate::engine::{EngineError, PlanRequest};
use crate::observed::Load;

/// Compares `load` with the plan of `request` itself.
///
/// # Errors
/// When the engine cannot plan it.
pub fn beside(load: &Load, request: &PlanRequest) -> Result<Check, EngineError> {
    let gpus = 0..request.machine.gpus.len();
    let names: Vec<String> = gpus.filter_map(|gpu| request.machine.device_name(gpu)).collect();
    let observed = Observed::of(load);
    let shown = Shown { names: &names, measured: observed.is_measured() };
    let plan = rows::plan(request, shown)?;
    let plan = Planned { beside: rows::beside(request, &names).unwrap_or_default(), ..plan };
    let mut rows = observed.beside(&plan, &names);
    for row in rows.iter_mut().filter(|row| !row.is_same()) {
        row.reason = reason::of_row(row, load);
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
