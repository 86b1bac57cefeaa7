//! Measures a placement: builds, schedules and allocates graphs, and adds up weights and caches. What `--fit` measures
//! and what a load takes are two [`Reservation`]s of the same graphs.

use super::cache::Memory;
use super::context::{Batch, ContextParams, Cparams};
use super::error::LoadError;
use super::graph::{self, GraphModel};
use super::partner::Partner;
use super::pipeline::Pipeline;
use super::placement::Placement;
use super::probe::Probe;
use super::{AllocationDetails, Device, LoadedModel, MemoryBreakdown, TokenGraph};
use crate::engine::ggml::allocate::{self, Lifetime, Piece};
use crate::engine::ggml::schedule::{PassTrace, Schedule, Scheduler};
use crate::engine::ggml::tensor::{Buffer, NO_BACKEND, Tensor};
use crate::engine::ggml::{BackendRef, Graph};
use crate::units::Bytes;

/// How compute buffers are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reservation {
    /// As `--fit` and Ollama's trial measure: the prompt graph alone, without allocating. The scheduler loses the
    /// devices that the model's graph code sets (`ggml_backend_sched_reserve_size` in `ggml-backend.cpp`, 0.1.161).
    Measured,
    /// As a server allocates when it loads: the largest of the prompt graph and the graph of one token per sequence, with
    /// the devices that the graph code sets. Where the buffers of a pipeline do not fit into free memory, they are
    /// reserved again without one (`llama_context::sched_reserve` in `llama-context.cpp`, 0.1.161).
    #[default]
    Loaded,
}

/// What a load finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Bytes that others hold on each device; none for those beyond the list.
    pub taken: Vec<u64>,
    /// An earlier reservation of the same context gave its pipeline up.
    pub gave_up_pipeline: bool,
}

/// Measures one model on the same devices repeatedly, reusing its buffers.
#[derive(Debug)]
pub struct Measurer<'a> {
    pub model: &'a LoadedModel,
    pub devices: &'a [Device],
    /// The context beside which a draft is made.
    partner: Option<&'a Partner<'a>>,
    before: Before,
    /// The devices' properties, RAM last.
    backends: Vec<BackendRef>,
    /// The last measured graph, with the scheduler's copies.
    graph: Graph,
    schedule: Schedule,
    latest: Option<Latest>,
}

/// The measurement that `graph` and `schedule` are of.
#[derive(Debug)]
struct Latest {
    options: ContextParams,
    layout: MeasureLayout,
    /// The graph code's devices were kept.
    pins: bool,
    /// The graph of one token per sequence, if it was reserved besides.
    token: Option<TokenGraph>,
}

/// Everything but the graph: parameters, placement and caches.
#[derive(Debug)]
struct MeasureLayout {
    context: Cparams,
    placement: Placement,
    memory: Memory,
    pipeline: Pipeline,
}

/// What a traced measurement records besides.
struct Trace<'t> {
    passes: Option<&'t mut PassTrace>,
    lifetimes: Vec<Lifetime>,
}

/// A reservation, apart from the prompt graph.
struct Reserved {
    layout: MeasureLayout,
    token: Option<TokenGraph>,
    measured: MemoryBreakdown,
}

impl<'a> Measurer<'a> {
    pub fn new(model: &'a LoadedModel, devices: &'a [Device]) -> Self {
        let (before, graph, schedule, latest) = Default::default();
        Self { model, devices, partner: None, before, backends: super::backends(devices), graph, schedule, latest }
    }

    /// The same for a draft beside `partner`.
    #[must_use]
    pub fn beside(self, partner: &'a Partner<'a>) -> Self {
        Self { partner: Some(partner), ..self }
    }

    /// The same for a load that finds `before`.
    #[must_use]
    pub fn after(self, before: Before) -> Self {
        Self { before, ..self }
    }

    /// Measures what llama.cpp reserves on the devices and in RAM.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn measure(
        &mut self,
        placement: &Placement,
        options: &ContextParams,
        reservation: Reservation,
    ) -> Result<MemoryBreakdown, LoadError> {
        let Reserved { layout, token, measured } = self.reserve(placement, options, reservation, None)?;
        let pins = reservation == Reservation::Loaded;
        self.latest = Some(Latest { options: options.clone(), layout, pins, token });
        Ok(measured)
    }

    /// The same with the details of the compute buffers. `passes` receives every tensor's device after each pass. The
    /// last measurement is reused if it has the same input.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn measure_traced(
        mut self,
        placement: &Placement,
        options: &ContextParams,
        reservation: Reservation,
        passes: Option<&mut PassTrace>,
    ) -> Result<(MemoryBreakdown, AllocationDetails), LoadError> {
        let mut trace = Trace { passes, lifetimes: Vec::new() };
        let Reserved { layout, token, measured } = self.reserve(placement, options, reservation, Some(&mut trace))?;
        let Self { graph, schedule, .. } = self;
        let MeasureLayout { memory, pipeline, .. } = layout;
        let lifetimes = trace.lifetimes;
        Ok((measured, AllocationDetails { memory, graph, schedule, lifetimes, pipeline, token }))
    }

    /// The caches and their shapes.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn memory(&mut self, placement: &Placement, options: &ContextParams) -> Result<Memory, LoadError> {
        Ok(self.lay_out(placement, options)?.memory)
    }

    /// Everything but the graph.
    fn lay_out(&mut self, placement: &Placement, options: &ContextParams) -> Result<MeasureLayout, LoadError> {
        if self.partner.is_none() && self.model.needs_partner() {
            return Err(LoadError::settings(
                "this model only drafts for another one: use it as the draft model of that one".to_owned(),
            ));
        }
        let mut context = Cparams::new(options, self.model)?;
        let memory = Memory::new(self.model, &context, placement, self.partner);
        let probe =
            Probe { model: self.model, placement, memory: &memory, partner: self.partner, backends: &self.backends };
        probe.resolve(&mut context, options, &mut self.graph)?;
        let pipeline = Pipeline::of(self.devices, placement, &context);
        Ok(MeasureLayout { context, placement: placement.clone(), memory, pipeline })
    }

    /// Reserves as `reservation` says. The prompt graph is left in `self`.
    fn reserve(
        &mut self,
        placement: &Placement,
        options: &ContextParams,
        reservation: Reservation,
        mut trace: Option<&mut Trace<'_>>,
    ) -> Result<Reserved, LoadError> {
        let pins = reservation == Reservation::Loaded;
        let (mut layout, known) = self.prompt(placement, options, pins, trace.as_deref_mut())?;
        if !pins {
            let compute = self.allocate(trace);
            return Ok(Reserved { measured: self.measured(&layout, &compute), layout, token: None });
        }
        let mut refused = None;
        let mut compute = self.allocate(trace.as_deref_mut());
        let fits = |compute: &[Piece]| self.fits(&self.measured(&layout, compute));
        let is_refused = options.pipeline_refused.unwrap_or_else(|| !fits(&compute));
        if layout.pipeline.is_on() && is_refused {
            refused = Some(compute.iter().map(|piece| piece.bytes).collect());
            layout.pipeline.buffers_fit = false;
            self.graph_of(&layout, layout.context.reserved(), true, trace.as_deref_mut())?;
            compute = self.allocate(trace);
        }
        let mut token = None;
        if layout.reserves_token_graph() {
            let of_token = known.map_or_else(|| self.token_graph(&layout), Ok)?;
            let larger = compute.iter_mut().zip(&of_token.reserved).filter(|(piece, other)| other.bytes > piece.bytes);
            larger.for_each(|(piece, other)| *piece = *other);
            token = Some(of_token);
        }
        let measured = MemoryBreakdown { refused_pipeline: refused, ..self.measured(&layout, &compute) };
        Ok(Reserved { layout, token, measured })
    }

    /// Whether what is measured can be allocated, pipeline and all.
    fn fits(&self, measured: &MemoryBreakdown) -> bool {
        let Before { taken, gave_up_pipeline } = &self.before;
        let taken = |device: usize| taken.get(device).copied().unwrap_or(0);
        !gave_up_pipeline
            && self.devices.iter().enumerate().all(|(at, device)| taken(at) + measured.total(at) <= device.free)
    }

    fn allocate(&self, trace: Option<&mut Trace<'_>>) -> Vec<Piece> {
        let lifetimes = trace.map(|trace| {
            trace.lifetimes.clear();
            &mut trace.lifetimes
        });
        allocate::reserve(&self.graph, &self.schedule, &self.backends, lifetimes)
    }

    /// Builds the worst-case prompt graph and schedules it. The last one is reused if it is the same, with the graph of
    /// one token that was reserved with it.
    fn prompt(
        &mut self,
        placement: &Placement,
        options: &ContextParams,
        pins: bool,
        trace: Option<&mut Trace<'_>>,
    ) -> Result<(MeasureLayout, Option<TokenGraph>), LoadError> {
        let is_traced = trace.as_ref().is_some_and(|trace| trace.passes.is_some());
        let is_same = |latest: &Latest| {
            !is_traced
                && latest.options == *options
                && latest.layout.placement == *placement
                && latest.layout.pipeline.buffers_fit
                && (latest.pins == pins || !latest.layout.has_choice(&self.graph))
        };
        if let Some(Latest { layout, token, .. }) = self.latest.take().filter(is_same) {
            return Ok((layout, token));
        }
        let layout = self.lay_out(placement, options)?;
        self.graph_of(&layout, layout.context.reserved(), pins, trace)?;
        Ok((layout, None))
    }

    /// Builds the graph of `batch` and schedules it.
    fn graph_of(
        &mut self,
        layout: &MeasureLayout,
        batch: Batch,
        pins: bool,
        trace: Option<&mut Trace<'_>>,
    ) -> Result<(), LoadError> {
        let Self { model, partner, backends, graph, schedule, .. } = self;
        let MeasureLayout { context, placement, memory, pipeline } = layout;
        let loaded = GraphModel { model, placement, memory, partner: *partner };
        graph::build(&loaded, context, batch, graph)?;
        if let Some(tensor) = refused_cache(graph, backends) {
            return Err(LoadError::settings(format!(
                "llama.cpp would end with an error: one layer's cache takes {}, more than a GPU here can use at once, or \
                 has a type that it cannot write: use a smaller context or another cache type",
                Bytes(tensor.bytes())
            )));
        }
        let scheduler = Scheduler {
            backends,
            op_offload: context.op_offload,
            pipeline: pipeline.is_on(),
            pins,
            rules: model.release.rules,
        };
        let mut passes = trace.and_then(|trace| trace.passes.as_deref_mut());
        if let Some(passes) = &mut passes {
            passes.clear();
        }
        scheduler.run(graph, schedule, passes);
        if schedule.overflows {
            return Err(LoadError::settings(
                "this release of llama.cpp ends with an error here: more tensors cross between devices at once than its \
                 scheduler holds: put all layers on one device"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// What the graph of one token per sequence reserves; the prompt graph is kept.
    fn token_graph(&mut self, layout: &MeasureLayout) -> Result<TokenGraph, LoadError> {
        let prompt = (std::mem::take(&mut self.graph), std::mem::take(&mut self.schedule));
        let done = self.graph_of(layout, layout.context.probe(1), true, None);
        let (graph, schedule) =
            (std::mem::replace(&mut self.graph, prompt.0), std::mem::replace(&mut self.schedule, prompt.1));
        done?;
        let mut lifetimes = Vec::new();
        let reserved = allocate::reserve(&graph, &schedule, &self.backends, Some(&mut lifetimes));
        Ok(TokenGraph { graph, schedule, lifetimes, reserved })
    }

    fn measured(&self, layout: &MeasureLayout, compute: &[Piece]) -> MemoryBreakdown {
        let MeasureLayout { context, placement, memory, .. } = layout;
        let weights = placement.weights(self.model, &self.backends);
        let caches = memory.largest(&self.backends);
        let bytes = |pieces: &[Piece]| pieces.iter().map(|piece| piece.bytes).collect();
        MemoryBreakdown {
            model: bytes(&weights),
            context: memory.bytes(&self.backends),
            compute: bytes(compute),
            pieces: weights.iter().zip(caches).zip(compute).map(|((a, b), c)| [*a, b, *c]).collect(),
            parameters: context.clone(),
            layer_devices: placement.layer_devices(),
            refused_pipeline: None,
            in_ram: placement.in_ram(self.model),
        }
    }
}

impl MeasureLayout {
    /// Whether the devices that the graph code sets may differ from those that the scheduler would choose: it sets some,
    /// and not everything is on one GPU.
    fn has_choice(&self, graph: &Graph) -> bool {
        let Self { placement, context, .. } = self;
        let on_one = placement.full_offload
            && context.offload_kqv
            && !placement.has_overrides()
            && placement.layers.iter().all(|device| *device == placement.output);
        !on_one && graph.tensors.iter().any(|tensor| tensor.pin != NO_BACKEND)
    }

    /// Whether the graph of one token per sequence may reserve more on a device than the prompt graph: with something in
    /// RAM, which GPUs compute for many tokens only.
    fn reserves_token_graph(&self) -> bool {
        let Self { placement, context, .. } = self;
        let in_ram = !placement.full_offload || !context.offload_kqv || placement.has_overrides();
        placement.cpu > 0 && in_ram && context.probe(1).has_few_tokens() && !context.reserved().has_few_tokens()
    }
}

/// A cache, or a write into one, that the device of the cache refuses: caches do not move, so llama.cpp ends
/// (`ggml_backend_sched_backend_id_from_cur` in `ggml-backend.cpp`, 0.1.161).
fn refused_cache<'g>(graph: &'g Graph, backends: &[BackendRef]) -> Option<&'g Tensor> {
    graph.leafs.iter().chain(&graph.nodes).map(|id| &graph[*id]).find(|tensor| {
        let of = tensor.view_of.get().map_or(tensor.buffer, |of| graph[of].buffer);
        matches!(of, Buffer::Cache(device) if !backends[usize::from(device)].supports(graph, tensor))
    })
}
