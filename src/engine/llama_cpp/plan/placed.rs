//! The result of the fit, before any explanations.

use super::super::draft::{DraftMemory, MainContext};
use super::super::fit::{FitResult, fit_for};
use super::super::measure::{Measurer, Reservation};
use super::super::placement::Placement;
use super::super::repack::WeightsInRam;
use super::super::{LoadedModel, MemoryBreakdown};
use super::params::{self, ServerParams};
use super::projector::PlacedProjector;
use crate::engine::id::{EngineError, FitGoal};
use crate::engine::prepared::PreparedModel;
use crate::machine::{BufferLimit, Cpu, Machine};
use crate::plan::{BufferUse, DevicePlan, LargestBuffer, Part, PartKind, PartMemory, PlanSummary, Reserve, Verdict};
use crate::settings::{InEffect, LoadMode, Settings};
use crate::units::Bytes;

/// A request and its fit.
pub struct PlacedModel<'a> {
    pub machine: &'a Machine,
    pub settings: &'a Settings,
    pub loaded: &'a LoadedModel,
    /// As left by the fit.
    pub params: ServerParams<'a>,
    pub fitted: FitResult,
    /// What a load of it takes.
    load: MemoryBreakdown,
    /// The draft, if one stays loaded.
    pub draft: Option<DraftMemory>,
    /// Its file as the user named it.
    draft_file: Option<&'a str>,
}

impl<'a> PlacedModel<'a> {
    /// Runs the fit.
    ///
    /// # Errors
    /// When llama.cpp refuses the settings.
    pub fn new(
        measurer: &mut Measurer<'a>,
        prepared: &'a PreparedModel,
        mut params: ServerParams<'a>,
        machine: &'a Machine,
        settings: &'a Settings,
        fit_goal: FitGoal,
    ) -> Result<Self, EngineError> {
        let loaded = measurer.model;
        let in_trials = params.draft.as_ref().filter(|_| loaded.release.fits_draft);
        let limits = params.limits_with_draft(loaded);
        let fitted = fit_for(fit_goal, measurer, in_trials, &params.spread, &params.options, &limits)?;
        params.options.n_ctx = fitted.n_ctx;
        params.spread = fitted.spread.clone();
        let placement = loaded.place(&params.devices, &params.spread);
        let load = measurer.measure(&placement, &params.options, Reservation::Loaded)?;
        let used = params.draft.as_ref().filter(|_| params.speculation.has_context());
        let main = MainContext {
            model: loaded,
            devices: &params.devices,
            spread: &params.spread,
            options: &params.options,
            measured: &load,
            later: &params.of_projector(),
            reservation: Reservation::Loaded,
        };
        let draft = used.map(|draft| draft.measure(&main)).transpose()?;
        let draft_file = prepared.draft().map(|draft| draft.file.as_str());
        Ok(Self { machine, settings, loaded, params, fitted, load, draft, draft_file })
    }

    /// The plan without its explanations.
    pub fn summary(self) -> PlanSummary {
        let (devices, offloaded, layer_count) = (self.devices(), self.measured().offloaded(), self.layer_count());
        let verdict = Verdict::of(&devices, offloaded, layer_count, false);
        PlanSummary { settings: self.in_effect(), devices, layer_count, offloaded, verdict, refused: false }
    }

    /// The allocated bytes.
    pub fn measured(&self) -> &MemoryBreakdown {
        &self.load
    }

    /// The device of every tensor.
    pub fn placement(&self) -> Placement {
        self.loaded.place(&self.params.devices, &self.params.spread)
    }

    fn blocks(&self) -> usize {
        self.loaded.loaded_blocks(self.params.spread.load_mtp)
    }

    /// Number of blocks plus the output layer.
    pub fn layer_count(&self) -> usize {
        self.blocks() + 1
    }

    pub fn in_effect(&self) -> InEffect {
        let image_max_tokens = self.params.projector.as_ref().and_then(PlacedProjector::image_max_tokens);
        let effect = params::in_effect(&self.measured().parameters, &self.params, self.loaded, self.settings);
        InEffect { image_max_tokens, ..effect }
    }

    /// The plan's device for a device of the schedule.
    pub fn device_of(&self, place: usize) -> usize {
        self.params.gpus.get(place).copied().unwrap_or(self.machine.gpus.len())
    }

    /// The device of this layer: a block, or the output layer after the blocks.
    pub fn layer_device(&self, layer: usize) -> usize {
        let blocks = self.blocks();
        let layer_devices = &self.measured().layer_devices;
        let block = layer_devices.get(layer).filter(|_| layer < blocks);
        self.device_of(usize::from(block.or(layer_devices.last()).copied().unwrap_or(0)))
    }

    /// The devices with the sums over all parts.
    pub fn devices(&self) -> Vec<DevicePlan> {
        let mut devices = DevicePlan::all_of(self.machine);
        for (at, device) in devices.iter_mut().enumerate() {
            device.reserves = self.reserves(at);
        }
        let parts = self.parts();
        Part::sum_into(&parts, &mut devices);
        if let Some(ram) = devices.last_mut().filter(|_| self.settings.load_mode.unwrap_or_default() == LoadMode::Mmap)
        {
            ram.mapped = ram.weights - ram.repacked - ram.read_once;
        }
        for (place, &gpu) in self.params.gpus.iter().enumerate() {
            if let Some(device) = devices.get_mut(gpu) {
                device.largest_buffer = self.largest_buffer(place, gpu);
                let of_load = self.load.compute.get(place);
                let of = |bytes: &u64| Bytes(*bytes);
                device.graph_measured =
                    self.fitted.measured.compute.get(place).filter(|it| Some(*it) != of_load).map(of);
                device.graph_pipelined = self.load.refused_pipeline.as_ref().and_then(|all| all.get(place)).map(of);
            }
        }
        for layer in 0..self.layer_count() {
            if let Some(device) = devices.get_mut(self.layer_device(layer)) {
                device.layers.push(layer);
            }
        }
        if let Some(ram) = devices.last_mut() {
            let of_model = parts.first().and_then(|model| model.devices.last());
            ram.run = of_model.map_or(Bytes::ZERO, |model| model.weights - model.read_once)
                - Bytes(Placement::input_layer_weights(&self.loaded.weights));
            if ram.layers.is_empty() {
                (ram.parts, ram.run_in_part) = (ram.run, ram.run);
                if ram.parts > Bytes::ZERO {
                    ram.experts = Bytes(self.placement().experts_in_ram(self.loaded)).min(ram.parts);
                }
            } else if ram.layers.len() < self.layer_count() {
                // what belongs to no layer is not run through
                let placement = self.placement();
                let by_layer = placement.weights_by_layer(self.loaded);
                let whole: Bytes = ram.layers.iter().filter_map(|layer| by_layer.get(*layer)).map(|b| Bytes(*b)).sum();
                let elsewhere = placement.weights_elsewhere(self.loaded).into_iter().enumerate();
                let of_others = elsewhere.filter(|(layer, _)| !ram.layers.contains(layer));
                ram.run_in_part = of_others.map(|(_, bytes)| Bytes(bytes)).sum::<Bytes>().min(ram.run - whole);
                ram.run = ram.run.min(whole + ram.run_in_part);
            }
        }
        devices
    }

    /// The largest buffer of the model on a GPU. A backend divides memory that is larger than its driver allows, or than
    /// its own blocks are, but no tensor (`ggml_backend_alloc_ctx_tensors_from_buft` in `ggml-alloc.c`, 0.1.161).
    fn largest_buffer(&self, place: usize, gpu: usize) -> Option<LargestBuffer> {
        let limit = BufferLimit::of(self.machine.gpus.get(gpu)?, self.machine.os);
        let block = self.params.devices.get(place)?.backend.max_buffer();
        let block = limit.map_or(block, |limit| block.min(limit.bytes.0));
        let pieces = self.measured().pieces.get(place)?;
        let sizes = pieces.iter().map(|piece| Bytes(piece.bytes.min(block.max(piece.tensor))));
        let (bytes, holds) = sizes.zip(BufferUse::ALL).max_by_key(|(bytes, _)| *bytes)?;
        (bytes > Bytes::ZERO).then_some(LargestBuffer { bytes, holds, limit })
    }

    /// The model, its projector and its draft.
    pub fn parts(&self) -> Vec<Part> {
        let MemoryBreakdown { model, context, compute, in_ram, .. } = self.measured();
        let ready = self.draft.as_ref().and_then(|draft| draft.main_ready.as_ref()).unwrap_or(compute);
        let own = self.part(PartKind::Model, None, [model, context, compute, ready], *in_ram);
        let draft = self.draft.as_ref().map(|DraftMemory { draft, draft_ready, .. }| {
            let file = self.draft_file.map(str::to_owned);
            self.part(PartKind::Draft, file, [&draft.model, &draft.context, &draft.compute, draft_ready], draft.in_ram)
        });
        let count = self.machine.gpus.len() + 1;
        let projector = self.params.projector.iter().flat_map(|projector| projector.parts(count));
        [own].into_iter().chain(projector).chain(draft).collect()
    }

    /// A part from its weights, caches, graphs and final graphs per device, and its weights in RAM by buffers.
    fn part(&self, kind: PartKind, file: Option<String>, bytes: [&Vec<u64>; 4], in_ram: WeightsInRam) -> Part {
        let [weights, cache, graph, ready] = bytes;
        let mut memory: Vec<PartMemory> = weights
            .iter()
            .zip(cache)
            .zip(graph.iter().zip(ready))
            .map(|((weights, cache), (graph, ready))| PartMemory {
                weights: Bytes(*weights),
                cache: Bytes(*cache),
                graph: Bytes(*graph),
                graph_ready: Bytes(*ready),
                ..PartMemory::default()
            })
            .collect();
        if let Some(ram) = memory.last_mut().filter(|_| in_ram.repacked > 0) {
            let mode = self.settings.load_mode.unwrap_or_default();
            ram.repacked = Bytes(in_ram.repacked);
            if mode.maps() {
                ram.weights = Bytes(in_ram.mapped());
            }
            if mode == LoadMode::Mmap {
                ram.read_once = Bytes(in_ram.span) - Bytes(in_ram.others);
            }
        }
        let places: Vec<usize> = (0..weights.len()).map(|place| self.device_of(place)).collect();
        Part { kind, file, devices: memory }.spread_over(&places, self.machine.gpus.len() + 1)
    }

    /// What the user should know about weights in a layout of the CPU's own.
    pub fn note_on_repacking(&self) -> Option<String> {
        let parts = self.parts();
        let repacked: Bytes = parts.iter().filter_map(|part| part.devices.last()).map(|memory| memory.repacked).sum();
        let Cpu { instructions, assumed } = self.machine.cpu;
        let how = if assumed { ", assumed; use --cpu to state it" } else { "" };
        (repacked > Bytes::ZERO).then(|| {
            format!(
                "{repacked} of weights in RAM are repacked for the CPU ({instructions}{how}) into memory of their own, \
                 beside the file; --no-repack leaves them in it"
            )
        })
    }

    /// What the user should know about the draft, one sentence each.
    pub fn notes_on_draft(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let states = self.measured().parameters.n_rs_seq;
        if states > 0 && self.loaded.hparams.is_recr.contains(&true) {
            notes.push(format!("recurrent states are kept {} times, to roll back drafted tokens", states + 1));
        }
        if self.params.draft.is_some() && self.draft.is_none() {
            notes.push("the draft model is loaded, counted by the fit and freed again: nothing uses it".to_owned());
        }
        if self.draft.as_ref().is_some_and(|draft| draft.refused_pipeline.is_some()) {
            notes
                .push("the draft runs without pipeline parallelism: its compute buffers with it do not fit".to_owned());
        }
        let parts = self.parts();
        let drafting: Vec<&Part> =
            parts.iter().filter(|part| matches!(part.kind, PartKind::Model | PartKind::Draft)).collect();
        for (at, device) in self.devices().iter().enumerate() {
            let memory = || drafting.iter().filter_map(|part| part.devices.get(at));
            let (graph, ready) = (
                memory().map(|memory| memory.graph).sum::<Bytes>(),
                memory().map(|memory| memory.graph_ready).sum::<Bytes>(),
            );
            if ready > graph {
                notes.push(format!("compute buffers on {} grow by {} when drafting begins", device.id, ready - graph));
            }
        }
        notes
    }

    fn reserves(&self, gpu: usize) -> Vec<Reserve> {
        let used = self.params.gpus.contains(&gpu);
        used.then_some(Reserve { name: "fit margin", bytes: Bytes(self.params.margin) }).into_iter().collect()
    }
}
