//! Where one model is measured, with many placements: its graphs are kept, and so is the memory that each measurement
//! needs.

use super::cache::Memory;
use super::context::{Batch, Context, Options};
use super::error::Refusal;
use super::pipeline::Pipeline;
use super::placement::Placement;
use super::probe::Parts;
use super::{Device, Loaded, Measured, Spread, Watched, backends};
use crate::engine::ggml::allocate;
use crate::engine::ggml::families::{self, Draft};
use crate::engine::ggml::schedule::{Scheduler, Trace};
use crate::engine::ggml::{Backend, Workbench};

/// Graphs that are kept: what a fit asks for at one of its contexts, its trials included.
const MOST_DRAFTS: usize = 4;

/// A model, and what earlier measurements of it left.
#[derive(Debug)]
pub struct Desk<'m> {
    pub model: &'m Loaded,
    pub bench: Workbench,
    /// The latest last.
    drafts: Vec<Draft>,
}

/// Where weights and caches are, by which parameters.
pub struct Layout {
    pub context: Context,
    pub placement: Placement,
    pub memory: Memory,
    pub backends: Vec<Backend>,
}

impl<'m> Desk<'m> {
    pub fn new(model: &'m Loaded) -> Self {
        Self { model, bench: Workbench::default(), drafts: Vec::new() }
    }

    /// The graph for `batch` under `placement`. [`Self::keep`] takes it back.
    ///
    /// # Errors
    /// When the file lacks a tensor that its architecture needs.
    pub fn draft(
        &mut self,
        context: &Context,
        batch: Batch,
        placement: &Placement,
        memory: &Memory,
    ) -> Result<Draft, Refusal> {
        let mut draft = if let Some(at) = self.drafts.iter().position(|kept| kept.is_for(context, batch, memory)) {
            self.drafts.remove(at)
        } else {
            let room = if self.drafts.len() < MOST_DRAFTS { None } else { Some(self.drafts.remove(0).into_room()) };
            families::draft(self.model, context, batch, memory, room.unwrap_or_default())?
        };
        draft.settle(placement);
        Ok(draft)
    }

    /// Takes back a graph as [`Self::draft`] gave it.
    pub fn keep(&mut self, draft: Draft) {
        self.drafts.push(draft);
    }

    /// Everything but the graph.
    pub fn lay_out(&mut self, devices: &[Device], spread: &Spread, options: &Options) -> Result<Layout, Refusal> {
        let Loaded { release, family, hparams, .. } = self.model;
        let mut context = Context::new(options, hparams, release)?;
        let placement = self.model.place(devices, spread);
        let backends = backends(devices);
        let memory = Memory::new(hparams, family.architecture, &context, &placement);
        Parts { placement: &placement, memory: &memory, backends: &backends }.resolve(&mut context, options, self)?;
        Ok(Layout { context, placement, memory, backends })
    }

    /// What llama.cpp allocates on `devices` and in RAM.
    pub fn measure(&mut self, devices: &[Device], spread: &Spread, options: &Options) -> Result<Measured, Refusal> {
        let layout = self.lay_out(devices, spread, options)?;
        let mut draft = self.draft(&layout.context, layout.context.reserved(), &layout.placement, &layout.memory)?;
        let (scheduler, _) = layout.scheduler(self.model, devices);
        let schedule = scheduler.run(&mut draft.graph, &mut self.bench, None);
        let compute =
            allocate::reserve(&draft.graph, &draft.claims, &schedule, &layout.backends, &mut self.bench, None);
        draft.restore(&schedule);
        self.keep(draft);
        self.bench.take_schedule(schedule);
        Ok(layout.measured(self.model, compute).0)
    }

    /// The same, and how the compute buffers came about. `passes` receives every tensor's device after each pass.
    pub fn watch(
        &mut self,
        devices: &[Device],
        spread: &Spread,
        options: &Options,
        passes: Option<&mut Trace>,
    ) -> Result<(Measured, Watched), Refusal> {
        let layout = self.lay_out(devices, spread, options)?;
        let draft = self.draft(&layout.context, layout.context.reserved(), &layout.placement, &layout.memory)?;
        let Draft { mut graph, claims, .. } = draft;
        let (scheduler, pipeline) = layout.scheduler(self.model, devices);
        let schedule = scheduler.run(&mut graph, &mut self.bench, passes);
        let mut lifetimes = Vec::new();
        let compute =
            allocate::reserve(&graph, &claims, &schedule, &layout.backends, &mut self.bench, Some(&mut lifetimes));
        let (measured, memory) = layout.measured(self.model, compute);
        Ok((measured, Watched { memory, graph, schedule, lifetimes, pipeline }))
    }
}

impl Layout {
    fn scheduler(&self, model: &Loaded, devices: &[Device]) -> (Scheduler<'_>, Pipeline) {
        let pipeline = Pipeline::of(devices, &self.placement, &self.context);
        let scheduler = Scheduler {
            backends: &self.backends,
            op_offload: self.context.op_offload,
            pipeline: pipeline.is_on(),
            pins: false,
            rules: model.release.rules,
        };
        (scheduler, pipeline)
    }

    fn measured(self, model: &Loaded, compute: Vec<u64>) -> (Measured, Memory) {
        let Self { context, placement, memory, backends } = self;
        let measured = Measured {
            model: placement.weights(model, &backends),
            context: memory.bytes(&backends),
            compute,
            parameters: context,
            homes: placement.homes(),
        };
        (measured, memory)
    }
}

#[cfg(all(test, feature = "source"))]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::engine::llama_cpp::placement::{Overflow, Part};
    use crate::engine::llama_cpp::release::Release;
    use crate::gguf::FileType;
    use crate::source::catalogue;

    /// Layers here and there, with experts elsewhere, on devices that work as a pipeline and on some that do not.
    fn spreads(blocks: usize) -> Vec<Spread> {
        let experts = |gpu| (0..blocks).step_by(2).map(move |block| Overflow { block, part: Part::Experts, gpu });
        let layers = |n| Spread { gpu_layers: Some(n), ..Spread::default() };
        vec![
            Spread::default(),
            layers(blocks as u64 / 2),
            Spread { tensor_split: vec![1.0, 3.0], ..Spread::default() },
            Spread { overrides: experts(None).collect(), ..Spread::default() },
            Spread { overrides: experts(Some(1)).collect(), ..layers(blocks as u64 - 1) },
            layers(0),
        ]
    }

    /// One model of each architecture: what was measured before leaves no trace, and there are more contexts than graphs
    /// are kept.
    #[test]
    fn kept_graphs_tell_what_new_ones_do() {
        let mut seen = HashSet::new();
        for entry in catalogue::all() {
            let Ok(model) = entry.model(FileType::Q4KM) else { continue };
            let Ok(loaded) = Loaded::new(&model.header, Release::default()) else { continue };
            if !seen.insert(model.architecture.clone()) {
                continue;
            }
            let devices = vec![Device { backend: Backend::CUDA, free: 1 << 34 }; 2];
            let mut desk = Desk::new(&loaded);
            let contexts = [4096, 8192, 8192, 512, 16_384, 4096];
            for (spread, n_ctx) in spreads(loaded.hparams.n_layer_all).iter().zip(contexts) {
                let options = Options { n_ctx, n_seq_max: 2, ..Options::default() };
                let fresh = loaded.measure(&devices, spread, &options);
                assert_eq!(desk.measure(&devices, spread, &options), fresh, "{} {spread:?}", model.architecture);
                assert_eq!(desk.measure(&devices, spread, &options), fresh, "{} again", model.architecture);
            }
            assert!(desk.drafts.len() <= MOST_DRAFTS);
        }
        assert!(seen.len() > 20, "{} architectures", seen.len());
    }
}
