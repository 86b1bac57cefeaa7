//! Measures an encoder: its weights, and the compute buffers after the load and after a larger input
//! (`clip_model_loader::warmup` and `reserve_compute_meta` in `clip.cpp`, 0.1.161).

use std::sync::Arc;

use super::hparams::ClipHparams;
use super::image::{ImageLimits, MAX_FRAMES, TokenOptions, check_image};

use super::{ClipRules, Encoder, LoadedProjector, Modality, graph};
use crate::engine::ggml::allocate;
use crate::engine::ggml::backend::Cpu;
use crate::engine::ggml::schedule::{Schedule, Scheduler};
use crate::engine::ggml::tensor::Op;
use crate::engine::ggml::{BackendRef, Graph};
use crate::engine::llama_cpp::error::LoadError;
use crate::engine::llama_cpp::release::ReleaseTraits;
use crate::settings::FlashAttn;

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
        graph::build(self, input, flash_attn, 0, release, &mut graph)?;
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
        let flash_attn = options.flash_attn;
        Ok(Self { encoder, release, options, limits, backends, graph, schedule, compute, flash_attn })
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

    /// Grows the buffers to the graph of `input`.
    fn reserve(&mut self, input: Input, flash_attn: bool) -> Result<(), LoadError> {
        let Self { encoder, release, backends, graph, schedule, .. } = self;
        graph::build(encoder, input, flash_attn, 0, release, graph)?;
        let scheduler = Scheduler { backends, op_offload: true, pipeline: false, pins: false, rules: release.rules };
        scheduler.run(graph, schedule, None);
        let needed = allocate::reserve(graph, schedule, backends, None);
        self.compute.resize(needed.len(), 0);
        for (bytes, needed) in self.compute.iter_mut().zip(needed) {
            *bytes = needed.bytes.max(*bytes);
        }
        Ok(())
    }
}
