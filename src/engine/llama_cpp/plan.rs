//! A plan as llama-server would carry it out.

mod ask;

use std::sync::Arc;

use super::fit::{self, Fitted};
use super::{Layout, Loaded, Measured, Watched, graph_plan};
use crate::engine::{EngineError, EngineId};
use crate::machine::{Backend, Machine, joined};
use crate::model::Model;
use crate::plan::{
    Confidence, DevicePlan, GraphPlan, GraphSize, GraphUse, InEffect, LayerPlan, Peak, Plan, Reserve, Term, Totals,
    Verdict, Why,
};
use crate::settings::{FlashAttn, GpuLayers, Settings};
use crate::units::Bytes;
use ask::Ask;

pub use ask::gpus as visible;

/// Plans `model` on `machine`.
///
/// # Errors
/// When llama.cpp cannot read the model or refuses the settings.
pub fn plan(model: &Model, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
    let loaded = Loaded::new(&model.header, settings.release.unwrap_or_default())?;
    let mut ask = Ask::new(&loaded, machine, settings);
    let fitted = fit::fit(&loaded, &ask.devices, &ask.spread, &ask.options, &ask.limits)?;
    ask.options.n_ctx = fitted.n_ctx;
    ask.spread = fitted.spread.clone();
    let (measured, watched) = loaded.watch(&ask.devices, &ask.spread, &ask.options)?;
    let layout = loaded.lay_out(&ask.devices, &ask.spread, &ask.options)?;
    let parts = Parts { model, machine, settings, loaded: &loaded, ask: &ask, fitted, measured, watched, layout };
    Ok(parts.plan())
}

struct Parts<'a> {
    model: &'a Model,
    machine: &'a Machine,
    settings: &'a Settings,
    loaded: &'a Loaded,
    ask: &'a Ask,
    fitted: Fitted,
    measured: Measured,
    watched: Watched,
    layout: Layout,
}

impl Parts<'_> {
    fn plan(self) -> Plan {
        let devices = self.devices();
        let layers = self.layers(&devices);
        let devices = with_layers(devices, &layers);
        let totals = Totals::of(&devices);
        let verdict = Verdict::of(&devices, self.measured.offloaded, layers.len(), false);
        Plan {
            engine: EngineId::LlamaCpp,
            origin: self.machine.origin,
            confidence: self.confidence(),
            model: self.model.summary(),
            settings: self.in_effect(),
            graph: self.graph(layers.len(), &devices),
            offloaded: self.measured.offloaded,
            notes: self.notes(),
            decided: Vec::new(),
            devices,
            layers,
            totals,
            estimate: None,
            verdict,
            refusal: None,
            listing: None,
        }
    }

    /// Devices of other computers are used.
    fn is_joined(&self) -> bool {
        self.ask.gpus.iter().any(|gpu| self.machine.gpus.get(*gpu).is_some_and(|gpu| gpu.computer.is_some()))
    }

    fn confidence(&self) -> Confidence {
        let known = |gpu: &usize| {
            self.machine.gpus.get(*gpu).is_some_and(|gpu| matches!(gpu.backend, Backend::Cuda | Backend::Rocm))
        };
        if !self.ask.gpus.iter().all(known) {
            Confidence::Assumed
        } else if self.loaded.family.exact && !self.is_joined() {
            Confidence::Exact
        } else {
            Confidence::Modelled
        }
    }

    fn in_effect(&self) -> InEffect {
        let context = &self.measured.parameters;
        let (cache_type_k, cache_type_v) = ask::cache_types(self.settings);
        InEffect {
            ctx: context.n_ctx,
            ctx_per_sequence: context.n_ctx_seq,
            ctx_total: context.n_ctx,
            parallel: context.n_seq_max,
            batch: context.n_batch,
            ubatch: context.n_ubatch,
            cache_type_k,
            cache_type_v,
            flash_attn: if context.flash_attn { FlashAttn::On } else { FlashAttn::Off },
            gpu_layers: match self.settings.gpu_layers {
                GpuLayers::Auto => -1,
                _ => i64::try_from(self.ask.spread.gpu_layers.unwrap_or(0)).unwrap_or(i64::MAX),
            },
            kv_unified: Some(context.kv_unified),
            outputs: Some(context.reserved().n_outputs),
            n_cpu_moe: Some(self.settings.n_cpu_moe.unwrap_or(0).min(self.loaded.hparams.n_layer_all as u64)),
            release: Some(self.loaded.release.name),
        }
    }

    /// The device of the plan that a place of the schedule stands for.
    fn device_of(&self, place: usize) -> usize {
        self.ask.gpus.get(place).copied().unwrap_or(self.machine.gpus.len())
    }

    fn devices(&self) -> Vec<DevicePlan> {
        let gpus = self.machine.gpus.iter().enumerate();
        let mut devices: Vec<DevicePlan> =
            gpus.map(|(at, gpu)| DevicePlan { reserves: self.reserves(at), ..DevicePlan::of_gpu(at, gpu) }).collect();
        devices.push(DevicePlan::of_ram(self.machine.ram));
        let Measured { model, context, compute, .. } = &self.measured;
        for (place, ((weights, cache), graph)) in model.iter().zip(context).zip(compute).enumerate() {
            if let Some(device) = devices.get_mut(self.device_of(place)) {
                (device.weights, device.cache, device.graph) = (Bytes(*weights), Bytes(*cache), Bytes(*graph));
            }
        }
        devices
    }

    fn reserves(&self, gpu: usize) -> Vec<Reserve> {
        let margin = self.ask.gpus.iter().position(|used| *used == gpu).and_then(|at| self.ask.limits.margins.get(at));
        margin.map(|bytes| Reserve { name: "the fit's margin", bytes: Bytes(*bytes) }).into_iter().collect()
    }

    fn layers(&self, devices: &[DevicePlan]) -> Vec<LayerPlan> {
        let Layout { placement, memory, .. } = &self.layout;
        let weights = placement.weights_by_layer(self.loaded);
        let outputs = weights.len().saturating_sub(1);
        let mut room: Vec<Bytes> =
            devices.iter().map(|device| device.free - (device.reserved() + device.graph)).collect();
        let mut layers = Vec::with_capacity(weights.len());
        for (index, weights) in weights.into_iter().enumerate() {
            let place = if index < outputs { placement.layers.get(index) } else { None };
            let device = self.device_of(usize::from(place.copied().unwrap_or(placement.output)));
            let cache = Bytes(if index < outputs { memory.of_block(index) } else { 0 });
            let weights = Bytes(weights);
            let needed = weights + cache;
            layers.push(LayerPlan {
                index,
                device,
                weights,
                cache,
                cache_from: Arc::new(Term {
                    name: "cache".to_owned(),
                    formula: "as allocated".to_owned(),
                    numbers: cache.0.to_string(),
                    bytes: cache,
                }),
                why: self.why(device, needed, &room),
            });
            if let Some(room) = room.get_mut(device) {
                *room = *room - needed;
            }
        }
        layers
    }

    fn why(&self, device: usize, needed: Bytes, room: &[Bytes]) -> Why {
        let on_gpu = device < self.machine.gpus.len();
        let left = |device: usize| room.get(device).copied().unwrap_or(Bytes::ZERO);
        match (on_gpu, self.settings.gpu_layers) {
            _ if self.ask.gpus.is_empty() => Why::NoGpu,
            (true, GpuLayers::Auto) => Why::Fits { needed, room: left(device) },
            (true, _) => Why::AskedFor,
            (false, GpuLayers::Auto) => {
                let roomiest = self.ask.gpus.iter().copied().max_by_key(|gpu| left(*gpu)).unwrap_or(0);
                Why::NoRoom { needed, room: left(roomiest), device: roomiest }
            }
            (false, _) => Why::NotAskedFor,
        }
    }

    fn graph(&self, layer_count: usize, devices: &[DevicePlan]) -> GraphPlan {
        let compute = &self.measured.compute;
        let peak = |(place, bytes): (u8, &u64)| {
            graph_plan::peak(self.device_of(usize::from(place)), place, *bytes, &self.watched)
        };
        let peaks: Vec<Peak> = (0_u8..).zip(compute).map(peak).collect();
        let name = |device: usize| devices.get(device).map(|device| device.id.clone()).unwrap_or_default();
        let branches = peaks.iter().map(|peak| graph_plan::branch(name(peak.device), peak)).collect();
        let winner = (0..compute.len()).rev().max_by_key(|at| compute.get(*at)).unwrap_or(0);
        let bytes = Bytes(compute.get(winner).copied().unwrap_or(0));
        let size = GraphSize { bytes, own: bytes, branches, winner };
        let why = "every device reserves its own buffer, and this is what fills the largest of them".to_owned();
        let used = if self.measured.offloaded < layer_count { GraphUse::Partial } else { GraphUse::Full };
        // there is one graph, for the layers as they are
        let (partial, full) = (size.clone(), size);
        GraphPlan { partial, full, used, why, legend: Vec::new(), peaks }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.model.header.notes.clone();
        notes.push(format!("llama.cpp of release {} ({})", self.loaded.release, self.loaded.release.package));
        if !self.loaded.family.exact {
            notes.push(format!(
                "the graph of {} is not known here: it is reckoned as the nearest that the file's tensors suggest",
                self.model.architecture
            ));
        }
        if self.confidence() == Confidence::Assumed {
            notes.push(
                "buffers are laid out as ggml's sources say for these GPUs; nobody has measured that here".to_owned(),
            );
        }
        if self.is_joined() {
            let others = joined::names(&self.machine.gpus).join(", ");
            notes.push(format!(
                "over RPC the layers begin on {others} and go on here; sizes there are modelled, and the network is not timed"
            ));
        }
        if let Some(failure) = &self.fitted.failure {
            notes.push(format!("the fit gave up: {failure}"));
        }
        let spilled = self.fitted.spread.overrides.len();
        if spilled > 0 {
            notes.push(format!("of {spilled} layers a part is elsewhere: experts or a feed-forward part"));
        }
        for option in EngineId::LlamaCpp.ignored(self.settings) {
            notes.push(format!("{option} is ignored: llama.cpp has no such option"));
        }
        notes
    }
}

fn with_layers(mut devices: Vec<DevicePlan>, layers: &[LayerPlan]) -> Vec<DevicePlan> {
    for layer in layers {
        if let Some(device) = devices.get_mut(layer.device) {
            device.layers.push(layer.index);
        }
    }
    devices
}
