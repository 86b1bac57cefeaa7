//! A model with its header read once for each release of llama.cpp that is asked about.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::architecture::{GraphFamily, Trait};
use super::architectures;
use super::error::LoadError;
use super::hparams::{HeaderKeys, Hparams};
use super::loaded::LoadedModel;
use super::release::ReleaseTraits;
use super::speculation::Speculation;
use super::weights::{LlmTensor, Weights};
use crate::engine::error::EngineError;
use crate::gguf::{Header, Value};
use crate::model::mixture::Quantisation;
use crate::model::quantise::QuantiseError;
use crate::model::{Model, ModelError};
use crate::plan::Uncertainty;
use crate::settings::{Build, KvOverride, Release, SpecType};

/// A model whose header is read once per release of llama.cpp rather than in every plan.
#[derive(Clone, Debug)]
pub struct PreparedModel {
    model: Model,
    /// By the rules that load it.
    llama_cpp: [OnceLock<Box<Result<LoadedModel, EngineError>>>; ReleaseTraits::COUNT],
    /// Why these rules would refuse its file, as part of a sentence: found out where a plan says so, which most plans of a
    /// search need not.
    refusals: [OnceLock<Option<String>>; ReleaseTraits::COUNT],
    draft: Option<DraftFile>,
}

/// A draft model that is loaded beside another one.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftFile {
    /// The draft.
    pub model: Arc<PreparedModel>,
    /// Its file as the user named it.
    pub file: String,
}

impl PreparedModel {
    /// The model as loaded by this build of llama.cpp, or by the one that a release stands for.
    ///
    /// # Errors
    /// When the build does not know the architecture, or the header lacks what it requires.
    pub fn llama_cpp(&self, build: impl Into<Build>) -> Result<&LoadedModel, EngineError> {
        let build = build.into();
        if self.model.mlx.is_some() {
            return Err(EngineError::Model(format!(
                "the weights of '{}' ({}) are safetensors, which llama.cpp does not run: use --engine mlx, --engine ollama, or of \
                 original weights a type of the GGUF file that can be made of them, such as --quant Q8_0",
                self.model.name,
                self.model.file_type.unwrap_or("MLX")
            )));
        }
        LoadedModel::check_architecture(&self.model.header, build)?;
        self.loaded_by(ReleaseTraits::of(build))
    }

    /// The same by the rules of builds that know the architecture.
    ///
    /// # Errors
    /// When the header lacks what they require.
    pub(super) fn loaded_by(&self, rules: &'static ReleaseTraits) -> Result<&LoadedModel, EngineError> {
        let read = || Box::new(LoadedModel::read(&self.model.header, rules).map_err(EngineError::from));
        self.llama_cpp[rules.index()].get_or_init(read).as_ref().as_ref().map_err(Clone::clone)
    }

    /// The same with a draft beside it, or without.
    #[must_use]
    pub fn with_draft(self, draft: Option<DraftFile>) -> Self {
        Self { draft, ..self }
    }

    /// The same with the source and the day of its header, as captions have it: `catalogue of 2026-11-22`.
    #[must_use]
    pub fn with_date(mut self, dated: &str) -> Self {
        self.model.dated = Some(dated.into());
        self
    }

    /// The draft beside it.
    pub const fn draft(&self) -> Option<&DraftFile> {
        self.draft.as_ref()
    }

    /// That llama.cpp would refuse the file, and why, as a sentence without a full stop; none if nothing is known that it
    /// would refuse.
    pub fn refused(&self) -> Option<String> {
        self.refused_as("this file", self.llama_cpp(Release::default()).ok()?)
    }

    /// That llama.cpp would refuse `what`, which is this model as `loaded` by some rules, and why.
    pub(super) fn refused_as(&self, what: &str, loaded: &LoadedModel) -> Option<String> {
        let refusal = || loaded.refusal(&self.model.header);
        let why = self.refusals[loaded.release.index()].get_or_init(refusal).as_ref()?;
        Some(format!("{} {what}: {why}", Uncertainty::REFUSES))
    }

    /// Whether it generates text, rather than only embeddings.
    pub fn generates(&self) -> bool {
        self.llama_cpp(Release::default()).map_or(true, |loaded| loaded.hparams.causal)
    }

    /// How its own MTP blocks or the draft beside it would draft, if there are any.
    pub fn drafts_by(&self) -> Option<SpecType> {
        if let Some(draft) = &self.draft {
            return Some(Speculation::kind_of(draft.model.llama_cpp(Release::default()).ok()?));
        }
        let loaded = self.llama_cpp(Release::default()).ok()?;
        (Speculation::type_of(loaded) == SpecType::DraftMtp).then_some(SpecType::DraftMtp)
    }

    /// The same in another quantisation, with what is beside it as it was.
    ///
    /// # Errors
    /// If the quantiser would refuse, or nothing is known of such files.
    pub fn requantised(&self, to: impl Into<Quantisation>) -> Result<Self, QuantiseError> {
        let changed = Self::from(self.model.requantised(to)?);
        Ok(Self { draft: self.draft.clone(), ..changed })
    }

    /// As [`Model::converted`], with what is beside it.
    ///
    /// # Errors
    /// As [`Model::converted`].
    pub fn converted(&self) -> Result<Option<Self>, ModelError> {
        let converted = self.model.converted()?;
        Ok(converted.map(|made| Self::from(made).with_draft(self.draft.clone())))
    }

    /// As [`Model::for_mlx`].
    ///
    /// # Errors
    /// As [`Model::for_mlx`].
    pub fn for_mlx(&self) -> Result<Option<Self>, QuantiseError> {
        Ok(self.model.for_mlx()?.map(Self::from))
    }

    /// The same with other values of keys in the header, with what is beside it as it was.
    ///
    /// # Errors
    /// If the header then describes no language model.
    pub fn with_keys(&self, keys: &[KvOverride]) -> Result<Self, ModelError> {
        let mut header = self.model.header.clone();
        for key in keys {
            key.apply(&mut header);
        }
        let Model { name, entry, mixture, made_of_original, missing_projector, dated, .. } = &self.model;
        let model = Model::from_header(header, name)?.from_catalogue(entry.clone(), mixture.clone());
        let mut changed = Self::from(model);
        (changed.model.missing_projector, changed.model.dated) = (*missing_projector, dated.clone());
        changed.model.made_of_original = *made_of_original;
        Ok(Self { draft: self.draft.clone(), ..changed })
    }

    /// Adds notes about the header; engines do not read them.
    pub fn add_notes(&mut self, notes: &[String]) {
        self.model.header.notes.extend_from_slice(notes);
    }
}

impl From<Model> for PreparedModel {
    fn from(model: Model) -> Self {
        let (llama_cpp, refusals) = ([const { OnceLock::new() }; _], [const { OnceLock::new() }; _]);
        Self { model, llama_cpp, refusals, draft: None }
    }
}

impl From<Model> for Arc<PreparedModel> {
    fn from(model: Model) -> Self {
        Self::new(model.into())
    }
}

impl Deref for PreparedModel {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.model
    }
}

/// The loaded models follow from the model.
impl PartialEq for PreparedModel {
    fn eq(&self, other: &Self) -> bool {
        self.model == other.model && self.draft == other.draft
    }
}

impl LoadedModel {
    /// Reads a header.
    ///
    /// # Errors
    /// When this build of llama.cpp does not know the architecture, or the header lacks what it requires.
    pub fn new(header: &Header, build: impl Into<Build>) -> Result<Self, LoadError> {
        let build = build.into();
        Self::check_architecture(header, build)?;
        Self::read(header, ReleaseTraits::of(build))
    }

    fn check_architecture(header: &Header, build: Build) -> Result<(), LoadError> {
        let name = header.metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
        if architectures::is_known(name, build) {
            return Ok(());
        }
        Err(LoadError::model(format!("unknown model architecture: '{name}' in llama.cpp {build}: use a newer release")))
    }

    fn read(header: &Header, release: &'static ReleaseTraits) -> Result<Self, LoadError> {
        let family = GraphFamily::of(header);
        if family.architecture.has(Trait::HasNoLoader) {
            return Err(LoadError::model(
                "llama.cpp refuses it: it lists this architecture, but cannot load it (unsupported model architecture)",
            ));
        }
        let own = architectures::own_hparams(family.architecture);
        let mut hparams = Hparams::read(header, family.architecture, release, own)?;
        let weights = Weights::read(header, hparams.n_layer_all, hparams.n_output_groups)?;
        let has_mtp = hparams.n_layer_nextn > 0 && weights.has(LlmTensor::NextnEhProj);
        if has_mtp && family.architecture.refuses_mtp_blocks.contain(release) {
            return Err(LoadError::model(format!(
                "llama.cpp release {} cannot load files of this architecture with MTP blocks: use a newer release",
                release.name
            )));
        }
        if !family.exact {
            hparams.read_blocks(&HeaderKeys::of(header, release), &weights)?;
        }
        Ok(Self { release, family, hparams, weights })
    }
}
