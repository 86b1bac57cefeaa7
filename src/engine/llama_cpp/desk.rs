//! Where one model is measured, with many placements: its graphs are kept, and so is the memory that each measurement
//! needs.

use std::sync::Arc;

use super::cache::Memory;
use super::context::{Batch, Context, Options};
use super::courses::{Courses, Scene, Subject};
use super::error::Refusal;
use super::fit::sketch::Extent;
use super::pipeline::Pipeline;
use super::placement::Placement;
use super::probe::Parts;
use super::reservation::Reservation;
use super::tally::Tally;
use super::{Device, Loaded, Measured, Watched, backends};
use crate::engine::ggml::allocate::{self, Scale, Sizes};
use crate::engine::ggml::schedule::{Scheduler, Trace};
use crate::engine::ggml::{Backend, Workbench};
use crate::engine::llama_cpp::graph::{self, Draft, Purpose};

/// Graphs that are kept: what a fit asks for at one of its contexts, its trials included.
const MOST_DRAFTS: usize = 4;

/// A model, and what earlier measurements of it left.
#[derive(Debug)]
pub struct Desk<'m> {
    pub model: &'m Loaded,
    pub bench: Workbench,
    /// The latest last.
    drafts: Vec<Draft>,
    drawn: Vec<Drawn>,
    pub shared: Option<Shared>,
}

/// A graph at one place of a track, as far as it is another than those of its pattern elsewhere.
#[derive(Debug)]
pub struct Drawn {
    purpose: Purpose,
    backends: Vec<Backend>,
    /// Which of those that are known.
    pattern: usize,
    /// How large its tensors are.
    sizes: Arc<Sizes>,
    scale: Option<Arc<Scale>>,
}

/// What is shared with others who measure the model elsewhere on a knob's track.
#[derive(Clone, Debug)]
pub struct Shared {
    pub courses: Arc<Courses>,
    /// The place on the track.
    pub at: Extent,
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
        Self { model, bench: Workbench::default(), drafts: Vec::new(), drawn: Vec::new(), shared: None }
    }

    /// The same for those who share what they find out.
    pub fn sharing(model: &'m Loaded, shared: Shared) -> Self {
        let (drawn, bench) = shared.courses.left_at(shared.at);
        Self { model, bench, drafts: Vec::new(), drawn, shared: Some(shared) }
    }

    /// The graph for `batch`. [`Self::keep`] takes it back.
    ///
    /// # Errors
    /// When the file lacks a tensor that its architecture needs.
    pub fn draft(
        &mut self,
        context: &Context,
        batch: Batch,
        memory: &Memory,
        backends: &[Backend],
    ) -> Result<Draft, Refusal> {
        let is_kept = |kept: &Draft| kept.backends == backends && kept.purpose.is_that(context, batch, memory);
        if let Some(at) = self.drafts.iter().position(is_kept) {
            return Ok(self.drafts.remove(at));
        }
        let room = if self.drafts.len() < MOST_DRAFTS { None } else { Some(self.drafts.remove(0).into_room()) };
        let mut draft = graph::draft(self.model, context, batch, memory, room.unwrap_or_default())?;
        draft.backends = backends.to_vec();
        Ok(draft)
    }

    /// Takes back a graph as [`Self::draft`] gave it.
    pub fn keep(&mut self, draft: Draft) {
        self.drafts.push(draft);
    }

    /// Everything but the graph.
    pub fn lay_out(&mut self, devices: &[Device], placement: &Placement, options: &Options) -> Result<Layout, Refusal> {
        let Loaded { release, family, hparams, .. } = self.model;
        let mut context = Context::new(options, hparams, release)?;
        let placement = placement.clone();
        let backends = backends(devices);
        let memory = Memory::new(hparams, family.architecture, &context, &placement);
        Parts { placement: &placement, memory: &memory, backends: &backends }.resolve(&mut context, options, self)?;
        Ok(Layout { context, placement, memory, backends })
    }

    /// What llama.cpp allocates on `devices` and in RAM.
    pub fn measure(
        &mut self,
        devices: &[Device],
        placement: &Placement,
        options: &Options,
    ) -> Result<Measured, Refusal> {
        let (layout, reservation) = self.reserve(devices, placement, options)?;
        Ok(layout.measured(self.model, reservation.bytes()).0)
    }

    /// The graph's part of that, for those who ask device by device, and everything else that matters to it. What it takes
    /// to tell is then known for others, too.
    pub fn reserve(
        &mut self,
        devices: &[Device],
        placement: &Placement,
        options: &Options,
    ) -> Result<(Layout, Reservation), Refusal> {
        let layout = self.lay_out(devices, placement, options)?;
        let reservation = match self.shared.clone() {
            Some(shared) => self.reserve_as_known(devices, &layout, &shared)?,
            None => self.reserve_alone(devices, &layout)?,
        };
        Ok((layout, reservation))
    }

    fn reserve_alone(&mut self, devices: &[Device], layout: &Layout) -> Result<Reservation, Refusal> {
        let (scheduler, _) = layout.scheduler(self.model, devices);
        let mut draft = self.draft(&layout.context, layout.context.reserved(), &layout.memory, &layout.backends)?;
        let course = draft.course(&scheduler, &layout.placement, &mut self.bench);
        let sizes = || Arc::new(Sizes::of(&draft.graph, &layout.backends));
        let scale = Arc::clone(draft.scale.get_or_insert_with(|| Arc::new(Scale::new(sizes(), None))));
        self.keep(draft);
        Ok(Reservation::new(Arc::new(course), scale, None))
    }

    /// By what is known of graphs of the same pattern, at other places of the track too.
    fn reserve_as_known(
        &mut self,
        devices: &[Device],
        layout: &Layout,
        Shared { courses, at }: &Shared,
    ) -> Result<Reservation, Refusal> {
        let (scheduler, _) = layout.scheduler(self.model, devices);
        let which = self.draw(layout, courses)?;
        let Self { model, bench, drawn, .. } = self;
        let drawn = &mut drawn[which];
        let subject =
            Subject { pattern: drawn.pattern, placement: layout.placement.clone(), pipeline: scheduler.pipeline };
        let course = if let Some(course) = courses.course(&subject) {
            course
        } else {
            let draft = || layout.draft(model, courses);
            let find_out = |scene: &mut Scene| scene.course(&scheduler, &layout.placement, bench);
            courses.note_course(subject, courses.on_scene(drawn.pattern, draft, find_out)?)
        };
        let (there, sizes) = courses.note_sizes(drawn.pattern, *at, &drawn.sizes).unzip();
        Ok(Reservation::new(course, drawn.scale(sizes), there))
    }

    /// Which of those that were drawn here the graph is; it is drawn where nobody has.
    fn draw(&mut self, layout: &Layout, courses: &Courses) -> Result<usize, Refusal> {
        let Layout { context, memory, backends, .. } = layout;
        let batch = context.reserved();
        let is_it = |drawn: &Drawn| drawn.backends == *backends && drawn.purpose.is_that(context, batch, memory);
        if let Some(which) = self.drawn.iter().position(is_it) {
            return Ok(which);
        }
        let draft = layout.draft(self.model, courses)?;
        let (purpose, sizes) = (draft.purpose.clone(), Arc::new(Sizes::of(&draft.graph, backends)));
        let pattern = courses.pattern(backends, draft);
        self.drawn.push(Drawn { purpose, backends: backends.clone(), pattern, sizes, scale: None });
        Ok(self.drawn.len() - 1)
    }

    /// The same, and how the compute buffers came about. `passes` receives every tensor's device after each pass.
    pub fn watch(
        &mut self,
        devices: &[Device],
        placement: &Placement,
        options: &Options,
        passes: Option<&mut Trace>,
    ) -> Result<(Measured, Watched), Refusal> {
        let layout = self.lay_out(devices, placement, options)?;
        let mut draft = self.draft(&layout.context, layout.context.reserved(), &layout.memory, &layout.backends)?;
        draft.settle(&layout.placement, |_| {});
        draft.make_ready();
        let Draft { mut graph, claims, .. } = draft;
        let (scheduler, pipeline) = layout.scheduler(self.model, devices);
        let schedule = scheduler.run(&mut graph, &mut self.bench, passes);
        let (compute, lifetimes) = allocate::watch(&graph, &claims, &schedule, &layout.backends, &mut self.bench);
        let (measured, memory) = layout.measured(self.model, compute);
        Ok((measured, Watched { memory, graph, schedule, lifetimes, pipeline }))
    }
}

impl Drop for Desk<'_> {
    fn drop(&mut self) {
        if let Some(Shared { courses, at }) = &self.shared {
            courses.leave_at(*at, std::mem::take(&mut self.drawn), std::mem::take(&mut self.bench));
        }
    }
}

impl Drawn {
    /// How large its tensors are, and elsewhere, if that is known.
    fn scale(&mut self, elsewhere: Option<Arc<Sizes>>) -> Arc<Scale> {
        let known = self.scale.take().filter(|scale| scale.is_towards(elsewhere.as_ref()));
        let scale = known.unwrap_or_else(|| Arc::new(Scale::new(Arc::clone(&self.sizes), elsewhere)));
        Arc::clone(self.scale.insert(scale))
    }
}

impl Layout {
    /// The graph, in memory that nobody needs any more.
    fn draft(&self, model: &Loaded, courses: &Courses) -> Result<Draft, Refusal> {
        graph::draft(model, &self.context, self.context.reserved(), &self.memory, courses.room())
    }

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
            model: Tally::of(model, &backends).weights(model, &placement),
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
    use std::sync::LazyLock;

    use super::*;
    use crate::engine::llama_cpp::Spread;
    use crate::engine::llama_cpp::placement::{Overflow, Part};
    use crate::gguf::FileType;
    use crate::settings::{FlashAttn, Release};
    use crate::source::catalogue;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

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

    /// One model of each architecture.
    fn models(release: Release) -> Vec<Loaded> {
        let mut seen = HashSet::new();
        let models = catalogue::all().iter().filter_map(|entry| {
            let model = entry.model(FileType::Q4KM).ok()?;
            let loaded = Loaded::new(&model.header, release).ok()?;
            seen.insert(model.architecture).then_some(loaded)
        });
        let models: Vec<Loaded> = models.collect();
        assert!(models.len() > 20, "{} architectures", models.len());
        models
    }

    fn gpus() -> Vec<Device> {
        vec![Device { backend: Backend::CUDA, free: 1 << 34 }; 2]
    }

    /// What was measured before leaves no trace, and there are more contexts than graphs are kept.
    #[test]
    fn kept_graphs_tell_what_new_ones_do() {
        for loaded in models(Release::default()) {
            let mut desk = Desk::new(&loaded);
            let contexts = [4096, 8192, 8192, 512, 16_384, 4096];
            for (spread, n_ctx) in spreads(loaded.hparams.n_layer_all).iter().zip(contexts) {
                let options = Options { n_ctx, n_seq_max: 2, ..Options::default() };
                let fresh = loaded.measure(&gpus(), spread, &options);
                let placement = loaded.place(&gpus(), spread);
                let mut kept = || desk.measure(&gpus(), &placement, &options);
                assert_eq!(kept(), fresh, "{:?} {spread:?}", loaded.family);
                assert_eq!(kept(), fresh, "{:?} again", loaded.family);
            }
            assert!(desk.drafts.len() <= MOST_DRAFTS);
        }
    }

    /// What was found out at one place of a track is right at all others, whatever else differs there.
    #[test]
    fn courses_are_the_same_all_along_a_track() {
        let options = [
            Options { n_ctx: 4096, ..Options::default() },
            Options { n_ctx: 65_536, ..Options::default() },
            Options { n_ctx: 65_536, flash_attn: FlashAttn::Off, ..Options::default() },
            Options { n_ctx: 512, n_ubatch: 8, n_seq_max: 4, ..Options::default() },
            Options { n_ctx: 24_576, n_seq_max: 3, ..Options::default() },
        ];
        for loaded in models(Release::default()) {
            let courses = Arc::new(Courses::default());
            for options in &options {
                let at = Extent::of_context(options.n_ctx);
                let mut desk = Desk::sharing(&loaded, Shared { courses: Arc::clone(&courses), at });
                for spread in &spreads(loaded.hparams.n_layer_all) {
                    // other devices see the same graphs, and have other patterns
                    for gpus in [&gpus()[..], &gpus()[..1]] {
                        let placement = loaded.place(gpus, spread);
                        let shared = desk.measure(gpus, &placement, options);
                        let fresh = loaded.measure(gpus, spread, options);
                        assert_eq!(shared, fresh, "{:?} {options:?} {spread:?} {}", loaded.family, gpus.len());
                    }
                }
                courses.next_turn();
            }
        }
    }

    /// What one question of a series is about: layers on GPUs, the GPUs' shares, and what of which blocks is in RAM.
    fn spread() -> impl Strategy<Value = (Index, Vec<u8>, (usize, Index, Index))> {
        (any::<Index>(), vec(1..9_u8, 4), (0..Part::ALL.len(), any::<Index>(), any::<Index>()))
    }

    fn options() -> impl Strategy<Value = Options> {
        let sizes = (8..17_u32, 1..4_u64, 0..10_u32);
        (sizes, any::<[bool; 5]>()).prop_map(
            |((context, n_seq_max, ubatch), [fa, offload_kqv, op_offload, swa, unified])| {
                let flash_attn = if fa { FlashAttn::Auto } else { FlashAttn::Off };
                let (n_ctx, n_ubatch) = (1 << context, 1 << ubatch);
                let of_caches = Options { offload_kqv, swa_full: swa, kv_unified: unified, ..Options::default() };
                Options { n_ctx, n_ubatch, n_seq_max, flash_attn, op_offload, ..of_caches }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// What is found out section by section, and looked up where it comes again, is what a walk through all of a graph
        /// finds, whatever was asked before.
        #[test]
        fn sections_find_what_a_whole_walk_does(
            which in any::<Index>(),
            is_older in any::<bool>(),
            backends in vec(prop::sample::select(vec![Backend::CUDA, Backend::VULKAN, Backend::METAL]), 1..5),
            all in vec((spread(), options()), 2..6),
        ) {
            static MODELS: LazyLock<[Vec<Loaded>; 2]> = LazyLock::new(|| Release::ALL.map(models));
            let loaded = which.get(&MODELS[usize::from(is_older)]);
            let blocks = loaded.hparams.n_layer_all;
            let gpus: Vec<Device> = backends.into_iter().map(|backend| Device { backend, free: 1 << 34 }).collect();
            let shared = Shared { courses: Arc::default(), at: Extent::of_context(1) };
            let mut desk = Desk::sharing(loaded, shared);
            for ((layers, shares, (part, from, to)), options) in all {
                let overflow = |block| Overflow { block, part: Part::ALL[part], gpu: None };
                let spread = Spread {
                    gpu_layers: Some(layers.index(blocks + 2) as u64),
                    tensor_split: gpus.iter().zip(shares).map(|(_, share)| f32::from(share)).collect(),
                    overrides: (from.index(blocks)..to.index(blocks)).map(overflow).collect(),
                };
                let placement = loaded.place(&gpus, &spread);
                let by_sections = desk.measure(&gpus, &placement, &options);
                let alone = Desk::new(loaded).measure(&gpus, &placement, &options);
                prop_assert_eq!(&by_sections, &alone, "{:?} {:?} {:?}", loaded.family, options, spread);
                let watched = Desk::new(loaded).watch(&gpus, &placement, &options, Some(&mut Trace::new()));
                prop_assert_eq!(alone, watched.map(|(measured, _)| measured), "{:?} {:?} {:?}", loaded.family, options, spread);
            }
        }
    }

    /// As far as it reaches, a trend tells what is measured elsewhere; and most reach somewhere.
    #[test]
    fn trends_tell_what_is_reserved_as_far_as_they_reach() {
        let (mut told, mut asked) = (0, 0);
        for loaded in models(Release::default()) {
            let courses = Arc::new(Courses::default());
            let placement = loaded.place(&gpus(), &Spread::default());
            let reserve = |n_ctx: u64| {
                let shared = Shared { courses: Arc::clone(&courses), at: Extent::of_context(n_ctx) };
                let options = Options { n_ctx, ..Options::default() };
                let reserved = Desk::sharing(&loaded, shared).reserve(&gpus(), &placement, &options);
                courses.next_turn();
                reserved.ok().map(|(_, reservation)| reservation)
            };
            // windows and chunks of attention are smaller than any of these contexts
            let Some(first) = reserve(16_384) else { continue };
            assert!(first.on(0).trend.is_none());
            for n_ctx in [65_536, 131_072] {
                let (near, here) = (reserve(n_ctx).unwrap(), Extent::of_context(n_ctx));
                for elsewhere in [32_768, 40_960, 196_608] {
                    let measured = reserve(elsewhere).unwrap();
                    for device in 0..=gpus().len() {
                        let (there, trend) = near.on(device).trend.unwrap();
                        let part = Extent::of_context(elsewhere).part_of(here, there);
                        asked += 1;
                        if trend.reaches(part) {
                            told += 1;
                            let bytes = measured.on(device).bytes;
                            assert!(trend.at(part).abs_diff(bytes) <= 128, "{:?} {elsewhere}", loaded.family);
                        }
                    }
                }
            }
        }
        assert!(told > asked / 2, "{told} of {asked}");
    }
}
