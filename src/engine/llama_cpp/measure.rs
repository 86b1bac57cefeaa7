//! Measures a placement: builds, schedules and allocates graphs, and adds up weights and caches. What `--fit` measures
//! and what a load takes are two [`Reservation`]s of the same graphs.

use super::architecture::Trait;
use super::architectures;
use super::built_blocks::{BlockStarts, BuiltBlocks, LeftOut};
use super::cache::Memory;
use super::context::{Batch, ContextParams, Cparams};
use super::devices::{self, Device};
use super::draft_target::DraftTarget;
use super::error::LoadError;
use super::graph::GraphModel;
use super::loaded::LoadedModel;
use super::placement::{LayerSplit, Placement};
use super::probe::Probe;
use super::weight_buffers::WeightsInRam;
use crate::engine::ggml::allocate::{self, Lifetime, Piece};
use crate::engine::ggml::schedule::{PassTrace, Schedule, Scheduler, SchedulerRules};
use crate::engine::ggml::tensor::{BackendId, Buffer, NO_BACKEND, Tensor};
use crate::engine::ggml::{BackendRef, Graph};
use crate::units::Bytes;

/// How compute buffers are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reservation {
    /// As `--fit` and Ollama's trial measure: the prompt graph alone, without allocating. The scheduler loses the
    /// devices that the model's graph code sets (`ggml_backend_sched_reserve_size` in `ggml-backend.cpp`, 0.1.161).
    Measured,
    /// As a server allocates when it loads: the largest of the prompt graph, the graph of one token per sequence and the
    /// prompt graph again, with the devices that the graph code sets. Where the buffers of a pipeline do not fit into free memory, they are
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

/// Measures one model on the same devices.
#[derive(Debug)]
pub struct Measurer<'a> {
    pub model: &'a LoadedModel,
    pub devices: &'a [Device],
    /// The context beside which a draft is made.
    target: Option<&'a DraftTarget<'a>>,
    before: Before,
    /// Graphs are built whole, to be shown.
    whole: bool,
    /// The devices' properties, RAM last.
    backends: Vec<BackendRef>,
}

/// The graphs that were measured, with the scheduler's copies.
#[derive(Debug)]
pub struct MeasuredGraphs {
    options: ContextParams,
    layout: MeasureLayout,
    /// The devices that the graph code sets were kept.
    pins: bool,
    graph: Graph,
    schedule: Schedule,
    /// What each device reserves for it.
    compute: Vec<Piece>,
    /// What the graph lacks.
    left_out: Vec<LeftOut>,
    /// The other graphs of a load that may reserve more.
    besides: Vec<ReservedGraph>,
}

/// Everything but the graph: parameters, placement and caches.
#[derive(Debug)]
struct MeasureLayout {
    context: Cparams,
    placement: Placement,
    memory: Memory,
    /// The blocks of its graphs that are built.
    blocks: BuiltBlocks,
    pipeline: Pipeline,
    /// Bytes of the cache of experts per device, RAM last, if there is one.
    moe_cache: Option<Vec<u64>>,
}

impl<'a> Measurer<'a> {
    pub fn new(model: &'a LoadedModel, devices: &'a [Device]) -> Self {
        Self {
            model,
            devices,
            target: None,
            before: Before::default(),
            whole: false,
            backends: devices::backends(devices),
        }
    }

    /// The same for a draft beside `target`.
    #[must_use]
    pub fn beside(self, target: &'a DraftTarget<'a>) -> Self {
        Self { target: Some(target), ..self }
    }

    /// The same for a load that finds `before`.
    #[must_use]
    pub fn after(self, before: Before) -> Self {
        Self { before, ..self }
    }

    /// The same with graphs that have all blocks, to be shown.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    /// Measures what llama.cpp reserves on the devices and in RAM.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn measure(
        &self,
        placement: &Placement,
        options: &ContextParams,
        reservation: Reservation,
    ) -> Result<MemoryBreakdown, LoadError> {
        self.reserve(placement, options, reservation, None, None).map(|(measured, _)| measured)
    }

    /// The same with the graphs. `before` are graphs that this measured before: those of the same placement and options
    /// are kept, of others only the memory is used again, and how many blocks had to be built. `passes` receives every
    /// tensor's device after each pass.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn reserve(
        &self,
        placement: &Placement,
        options: &ContextParams,
        reservation: Reservation,
        before: Option<MeasuredGraphs>,
        mut passes: Option<&mut PassTrace>,
    ) -> Result<(MemoryBreakdown, MeasuredGraphs), LoadError> {
        let loads = reservation == Reservation::Loaded;
        let pins = loads && self.model.release.reserves_pinned;
        let mut graphs = match before {
            Some(known) if known.are_of(placement, options, pins) => known,
            other => self.prompt(placement, options, pins, other, passes.as_deref_mut())?,
        };
        let mut measured = self.measured(&graphs.layout, &graphs.compute);
        if !loads {
            return Ok((measured, graphs));
        }
        if graphs.layout.memory.lacks_bytes() {
            return Err(LoadError::settings(
                "llama.cpp would fail to load the model: no block on one of the devices has keys and values, and it cannot \
                 allocate a cache without bytes: use another split of the layers",
            ));
        }
        let is_refused = options.pipeline_refused.unwrap_or_else(|| !self.fits(&measured));
        if graphs.layout.pipeline.is_on() && is_refused {
            let refused = measured.compute;
            graphs.layout.pipeline.buffers_fit = false;
            self.build(&mut graphs, passes)?;
            measured =
                MemoryBreakdown { refused_pipeline: Some(refused), ..self.measured(&graphs.layout, &graphs.compute) };
        }
        measured.in_ram = placement.in_ram(self.model);
        graphs.besides = self.besides(&mut graphs.layout)?;
        for (device, piece) in graphs.besides.iter().flat_map(|graph| graph.reserved.iter().enumerate()) {
            if piece.bytes > measured.compute[device] {
                measured.compute[device] = piece.bytes;
                measured.pieces[device][2] = *piece;
            }
        }
        Ok((measured, graphs))
    }

    /// The caches and their shapes.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn memory(&self, placement: &Placement, options: &ContextParams) -> Result<Memory, LoadError> {
        Ok(self.lay_out(placement, options, &mut Graph::default(), None)?.memory)
    }

    /// The graph of one token per sequence in place of a prompt's, in the same layout: what runs while tokens are generated.
    ///
    /// # Errors
    /// As [`Self::measure`].
    fn token_graph(&self, graphs: &mut MeasuredGraphs, passes: Option<&mut PassTrace>) -> Result<(), LoadError> {
        let MeasuredGraphs { layout, pins, graph, schedule, .. } = graphs;
        self.graph_of(layout, layout.context.probe(1), *pins, (graph, schedule), passes).map(drop)
    }

    /// Graphs with their details.
    pub fn details(&self, graphs: MeasuredGraphs) -> AllocationDetails {
        let mut lifetimes = Vec::new();
        self.allocate(&graphs, Some(&mut lifetimes));
        let MeasuredGraphs { layout, graph, schedule, left_out, besides, .. } = graphs;
        let MeasureLayout { memory, pipeline, .. } = layout;
        AllocationDetails { memory, graph, schedule, lifetimes, left_out, pipeline, besides }
    }

    /// Everything but the graph. `graph` is overwritten; `before` are the blocks that it had.
    fn lay_out(
        &self,
        placement: &Placement,
        options: &ContextParams,
        graph: &mut Graph,
        before: Option<&BuiltBlocks>,
    ) -> Result<MeasureLayout, LoadError> {
        if self.target.is_none() && self.model.needs_target() {
            return Err(LoadError::settings(
                "this model only drafts for another one: use it as the draft model of that one",
            ));
        }
        let mut context = Cparams::new(options, self.model)?;
        let memory = Memory::new(self.model, &context, placement, self.target);
        let Self { model, target, backends, .. } = self;
        let blocks = if self.whole || target.is_some() {
            BuiltBlocks::all(model.hparams.n_layer())
        } else {
            BuiltBlocks::of(model, placement, &memory, &context)
        };
        let probe = Probe { model, placement, memory: &memory, target: *target, backends, blocks: &blocks.blocks };
        probe.resolve(&mut context, options, graph)?;
        let blocks = blocks.like_before(before, model);
        let moe_cache =
            options.moe_cache.as_ref().map(|cache| cache.place(self.model, placement, self.devices, &self.backends));
        let moe_cache = moe_cache.transpose()?;
        let mut pipeline = Pipeline::of(self.devices, placement, &context);
        pipeline.no_moe_cache = moe_cache.is_none();
        Ok(MeasureLayout { context, placement: placement.clone(), memory, blocks, pipeline, moe_cache })
    }

    /// Whether what is measured can be allocated, pipeline and all.
    fn fits(&self, measured: &MemoryBreakdown) -> bool {
        let Before { taken, gave_up_pipeline } = &self.before;
        let taken = |device: usize| taken.get(device).copied().unwrap_or(0);
        !gave_up_pipeline
            && self.devices.iter().enumerate().all(|(at, device)| taken(at) + measured.total(at) <= device.free)
    }

    fn allocate(&self, graphs: &MeasuredGraphs, lifetimes: Option<&mut Vec<Lifetime>>) -> Vec<Piece> {
        allocate::reserve(&graphs.graph, &graphs.schedule, &self.backends, lifetimes)
    }

    /// The worst-case prompt graph.
    fn prompt(
        &self,
        placement: &Placement,
        options: &ContextParams,
        pins: bool,
        overwritten: Option<MeasuredGraphs>,
        passes: Option<&mut PassTrace>,
    ) -> Result<MeasuredGraphs, LoadError> {
        let known = overwritten.map(|known| (known.graph, known.schedule, Some(known.layout.blocks)));
        let (mut graph, schedule, blocks) = known.unwrap_or_default();
        let layout = self.lay_out(placement, options, &mut graph, blocks.as_ref())?;
        let (options, compute, left_out, besides) = (options.clone(), Vec::new(), Vec::new(), Vec::new());
        let mut graphs = MeasuredGraphs { options, layout, pins, graph, schedule, compute, left_out, besides };
        self.build(&mut graphs, passes)?;
        Ok(graphs)
    }

    /// Builds the prompt graph of a layout, schedules and allocates it.
    fn build(&self, graphs: &mut MeasuredGraphs, passes: Option<&mut PassTrace>) -> Result<(), LoadError> {
        let MeasuredGraphs { layout, pins, graph, schedule, compute, left_out, .. } = graphs;
        let batch = layout.context.reserved();
        (*compute, *left_out) = self.allocated(layout, batch, *pins, (graph, schedule), passes, None)?;
        Ok(())
    }

    /// Builds the graph of `batch`, schedules and allocates it: what each device reserves, and what the graph lacks. It has
    /// all blocks unless it is seen that those left out change nothing.
    fn allocated(
        &self,
        layout: &mut MeasureLayout,
        batch: Batch,
        pins: bool,
        (graph, schedule): (&mut Graph, &mut Schedule),
        mut passes: Option<&mut PassTrace>,
        mut lifetimes: Option<&mut Vec<Lifetime>>,
    ) -> Result<(Vec<Piece>, Vec<LeftOut>), LoadError> {
        loop {
            let starts = self.graph_of(layout, batch, pins, (graph, schedule), passes.as_deref_mut())?;
            let seen = starts.as_ref().map(|starts| starts.steps(schedule)).unwrap_or_default();
            if let Some(lifetimes) = &mut lifetimes {
                lifetimes.clear();
            }
            let lifetimes = lifetimes.as_deref_mut();
            let (pieces, states) = allocate::reserve_seen(graph, schedule, &self.backends, lifetimes, &seen);
            let settled = starts.and_then(|starts| {
                starts.settled(&layout.blocks, graph, schedule, &seen, &states, layout.placement.cpu)
            });
            if let Some(left_out) = settled {
                return Ok((pieces, left_out));
            }
            layout.blocks = std::mem::take(&mut layout.blocks).more();
        }
    }

    /// Builds the graph of `batch` and schedules it: where its blocks begin, if that is found.
    fn graph_of(
        &self,
        layout: &MeasureLayout,
        batch: Batch,
        pins: bool,
        (graph, schedule): (&mut Graph, &mut Schedule),
        mut passes: Option<&mut PassTrace>,
    ) -> Result<Option<BlockStarts>, LoadError> {
        let Self { model, target, backends, .. } = self;
        let MeasureLayout { context, placement, memory, blocks, pipeline, .. } = layout;
        let loaded = GraphModel { model, placement, memory, target: *target, blocks: &blocks.blocks };
        architectures::build(&loaded, context, batch, graph)?;
        let starts = BlockStarts::of(blocks, graph);
        self.check_room(layout, graph, starts.as_ref())?;
        if let Some(tensor) = refused_cache(graph, backends) {
            return Err(LoadError::settings(format!(
                "llama.cpp would end with an error: one layer's cache takes {}, more than a GPU here can use at once, or \
                 has a type that it cannot write: use a smaller context or another cache type",
                Bytes(tensor.bytes())
            )));
        }
        let rules = model.release.rules;
        let scheduler = Scheduler {
            backends,
            op_offload: context.op_offload,
            pipeline: pipeline.is_on(),
            pins,
            rules: SchedulerRules {
                multiplies_unread_inputs: context.unread_inputs.unwrap_or(rules.multiplies_unread_inputs),
                ..rules
            },
        };
        if let Some(passes) = &mut passes {
            passes.clear();
        }
        scheduler.run(graph, schedule, passes);
        if schedule.overflows && !blocks.are_all() {
            return Ok(None);
        }
        if schedule.overflows {
            return Err(LoadError::settings(
                "this release of llama.cpp ends with an error here: more tensors cross between devices at once than its \
                 scheduler holds: put all layers on one device",
            ));
        }
        Ok(starts)
    }

    /// Whether llama.cpp has room for a graph: an operation and an input each have a place in a list, and all tensors one
    /// in a table of a prime number of places (`ggml_hash_size` in `ggml.c`, 0.1.161).
    fn check_room(&self, layout: &MeasureLayout, graph: &Graph, starts: Option<&BlockStarts>) -> Result<(), LoadError> {
        const PRIMES: [u64; 10] = [1031, 2053, 4099, 8209, 16_411, 32_771, 65_537, 131_101, 262_147, 524_309];
        let MeasureLayout { context, placement, .. } = layout;
        if context.drafting.samplers {
            return Ok(());
        }
        let tokens = context.n_ctx.min(context.n_ubatch);
        let room = self.model.family.architecture.room.operations(tokens, placement.loaded_count(self.model));
        // of a pair the two matrices, their products, the factor and the sum
        let room = room + 6 * context.adapters.as_ref().map_or(0, |adapters| adapters.len());
        let inputs = graph.leafs.iter().filter(|id| graph[**id].buffer == Buffer::Unallocated).count();
        let (nodes, leafs) = starts.map_or((0, 0), |starts| starts.left_out(&layout.blocks));
        let (nodes, leafs) = (graph.nodes.len() + nodes, graph.leafs.len() + leafs);
        let (listed, all) = ((nodes + inputs) as u64, (nodes + leafs) as u64);
        let table = PRIMES.into_iter().find(|prime| *prime >= room);
        if listed <= room && table.is_none_or(|table| all <= table) {
            return Ok(());
        }
        Err(LoadError::settings(format!(
            "llama.cpp would end with an error: the graph of this model has {all} tensors here, more than it has room for: \
             use a unified cache, fewer sequences, or a cache that is not quantised"
        )))
    }

    /// The graphs that a load reserves besides the prompt graph, as far as they may take more
    /// (`llama_context::sched_reserve` in `llama-context.cpp`, 0.1.161).
    fn besides(&self, layout: &mut MeasureLayout) -> Result<Vec<ReservedGraph>, LoadError> {
        let context = &layout.context;
        let token = layout.reserves_token_graph().then(|| context.probe(1));
        let of_one = self.model.family.architecture.has(Trait::ReservesOneSequence) && context.n_seq_max > 1;
        let again = of_one.then(|| context.reserved_for(1));
        let reserve = |batch: Batch| {
            let (mut graph, mut schedule, mut lifetimes) = Default::default();
            let (pins, of) = (self.model.release.reserves_pinned, (&mut graph, &mut schedule));
            let (reserved, left_out) = self.allocated(layout, batch, pins, of, None, Some(&mut lifetimes))?;
            Ok(ReservedGraph { batch, graph, schedule, lifetimes, left_out, reserved })
        };
        token.into_iter().chain(again).map(reserve).collect()
    }

    fn measured(&self, layout: &MeasureLayout, compute: &[Piece]) -> MemoryBreakdown {
        let MeasureLayout { context, placement, memory, moe_cache, .. } = layout;
        let mut caches_and_states = memory.bytes(&self.backends);
        for (bytes, more) in caches_and_states.iter_mut().zip(moe_cache.iter().flatten()) {
            *bytes += more;
        }
        let weights = placement.weights(self.model, &self.backends);
        let caches = memory.largest(&self.backends);
        let bytes = |pieces: &[Piece]| pieces.iter().map(|piece| piece.bytes).collect();
        MemoryBreakdown {
            model: bytes(&weights),
            context: caches_and_states,
            compute: bytes(compute),
            pieces: weights.iter().zip(caches).zip(compute).map(|((a, b), c)| [*a, b, *c]).collect(),
            parameters: context.clone(),
            layer_devices: placement.layer_devices(),
            refused_pipeline: None,
            in_ram: WeightsInRam::default(),
        }
    }
}

impl MeasuredGraphs {
    /// Blocks that are built.
    #[cfg(test)]
    pub fn built_blocks(&self) -> usize {
        self.layout.blocks.blocks.len()
    }

    /// Whether building them again would give the same.
    fn are_of(&self, placement: &Placement, options: &ContextParams, pins: bool) -> bool {
        let same_question = self.layout.placement == *placement && self.options == *options;
        same_question && (self.pins == pins || !self.has_choice())
    }

    /// Whether the devices that the graph code sets may differ from those that the scheduler would choose: it sets some,
    /// and not everything is on one GPU.
    fn has_choice(&self) -> bool {
        let MeasureLayout { placement, context, .. } = &self.layout;
        let on_one = placement.full_offload
            && context.offload_kqv
            && !placement.has_overrides()
            && placement.layers.iter().all(|device| *device == placement.output);
        !on_one && self.graph.tensors.iter().any(|tensor| tensor.pin != NO_BACKEND)
    }
}

impl MeasureLayout {
    /// Whether the graph of one token per sequence may reserve more on a device than the prompt graph: it has more
    /// logits, there is something in RAM, which GPUs compute for many tokens only, or the prompt has hardly more tokens,
    /// and tensors only lie differently. (Of 55 000 random loads, no other one did.)
    fn reserves_token_graph(&self) -> bool {
        const FEW_PER_SEQUENCE: u64 = 5;
        let Self { placement, context, .. } = self;
        let (prompt, token) = (context.reserved(), context.probe(1));
        let in_ram = !placement.full_offload || !context.offload_kqv || placement.has_overrides();
        let may_differ = token.n_outputs > prompt.n_outputs || prompt.n_seq_tokens() < FEW_PER_SEQUENCE;
        token != prompt && (may_differ || placement.cpu > 0 && in_ram)
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

// The conditions of pipeline parallelism (`llama_context`, 0.1.161).

/// The conditions, all of which are required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a condition of its own")]
pub struct Pipeline {
    /// There is more than one GPU.
    pub several_gpus: bool,
    /// All layers are on GPUs.
    pub all_layers: bool,
    /// Caches are on the devices of their layers.
    pub caches_offloaded: bool,
    /// There are no tensor overrides.
    pub nothing_overridden: bool,
    /// The model is split by layers.
    pub by_layers: bool,
    /// There is no cache of experts that are in RAM.
    pub no_moe_cache: bool,
    /// All GPUs compute asynchronously and have events.
    pub asynchronous: bool,
    /// Its buffers can be allocated; otherwise llama.cpp reserves memory again without it.
    pub buffers_fit: bool,
}

impl Pipeline {
    pub(super) fn of(devices: &[Device], placement: &Placement, context: &Cparams) -> Self {
        Self {
            several_gpus: devices.len() > 1,
            all_layers: placement.full_offload,
            caches_offloaded: context.offload_kqv,
            nothing_overridden: !placement.has_overrides(),
            by_layers: !placement.is_by_rows(),
            no_moe_cache: true,
            asynchronous: devices.iter().all(|device| device.backend.pipelines()),
            buffers_fit: true,
        }
    }

    /// Whether all conditions are met.
    pub fn is_on(&self) -> bool {
        self.conditions().iter().all(|(_, met)| *met)
    }

    /// Each condition as text, and whether it is met.
    pub const fn conditions(&self) -> [(&'static str, bool); 8] {
        [
            ("more than one GPU", self.several_gpus),
            ("all layers are on GPU", self.all_layers),
            ("the KV cache is offloaded", self.caches_offloaded),
            ("no tensor overrides", self.nothing_overridden),
            ("the split is by layers", self.by_layers),
            ("no cache of experts", self.no_moe_cache),
            ("all GPUs support async compute", self.asynchronous),
            ("its compute buffers fit", self.buffers_fit),
        ]
    }
}

// What is measured.

/// Allocated bytes per device, in the given order with RAM last.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryBreakdown {
    /// Weights.
    pub model: Vec<u64>,
    /// KV caches and recurrent states.
    pub context: Vec<u64>,
    /// Compute buffers.
    pub compute: Vec<u64>,
    /// The context parameters in effect.
    pub parameters: Cparams,
    /// The device of every block, then that of the output layer.
    pub layer_devices: Vec<BackendId>,
    /// The weights in RAM by buffers, of a load.
    pub in_ram: WeightsInRam,
    /// Per device the weights, the largest cache and the compute buffer, each with its largest tensor.
    pub pieces: Vec<[Piece; 3]>,
    /// The compute buffers of a pipeline that could not be allocated, so that these are without one.
    pub refused_pipeline: Option<Vec<u64>>,
}

impl MemoryBreakdown {
    /// Layers on GPUs, including the output layer.
    pub fn offloaded(&self) -> usize {
        let cpu = self.model.len() - 1;
        self.layer_devices.iter().filter(|device| usize::from(**device) < cpu).count()
    }

    /// All bytes on a device.
    pub(super) fn total(&self, device: usize) -> u64 {
        self.model[device] + self.context[device] + self.compute[device]
    }
}

/// Graph, schedule and allocation behind a measurement.
#[derive(Clone, Debug)]
pub struct AllocationDetails {
    /// The caches with devices and sizes.
    pub memory: Memory,
    /// The graph, with the scheduler's copies.
    pub graph: Graph,
    /// Its splits and order.
    pub schedule: Schedule,
    /// The lifetime of every allocation.
    pub lifetimes: Vec<Lifetime>,
    /// What the graph lacks.
    pub left_out: Vec<LeftOut>,
    /// Whether pipeline parallelism is used, and why or why not.
    pub pipeline: Pipeline,
    /// The other graphs of a load that may reserve more.
    pub besides: Vec<ReservedGraph>,
}

/// A graph that is reserved beside the prompt graph.
#[derive(Clone, Debug)]
pub struct ReservedGraph {
    /// The batch that it is built for.
    pub batch: Batch,
    /// The graph, with the scheduler's copies.
    pub graph: Graph,
    /// Its splits and order.
    pub schedule: Schedule,
    /// The lifetime of every allocation.
    pub lifetimes: Vec<Lifetime>,
    /// What the graph lacks.
    pub left_out: Vec<LeftOut>,
    /// What each device reserves for it.
    pub reserved: Vec<Piece>,
}

/// A graph as it is allocated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocated<'a> {
    pub graph: &'a Graph,
    pub schedule: &'a Schedule,
    pub lifetimes: &'a [Lifetime],
    pub left_out: &'a [LeftOut],
}

impl Allocated<'_> {
    /// A step, and the number of steps, in the graph with all blocks.
    pub fn in_whole(&self, step: usize) -> (usize, usize) {
        let lacks =
            |step: usize| self.left_out.iter().filter(|lack| lack.before <= step).map(|lack| lack.steps).sum::<usize>();
        (step + lacks(step), self.schedule.nodes.len() + lacks(usize::MAX))
    }
}

impl AllocationDetails {
    /// The graph that reserves most on `place`.
    pub(super) fn largest_on(&self, place: BackendId) -> Allocated<'_> {
        let here = |lifetimes: &[Lifetime]| {
            let on_place = lifetimes.iter().filter(|life| life.place == place);
            on_place.map(|life| (life.chunk, life.offset.saturating_add(life.bytes))).max()
        };
        let Self { graph, schedule, lifetimes, left_out, .. } = self;
        let prompt = Allocated { graph, schedule, lifetimes, left_out };
        let besides = self.besides.iter().map(|ReservedGraph { graph, schedule, lifetimes, left_out, .. }| Allocated {
            graph,
            schedule,
            lifetimes,
            left_out,
        });
        besides.fold(prompt, |most, other| if here(other.lifetimes) > here(most.lifetimes) { other } else { most })
    }
}

impl LoadedModel {
    /// Measures what llama.cpp reserves on `devices` and in RAM.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn measure(
        &self,
        devices: &[Device],
        spread: &LayerSplit,
        options: &ContextParams,
        reservation: Reservation,
    ) -> Result<MemoryBreakdown, LoadError> {
        Measurer::new(self, devices).measure(&self.place(devices, spread), options, reservation)
    }

    /// The same with the details of the compute buffers. `passes` receives every tensor's device after each pass.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn measure_traced(
        &self,
        devices: &[Device],
        spread: &LayerSplit,
        options: &ContextParams,
        reservation: Reservation,
        passes: Option<&mut PassTrace>,
    ) -> Result<(MemoryBreakdown, AllocationDetails), LoadError> {
        let measurer = Measurer::new(self, devices).whole();
        let (measured, graphs) = measurer.reserve(&self.place(devices, spread), options, reservation, None, passes)?;
        Ok((measured, measurer.details(graphs)))
    }

    /// A load with the details of the graph of one token per sequence; what is measured is the load's. `passes` receives
    /// every tensor's device after each pass.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn trace_token(
        &self,
        devices: &[Device],
        spread: &LayerSplit,
        options: &ContextParams,
        passes: &mut PassTrace,
    ) -> Result<(MemoryBreakdown, AllocationDetails), LoadError> {
        let measurer = Measurer::new(self, devices).whole();
        let placement = self.place(devices, spread);
        let (measured, mut graphs) = measurer.reserve(&placement, options, Reservation::Loaded, None, None)?;
        measurer.token_graph(&mut graphs, Some(passes))?;
        Ok((measured, measurer.details(graphs)))
    }

    /// Bytes of weights and caches per device, RAM last: a lower bound for any graph.
    pub(super) fn without_graph(&self, placement: &Placement, context: &Cparams, backends: &[BackendRef]) -> Vec<u64> {
        let memory = Memory::new(self, context, placement, None);
        let weights = placement.weights(self, backends);
        weights.into_iter().zip(memory.bytes(backends)).map(|(weights, cache)| weights.bytes + cache).collect()
    }
}
