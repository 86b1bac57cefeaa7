//! llama.cpp: what llama-server allocates for a model, to the byte: weights, caches and compute buffers.
//!
//! The reference is the llama.cpp of package `llama-cpp-sys-2`; [`Release`](crate::settings::Release) names the versions.

mod adapters;
mod architecture;
pub mod architectures;
mod built_blocks;
pub mod cache;
mod cache_formula;
mod confidence;
pub mod context;
mod devices;
pub mod draft;
mod draft_match;
pub mod draft_target;
pub mod error;
mod explained;
pub mod fit;
pub mod graph;
pub mod hparams;
mod loaded;
mod loader;
mod lower_bound;
mod margins;
mod measure;
mod moe_cache;
pub mod overrides;
mod peak;
mod pinned;
mod placed_model;
pub mod placement;
mod plan;
mod prepared;
mod probe;
pub mod projector;
pub mod release;
mod resolved;
mod server_params;
pub mod speculation;
mod tensor_split;
pub(super) mod transformer;
pub mod weight_buffers;
pub mod weights;

use super::admission::Admission;
use super::contract::{Engine, RunsLlamaCpp};
use super::error::EngineError;
use super::goal::FitGoal;
use super::launch::Launch;
use super::plan_request::RequestParts;
use super::preflight::Preflight;
use crate::plan::{Plan, PlanSummary};
use crate::settings::{InEffect, Settings};
use crate::units::Tokens;
pub use architecture::{Architecture, Compared, GraphFamily, Trait};
pub use confidence::{Evidence, Likeness, ModelledError, evidence};
pub use devices::Device;
pub use loaded::LoadedModel;
pub use measure::{AllocationDetails, MemoryBreakdown, Pipeline, Reservation, ReservedGraph};
pub use placement::{LayerSplit, PlacedTensor};
pub use plan::cache_layout;
pub(super) use plan::{UnderWay, place, plan, preflight, resolve, summary, summary_as};
pub use prepared::{DraftFile, PreparedModel};
pub use resolved::{DeviceBuffers, RequestBuffers, ResolvedRequest};

/// llama-server itself.
#[derive(Debug)]
pub struct LlamaCpp;

impl Engine for LlamaCpp {
    fn place(&self, request: RequestParts<'_>, fit_goal: FitGoal) -> Result<Option<Plan>, EngineError> {
        place(RequestParts { settings: &request.settings.as_program(), ..request }, fit_goal)
    }

    fn explain(&self, request: RequestParts<'_>, plan: &mut Plan) {
        let of_program = RequestParts { settings: &request.settings.as_program(), ..request };
        let under_way = UnderWay::of(of_program);
        plan.doubt(under_way.and_then(|it| it.doubt(plan, of_program)));
        plan.notes.extend(shares_cache(request.settings, &plan.settings));
        plan.notes.extend(plan.misplaced_margins());
    }

    fn summary(&self, request: RequestParts<'_>, fit_goal: FitGoal) -> Result<Option<PlanSummary>, EngineError> {
        summary(RequestParts { settings: &request.settings.as_program(), ..request }, fit_goal)
    }

    fn preflight(&self, request: RequestParts<'_>) -> Result<Option<Preflight>, EngineError> {
        preflight(RequestParts { settings: &request.settings.as_program(), ..request }).map(Some)
    }

    /// A server that does not take other models into account.
    fn admit(&self, request: RequestParts<'_>) -> Result<Admission, EngineError> {
        let plan = self.plan(request)?;
        Ok(plan.refusal.clone().map_or_else(|| Admission::load(plan), Admission::Refused))
    }
}

impl RunsLlamaCpp for LlamaCpp {
    fn launch(&self, RequestParts { machine, settings, .. }: RequestParts<'_>) -> Result<Launch, EngineError> {
        // a list of devices names them among all
        let gpus =
            if settings.devices.is_some() { (0..machine.gpus.len()).collect() } else { devices::usual_gpus(machine) };
        let seen = settings.seen_by_server(&gpus, |name| devices::gpu(machine, name).ok());
        let options = seen.map_err(EngineError::Settings)?;
        Ok(Launch { options, gpus, command: None, failures: 0 })
    }

    fn resolve(&self, request: RequestParts<'_>) -> Result<ResolvedRequest, EngineError> {
        resolve(RequestParts { settings: &request.settings.as_program(), ..request })
    }
}

/// Whether several sequences share one cache, which follows from whether their number is given.
fn shares_cache(settings: &Settings, effect: &InEffect) -> Option<String> {
    let InEffect { parallel, ctx_per_sequence, ctx_total, .. } = *effect;
    let (each, all) = (Tokens(ctx_per_sequence), Tokens(ctx_total));
    match effect.kv_unified {
        _ if parallel < 2 => None,
        Some(true) if settings.parallel.is_none() => {
            Some(format!("unified KV is on, as parallel is auto: {parallel} sequences share {all} tokens"))
        }
        Some(false) => Some(format!(
            "unified KV is off, as parallel is given: each of {parallel} sequences has {each} tokens; with --kv-unified \
             each may use all {all}"
        )),
        _ => None,
    }
}
