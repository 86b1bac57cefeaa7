//! A plan for llama-server.

mod confidence;
mod drafts;
mod likeness;
mod params;
mod placed;
mod preflight;
mod projector;

use std::sync::Arc;

use super::fit::NoRoom;
use super::measure::{Measurer, Reservation};
use super::placement::Placement;
use super::resolved::ResolvedRequest;
use super::{AllocationDetails, graph_plan};
use crate::engine::id::{EngineError, EngineId, FitGoal};
use crate::engine::preflight::Preflight;
use crate::engine::prepared::PreparedModel;
use crate::machine::Machine;
use crate::plan::{
    Confidence, DevicePlan, GraphPlan, GraphSize, GraphUse, LayerPlan, Part, Peak, Plan, PlanSummary, Term, Totals,
    Uncertainty, Verdict, Why,
};
use crate::settings::{GpuLayers, Settings};
use crate::units::Bytes;
use params::ServerParams;
use placed::PlacedModel;

pub use confidence::{Evidence, evidence};
pub use likeness::{Likeness, ModelledError};
pub use params::gpus as visible;

/// Plans `model` on `machine`.
///
/// # Errors
/// When llama.cpp cannot read the model or refuses the settings.
pub fn plan(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
    let loaded = model.llama_cpp(settings.release.unwrap_or_default())?;
    let params = ServerParams::new(model, loaded, machine, settings)?;
    let devices = params.devices.clone();
    let mut measurer = Measurer::new(loaded, &devices);
    let placed = PlacedModel::new(&mut measurer, model, params, machine, settings, FitGoal::Most)?;
    let (_, details) =
        measurer.measure_traced(&placed.placement(), &placed.params.options, Reservation::Loaded, None)?;
    Ok(PlanBuilder { model, placed, details }.plan())
}

/// The plan without its explanations.
///
/// # Errors
/// As [`plan`].
pub fn summary(
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
    fit_goal: FitGoal,
) -> Result<PlanSummary, EngineError> {
    let loaded = model.llama_cpp(settings.release.unwrap_or_default())?;
    let params = ServerParams::new(model, loaded, machine, settings)?;
    let devices = params.devices.clone();
    Ok(PlacedModel::new(&mut Measurer::new(loaded, &devices), model, params, machine, settings, fit_goal)?.summary())
}

/// An upper bound known before planning.
///
/// # Errors
/// As [`plan`].
pub fn preflight(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Preflight, EngineError> {
    let loaded = model.llama_cpp(settings.release.unwrap_or_default())?;
    preflight::preflight(model, loaded, machine, settings)
}

/// The request to llama.cpp after the fit.
///
/// # Errors
/// As [`plan`].
pub fn resolve(model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<ResolvedRequest, EngineError> {
    let loaded = model.llama_cpp(settings.release.unwrap_or_default())?;
    let params = ServerParams::new(model, loaded, machine, settings)?;
    let devices = params.devices.clone();
    let placed =
        PlacedModel::new(&mut Measurer::new(loaded, &devices), model, params, machine, settings, FitGoal::Most)?;
    let ServerParams { gpus, devices, spread, options, .. } = placed.params;
    Ok(ResolvedRequest { loaded: loaded.clone(), gpus, devices, spread, options })
}

/// A device's memory left for layers.
#[derive(Clone, Copy, Debug, Default)]
struct DeviceRoom {
    /// Bytes left after the graph and the layers placed so far.
    left: Bytes,
    /// Of those, the margin that the fit keeps free.
    margin: Bytes,
}

struct PlanBuilder<'a> {
    model: &'a PreparedModel,
    placed: PlacedModel<'a>,
    details: AllocationDetails,
}

impl PlanBuilder<'_> {
    fn plan(self) -> Plan {
        let parts = self.placed.parts();
        let devices = self.placed.devices();
        let layers = self.layers(&devices, &parts[0]);
        let totals = Totals::of(&devices);
        let offloaded = self.placed.measured().offloaded();
        let verdict = Verdict::of(&devices, offloaded, layers.len(), false);
        let uncertainties = self.uncertainties();
        let mut plan = Plan {
            engine: EngineId::LlamaCpp,
            origin: self.placed.machine.origin,
            confidence: Uncertainty::worst(&uncertainties),
            model: self.model.summary(),
            settings: self.placed.in_effect(),
            graph: self.graph(layers.len(), &devices),
            offloaded,
            notes: self.notes(&uncertainties),
            uncertainties,
            decided: Vec::new(),
            parts,
            devices,
            layers,
            totals,
            estimate: None,
            own_caches: None,
            v_transposed: self.details.memory.v_transposed(),
            verdict,
            refusal: None,
            ollama_ps: None,
        };
        let without = plan.without_pipeline();
        plan.notes.extend(without.map(|without| format!("it runs {without}: its compute buffers with it do not fit")));
        plan
    }

    /// Why the figures are not exact.
    fn uncertainties(&self) -> Vec<Uncertainty> {
        let PlacedModel { loaded, params, machine, .. } = &self.placed;
        let gpus = params.gpus.iter().filter_map(|gpu| machine.gpus.get(*gpu));
        let architecture = &self.model.architecture;
        let mut found = confidence::uncertainties(loaded, architecture, machine.os, gpus);
        let draft = params.draft.as_ref().and_then(|draft| draft.model);
        found.extend(draft.and_then(confidence::of_draft));
        let modelled = params.projector.as_ref().and_then(|projector| projector.modelled.clone());
        found.extend(modelled.map(|reason| Uncertainty { confidence: Confidence::Modelled, reason }));
        found
    }

    fn layers(&self, devices: &[DevicePlan], model: &Part) -> Vec<LayerPlan> {
        let placement = self.placed.placement();
        let weights = placement.weights_by_layer(self.placed.loaded);
        let elsewhere = placement.weights_elsewhere(self.placed.loaded);
        let outputs = weights.len().saturating_sub(1);
        let mut room: Vec<DeviceRoom> = devices
            .iter()
            .zip(&model.devices)
            .map(|(device, own)| {
                let others = device.asked() - own.asked();
                DeviceRoom { left: device.free - own.graph - others, margin: device.reserved() }
            })
            .collect();
        let experts = Placement::expert_weights(self.placed.loaded);
        let experts = |index: usize| Bytes(experts.get(index).copied().unwrap_or(0));
        let mut refused_layer = None;
        // GPUs are filled from the last layer to the first
        let mut layers: Vec<LayerPlan> = (0..weights.len())
            .rev()
            .map(|index| {
                let device = self.placed.layer_device(index);
                let cache = Bytes(if index < outputs { self.details.memory.of_block(index) } else { 0 });
                let weights = Bytes(weights[index]);
                let elsewhere = Bytes(elsewhere.get(index).copied().unwrap_or(0));
                let needed = weights + cache - elsewhere;
                let why = self.why(device, needed, elsewhere, &room, needed - experts(index), refused_layer);
                if matches!(why, Why::NoRoom { .. }) {
                    refused_layer = Some(index);
                }
                if let Some(room) = room.get_mut(device) {
                    room.left = room.left - needed;
                }
                let cache_term = Arc::new(Term {
                    name: "cache".to_owned(),
                    formula: "as allocated".to_owned(),
                    numbers: cache.0.to_string(),
                    bytes: cache,
                });
                LayerPlan { index, device, weights, cache, cache_term, why }
            })
            .collect();
        layers.reverse();
        layers
    }

    /// The reason for a layer's device. `needed` are its bytes there, `elsewhere` its weights on other devices, `room`
    /// the bytes left on every device after the layers behind it, `own` what the fit tried to place of it,
    /// `refused_layer` the layer behind it that was the first without room.
    fn why(
        &self,
        device: usize,
        needed: Bytes,
        elsewhere: Bytes,
        room: &[DeviceRoom],
        own: Bytes,
        refused_layer: Option<usize>,
    ) -> Why {
        let on_gpu = device < self.placed.machine.gpus.len();
        let room = |device: usize| room.get(device).copied().unwrap_or_default();
        let left = |device: usize| room(device).left - room(device).margin;
        match (on_gpu, self.placed.settings.gpu_layers) {
            _ if self.placed.params.gpus.is_empty() => Why::NoGpu,
            (true, _) if elsewhere > Bytes::ZERO => Why::InPart { needed, elsewhere },
            // if the total of all GPUs suffices, a single GPU may be filled into its margin
            (true, GpuLayers::Auto) if needed > left(device) => Why::Fits { needed, room: room(device).left },
            (true, GpuLayers::Auto) => Why::Fits { needed, room: left(device) },
            (true, _) => Why::AskedFor,
            (false, GpuLayers::Auto) => {
                let Some(NoRoom { gpu, needed, room }) = self.placed.fitted.refused else { return Why::NotCounted };
                let (device, needed, room) = (self.placed.device_of(gpu), Bytes(needed), Bytes(room));
                match refused_layer {
                    Some(layer) if room > Bytes::ZERO => Why::GivenUp { device, layer, needed, room, own },
                    _ => Why::NoRoom { needed, room, device },
                }
            }
            (false, _) => Why::NotAskedFor,
        }
    }

    fn graph(&self, layer_count: usize, devices: &[DevicePlan]) -> GraphPlan {
        let compute = &self.placed.measured().compute;
        let peak = |(place, bytes): (u8, &u64)| {
            let largest = self.details.largest_on(place);
            graph_plan::peak(self.placed.device_of(usize::from(place)), place, *bytes, &largest)
        };
        let peaks: Vec<Peak> = (0_u8..).zip(compute).map(peak).collect();
        let name = |device: usize| devices.get(device).map(|device| device.id.clone()).unwrap_or_default();
        let branches = peaks.iter().map(|peak| graph_plan::branch(name(peak.device), peak)).collect();
        let winner = (0..compute.len()).rev().max_by_key(|at| compute.get(*at)).unwrap_or(0);
        let bytes = Bytes(compute.get(winner).copied().unwrap_or(0));
        let size = GraphSize { bytes, own: bytes, branches, winner };
        let why = "each device reserves its own compute buffer; this is the peak of the largest".to_owned();
        let used = if self.placed.measured().offloaded() < layer_count { GraphUse::Partial } else { GraphUse::Full };
        // there is only one graph, for the layers as placed
        let (partial, full) = (size.clone(), size);
        GraphPlan { partial, full, used, why, legend: Vec::new(), peaks }
    }

    fn notes(&self, uncertainties: &[Uncertainty]) -> Vec<String> {
        let mut notes = self.model.header.notes.clone();
        notes.push(format!(
            "llama.cpp release {} ({})",
            self.placed.loaded.release.name, self.placed.loaded.release.package
        ));
        notes.extend(uncertainties.iter().map(|uncertainty| uncertainty.reason.clone()));
        if let Some(failure) = &self.placed.fitted.failure {
            notes.push(format!("the fit failed: {failure}"));
        }
        if let Some(projector) = &self.placed.params.projector {
            notes.extend(projector.notes.iter().cloned());
        }
        let overridden = self.placed.fitted.spread.overrides.len();
        if overridden > 0 {
            notes.push(format!("{overridden} layers have weights on another device: experts or feed-forward tensors"));
        }
        notes.extend(self.placed.note_on_repacking());
        notes.extend(self.placed.notes_on_draft());
        for option in super::facts::FACTS.ignored(self.placed.settings) {
            notes.push(format!("{option} is ignored: llama.cpp has no such option"));
        }
        notes
    }
}
