//! A plan with its explanations, of a model as placed.

use super::confidence;
use super::placed_model::PlacedModel;
use std::sync::Arc;

use super::fit::NoRoom;
use super::measure::AllocationDetails;
use super::overrides::{self};
use super::peak;
use super::placement::{LayerSplit, Placement};
use super::prepared::PreparedModel;
use super::release::CONTEXT_BEFORE_FIT;
use crate::plan::{
    Confidence, DevicePlan, GraphPlan, GraphSize, GraphUse, LayerPlan, Part, Peak, Plan, Term, Totals, Uncertainty,
    Verdict, Why,
};
use crate::settings::{EngineId, GpuLayers, SplitMode};
use crate::units::Bytes;

/// A device's memory left for layers.
#[derive(Clone, Copy, Debug, Default)]
struct DeviceRoom {
    /// Bytes left after the graph and the layers placed so far.
    left: Bytes,
    /// Of those, the margin that the fit keeps free.
    margin: Bytes,
}

pub(super) struct PlanBuilder<'a> {
    pub model: &'a PreparedModel,
    pub placed: PlacedModel<'a>,
    pub details: AllocationDetails,
}

impl PlanBuilder<'_> {
    pub fn plan(self) -> Plan {
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
            load_check: None,
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

    /// How many layers have weights on other devices, and what places none there.
    fn notes_on_overrides(&self) -> Vec<String> {
        let LayerSplit { overrides: by_fit, by_user, .. } = &self.placed.fitted.spread;
        let mut notes = Vec::new();
        if by_user.is_given || !by_fit.is_empty() {
            // a placement may name a layer of which it moves nothing
            let elsewhere = self.placed.placement().weights_elsewhere(self.placed.loaded);
            let layers = elsewhere.iter().filter(|bytes| **bytes > 0).count();
            let note = || match layers {
                _ if by_user.is_given => {
                    format!("{layers} of the layers have weights on another device, by the options that place tensors")
                }
                1 => "1 layer has weights on another device: experts or feed-forward tensors".to_owned(),
                _ => format!("{layers} layers have weights on another device: experts or feed-forward tensors"),
            };
            notes.extend((layers > 0).then(note));
        }
        let idle = overrides::without_effect(&self.placed.settings.override_tensor, &self.model.header);
        let of_none = |one: String| format!("'{one}' of --override-tensor places no tensor of this model");
        notes.extend(idle.into_iter().map(of_none));
        notes
    }

    /// Why the figures are not exact.
    fn uncertainties(&self) -> Vec<Uncertainty> {
        let PlacedModel { loaded, params, machine, .. } = &self.placed;
        let gpus = params.gpus.iter().filter_map(|gpu| machine.gpus.get(*gpu));
        let build = self.placed.settings.llama_cpp();
        let mut found = confidence::uncertainties(self.model, loaded, build, machine.os, gpus);
        found.extend(Uncertainty::of_weights(self.model));
        for reason in self.placed.settings.cache_types().filter_map(Uncertainty::of_cache_type) {
            if !found.contains(&reason) {
                found.push(reason);
            }
        }
        if self.placed.settings.split_mode == SplitMode::Row {
            let reason = "how a split by rows divides matrices is modelled as one by layers".to_owned();
            found.push(Uncertainty { confidence: Confidence::Modelled, reason });
        }
        if params.cards.is_some() {
            let reason =
                "what each card holds of a split by tensors was read from llama.cpp's source: it measures all cards \
                          as one device"
                    .to_owned();
            found.push(Uncertainty { confidence: Confidence::Modelled, reason });
        }
        if self.placed.settings.backend_sampling {
            let reason = "what --backend-sampling adds to the graph is not counted".to_owned();
            found.push(Uncertainty { confidence: Confidence::Modelled, reason });
        }
        let draft = self.model.draft().zip(params.draft.as_ref().and_then(|draft| draft.model));
        found.extend(draft.and_then(|(file, draft)| confidence::of_draft(&file.model, draft)));
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
        let (mut refused_layer, mut behind) = (None, None);
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
                let per_token = if index < outputs { self.details.memory.per_token(index) } else { Bytes::ZERO };
                let hparams = &self.placed.loaded.hparams;
                // what the formula of a block's caches depends on: most have that of the block behind them
                let kind = (cache, per_token, hparams.n_head_kv.get(index), hparams.is_swa.get(index), index < outputs);
                let known = behind.take().filter(|(known, _)| *known == kind).map(|(_, term)| term);
                let cache_term = known.unwrap_or_else(|| {
                    let of_block = || self.details.memory.term(hparams, index);
                    Arc::new(if index < outputs { of_block() } else { Term::nothing("cache") })
                });
                behind = Some((kind, Arc::clone(&cache_term)));
                LayerPlan { index, device, weights, cache, per_token, cache_term, why }
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
            (true, GpuLayers::Auto) if !self.placed.params.is_fitted => Why::AskedFor,
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
            peak::peak(self.placed.device_of(usize::from(place)), place, *bytes, &largest)
        };
        let peaks: Vec<Peak> = (0_u8..).zip(compute).map(peak).collect();
        let name = |device: usize| devices.get(device).map(|device| device.id.clone()).unwrap_or_default();
        let branches = peaks.iter().map(|peak| peak::branch(name(peak.device), peak)).collect();
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
        notes.extend(self.model.note_on_projector(self.placed.settings.projector.as_deref()));
        notes.push(self.placed.settings.llama_cpp().to_string());
        notes.extend(uncertainties.iter().map(|uncertainty| uncertainty.reason.clone()));
        if !self.placed.loaded.release.fits && !self.placed.settings.no_fit {
            notes.push(format!(
                "this release fits nothing to free memory: where they are not set, all layers are on GPUs and the context \
                 has {CONTEXT_BEFORE_FIT} tokens"
            ));
        }
        if self.placed.params.cards.is_some() && !self.placed.settings.no_fit {
            notes.push("llama.cpp does not fit a model that is split by tensors: nothing was adjusted".to_owned());
        }
        if let Some(failure) = &self.placed.fitted.failure {
            notes.push(format!("the fit failed: {failure}"));
        }
        if let Some(projector) = &self.placed.params.projector {
            notes.extend(projector.notes.iter().cloned());
        }
        notes.extend(self.notes_on_overrides());
        notes.extend(self.placed.note_on_repacking());
        notes.extend(self.placed.notes_on_draft());
        for option in EngineId::LlamaCpp.ignored(self.placed.settings) {
            notes.push(format!("{option} is ignored: llama.cpp has no such option"));
        }
        notes
    }
}

// llama-server's options and their defaults (`common/arg.cpp` and `tools/server/server.cpp`, 0.1.161).
