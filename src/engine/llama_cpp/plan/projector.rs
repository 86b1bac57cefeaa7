//! The projector that llama-server loads beside the model: its device, what it takes there, and what the fit leaves for
//! it (`tools/server/server-context.cpp` and `tools/mtmd/mtmd.cpp`, 0.1.161).

use super::super::error::LoadError;
use super::super::projector::kind::Trait;

use super::super::projector::{
    ClipRules, Encoder, EncoderMemory, Input, LoadedProjector, Modality, ProjectorOptions, TokenOptions,
};
use super::super::release::ReleaseTraits;
use crate::engine::id::EngineError;
use crate::machine::Machine;
use crate::model::Projector;
use crate::plan::{Part, PartKind, PartMemory};
use crate::settings::{MmprojDevice, Settings};
use crate::units::Bytes;

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
            device: device.map(|gpu| super::params::backend(gpu, machine.os, release)),
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

    /// Bytes on its own device that the fit adds to its margin.
    pub fn fit_bytes(&self) -> u64 {
        let measured = self.encoders.iter().map(|encoder| encoder.fit_bytes().first().copied().unwrap_or(0));
        self.unread.0 + measured.sum::<u64>()
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
            let kind = match encoder.modality {
                Modality::Vision => PartKind::Vision,
                Modality::Audio => PartKind::Audio,
            };
            parts.push(Part { kind, file: Some(self.file.clone()), devices });
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
