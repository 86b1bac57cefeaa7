//! Measures an encoder: its weights, and the compute buffers after the load and after a larger input
//! (`clip_model_loader::warmup` and `reserve_compute_meta` in `clip.cpp`, 0.1.161).

use std::sync::Arc;

use super::hparams::ClipHparams;
use super::image::{ImageLimits, MAX_FRAMES, TokenOptions, check_image};
use super::kind::Trait;
use super::{Encoder, LoadedProjector, Modality, graph};
use crate::engine::error::EngineError;
use crate::engine::ggml::backend::Cpu;
use crate::engine::ggml::schedule::{Schedule, Scheduler};
use crate::engine::ggml::tensor::{BackendId, Op};
use crate::engine::ggml::{BackendRef, Graph, allocate};
use crate::engine::llama_cpp::built_blocks::{BlockStarts, BuiltBlocks};
use crate::engine::llama_cpp::error::LoadError;
use crate::engine::llama_cpp::release::{ClipRules, ReleaseTraits};
use crate::machine::Machine;
use crate::model::Projector;
use crate::plan::{Part, PartKind, PartMemory};
use crate::settings::{FlashAttn, MmprojDevice, Settings};
use crate::units::Bytes;

/// Frames of the audio for which memory is reserved (`clip_hparams::warmup_audio_size`).
const DUMMY_FRAMES: u64 = 3000;

/// Options of a projector.
#[derive(Clone, Debug)]
pub struct ProjectorOptions {
    /// The device that holds it; none for the CPU.
    pub device: Option<BackendRef>,
    /// Flash attention; `auto` is on if the device can.
    pub flash_attn: FlashAttn,
    /// The limits of an image's tokens.
    pub tokens: TokenOptions,
    /// Memory is reserved while loading; otherwise with the first input.
    pub warmup: bool,
}

impl Default for ProjectorOptions {
    fn default() -> Self {
        Self { device: None, flash_attn: FlashAttn::Auto, tokens: TokenOptions::default(), warmup: true }
    }
}

/// What an encoder reads at once: images as they are after resizing, or audio as frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Images of one size, in pixels.
    Image {
        /// Pixels per row.
        width: u64,
        /// Rows.
        height: u64,
        /// Images encoded together.
        batch: u64,
    },
    /// Audio.
    Audio {
        /// Frames: columns of the spectrogram, or of raw samples.
        frames: u64,
    },
}

impl Input {
    /// The input tensor's width, height and batch.
    pub(super) const fn shape(self, hparams: &ClipHparams) -> (u64, u64, u64) {
        match self {
            Self::Image { width, height, batch } => (width, height, batch),
            Self::Audio { frames } => (frames, hparams.n_mel_bins, 1),
        }
    }

    fn check(self, encoder: &Encoder, rules: &ClipRules) -> Result<(), LoadError> {
        let refuse = |why: String| Err(LoadError::settings(why));
        match (self, encoder.modality) {
            (Self::Image { width, height, batch }, Modality::Vision) => {
                check_image(&encoder.hparams, width, height)?;
                if batch == 0 || batch > 64 || (batch > 1 && !(rules.batches && encoder.encodes_batches())) {
                    return refuse(format!("this projector cannot encode {batch} images together"));
                }
                Ok(())
            }
            (Self::Audio { frames }, Modality::Audio) if (1..=MAX_FRAMES).contains(&frames) => Ok(()),
            (Self::Audio { frames }, Modality::Audio) => {
                refuse(format!("audio of {frames} frames is not supported: 1 to {MAX_FRAMES} are"))
            }
            _ => refuse(format!("the projector's {} encoder does not read this", encoder.modality.name())),
        }
    }
}

/// What an encoder takes. Lists are per device: its own, then the CPU if that is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncoderMemory {
    /// What it reads.
    pub modality: Modality,
    /// Bytes of its weights, all on its own device.
    pub weights: u64,
    /// Bytes of the tensors, without padding between them.
    pub tensor_bytes: u64,
    /// Bytes of the compute buffers after the load; empty if nothing is reserved then.
    pub compute: Vec<u64>,
    /// The same after a larger input, if there is one.
    pub grown: Option<Vec<u64>>,
    /// What the buffers are reserved for.
    pub dummy: Input,
    /// Tokens of that.
    pub n_tokens: u64,
    /// Most tokens of an image; none if there is no limit.
    pub n_tokens_max: Option<u64>,
    /// Elements of a token.
    pub n_embd: u64,
    /// Whether flash attention is used.
    pub flash_attn: bool,
}

impl EncoderMemory {
    /// The part of a plan that it is.
    const fn kind(&self) -> PartKind {
        match self.modality {
            Modality::Vision => PartKind::Vision,
            Modality::Audio => PartKind::Audio,
        }
    }

    /// Bytes per device that the fit adds to its margins: as after the load (`clip_get_mem_usage`).
    pub fn fit_bytes(&self) -> Vec<u64> {
        let mut bytes = self.compute.clone();
        match bytes.first_mut() {
            Some(own) => *own += self.tensor_bytes,
            None => bytes.push(self.tensor_bytes),
        }
        bytes
    }
}

impl LoadedProjector {
    /// Measures all encoders. `then` is a later input, for those that read it.
    ///
    /// # Errors
    /// When clip refuses the options, or the tensors of the file do not fit together.
    pub fn measure(
        &self,
        release: &'static ReleaseTraits,
        options: &ProjectorOptions,
        then: Option<Input>,
    ) -> Result<Vec<EncoderMemory>, LoadError> {
        self.encoders.iter().map(|encoder| encoder.measure(release, options, then)).collect()
    }
}

impl Encoder {
    /// Measures the encoder; `then` is a later input, if it reads that.
    ///
    /// # Errors
    /// As [`LoadedProjector::measure`].
    pub fn measure(
        &self,
        release: &'static ReleaseTraits,
        options: &ProjectorOptions,
        then: Option<Input>,
    ) -> Result<EncoderMemory, LoadError> {
        Measurer::new(self, release, options)?.measure(then)
    }

    /// The graph of `input`, before it is assigned to devices.
    ///
    /// # Errors
    /// When the encoder does not read this, or the tensors of the file do not fit together.
    pub fn graph(&self, release: &ReleaseTraits, input: Input, flash_attn: bool) -> Result<Graph, LoadError> {
        input.check(self, &release.clip)?;
        let mut graph = Graph::default();
        let all: Vec<usize> = (0..self.hparams.n_layer).collect();
        graph::build(self, input, flash_attn, release, &all, &mut graph)?;
        graph::check_nodes(graph.nodes.len())?;
        Ok(graph)
    }
}

/// Measures one encoder, reusing its buffers.
struct Measurer<'a> {
    encoder: &'a Encoder,
    release: &'static ReleaseTraits,
    options: &'a ProjectorOptions,
    limits: Option<ImageLimits>,
    backends: Vec<BackendRef>,
    graph: Graph,
    schedule: Schedule,
    /// The blocks that the graph has, which stand for all.
    built: BuiltBlocks,
    /// Bytes of the buffers, which never shrink.
    compute: Vec<u64>,
    flash_attn: FlashAttn,
}

impl<'a> Measurer<'a> {
    fn new(
        encoder: &'a Encoder,
        release: &'static ReleaseTraits,
        options: &'a ProjectorOptions,
    ) -> Result<Self, LoadError> {
        let limits = match encoder.modality {
            Modality::Vision => Some(encoder.limits(options.tokens, &release.clip)?),
            Modality::Audio => None,
        };
        let cpu: BackendRef = Arc::new(Cpu::default());
        let backends: Vec<BackendRef> = options.device.iter().cloned().chain([cpu]).collect();
        let (graph, schedule, compute) = Default::default();
        let (flash_attn, built) = (options.flash_attn, BuiltBlocks::of_traits(encoder.block_traits()));
        Ok(Self { encoder, release, options, limits, backends, graph, schedule, built, compute, flash_attn })
    }

    fn dummy(&self) -> Input {
        match self.limits {
            Some(ImageLimits { dummy_side: side, .. }) => Input::Image { width: side, height: side, batch: 1 },
            None => Input::Audio { frames: DUMMY_FRAMES },
        }
    }

    fn measure(mut self, then: Option<Input>) -> Result<EncoderMemory, LoadError> {
        let Encoder { modality, weights, .. } = self.encoder;
        let dummy = self.dummy();
        dummy.check(self.encoder, &self.release.clip)?;
        if self.options.warmup {
            self.reserve_first(dummy)?;
        }
        let compute = self.compute.clone();
        let then = then.filter(|input| matches!(input, Input::Image { .. }) == (*modality == Modality::Vision));
        if let Some(input) = then {
            input.check(self.encoder, &self.release.clip)?;
            if compute.is_empty() {
                self.reserve_first(input)?;
            } else {
                self.reserve(input, self.flash_attn == FlashAttn::On)?;
            }
        }
        Ok(EncoderMemory {
            modality: *modality,
            weights: weights.on(&*self.backends[0]),
            tensor_bytes: weights.tensor_bytes(),
            compute,
            grown: then.is_some().then_some(self.compute),
            dummy,
            n_tokens: self.encoder.tokens(dummy),
            n_tokens_max: self.limits.and_then(|limits| limits.tokens),
            n_embd: self.encoder.n_embd_out(),
            flash_attn: self.flash_attn == FlashAttn::On,
        })
    }

    /// The first reservation decides about flash attention: what it took on trial is kept.
    fn reserve_first(&mut self, input: Input) -> Result<(), LoadError> {
        match self.flash_attn {
            FlashAttn::Auto => {
                self.flash_attn = FlashAttn::On;
                self.reserve(input, true)?;
                if !self.attends_on_device() {
                    self.flash_attn = FlashAttn::Off;
                    self.reserve(input, false)?;
                }
                Ok(())
            }
            FlashAttn::On => self.reserve(input, true),
            FlashAttn::Off => self.reserve(input, false),
        }
    }

    /// Whether the device computes every attention of the graph.
    fn attends_on_device(&self) -> bool {
        let nodes = self.graph.nodes.iter().map(|id| &self.graph[*id]);
        nodes.filter(|node| node.op == Op::FlashAttn).all(|node| self.backends[0].supports(&self.graph, node))
    }

    /// Grows the buffers to the graph of `input`, which has all blocks unless it is seen that those left out change nothing.
    fn reserve(&mut self, input: Input, flash_attn: bool) -> Result<(), LoadError> {
        let Self { encoder, release, backends, graph, schedule, built, .. } = self;
        let scheduler = Scheduler { backends, op_offload: true, pipeline: false, pins: false, rules: release.rules };
        let cpu = backends.len() as BackendId - 1;
        let needed = loop {
            graph::build(encoder, input, flash_attn, release, &built.blocks, graph)?;
            let starts = BlockStarts::of(built, graph);
            let left_out = starts.as_ref().map_or(0, |starts| starts.left_out(built).0);
            graph::check_nodes(graph.nodes.len() + left_out)?;
            scheduler.run(graph, schedule, None);
            let seen = starts.as_ref().map(|starts| starts.steps(schedule)).unwrap_or_default();
            let (needed, states) = allocate::reserve_seen(graph, schedule, backends, None, &seen);
            if starts.is_some_and(|starts| starts.settled(built, graph, schedule, &seen, &states, cpu).is_some()) {
                break needed;
            }
            *built = std::mem::take(built).more();
        };
        self.compute.resize(needed.len(), 0);
        for (bytes, needed) in self.compute.iter_mut().zip(needed) {
            *bytes = needed.bytes.max(*bytes);
        }
        Ok(())
    }
}

// The projector that llama-server loads beside the model: its device, what it takes there, and what the fit leaves
// for it (`tools/server/server-context.cpp` and `tools/mtmd/mtmd.cpp`, 0.1.161).

/// A projector as llama-server loads it.
#[derive(Clone, Debug)]
pub struct PlacedProjector {
    /// Its file.
    file: String,
    /// Its GPU, as an index in the machine; none for the CPU.
    pub gpu: Option<usize>,
    /// Its encoders' memory.
    encoders: Vec<EncoderMemory>,
    /// Bytes of a projector of which only the size is known.
    unread: Bytes,
    /// What the user should know, one sentence each.
    pub notes: Vec<String>,
    /// Why its figures are not exact.
    pub modelled: Option<String>,
}

impl PlacedProjector {
    /// Measures the projector of `settings`, if there is one. `n_ubatch` is the model's, `n_embd` the elements of its
    /// input embeddings.
    ///
    /// # Errors
    /// When clip refuses the file or the options, or there is no such device.
    pub fn new(
        machine: &Machine,
        settings: &Settings,
        release: &'static ReleaseTraits,
        n_ubatch: u64,
        n_embd: u64,
    ) -> Result<Option<Self>, EngineError> {
        let Some(file) = settings.projector.as_deref() else { return Ok(None) };
        let gpu = device(machine, settings.mmproj.device)?;
        let place = gpu.map_or_else(|| "in RAM".to_owned(), |gpu| format!("on GPU{gpu}"));
        let mut placed = Self {
            file: file.file.clone(),
            gpu,
            encoders: Vec::new(),
            unread: Bytes::ZERO,
            notes: vec![format!("the projector {} is {place}", file.file)],
            modelled: None,
        };
        let Some(header) = &file.header else {
            placed.unread = file.tensor_bytes;
            placed.modelled = Some("only the size of the projector's file is known".to_owned());
            return Ok(Some(placed));
        };
        let loaded = LoadedProjector::new(header).map_err(|error| in_file(file, error))?;
        let device = gpu.and_then(|gpu| machine.gpus.get(gpu));
        let mut options = ProjectorOptions {
            device: device.map(|gpu| crate::engine::llama_cpp::devices::backend(gpu, machine.os, release)),
            flash_attn: settings.flash_attn,
            tokens: TokenOptions { least: settings.mmproj.image_min_tokens, most: settings.mmproj.image_max_tokens },
            warmup: true,
        };
        let rules = &release.clip;
        if !rules.compared {
            placed.modelled = Some(format!(
                "what a projector takes in release {} was read from its source: there are no figures to check it by",
                release.name
            ));
        }
        for encoder in &loaded.encoders {
            placed.notes.extend(encoder.fit_into_ubatch(&mut options.tokens, n_ubatch, rules));
            placed.notes.extend(other_width(encoder, n_embd));
        }
        if let Some(encoder) = loaded.encoders.iter().find(|encoder| encoder.kind.is_unchecked()) {
            let kind = encoder.kind.name();
            placed.modelled = Some(format!(
                "the graph of a {kind} projector follows clip's source: there are no figures to check it by"
            ));
        }
        if let Some(encoder) = loaded.encoders.iter().find(|encoder| !encoder.kind.is_exact()) {
            let kind = encoder.kind.name();
            placed.modelled = Some(format!("the graph of a {kind} projector is modelled by that of other types"));
        }
        for encoder in &loaded.encoders {
            let then = match settings.mmproj.image {
                Some(size) if encoder.modality == Modality::Vision => {
                    let image = encoder.resized(&encoder.limits(options.tokens, rules)?, size, rules)?;
                    placed.notes.push(format!("an image of {size} becomes {}", image.sentence()));
                    Some(image.input)
                }
                _ => encoder.largest_input(options.tokens, rules)?,
            };
            let measured = encoder.measure(release, &options, then).map_err(|error| in_file(file, error))?;
            placed.notes.extend(growth(&measured, then.filter(|_| settings.mmproj.image.is_none())));
            placed.encoders.push(measured);
        }
        Ok(Some(placed))
    }

    /// What llama-server adds to the fit's margins for it, by the devices that it is on: a GPU of the machine, or none for
    /// the CPU.
    pub fn fit_shares(&self) -> Vec<(PartKind, Option<usize>, u64)> {
        let unread = (self.unread > Bytes::ZERO).then_some((PartKind::Vision, self.gpu, self.unread.0));
        let shares = self.encoders.iter().flat_map(|encoder| {
            // on the CPU it has no other device
            let places = [self.gpu, None];
            let kind = encoder.kind();
            places.into_iter().zip(encoder.fit_bytes()).map(move |(place, bytes)| (kind, place, bytes))
        });
        shares.chain(unread).collect()
    }

    /// Most tokens of an image, if the projector reads images of many sizes.
    pub fn image_max_tokens(&self) -> Option<u64> {
        self.encoders.iter().find_map(|encoder| encoder.n_tokens_max)
    }

    /// Its parts on `count` devices, the CPU last.
    pub fn parts(&self, count: usize) -> Vec<Part> {
        let cpu = count.saturating_sub(1);
        let own = self.gpu.unwrap_or(cpu);
        let mut parts: Vec<Part> = Vec::new();
        for encoder in &self.encoders {
            let mut devices = vec![PartMemory::default(); count];
            let grown = encoder.grown.as_ref().unwrap_or(&encoder.compute);
            let places = if self.gpu.is_some() { vec![own, cpu] } else { vec![cpu] };
            for ((place, graph), ready) in places.into_iter().zip(&encoder.compute).zip(grown) {
                if let Some(device) = devices.get_mut(place) {
                    (device.graph, device.graph_ready) = (Bytes(*graph), Bytes(*ready));
                }
            }
            if let Some(device) = devices.get_mut(own) {
                device.weights = Bytes(encoder.weights);
            }
            parts.push(Part { kind: encoder.kind(), file: Some(self.file.clone()), devices });
        }
        if self.unread > Bytes::ZERO {
            let mut devices = vec![PartMemory::default(); count];
            if let Some(device) = devices.get_mut(own) {
                device.weights = self.unread;
            }
            parts.push(Part { kind: PartKind::Vision, file: Some(self.file.clone()), devices });
        }
        parts
    }
}

/// The projector's GPU: as asked, or the first of the machine: local ones before those of other computers, integrated
/// ones last (`ggml_backend_init_by_type`, 0.1.161).
fn device(machine: &Machine, asked: MmprojDevice) -> Result<Option<usize>, EngineError> {
    match asked {
        MmprojDevice::Cpu => Ok(None),
        MmprojDevice::Gpu(gpu) if gpu < machine.gpus.len() => Ok(Some(gpu)),
        MmprojDevice::Gpu(gpu) => {
            Err(EngineError::Settings(format!("the projector cannot be on GPU{gpu}: the machine has no such GPU")))
        }
        MmprojDevice::First => {
            let gpus = || machine.gpus.iter().enumerate();
            let first = gpus().min_by_key(|(at, gpu)| (gpu.integrated, gpu.computer.is_some(), *at));
            Ok(first.map(|(at, _)| at))
        }
    }
}

fn in_file(file: &Projector, error: LoadError) -> EngineError {
    match error {
        LoadError::Model(why) => EngineError::Model(format!("the projector {} cannot be loaded: {why}", file.file)),
        LoadError::Settings(why) => EngineError::Settings(why),
    }
}

/// How the buffers grow with the largest image.
fn growth(measured: &EncoderMemory, largest: Option<Input>) -> Option<String> {
    let Input::Image { width, height, batch } = largest? else { return None };
    let all = |bytes: &[u64]| Bytes(bytes.iter().sum());
    let (from, to) = (all(&measured.compute), all(measured.grown.as_ref()?));
    let images = if batch > 1 { format!("{batch} pieces of an image at once") } else { "the largest image".to_owned() };
    (to > from).then(|| format!("the projector's buffers grow from {from} to {to} with {images} ({width}x{height})"))
}

/// A warning if a projector's tokens are of another width than the model's, as then llama-server refuses it.
fn other_width(encoder: &Encoder, n_embd: u64) -> Option<String> {
    let width = encoder.n_embd_out();
    (width != n_embd).then(|| {
        format!(
            "llama-server would refuse this projector: its tokens have {width} elements, and the model reads {n_embd}"
        )
    })
}

impl Encoder {
    /// Whether the model reads its images without a causal mask, in one ubatch (`mtmd_decode_use_non_causal`).
    fn is_read_at_once(&self, rules: &ClipRules) -> bool {
        // the small models mask their images, in newer releases
        let masked = || rules.images_within_ubatch && matches!(self.n_embd_out(), 1536 | 2560);
        self.kind.has(Trait::ReadAtOnce) || self.kind.has(Trait::ReadAtOnceIfLarge) && !masked()
    }

    /// Lowers the most tokens of an image to what one ubatch holds, where the model reads it at once; says so.
    fn fit_into_ubatch(&self, tokens: &mut TokenOptions, n_ubatch: u64, rules: &ClipRules) -> Option<String> {
        if !self.is_read_at_once(rules) {
            return None;
        }
        let limits = self.limits(*tokens, rules).ok()?;
        let most = limits.tokens;
        let (width, height) = (limits.dummy_side, limits.dummy_side);
        let needed = most.unwrap_or_else(|| self.tokens(Input::Image { width, height, batch: 1 }));
        if needed <= n_ubatch {
            return None;
        }
        if most.is_none() || !rules.images_within_ubatch {
            return Some(format!(
                "an image of {needed} tokens must fit one ubatch, which has {n_ubatch}: set --ubatch {needed}"
            ));
        }
        tokens.most = Some(n_ubatch);
        tokens.least = tokens.least.map(|least| least.min(n_ubatch));
        Some(format!(
            "images have at most {n_ubatch} tokens instead of {needed}: each must fit one ubatch (--ubatch {needed})"
        ))
    }

    /// The largest input that the limits allow, if it is larger than the dummy.
    fn largest_input(&self, tokens: TokenOptions, rules: &ClipRules) -> Result<Option<Input>, LoadError> {
        if self.modality == Modality::Audio {
            return Ok(None);
        }
        let limits = self.limits(tokens, rules)?;
        Ok(self.largest_image(&limits, rules))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::engine::ggml::backend::{Cuda, Metal, Plain, Vulkan};
    use crate::settings::Release;

    /// What a graph without most of its equal blocks reserves is what the whole one does, for every projector of the
    /// catalogue.
    #[test]
    fn equal_blocks_are_measured_by_a_few() {
        let devices: [Option<BackendRef>; 5] = [
            None,
            Some(Arc::new(Cuda::default())),
            Some(Arc::new(Vulkan::default())),
            Some(Arc::new(Metal::default())),
            Some(Arc::new(Plain)),
        ];
        let release = ReleaseTraits::of(Release::default());
        let (mut all, mut built) = (0, 0);
        for projector in catalogue::all().iter().filter_map(catalogue::CatalogueEntry::projector) {
            let Some(header) = projector.header.as_ref() else { continue };
            let loaded = LoadedProjector::new(header).unwrap();
            for (encoder, device) in loaded.encoders.iter().flat_map(|one| devices.iter().map(move |on| (one, on))) {
                for flash_attn in [FlashAttn::Auto, FlashAttn::Off] {
                    let options =
                        ProjectorOptions { device: device.clone(), flash_attn, ..ProjectorOptions::default() };
                    let [mut few, mut whole] = [(); 2].map(|()| Measurer::new(encoder, release, &options).unwrap());
                    whole.built = BuiltBlocks::all(encoder.hparams.n_layer);
                    for measurer in [&mut few, &mut whole] {
                        let dummy = measurer.dummy();
                        measurer.reserve_first(dummy).unwrap();
                    }
                    assert_eq!(few.compute, whole.compute, "{} {device:?} {flash_attn:?}", encoder.kind.name());
                    all += encoder.hparams.n_layer;
                    built += few.built.blocks.len();
                }
            }
        }
        assert!(all > 1000 && built * 2 < all, "{built} of {all}");
    }
}
