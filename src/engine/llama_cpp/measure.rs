//! Measures a placement: builds, schedules and allocates graphs, and adds up weights and caches. What `--fit` measures
//! and what a load takes are two [`Reservation`]s of the same graphs.

use super::cache::Memory;
use super::context::{Batch, ContextParams, Cparams, Probe};
use super::draft::Partner;
use super::error::LoadError;
use super::graph::{self, GraphModel};
use super::placement::Placement;
use super::weights::{LlmTensor, TensorSuffix, WeightsInRam};
use super::{Allocated, AllocationDetails, Device, LayerSplit, LoadedModel, MemoryBreakdown, TokenGraph};
use crate::engine::ggml::allocate::{self, Lifetime, Piece};
use crate::engine::ggml::schedule::{PassTrace, Schedule, Scheduler};
use crate::engine::ggml::tensor::{BackendId, Buffer, NO_BACKEND, Op, Tensor};
use crate::engine::ggml::{BackendRef, Graph};
use crate::engine::id::EngineError;
use crate::plan::{AliveKind, AliveTensors, Branch, BufferKind, Peak, Term};
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

/// Measures one model on the same devices.
#[derive(Debug)]
pub struct Measurer<'a> {
    pub model: &'a LoadedModel,
    pub devices: &'a [Device],
    /// The context beside which a draft is made.
    partner: Option<&'a Partner<'a>>,
    before: Before,
    /// The devices' properties, RAM last.
    backends: Vec<BackendRef>,
}

/// The graphs that were measured, with the scheduler's copies.
#[derive(Debug)]
pub struct MeasuredGraphs {
    layout: MeasureLayout,
    /// The devices that the graph code sets were kept.
    pins: bool,
    graph: Graph,
    schedule: Schedule,
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

impl<'a> Measurer<'a> {
    pub fn new(model: &'a LoadedModel, devices: &'a [Device]) -> Self {
        Self { model, devices, partner: None, before: Before::default(), backends: super::backends(devices) }
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
        &self,
        placement: &Placement,
        options: &ContextParams,
        reservation: Reservation,
    ) -> Result<MemoryBreakdown, LoadError> {
        self.reserve(placement, options, reservation, None, None).map(|(measured, _)| measured)
    }

    /// The same with the graphs. `known` are those of the same placement and options if they were measured before;
    /// `passes` receives every tensor's device after each pass.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn reserve(
        &self,
        placement: &Placement,
        options: &ContextParams,
        reservation: Reservation,
        known: Option<MeasuredGraphs>,
        mut passes: Option<&mut PassTrace>,
    ) -> Result<(MemoryBreakdown, MeasuredGraphs), LoadError> {
        let pins = reservation == Reservation::Loaded;
        let mut graphs = match known.filter(|known| known.pins == pins || !known.has_choice()) {
            Some(known) => known,
            None => self.prompt(placement, options, pins, passes.as_deref_mut())?,
        };
        let mut compute = self.allocate(&graphs, None);
        let mut measured = self.measured(&graphs.layout, &compute);
        if !pins {
            return Ok((measured, graphs));
        }
        let is_refused = options.pipeline_refused.unwrap_or_else(|| !self.fits(&measured));
        if graphs.layout.pipeline.is_on() && is_refused {
            let refused = measured.compute;
            graphs.layout.pipeline.buffers_fit = false;
            self.build(&mut graphs, passes)?;
            compute = self.allocate(&graphs, None);
            measured = MemoryBreakdown { refused_pipeline: Some(refused), ..self.measured(&graphs.layout, &compute) };
        }
        if graphs.layout.reserves_token_graph() {
            let token = self.token_graph(&graphs.layout)?;
            for (device, piece) in token.reserved.iter().enumerate() {
                if piece.bytes > measured.compute[device] {
                    measured.compute[device] = piece.bytes;
                    measured.pieces[device][2] = *piece;
                }
            }
            graphs.token = Some(token);
        }
        Ok((measured, graphs))
    }

    /// The caches and their shapes.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn memory(&self, placement: &Placement, options: &ContextParams) -> Result<Memory, LoadError> {
        Ok(self.lay_out(placement, options, &mut Graph::default())?.memory)
    }

    /// Graphs with their details.
    pub fn details(&self, graphs: MeasuredGraphs) -> AllocationDetails {
        let mut lifetimes = Vec::new();
        self.allocate(&graphs, Some(&mut lifetimes));
        let MeasuredGraphs { layout: MeasureLayout { memory, pipeline, .. }, graph, schedule, token, .. } = graphs;
        AllocationDetails { memory, graph, schedule, lifetimes, pipeline, token }
    }

    /// Everything but the graph. `graph` is overwritten.
    fn lay_out(
        &self,
        placement: &Placement,
        options: &ContextParams,
        graph: &mut Graph,
    ) -> Result<MeasureLayout, LoadError> {
        if self.partner.is_none() && self.model.needs_partner() {
            return Err(LoadError::settings(
                "this model only drafts for another one: use it as the draft model of that one",
            ));
        }
        let mut context = Cparams::new(options, self.model)?;
        let memory = Memory::new(self.model, &context, placement, self.partner);
        let probe =
            Probe { model: self.model, placement, memory: &memory, partner: self.partner, backends: &self.backends };
        probe.resolve(&mut context, options, graph)?;
        let pipeline = Pipeline::of(self.devices, placement, &context);
        Ok(MeasureLayout { context, placement: placement.clone(), memory, pipeline })
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
        passes: Option<&mut PassTrace>,
    ) -> Result<MeasuredGraphs, LoadError> {
        let (mut graph, schedule) = (Graph::default(), Schedule::default());
        let layout = self.lay_out(placement, options, &mut graph)?;
        let mut graphs = MeasuredGraphs { layout, pins, graph, schedule, token: None };
        self.build(&mut graphs, passes)?;
        Ok(graphs)
    }

    /// Builds the prompt graph of a layout and schedules it.
    fn build(&self, graphs: &mut MeasuredGraphs, passes: Option<&mut PassTrace>) -> Result<(), LoadError> {
        let MeasuredGraphs { layout, pins, graph, schedule, .. } = graphs;
        self.graph_of(layout, layout.context.reserved(), *pins, (graph, schedule), passes)
    }

    /// Builds the graph of `batch` and schedules it.
    fn graph_of(
        &self,
        layout: &MeasureLayout,
        batch: Batch,
        pins: bool,
        (graph, schedule): (&mut Graph, &mut Schedule),
        mut passes: Option<&mut PassTrace>,
    ) -> Result<(), LoadError> {
        let Self { model, partner, backends, .. } = self;
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
        if let Some(passes) = &mut passes {
            passes.clear();
        }
        scheduler.run(graph, schedule, passes);
        if schedule.overflows {
            return Err(LoadError::settings(
                "this release of llama.cpp ends with an error here: more tensors cross between devices at once than its \
                 scheduler holds: put all layers on one device",
            ));
        }
        Ok(())
    }

    /// What the graph of one token per sequence reserves.
    fn token_graph(&self, layout: &MeasureLayout) -> Result<TokenGraph, LoadError> {
        let (mut graph, mut schedule, mut lifetimes) = Default::default();
        self.graph_of(layout, layout.context.probe(1), true, (&mut graph, &mut schedule), None)?;
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

impl MeasuredGraphs {
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

// The contents of a compute buffer at its peak.

/// Maximum number of operands searched for a label.
const MAX_LABEL_DISTANCE: usize = 6;

/// The peak of the buffer of `bytes` bytes on `place`, the plan's `device`.
pub(super) fn peak(device: usize, place: BackendId, bytes: u64, details: &Allocated<'_>) -> Peak {
    let here = || details.lifetimes.iter().filter(|life| life.place == place);
    // the buffer is as large as the highest end of any tensor
    let farthest = here().max_by_key(|life| (life.offset.saturating_add(life.bytes), std::cmp::Reverse(life.from)));
    let step = farthest.map_or(0, |life| life.from);
    let copied = CopiedSources::of(place, details);
    let mut alive: Vec<AliveKind> = Vec::new();
    for life in here().filter(|life| life.from <= step && step <= life.until && life.bytes > 0) {
        add(&mut alive, life, details.graph, &copied);
    }
    let held: u64 = alive.iter().map(|alive| alive.bytes.0).sum();
    if let Some(rest) = bytes.checked_sub(held).filter(|rest| *rest > 0) {
        alive.push(AliveKind { kind: BufferKind::Fragmentation, bytes: Bytes(rest), tensors: Vec::new() });
    }
    alive.sort_by_key(|alive| std::cmp::Reverse(alive.bytes));
    for kind in &mut alive {
        kind.tensors.sort_by_key(|held| std::cmp::Reverse(held.bytes));
    }
    let node =
        details.schedule.nodes.get(step).map_or_else(String::new, |(id, _)| name(&details.graph[*id], details.graph));
    let steps = details.schedule.nodes.len();
    Peak { device, bytes: Bytes(bytes), node, step: (step + 1).min(steps), steps, alive }
}

/// The peak as terms of a sum.
pub(super) fn branch(name: String, peak: &Peak) -> Branch {
    let term = |alive: &AliveKind| {
        let formula = match alive.tensors.as_slice() {
            [] => "the rest of the buffer".to_owned(),
            [one] if one.count == 1 => format!("{}: {}", one.name, one.shape),
            several => format!("{} tensors", several.iter().map(|held| held.count).sum::<usize>()),
        };
        Term { name: alive.kind.name().to_owned(), numbers: formula.clone(), formula, bytes: alive.bytes }
    };
    Branch { name, bytes: peak.bytes, terms: peak.alive.iter().map(term).collect() }
}

fn add(alive: &mut Vec<AliveKind>, life: &Lifetime, graph: &Graph, copied: &CopiedSources) {
    let tensor = &graph[life.id];
    let (kind, bytes) = (kind(tensor, graph, copied), Bytes(life.bytes));
    let held = AliveTensors { name: name(tensor, graph), shape: shape(tensor), count: 1, bytes };
    let Some(known) = alive.iter_mut().find(|known| known.kind == kind) else {
        alive.push(AliveKind { kind, bytes, tensors: vec![held] });
        return;
    };
    known.bytes += bytes;
    match known.tensors.iter_mut().find(|other| other.name == held.name && other.shape == held.shape) {
        Some(other) => {
            other.count += 1;
            other.bytes += bytes;
        }
        None => known.tensors.push(held),
    }
}

/// The tensor's name in llama.cpp, label and block; for an unnamed one its operation and the nearest label.
fn name(tensor: &Tensor, graph: &Graph) -> String {
    let labelled = |tensor: &Tensor| match tensor.layer {
        block if block >= 0 => format!("{}-{block}", tensor.label),
        _ => tensor.label.to_owned(),
    };
    match nearest_labelled(tensor, graph) {
        Some(_) if !tensor.label.is_empty() => labelled(tensor),
        Some(from) => format!("{} of {}", operation(tensor.op), labelled(from)),
        None => operation(tensor.op).to_owned(),
    }
}

/// The tensor if it has a label, else the nearest first operand with one.
fn nearest_labelled<'g>(tensor: &'g Tensor, graph: &'g Graph) -> Option<&'g Tensor> {
    let first = |tensor: &&Tensor| graph.sources(tensor).next().map(|id| &graph[id]);
    std::iter::successors(Some(tensor), first).take(MAX_LABEL_DISTANCE).find(|tensor| !tensor.label.is_empty())
}

/// `f16 · 32768 × 512`
fn shape(tensor: &Tensor) -> String {
    let last = tensor.ne.iter().rposition(|&length| length > 1).unwrap_or(0);
    let lengths: Vec<String> = tensor.ne.iter().take(last + 1).map(ToString::to_string).collect();
    format!("{} · {}", tensor.ty.name(), lengths.join(" × "))
}

/// Weights and caches copied to a device, by label and block.
struct CopiedSources(Vec<(Buffer, &'static str, i16)>);

impl CopiedSources {
    fn of(place: BackendId, details: &Allocated<'_>) -> Self {
        let splits = details.schedule.splits.iter().filter(|split| split.place == place);
        let inputs = splits.flat_map(|split| details.schedule.inputs(split)).map(|id| &details.graph[*id]);
        let original = |tensor: &Tensor| {
            let owner = tensor.view_of.get().map_or(tensor.buffer, |id| details.graph[id].buffer);
            (owner != Buffer::Unallocated).then_some((owner, tensor.label, tensor.layer))
        };
        Self(inputs.filter_map(original).collect())
    }

    fn kind(&self, copy: &Tensor) -> Option<BufferKind> {
        let (buffer, ..) = self.0.iter().find(|(_, label, block)| (*label, *block) == (copy.label, copy.layer))?;
        match buffer {
            Buffer::Weights(_) => Some(BufferKind::CopiedWeights),
            Buffer::Cache(_) => Some(BufferKind::CopiedCaches),
            Buffer::Unallocated => None,
        }
    }
}

/// Kinds by label prefix; the first match counts.
const LABELS: [(&str, BufferKind); 19] = [
    ("result_output", BufferKind::Logits),
    ("kq_soft_max", BufferKind::Scores),
    ("kqv", BufferKind::Attention),
    ("kq", BufferKind::Scores),
    ("fattn", BufferKind::Attention),
    ("wqkv", BufferKind::Attention),
    ("ffn_moe_logits", BufferKind::Routing),
    ("ffn_moe_probs", BufferKind::Routing),
    ("ffn_moe_topk", BufferKind::Routing),
    ("ffn_moe_weights", BufferKind::Routing),
    ("ffn_moe_argsort", BufferKind::Routing),
    ("ffn_moe_out", BufferKind::Hidden),
    ("ffn_moe", BufferKind::Experts),
    ("ffn_inp", BufferKind::Hidden),
    ("ffn_out", BufferKind::Hidden),
    ("ffn", BufferKind::FeedForward),
    ("delta_net", BufferKind::States),
    ("embd", BufferKind::Hidden),
    ("l_out", BufferKind::Hidden),
];

/// Label parts of inputs.
const INPUTS: [&str; 3] = ["inp_", "out_ids", "rs_s_copy"];

fn kind(tensor: &Tensor, graph: &Graph, copied: &CopiedSources) -> BufferKind {
    if tensor.op == Op::None {
        return match tensor.label {
            label if label.contains("mask") => BufferKind::Masks,
            label if INPUTS.iter().any(|part| label.contains(part)) => BufferKind::Inputs,
            _ => copied.kind(tensor).unwrap_or(BufferKind::SplitInputs),
        };
    }
    // a product starts a new kind; other operations belong to what they operate on
    let subject =
        if matches!(tensor.op, Op::MulMat | Op::MulMatId) { Some(tensor) } else { nearest_labelled(tensor, graph) };
    let label = subject.map_or("", |tensor| tensor.label);
    let labelled = LABELS.iter().find(|(start, _)| label.starts_with(start)).map(|(_, kind)| *kind);
    labelled.unwrap_or(match tensor.op {
        Op::MulMatId | Op::AddId => BufferKind::Experts,
        Op::SoftMax => BufferKind::Scores,
        Op::Rope | Op::RopeBack | Op::FlashAttn => BufferKind::Attention,
        Op::Argsort => BufferKind::Routing,
        Op::SsmConv | Op::SsmScan | Op::GatedDeltaNet => BufferKind::States,
        Op::Norm | Op::RmsNorm => BufferKind::Hidden,
        Op::Glu => BufferKind::FeedForward,
        _ => BufferKind::Intermediates,
    })
}

/// Names of unnamed tensors.
const fn operation(op: Op) -> &'static str {
    match op {
        Op::MulMat => "matrix product",
        Op::MulMatId => "expert matrix product",
        Op::Norm | Op::RmsNorm | Op::L2Norm | Op::GroupNorm => "normalised rows",
        Op::Add | Op::AddId | Op::Sub => "sum",
        Op::Mul | Op::Div | Op::Scale => "product",
        Op::Rope => "rotated queries or keys",
        Op::RopeBack => "attention rotated back",
        Op::SoftMax => "softmax",
        Op::Cont | Op::Cpy | Op::Dup | Op::Concat | Op::Pad | Op::Repeat => "copy in another layout",
        Op::GetRows => "rows looked up",
        Op::Unary | Op::Glu => "activation",
        Op::FlashAttn => "flash attention",
        Op::None => "copy",
        _ => "intermediate tensor",
    }
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
            asynchronous: devices.iter().all(|device| device.backend.pipelines()),
            buffers_fit: true,
        }
    }

    /// Whether all conditions are met.
    pub fn is_on(&self) -> bool {
        self.conditions().iter().all(|(_, met)| *met)
    }

    /// Each condition as text, and whether it is met.
    pub const fn conditions(&self) -> [(&'static str, bool); 6] {
        [
            ("more than one GPU", self.several_gpus),
            ("all layers are on GPU", self.all_layers),
            ("the KV cache is offloaded", self.caches_offloaded),
            ("no tensor overrides", self.nothing_overridden),
            ("all GPUs support async compute", self.asynchronous),
            ("its compute buffers fit", self.buffers_fit),
        ]
    }
}

// The request to llama.cpp after the fit, for the teach screen.

/// A request with all options decided.
#[derive(Clone, Debug)]
pub struct ResolvedRequest {
    /// The model.
    pub loaded: LoadedModel,
    /// The GPUs used, as indices in the machine.
    pub gpus: Vec<usize>,
    /// Their properties and free memory.
    pub devices: Vec<Device>,
    /// Layers per device.
    pub spread: LayerSplit,
    /// llama.cpp's context options.
    pub options: ContextParams,
}

impl ResolvedRequest {
    /// Measures a load of the request with the details of its buffers. `passes` receives every tensor's device after each pass.
    ///
    /// # Errors
    /// When llama.cpp refuses this request.
    pub fn measure_traced(&self, passes: &mut PassTrace) -> Result<(MemoryBreakdown, AllocationDetails), LoadError> {
        self.loaded.measure_traced(&self.devices, &self.spread, &self.options, Reservation::Loaded, Some(passes))
    }

    /// The devices' properties, RAM last.
    pub fn backends(&self) -> Vec<BackendRef> {
        super::backends(&self.devices)
    }

    /// The same with GPU indices of the full machine; `seen` are the indices of the visible GPUs.
    #[must_use]
    pub fn among(mut self, visible: &[usize]) -> Self {
        for gpu in &mut self.gpus {
            *gpu = visible.get(*gpu).copied().unwrap_or(*gpu);
        }
        self
    }
}

// The buffers of a request as llama.cpp's log divides them: weights, KV caches, recurrent states, compute, outputs.

/// The buffers on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBuffers {
    /// Weights.
    pub weights: Bytes,
    /// KV caches.
    pub kv: Bytes,
    /// Recurrent states.
    pub states: Bytes,
    /// Compute buffers.
    pub compute: Bytes,
}

/// The buffers of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestBuffers {
    /// The GPUs used, as indices in the machine.
    pub gpus: Vec<usize>,
    /// Their buffers in that order, then those in RAM.
    pub devices: Vec<DeviceBuffers>,
    /// The weights in RAM by buffers.
    pub in_ram: WeightsInRam,
    /// A checkpoint of every sequence, at most.
    pub checkpoints: Bytes,
    /// Logits of one token per sequence, in RAM; none for a model that computes embeddings only.
    pub outputs: Option<Bytes>,
    /// Layers on GPUs, including the output layer.
    pub offloaded: usize,
    /// Layers, including the output layer.
    pub layers: usize,
    /// Tokens of context over all sequences.
    pub n_ctx: u64,
}

impl ResolvedRequest {
    /// The buffers that llama.cpp would list.
    ///
    /// # Errors
    /// When llama.cpp refuses this request.
    pub fn buffers(&self) -> Result<RequestBuffers, EngineError> {
        Ok(self.measured_buffers()?)
    }

    /// The compute buffers that `--fit` measures for the request: on its GPUs in their order, then in RAM.
    ///
    /// # Errors
    /// When llama.cpp refuses this request.
    pub fn compute_measured(&self) -> Result<Vec<Bytes>, EngineError> {
        let measured = self.loaded.measure(&self.devices, &self.spread, &self.options, Reservation::Measured)?;
        Ok(measured.compute.into_iter().map(Bytes).collect())
    }

    fn measured_buffers(&self) -> Result<RequestBuffers, LoadError> {
        let (measured, details) =
            self.loaded.measure_traced(&self.devices, &self.spread, &self.options, Reservation::Loaded, None)?;
        let states = details.memory.state_bytes(&self.backends());
        let MemoryBreakdown { model, context, compute, parameters, layer_devices, .. } = &measured;
        let devices = (0..model.len()).map(|at| DeviceBuffers {
            weights: Bytes(model[at]),
            kv: Bytes(context[at] - states[at]),
            states: Bytes(states[at]),
            compute: Bytes(compute[at]),
        });
        Ok(RequestBuffers {
            devices: devices.collect(),
            in_ram: measured.in_ram,
            gpus: self.gpus.clone(),
            checkpoints: Bytes(details.memory.checkpoint_bytes(&self.backends())),
            outputs: outputs(&self.loaded, parameters.n_seq_max),
            offloaded: measured.offloaded(),
            layers: layer_devices.len(),
            n_ctx: parameters.n_ctx,
        })
    }
}

/// One row of logits per sequence (`llama_context::output_reserve`, 0.1.161).
fn outputs(model: &LoadedModel, sequences: u64) -> Option<Bytes> {
    let weights = &model.weights;
    let find = |slot| weights.find_global(slot, TensorSuffix::Weight);
    let matrix = find(LlmTensor::Output).or_else(|| find(LlmTensor::TokenEmbd))?;
    let vocabulary = weights.all.get(matrix)?.ne[1];
    model.hparams.causal.then(|| Bytes(vocabulary * 4 * sequences))
}
