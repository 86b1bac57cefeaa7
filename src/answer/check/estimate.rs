//! The estimate that Ollama up to 0.12 printed before a load (`msg=offload`), beside that of its estimator as planned.

use std::sync::Arc;

use super::reason::{self, MIXTURE, not_planned, other_layers};
use super::rows::{ALL, ROUNDED, SplitCheck};
use super::{CheckRequest, CheckedTerm, Compared, Part, Precision, Uncounted, log};
use crate::engine::llama_cpp::Reservation;
use crate::engine::{EngineId, PlanRequest};
use crate::observed::{Load, Mib, OllamaEstimate};
use crate::plan::{Estimate, Plan};
use crate::settings::Context;
use crate::units::Bytes;

/// An estimate beside its plan.
pub struct EstimateCheck {
    /// The request that was planned.
    pub request: PlanRequest,
    /// Its figures.
    pub rows: Vec<Compared>,
    /// Its layers.
    pub split: Option<SplitCheck>,
    /// The context, if it was taken from the size of the cache.
    pub inferred_context: Option<u64>,
}

/// Plans the estimate of `load`, if it has one.
pub fn check(load: &Load, asked: &CheckRequest<'_>) -> Option<EstimateCheck> {
    let seen = load.estimate.as_ref()?;
    let machine = Arc::new(log::machine_of_estimate(load, seen, asked.machine));
    let mut wanted = log::settings_of_estimate(load, seen);
    (asked.knobs)(&mut wanted);
    let request = PlanRequest::new(EngineId::Ollama011, Arc::clone(&asked.model), machine, wanted);
    let untold = request.settings.ctx == Context::Auto;
    let inferred_context = if untold { context(seen, &request) } else { None };
    let request = match inferred_context {
        Some(tokens) => request.changed(|settings| settings.ctx = Context::Tokens(tokens)),
        None => request,
    };
    let plan = request.plan().ok()?;
    let rows = rows(load, seen, &plan, asked.is_same_file);
    let mut split = split(seen, &plan, &request);
    if let Some(split) = split.as_mut().filter(|_| rows.iter().any(|row| row.uncounted.is_some())) {
        // a projector takes room that layers have in this plan
        (split.planned, split.inequality) = (None, None);
    }
    Some(EstimateCheck { request, rows, split, inferred_context })
}

/// The smallest context whose cache is as large as the one in the log, in steps of 1024 tokens per sequence.
fn context(seen: &OllamaEstimate, request: &PlanRequest) -> Option<u64> {
    let wanted = seen.kv?;
    let cache = |steps: u64| {
        let plan = request.changed(|settings| settings.ctx = Context::Tokens(steps * 1024)).plan().ok()?;
        Some(Mib::of(plan.layers.iter().map(|layer| layer.cache).sum()).0)
    };
    let off = ROUNDED.of(wanted).0;
    let (mut least, mut most) = (1, 1024);
    while least < most {
        let middle = u64::midpoint(least, most);
        if cache(middle)? + off < wanted.0 { least = middle + 1 } else { most = middle }
    }
    ((cache(least)? - wanted.0).abs() <= off).then_some(least * 1024)
}

fn split(seen: &OllamaEstimate, plan: &Plan, request: &PlanRequest) -> Option<SplitCheck> {
    let (observed, of) = (seen.layers_offload?, seen.layers_model?);
    let layers = plan.estimate.as_ref()?.layers as u64;
    Some(SplitCheck { observed, of, planned: Some(layers), inequality: SplitCheck::inequality(request) })
}

fn rows(load: &Load, seen: &OllamaEstimate, plan: &Plan, is_same_file: bool) -> Vec<Compared> {
    let nothing = Estimate::default();
    let estimate = plan.estimate.as_ref().unwrap_or(&nothing);
    let output = plan.layers.last().map(|layer| layer.weights).unwrap_or_default();
    let weights: Bytes = plan.layers.iter().map(|layer| layer.weights).sum();
    let kv: Bytes = plan.layers.iter().map(|layer| layer.cache).sum();
    let of_all = [
        (CheckedTerm::RepeatingWeights, seen.weights_repeating, weights - output),
        (CheckedTerm::OutputWeights, seen.weights_nonrepeating, output),
        (CheckedTerm::AllWeights, seen.weights, weights),
        (CheckedTerm::AllKv, seen.kv, kv),
        (CheckedTerm::GraphFull, seen.graph_full, plan.graph.full.bytes),
        (CheckedTerm::GraphPartial, seen.graph_partial, plan.graph.partial.bytes),
        (CheckedTerm::RequiredFull, seen.full, estimate.total_size),
        (CheckedTerm::RequiredPartial, seen.partial, estimate.vram_size),
    ];
    let row = |device: &str, part, term, observed: Mib, planned: Option<Bytes>| Compared {
        device: device.to_owned(),
        part,
        term,
        of: Reservation::Loaded,
        planned: planned.map(Mib::of),
        observed: Some(observed),
        tolerance: ROUNDED.of(observed),
        precision: Precision::Decimal,
        is_mapped: false,
        uncounted: None,
        reason: None,
    };
    let mut rows: Vec<Compared> = of_all
        .into_iter()
        .filter_map(|(term, seen, planned)| Some(row(ALL, Part::Model, term, seen?, Some(planned))))
        .collect();
    for (at, &seen) in seen.allocations.iter().enumerate() {
        let planned = estimate.gpu_sizes.get(at).copied();
        rows.push(row(&format!("GPU{at}"), Part::Model, CheckedTerm::Allocation, seen, planned));
    }
    let projector = [
        (CheckedTerm::Model, seen.projector_weights, estimate.projector_weights),
        (CheckedTerm::Compute, seen.projector_graph, estimate.projector_graph),
    ];
    for (term, seen, planned) in projector {
        if let Some(seen) = seen.filter(|seen| seen.0 > 0.0) {
            let planned = (planned > Bytes::ZERO).then_some(planned);
            let uncounted = planned.is_none().then_some(Uncounted::NotPlanned);
            rows.push(Compared { uncounted, ..row(ALL, Part::Projector, term, seen, planned) });
        }
    }
    explain(&mut rows, load, seen, plan, is_same_file);
    rows
}

/// Gives each row that differs a reason.
fn explain(rows: &mut [Compared], load: &Load, seen: &OllamaEstimate, plan: &Plan, is_same_file: bool) {
    let unplanned = rows.iter().any(|row| row.uncounted == Some(Uncounted::NotPlanned));
    let differs = |rows: &[Compared], term| rows.iter().any(|row| row.term == term && !row.agrees());
    let weights = differs(rows, CheckedTerm::RepeatingWeights) || differs(rows, CheckedTerm::OutputWeights);
    let graphs = differs(rows, CheckedTerm::GraphFull) || differs(rows, CheckedTerm::GraphPartial);
    let (kv, layers) = (differs(rows, CheckedTerm::AllKv), plan.estimate.as_ref().map(|estimate| estimate.layers));
    let of_version = || reason::other_estimator(load.version.as_deref());
    let fewer = seen.layers_offload.filter(|&on| layers.is_some_and(|planned| planned as u64 != on));
    for row in rows.iter_mut().filter(|row| !row.agrees() || row.uncounted.is_some()) {
        row.reason = Some(match (row.part, row.term) {
            (Part::Projector, term) if row.uncounted.is_some() => not_planned(Part::Projector, term),
            (_, CheckedTerm::RepeatingWeights | CheckedTerm::OutputWeights | CheckedTerm::AllWeights)
                if !is_same_file =>
            {
                MIXTURE
            }
            (_, CheckedTerm::RequiredFull | CheckedTerm::RequiredPartial | CheckedTerm::Allocation) => {
                match (weights && !is_same_file, kv || graphs, fewer) {
                    _ if unplanned => not_planned(Part::Projector, row.term),
                    (_, true, _) => reason::ROWS_ABOVE,
                    (.., Some(on)) => other_layers(on, layers.unwrap_or_default()),
                    (true, ..) => MIXTURE,
                    _ => of_version(),
                }
            }
            _ => of_version(),
        });
    }
}
