//! A projector: the vision or audio encoder beside a model (`--mmproj`), and what it takes (`clip.cpp`, 0.1.161).
//!
//! A file may hold two encoders, one for images and one for audio, each with its own weights, scheduler and compute
//! buffers.

mod graph;
pub mod hparams;
mod image;
pub mod kind;
pub mod limits;
mod measure;
pub mod rules;
mod tokens;
pub mod weights;

use crate::engine::llama_cpp::error::LoadError;
use crate::gguf::{Header, Value};
use hparams::ClipHparams;
pub use image::ResizedImage;
use kind::{ProjectorType, TokenLimits};
pub use limits::{ImageLimits, TokenOptions};
pub use measure::{EncoderMemory, Input, ProjectorOptions};
use rules::ClipRules;
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
                "the file is no projector: clip.has_vision_encoder and clip.has_audio_encoder are not true".to_owned(),
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
    kind.is_some_and(|kind| match kind.token_limits() {
        TokenLimits::None => false,
        TokenLimits::Options => asked,
        TokenLimits::Tokens(..) => true,
        TokenLimits::Pixels => kind.limits_pixels_by_options(),
    })
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
        let kind = match (ProjectorType::named(name), modality) {
            (Some(ProjectorType::Qwen25O), Modality::Vision) => ProjectorType::Qwen25Vl,
            (Some(ProjectorType::Qwen25O), Modality::Audio) => ProjectorType::Qwen2A,
            (Some(kind), _) => kind,
            (None, _) => {
                return Err(LoadError::model(format!("llama.cpp has no projector of type '{name}'")));
            }
        };
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
    pub const fn encodes_batches(&self) -> bool {
        self.kind.encodes_batches()
    }

    /// Whether its graph is clip's own, and not that of the nearest type.
    pub const fn is_exact(&self) -> bool {
        graph::is_built(self.kind)
    }

    /// Whether the graph of its type was compared with nothing.
    pub const fn is_unchecked(&self) -> bool {
        graph::is_unchecked(self.kind)
    }
}
