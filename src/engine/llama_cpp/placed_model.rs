//! A model as placed: which device has which layers, and the memory of each.

use super::server_params::{ServerParams, cache_types, in_effect};
use std::sync::Arc;

use super::adapters::Adapted;
use super::context::ContextParams;
use super::devices::{self};
use super::draft::{DraftMemory, MainContext};
use super::fit::{FitResult, fit_for, without_fit};
use super::loaded::LoadedModel;
use super::measure::{MeasuredGraphs, Measurer, MemoryBreakdown, Reservation};
use super::placement::Placement;
use super::projector::PlacedProjector;
use super::tensor_split::TensorSplit;
use super::weight_buffers::WeightsInRam;
use crate::engine::error::EngineError;
use crate::engine::goal::FitGoal;
use crate::engine::plan_request::RequestParts;
use crate::machine::budget::CopiedCache;
use crate::machine::{self, BufferLimit, Machine};
use crate::plan::{
    BufferUse, DevicePlan, FitMargin, LargestBuffer, Part, PartKind, PartMemory, PlanSummary, Reserve, Verdict,
};
use crate::settings::{CacheType, InEffect, LoadMode, Settings};
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
    /// Bytes of adapters per device, RAM last, if there are any.
    adapters: Option<Vec<u64>>,
    /// The compute buffers with the products of adapters, once they are used.
    adapted_graph: Option<Vec<u64>>,
}

impl<'a> PlacedModel<'a> {
    /// Runs the fit, and measures the load with the graphs that the fit measured where they are the same.
    ///
    /// # Errors
    /// When llama.cpp refuses the settings.
    pub fn new(
        RequestParts { model: prepared, machine, settings }: RequestParts<'a>,
        loaded: &'a LoadedModel,
        measurer: &Measurer<'_>,
        mut params: ServerParams<'a>,
        fit_goal: FitGoal,
    ) -> Result<(Self, MeasuredGraphs), EngineError> {
        let (fitted, graphs) = if params.is_fitted {
            if loaded.release.margins_for_draft && !loaded.release.fits_draft {
                params.add_draft_to_margins(loaded);
            }
            let in_trials = params.draft.as_ref().filter(|_| loaded.release.fits_draft);
            fit_for(fit_goal, measurer, in_trials, &params.spread, &params.options, &params.limits)?
        } else {
            without_fit(measurer, &params.spread, &params.options)?
        };
        params.options.n_ctx = fitted.n_ctx;
        params.spread = fitted.spread.clone();
        let placement = loaded.place(&params.devices, &params.spread);
        // what misses its goal is not loaded
        let reservation = if fitted.missed { Reservation::Measured } else { Reservation::Loaded };
        let (load, graphs) = measurer.reserve(&placement, &params.options, reservation, graphs, None)?;
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
        let backends = devices::backends(&params.devices);
        let adapted = Adapted { model: loaded, header: &prepared.header, placement: &placement, backends: &backends };
        let pairs = adapted.pairs(settings)?;
        let adapters = adapted.bytes(&pairs, !settings.control_vectors.is_empty());
        let adapted_graph = if pairs.is_empty() {
            None
        } else {
            let options = ContextParams { adapters: Some(Arc::new(pairs)), ..params.options.clone() };
            Some(measurer.measure(&placement, &options, Reservation::Loaded)?.compute)
        };
        let placed =
            Self { machine, settings, loaded, params, fitted, load, draft, draft_file, adapters, adapted_graph };
        Ok((placed, graphs))
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
        let effect = in_effect(&self.measured().parameters, &self.params, self.loaded, self.settings);
        InEffect { image_max_tokens, ..effect }
    }

    /// The plan's device for a device of the schedule.
    pub fn device_of(&self, place: usize) -> usize {
        let gpu = self.params.gpus.get(place).filter(|_| place < self.params.devices.len());
        gpu.copied().unwrap_or(self.machine.gpus.len())
    }

    /// The device of this layer: a block, or the output layer after the blocks.
    pub fn layer_device(&self, layer: usize) -> usize {
        let blocks = self.blocks();
        let layer_devices = &self.measured().layer_devices;
        let block = layer_devices.get(layer).filter(|_| layer < blocks);
        self.device_of(usize::from(block.or(layer_devices.last()).copied().unwrap_or(0)))
    }

    /// The keys and values that flash attention may copy; none without it.
    fn copied_cache(&self) -> Option<CopiedCache> {
        let (context, hparams) = (&self.measured().parameters, &self.loaded.hparams);
        let (k, v) = cache_types(self.settings);
        let full = (0..hparams.n_layer()).filter(|il| hparams.attends[*il] && !hparams.is_swa[*il]);
        let elements = full.map(|il| hparams.k_gqa(il) + hparams.v_gqa(il)).max()?;
        let is_f16 = [k, v].iter().all(|ty| *ty == CacheType::F16);
        context.flash_attn.then_some(CopiedCache { elements, tokens: context.n_ctx, is_f16 })
    }

    /// The devices with the sums over all parts.
    pub fn devices(&self) -> Vec<DevicePlan> {
        let mut devices = DevicePlan::all_of(self.machine);
        let cache = self.copied_cache();
        for (at, device) in devices.iter_mut().enumerate() {
            let (reserve, margin) = self.margin(at).unzip();
            (device.reserves, device.margin) = (reserve.into_iter().collect(), margin);
            device.driver = device.driver.zip(cache).map(|(driver, cache)| driver.beside(cache)).or(device.driver);
        }
        let parts = self.parts();
        Part::sum_into(&parts, &mut devices);
        if let Some(cpu) = devices.last_mut() {
            let of_adapters = self.adapters.as_ref().and_then(|bytes| bytes.last()).copied().unwrap_or(0);
            cpu.ram.mapped = match self.settings.load_mode.unwrap_or_default() {
                LoadMode::Mmap => cpu.weights - cpu.ram.repacked - cpu.ram.read_once - Bytes(of_adapters),
                _ => self.loaded.lazy_table(self.settings.lazy_mode),
            };
        }
        for place in 0..=self.params.devices.len() {
            if let Some(device) = devices.get_mut(self.device_of(place)) {
                let of_load = self.load.compute.get(place);
                let of = |bytes: &u64| Bytes(*bytes);
                device.graph_measured =
                    self.fitted.measured.compute.get(place).filter(|it| Some(*it) != of_load).map(of);
                device.graph_pipelined = self.load.refused_pipeline.as_ref().and_then(|all| all.get(place)).map(of);
            }
        }
        for (place, &gpu) in self.params.gpus.iter().enumerate() {
            if let Some(device) = devices.get_mut(gpu) {
                device.largest_buffer = self.largest_buffer(place, gpu);
            }
        }
        for layer in 0..self.layer_count() {
            if let Some(device) = devices.get_mut(self.layer_device(layer)) {
                device.layers.push(layer);
            }
        }
        if let Some(DevicePlan { layers, ram, .. }) = devices.last_mut() {
            let of_model = parts.first().and_then(|model| model.devices.last());
            ram.run = of_model.map_or(Bytes::ZERO, |model| model.weights - model.read_once)
                - Bytes(Placement::input_layer_weights(self.loaded));
            if layers.is_empty() {
                (ram.parts, ram.run_in_part) = (ram.run, ram.run);
                if ram.parts > Bytes::ZERO {
                    ram.experts = Bytes(self.placement().experts_in_ram(self.loaded)).min(ram.parts);
                }
            } else if layers.len() < self.layer_count() {
                // what belongs to no layer is not run through
                let placement = self.placement();
                let by_layer = placement.weights_by_layer(self.loaded);
                let elsewhere = placement.weights_elsewhere(self.loaded);
                let moved = |layer: usize| Bytes(elsewhere.get(layer).copied().unwrap_or(0));
                let of = |layer: &usize| by_layer.get(*layer).map(|bytes| Bytes(*bytes) - moved(*layer));
                let whole: Bytes = layers.iter().filter_map(of).sum();
                let others = (0..elsewhere.len()).filter(|layer| !layers.contains(layer));
                ram.run_in_part = others.map(moved).sum::<Bytes>().min(ram.run - whole);
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
        let ready = self.draft.as_ref().and_then(|draft| draft.main_ready.as_ref());
        let ready = ready.or(self.adapted_graph.as_ref()).unwrap_or(compute);
        let own = self.part(PartKind::Model, None, [model, context, compute, ready], *in_ram);
        let draft = self.draft.as_ref().map(|DraftMemory { draft, draft_ready, .. }| {
            let file = self.draft_file.map(str::to_owned);
            self.part(PartKind::Draft, file, [&draft.model, &draft.context, &draft.compute, draft_ready], draft.in_ram)
        });
        let count = self.machine.gpus.len() + 1;
        let projector = self.params.projector.iter().flat_map(|projector| projector.parts(count));
        let adapters = self.adapters.as_ref().map(|bytes| {
            let files: Vec<String> = self.settings.loras.iter().map(ToString::to_string).collect();
            let files = files.into_iter().chain(self.settings.control_vectors.iter().cloned()).collect::<Vec<_>>();
            let none = vec![0; bytes.len()];
            let in_ram = WeightsInRam::default();
            self.part(PartKind::Adapters, Some(files.join(", ")), [bytes, &none, &none, &none], in_ram)
        });
        [own].into_iter().chain(projector).chain(draft).chain(adapters).collect()
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
        let mut places: Vec<usize> = (0..weights.len()).map(|place| self.device_of(place)).collect();
        if let Some(cards) = &self.params.cards {
            memory = self.on_cards(kind, cards, memory);
            places = self.params.gpus.iter().copied().chain([self.machine.gpus.len()]).collect();
        }
        Part { kind, file, devices: memory }.spread_over(&places, self.machine.gpus.len() + 1)
    }

    /// What each card of a split by tensors has of the memory of their one device, RAM last: parts of matrices and caches,
    /// and a compute buffer as large as the device's (`ggml_backend_meta_buffer_type_alloc_buffer` in
    /// `ggml-backend-meta.cpp`, 0.1.161).
    fn on_cards(&self, kind: PartKind, cards: &TensorSplit, memory: Vec<PartMemory>) -> Vec<PartMemory> {
        let [all, ram @ ..] = memory.as_slice() else { return memory };
        let weights = if kind == PartKind::Model {
            let backends = devices::backends(&self.params.devices);
            self.placement().split_weights(self.loaded, &backends, cards)
        } else {
            cards.divide(all.weights.0, 0)
        };
        let each = weights.into_iter().zip(cards.divide(all.cache.0, 0));
        let each = each.map(|(weights, cache)| PartMemory { weights: Bytes(weights), cache: Bytes(cache), ..*all });
        each.chain(ram.iter().copied()).collect()
    }

    /// What the user should know about weights in a layout of the CPU's own.
    pub fn note_on_repacking(&self) -> Option<String> {
        let parts = self.parts();
        let repacked: Bytes = parts.iter().filter_map(|part| part.devices.last()).map(|memory| memory.repacked).sum();
        let machine::Cpu { instructions, assumed } = self.machine.cpu;
        let how = if assumed { ", assumed; use --cpu to state it" } else { "" };
        (repacked > Bytes::ZERO).then(|| {
            format!(
                "{repacked} of weights in RAM are repacked for the CPU ({instructions}{how}). They take memory of their own, \
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
                let when = if self.draft.is_some() { "when drafting begins" } else { "once the adapters are applied" };
                notes.push(format!("compute buffers on {} grow by {} {when}", device.id, ready - graph));
            }
        }
        notes
    }

    /// What the fit keeps free of a GPU, and how that came about.
    fn margin(&self, gpu: usize) -> Option<(Reserve, FitMargin)> {
        let place = self.params.gpus.iter().position(|used| *used == gpu).filter(|_| self.params.is_fitted)?;
        let margin = self.params.margins.explained(place, gpu, self.machine.gpus.len());
        Some((Reserve { name: "kept free by the fit", bytes: margin.left() }, margin))
    }
}

// An upper bound of a plan: weights and caches must be placed somewhere, whatever the graph adds.
