//! A projector: the vision or audio encoder beside a model (`--mmproj`), and what it takes (`clip.cpp`, 0.1.161).
//!
//! A file may hold two encoders, one for images and one for audio, each with its own weights, scheduler and compute
//! buffers.

mod graph;
pub mod hparams;
mod image;
pub mod kind;
mod measure;
pub mod weights;

use crate::engine::llama_cpp::error::LoadError;
use crate::engine::llama_cpp::release::ClipRules;
use crate::gguf::{Header, Value};
use hparams::ClipHparams;
pub use image::{ImageLimits, ResizedImage, TokenOptions};
use kind::{ProjectorType, TokenLimits, Trait};
pub(super) use measure::PlacedProjector;
pub use measure::{EncoderMemory, Input, ProjectorOptions};
use weights::ClipWeights;

/// What an encoder reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Modality {
    Vision,
    Audio,
}

impl Modality {
    /// Both, in the order in which they are loaded.
    pub const ALL: [Self; 2] = [Self::Vision, Self::Audio];

    /// Its name in keys.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vision => "vision",
            Self::Audio => "audio",
        }
    }

    /// The prefix of its tensors.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Vision => "v",
            Self::Audio => "a",
        }
    }

    /// Whether a tensor may belong to an encoder of this kind, by its name.
    fn owns(self, name: &str) -> bool {
        let audio = ["a.", "mm.a."].iter().any(|prefix| name.starts_with(prefix));
        audio == (self == Self::Audio)
    }
}

/// One encoder of a file.
#[derive(Clone, Debug)]
pub struct Encoder {
    /// What it reads.
    pub modality: Modality,
    /// The type of its projector.
    pub kind: ProjectorType,
    /// Its hyperparameters.
    pub hparams: ClipHparams,
    /// Its tensors.
    pub weights: ClipWeights,
}

/// The encoders of a file, ready to be measured with any options.
#[derive(Clone, Debug)]
pub struct LoadedProjector {
    /// Vision before audio.
    pub encoders: Vec<Encoder>,
}

impl LoadedProjector {
    /// Reads a projector's header.
    ///
    /// # Errors
    /// When it is no projector, or lacks what clip requires.
    pub fn new(header: &Header) -> Result<Self, LoadError> {
        let mut encoders = Vec::new();
        for modality in Modality::ALL {
            let has = format!("clip.has_{}_encoder", modality.name());
            if header.metadata.get(&has).and_then(Value::as_bool) == Some(true) {
                encoders.push(Encoder::new(header, modality)?);
            }
        }
        if encoders.is_empty() {
            return Err(LoadError::model(
                "the file is no projector: clip.has_vision_encoder and clip.has_audio_encoder are not true",
            ));
        }
        Ok(Self { encoders })
    }
}

/// Whether `--image-max-tokens` sets the tokens of an image, as `asked` or in place of a limit that the projector has of
/// itself; otherwise images have one size, or as many tokens as they come with.
pub fn limits_tokens(header: &Header, asked: bool) -> bool {
    let reads = header.metadata.get("clip.has_vision_encoder").and_then(Value::as_bool) == Some(true);
    let kind = ProjectorType::named(name(header, Modality::Vision)).filter(|_| reads);
    kind.is_some_and(|kind| match kind.row().limits {
        TokenLimits::None => false,
        TokenLimits::Options => asked,
        TokenLimits::Tokens(..) | TokenLimits::ByRelease => true,
        TokenLimits::Pixels => kind.has(Trait::LimitsPixelsByOptions),
    })
}

/// The types of a projector's file, as its header names them, vision before audio.
pub fn types(header: &Header) -> Vec<ProjectorType> {
    let has = |modality: &Modality| {
        let key = format!("clip.has_{}_encoder", modality.name());
        header.metadata.get(&key).and_then(Value::as_bool) == Some(true)
    };
    let named = |modality| ProjectorType::named(name(header, modality));
    Modality::ALL.into_iter().filter(has).filter_map(named).collect()
}

/// The name of the type of a file's projector.
fn name(header: &Header, modality: Modality) -> &str {
    let keys = ["clip.projector_type".to_owned(), format!("clip.{}.projector_type", modality.name())];
    let texts = keys.iter().filter_map(|key| header.metadata.get(key).and_then(Value::as_str));
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

impl Encoder {
    fn new(header: &Header, modality: Modality) -> Result<Self, LoadError> {
        let name = name(header, modality);
        let kind = ProjectorType::named(name)
            .ok_or_else(|| LoadError::model(format!("llama.cpp has no projector of type '{name}'")))?
            .encoder(modality);
        let hparams = ClipHparams::read(header, kind, modality)?;
        let weights = ClipWeights::load(header, kind, modality, &hparams)?;
        Ok(Self { modality, kind, hparams, weights })
    }

    /// The limits of its images under these options.
    ///
    /// # Errors
    /// When the options exclude each other or the dummy image would be too large.
    pub fn limits(&self, options: TokenOptions, rules: &ClipRules) -> Result<ImageLimits, LoadError> {
        ImageLimits::new(self.kind, &self.hparams, options, rules)
    }

    /// Whether several images can be encoded at once.
    pub fn encodes_batches(&self) -> bool {
        self.kind.has(Trait::EncodesBatches)
    }
}
