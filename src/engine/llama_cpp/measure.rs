//! Measures a placement: builds, schedules and allocates the graph, and adds up weights and caches.

use super::cache::Memory;
use super::context::{ContextParams, Cparams};
use super::error::LoadError;
use super::graph::{self, GraphModel};
use super::partner::Partner;
use super::pipeline::Pipeline;
use super::placement::Placement;
use super::probe::Probe;
use super::{AllocationDetails, Device, LoadedModel, MemoryBreakdown};
use crate::engine::ggml::allocate::{self, Piece};
use crate::engine::ggml::schedule::{PassTrace, Schedule, Scheduler};
use crate::engine::ggml::tensor::{Buffer, Tensor};
use crate::engine::ggml::{BackendRef, Graph};
use crate::units::Bytes;

/// Measures one model on the same devices repeatedly, reusing its buffers.
#[derive(Debug)]
pub struct Measurer<'a> {
    pub model: &'a LoadedModel,
    pub devices: &'a [Device],
    /// The context beside which a draft is made.
    partner: Option<&'a Partner<'a>>,
    /// The devices' properties, RAM last.
    backends: Vec<BackendRef>,
    /// The last measured graph, with the scheduler's copies.
    graph: Graph,
    schedule: Schedule,
    latest: Option<(ContextParams, MeasureLayout)>,
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
        let (graph, schedule, latest) = Default::default();
        Self { model, devices, partner: None, backends: super::backends(devices), graph, schedule, latest }
    }

    /// The same for a draft beside `partner`.
    #[must_use]
    pub fn beside(self, partner: &'a Partner<'a>) -> Self {
        Self { partner: Some(partner), ..self }
    }

    /// Measures what llama.cpp allocates on the devices and in RAM.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn measure(&mut self, placement: &Placement, options: &ContextParams) -> Result<MemoryBreakdown, LoadError> {
        let layout = self.schedule(placement, options, None)?;
        let compute = allocate::reserve(&self.graph, &self.schedule, &self.backends, None);
        let measured = self.measured(&layout, &compute);
        self.latest = Some((options.clone(), layout));
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
        passes: Option<&mut PassTrace>,
    ) -> Result<(MemoryBreakdown, AllocationDetails), LoadError> {
        let is_same = |latest: &(ContextParams, MeasureLayout)| {
            passes.is_none() && latest.0 == *options && latest.1.placement == *placement
        };
        let layout = match self.latest.take().filter(is_same) {
            Some((_, layout)) => layout,
            None => self.schedule(placement, options, passes)?,
        };
        let mut lifetimes = Vec::new();
        let compute = allocate::reserve(&self.graph, &self.schedule, &self.backends, Some(&mut lifetimes));
        let measured = self.measured(&layout, &compute);
        let Self { graph, schedule, .. } = self;
        let MeasureLayout { memory, pipeline, .. } = layout;
        Ok((measured, AllocationDetails { memory, graph, schedule, lifetimes, pipeline }))
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

    /// Builds the worst-case graph and schedules it.
    fn schedule(
        &mut self,
        placement: &Placement,
        options: &ContextParams,
        passes: Option<&mut PassTrace>,
    ) -> Result<MeasureLayout, LoadError> {
        self.latest = None;
        let layout = self.lay_out(placement, options)?;
        let Self { model, partner, backends, graph, schedule, .. } = self;
        let MeasureLayout { context, memory, pipeline, .. } = &layout;
        let loaded = GraphModel { model, placement, memory, partner: *partner };
        graph::build(&loaded, context, context.reserved(), graph)?;
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
            pins: false,
            rules: model.release.rules,
        };
        scheduler.run(graph, schedule, passes);
        if schedule.overflows {
            return Err(LoadError::settings(
                "this release of llama.cpp ends with an error here: more tensors cross between devices at once than its \
                 scheduler holds: put all layers on one device"
                    .to_owned(),
            ));
        }
        Ok(layout)
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
            in_ram: placement.in_ram(self.model),
        }
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
