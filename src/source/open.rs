//! Opens local files: one, or all shards of a split one; and packages, a model with what comes with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::error::SourceError;
use super::file::LocalFile;
use super::progress::{Progress, ProgressCallback, ProgressSource, no_progress};
use super::read_from::ReadFrom;
use super::safetensors;
use super::store::{EntryState, Store, StoreEntry, beside};
use super::tag::TagParameters;
use crate::catalogue;
use crate::engine::llama_cpp::projector::{self, Encoder, LoadedProjector};
use crate::engine::{DraftFile, PreparedModel};
use crate::gguf::read::{Shard, ShardName, join};
use crate::gguf::{GgufError, Header, HeaderLimits, read};
use crate::model::mixture::{ExactAfter, Mixture, Quantisation};
use crate::model::quantise::QuantiseError;
use crate::model::{Modalities, Model, ModelError, Projector, TensorGroup};
use crate::settings::ollama::DraftModel;
use crate::settings::{Flag, KvOverride, OllamaVersion, Release, Settings};
use crate::units::Bytes;

/// An opened model.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenedModel {
    /// The header.
    pub header: Header,
    /// The name if its header has none: the file's name without `.gguf`, or the reference.
    pub name: String,
    /// Its file, or all shards in order.
    pub paths: Vec<PathBuf>,
    /// The file of its vision or audio projector, from its store.
    pub projector: Option<PathBuf>,
    /// The projectors beside its file that may be its own, by their names.
    pub beside: Vec<PathBuf>,
    /// The files of its `LoRA` adapters, from its store.
    pub adapters: Vec<PathBuf>,
    /// Bytes of the tensors of adapters on a server.
    pub remote_adapters: Bytes,
    /// The projector on a server.
    pub remote_projector: Option<Arc<Projector>>,
    /// The file of its draft model, from its store.
    pub draft: Option<PathBuf>,
    /// The header of its draft model on a server.
    pub remote_draft: Option<Header>,
    /// Parameters of its tag.
    pub knobs: TagParameters,
    /// The version of the running Ollama that it comes from.
    pub ollama: Option<OllamaVersion>,
    /// An unambiguous reference to open it again, if the one that was given could later mean another model.
    pub reference: Option<String>,
    /// Its name in the catalogue, if it comes from there.
    pub entry: Option<Box<str>>,
    /// What is known of its tensors' sizes, if they are those of a published file.
    pub mixture: Option<Mixture>,
    /// The model, if its weights are safetensors; the header then has only key facts of it.
    pub model: Option<Box<Model>>,
    /// Which source it was read from.
    pub read_from: ReadFrom,
}

impl OpenedModel {
    /// A model whose weights are safetensors.
    pub(super) fn of_model(model: Model, name: String) -> Self {
        let header = model.header.clone();
        Self { model: Some(Box::new(model)), ..Self::new(header, name) }
    }

    /// A model without adapters, projector and tag parameters.
    pub(super) fn new(header: Header, name: String) -> Self {
        Self {
            header,
            name,
            paths: Vec::new(),
            projector: None,
            beside: Vec::new(),
            adapters: Vec::new(),
            remote_adapters: Bytes::ZERO,
            remote_projector: None,
            draft: None,
            remote_draft: None,
            knobs: TagParameters::default(),
            ollama: None,
            reference: None,
            entry: None,
            mixture: None,
            model: None,
            read_from: ReadFrom::default(),
        }
    }

    /// Of original weights, the file in this quantisation that can be made of them; the weights themselves without one.
    ///
    /// # Errors
    /// Why no such file can be made.
    pub(super) fn made(self, quant: Option<&str>) -> Result<Self, String> {
        let (Some(quant), Some(model)) = (quant, &self.model) else { return Ok(self) };
        let to = quant.parse::<Quantisation>().map_err(|error| error.to_string())?;
        // a mode of MLX may have the name of a type
        let file = if to.file_type().is_some() { model.converted().map_err(|error| error.to_string())? } else { None };
        let is_it = |made: &Model| made.file_type == Some(to.name());
        let made = match file {
            Some(file) if is_it(&file) => file,
            file => file.as_ref().unwrap_or(model).requantised(to).map_err(|error| error.to_string())?,
        };
        Ok(Self { header: made.header.clone(), model: Some(Box::new(made)), ..self })
    }

    /// Adds a note about the header, a sentence without a full stop.
    pub(super) fn note(&mut self, sentence: String) {
        let header = self.model.as_mut().map_or(&mut self.header, |model| &mut model.header);
        header.notes.push(sentence);
    }

    /// This file as a projector.
    pub fn into_projector(self) -> Arc<Projector> {
        let file = self.paths.first().map_or(self.name, |path| path.display().to_string());
        Projector::new(file, self.header)
    }
}

/// Bytes of a file's tensors.
pub(super) fn tensor_bytes(header: &Header) -> Bytes {
    header.tensors.iter().map(|tensor| tensor.bytes).sum()
}

/// Opens the GGUF file at `path`; for any shard of a split file, all of them.
///
/// # Errors
/// If a file cannot be read or is not a GGUF file, or a shard is missing; [`SourceError::Cancelled`] if `on_progress`
/// cancels.
pub fn open(path: &Path, on_progress: &mut ProgressCallback<'_>) -> Result<OpenedModel, SourceError> {
    let limits = HeaderLimits::default();
    let mut progress = Progress::START;
    let header = read_one(path, on_progress, &limits, &mut progress)?;
    let refused = |error| SourceError::header(path, error);
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Some(shard) = Shard::of(&header.metadata, &limits).map_err(refused)? else {
        let name = file_name.strip_suffix(".gguf").unwrap_or(&file_name).to_owned();
        return Ok(OpenedModel { paths: vec![path.to_owned()], ..OpenedModel::new(header, name) });
    };
    let name = ShardName::parse(&file_name)
        .filter(|name| name.index == shard.index && name.count == shard.count)
        .ok_or_else(|| SourceError::ShardName { path: path.into(), number: shard.index + 1, count: shard.count })?;
    let paths: Vec<_> = (0..shard.count).map(|index| path.with_file_name(name.sibling(index))).collect();
    // check that all shards exist before reading any
    if let Some((number, missing)) = (1..).zip(&paths).find(|(_, path)| !path.exists()) {
        return Err(SourceError::MissingShard { path: missing.clone(), number, count: shard.count });
    }
    progress.shards = shard.count;
    let mut opened = Some(header);
    let mut headers = Vec::with_capacity(paths.len());
    for (index, path) in (0..).zip(&paths) {
        progress.shard = index;
        headers.push(match opened.take_if(|_| index == shard.index) {
            Some(header) => header,
            None => read_one(path, on_progress, &limits, &mut progress)?,
        });
    }
    let header = join(headers, &limits).map_err(refused)?;
    Ok(OpenedModel { paths, ..OpenedModel::new(header, name.stem) })
}

/// Opens an entry of a store, with its projector, adapters and tag parameters.
///
/// # Errors
/// As [`open`], and if the entry is broken.
pub fn stored(entry: &StoreEntry, on_progress: &mut ProgressCallback<'_>) -> Result<OpenedModel, SourceError> {
    match &entry.state {
        EntryState::Whole { projector, draft, adapters, knobs, .. } => Ok(OpenedModel {
            name: entry.name.clone(),
            projector: projector.clone(),
            draft: draft.clone(),
            // a store that says what belongs together leaves nothing to look for
            beside: if entry.store == Store::Ollama || projector.is_some() { Vec::new() } else { beside(&entry.path) },
            adapters: adapters.clone(),
            knobs: *knobs,
            read_from: ReadFrom::Store(entry.store),
            ..open(&entry.path, on_progress)?
        }),
        EntryState::Tensors { .. } => safetensors::of_entry(entry),
        EntryState::Broken(reason) => Err(SourceError::Broken { name: entry.name.clone(), reason: reason.clone() }),
    }
}

fn read_one(
    path: &Path,
    on_progress: &mut ProgressCallback<'_>,
    limits: &HeaderLimits,
    progress: &mut Progress,
) -> Result<Header, SourceError> {
    let mut file = LocalFile::open(path)?;
    let mut watched = ProgressSource::new(&mut file, on_progress, *progress);
    let header = read(&mut watched, limits).map_err(|error| match error {
        // file system errors have their own messages
        GgufError::Read { error, .. } => SourceError::system(path, error),
        error => SourceError::header(path, error),
    })?;
    progress.done = progress.done.saturating_add(watched.reached());
    Ok(header)
}

/// A model with its adapters, projector and tag parameters.
#[derive(Clone, Debug)]
pub struct Package {
    /// The model.
    pub model: Arc<PreparedModel>,
    /// Bytes of the tensors of its adapters (LoRA).
    pub adapters: Bytes,
    /// Its projector.
    pub projector: Option<Arc<Projector>>,
    /// Parameters of its tag.
    pub knobs: TagParameters,
    /// What Ollama says of it, where it comes from Ollama.
    pub ollama: Option<Box<FromOllama>>,
    /// As [`OpenedModel::reference`].
    pub reference: Option<String>,
    /// Which source it was read from.
    pub read_from: ReadFrom,
}

/// What Ollama says of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FromOllama {
    /// As [`OpenedModel::ollama`].
    pub version: Option<OllamaVersion>,
    /// The draft of its tag.
    pub draft: Option<DraftModel>,
    /// The name of its file in Ollama's store, which is its digest.
    pub blob: Option<String>,
}

impl Package {
    /// The name of its file in Ollama's store.
    pub fn blob(&self) -> Option<&str> {
        self.ollama.as_ref()?.blob.as_deref()
    }
}

impl OpenedModel {
    /// Reads the model and its projector from their headers, and the sizes of its adapters.
    ///
    /// # Errors
    /// If the header does not describe a language model, or an adapter or the projector cannot be read.
    pub fn package(self, on_progress: &mut ProgressCallback<'_>) -> Result<Package, SourceError> {
        let mut adapters = self.remote_adapters;
        for path in &self.adapters {
            adapters += tensor_bytes(&open(path, on_progress)?.header);
        }
        let projector = match &self.projector {
            Some(path) => Some(open(path, on_progress)?.into_projector()),
            None => self.remote_projector.clone(),
        };
        let draft = match &self.draft {
            Some(path) => Some(open(path, on_progress)?.header),
            None => self.remote_draft,
        };
        let file = self.paths.first().and_then(|path| path.file_name()?.to_str());
        let blob = file.filter(|name| name.starts_with("sha256-")).map(str::to_owned);
        // errors name a file by its path
        let path = self.paths.first().map(|path| path.display().to_string());
        let model = match self.model {
            Some(model) => Ok(*model),
            None => Model::from_header(self.header, &self.name),
        };
        let model = model.map_err(|error| SourceError::NoModel { name: path.unwrap_or(self.name), error })?;
        let mut model = PreparedModel::from(model.from_catalogue(self.entry, self.mixture));
        let of_draft = draft.as_ref().and_then(|header| header.metadata.get("general.architecture")?.as_str());
        let of_draft = of_draft.map(DraftModel::of);
        if let Some(header) = draft {
            let name = format!("the draft of {}", model.name);
            let draft = Model::from_header(header, &name)
                .map_err(|error| SourceError::NoModel { name: name.clone(), error })?;
            model = model.with_draft(Some(DraftFile { model: draft.into(), file: name }));
        }
        let written = self.paths.first().and_then(|path| path.metadata().ok()?.modified().ok());
        let from_catalogue =
            self.reference.as_deref().is_some_and(|reference| reference.starts_with(catalogue::PREFIX));
        if let Some(written) = written {
            model = model.with_date(&format!("file of {}", day(written)));
        } else if from_catalogue {
            model = model.with_date(&catalogue::dated());
        } else {
            model = model.with_date(&format!("header read on {}", day(SystemTime::now())));
        }
        // what a library has together belongs together
        let told = matches!(
            self.read_from,
            ReadFrom::Store(Store::Ollama) | ReadFrom::RunningOllama | ReadFrom::Registry | ReadFrom::Catalogue { .. }
        );
        let named = projector.is_some();
        let beside = self.beside.iter().filter_map(|path| Some(open(path, &mut no_progress).ok()?.into_projector()));
        let candidates = projector.into_iter().chain(beside.filter(|_| !named));
        let (mut suiting, mut notes) = (Vec::new(), Vec::new());
        for projector in candidates {
            let suits =
                fitting(&projector, &model).and_then(|()| if told { Ok(()) } else { of_type(&projector, &model) });
            match suits {
                Ok(()) => suiting.push(projector),
                Err(why) => notes.push(format!("the projector {} is not counted: {why}", projector.file)),
            }
        }
        let projector = match suiting.as_slice() {
            [] => {
                model.add_notes(&notes);
                None
            }
            [projector] => Some(projector.clone()),
            several => {
                model.add_notes(&[which(several)]);
                None
            }
        };
        let Self { knobs, ollama, reference, read_from, .. } = self;
        if let (ReadFrom::Catalogue { stands_for: Some(name) }, Some(header_bytes)) = (&read_from, model.header_bytes())
        {
            let after = ExactAfter { reference: Some(name.to_string()), header_bytes };
            model.add_notes(&[after.to_string()]);
        }
        let known = FromOllama { version: ollama, draft: of_draft, blob };
        let ollama = Some(known).filter(|known| *known != FromOllama::default()).map(Box::new);
        Ok(Package { model: model.into(), adapters, projector, knobs, ollama, reference, read_from })
    }
}

/// Whether a projector found with `model` can be loaded with it, or why not.
fn fitting(projector: &Projector, model: &PreparedModel) -> Result<(), String> {
    let Some(header) = &projector.header else { return Ok(()) };
    let loaded = LoadedProjector::new(header).map_err(|error| error.to_string())?;
    let reads = model.llama_cpp(Release::default()).ok().map(|model| model.hparams.n_embd_inp());
    let other =
        loaded.encoders.iter().map(Encoder::n_embd_out).find(|width| reads.is_some_and(|reads| reads != *width));
    match (other, reads) {
        (Some(width), Some(reads)) => {
            Err(format!("its tokens have {width} elements, and the model reads {reads}: it belongs to another model"))
        }
        _ => Ok(()),
    }
}

/// Whether a projector's type is one that belongs to models of this architecture, or why not.
fn of_type(projector: &Projector, model: &PreparedModel) -> Result<(), String> {
    let Some(header) = &projector.header else { return Ok(()) };
    let other = projector::types(header).into_iter().find(|kind| !kind.is_of(&model.architecture));
    other.map_or(Ok(()), |kind| {
        let (own, architecture) = (kind.models().join(" or "), &model.architecture);
        Err(format!("its type '{}' belongs to models of {own}, and this is one of {architecture}", kind.name()))
    })
}

/// That several projectors may be the model's own.
fn which(projectors: &[Arc<Projector>]) -> String {
    let name = |projector: &Arc<Projector>| {
        let name = Path::new(&projector.file).file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| projector.file.clone())
    };
    let names: Vec<String> = projectors.iter().map(name).collect();
    format!(
        "no projector is counted: {} beside the file may be its own ({}), and --mmproj FILE says which one is loaded",
        projectors.len(),
        names.join(", ")
    )
}

impl From<Model> for Package {
    /// A model without adapters, projector and tag parameters.
    fn from(model: Model) -> Self {
        let (adapters, projector) = (Bytes::ZERO, None);
        Self {
            model: model.into(),
            adapters,
            projector,
            knobs: TagParameters::default(),
            ollama: None,
            reference: None,
            read_from: ReadFrom::default(),
        }
    }
}

impl Package {
    /// Applies the sizes of adapters and projector and the tag's parameters to `settings`, except for what a source above the
    /// tag has given. Returns one sentence per parameter applied, without a full stop.
    pub fn apply_to(&self, settings: &mut Settings) -> Vec<String> {
        settings.adapters = self.adapters;
        if !Flag::OF_PROJECTOR.into_iter().any(|flag| settings.is_given(flag)) {
            settings.projector.clone_from(&self.projector);
        }
        let mut notes = self.knobs.apply(settings);
        settings.ollama.draft = self.ollama.as_ref().and_then(|known| known.draft).or(settings.ollama.draft);
        if let Some(version) =
            self.ollama.as_ref().and_then(|known| known.version).filter(|_| !settings.gives_version())
        {
            settings.ollama.version = version;
            notes.push(format!("planned for Ollama {version}, which runs here"));
        }
        notes
    }

    /// The same as an engine reads it that runs GGUF files alone: of original weights, the file that llama.cpp's converter would
    /// make. What is quantised for MLX stays as it is.
    ///
    /// # Errors
    /// If nothing is known of the original's family.
    pub fn converted(self) -> Result<Self, ModelError> {
        let Some(converted) = self.model.converted()? else { return Ok(self) };
        Ok(Self { model: converted.into(), ..self })
    }

    /// The same as an engine reads it that runs no GGUF files: the original of one in a mode of MLX.
    ///
    /// # Errors
    /// If nothing is known of the original.
    pub fn for_mlx(self) -> Result<Self, QuantiseError> {
        let Some(made) = self.model.for_mlx()? else { return Ok(self) };
        Ok(Self { model: made.into(), ..self })
    }

    /// Notes on where it was read, if `named` does not say that, and on what its weights would be exact after.
    pub fn notes_on_source(&self, named: &str) -> Vec<String> {
        let said = self.read_from.said().filter(|_| !named.contains("://"));
        // of what the catalogue stands in for, the model itself says it
        let stands_in = matches!(self.read_from, ReadFrom::Catalogue { stands_for: Some(_) });
        let after = self.exact_after().filter(|_| !stands_in);
        said.into_iter().chain(after.map(|after| after.to_string())).collect()
    }

    /// What its weights would be exact after, if they are not.
    pub fn exact_after(&self) -> Option<ExactAfter> {
        if let ReadFrom::Catalogue { stands_for: Some(name) } = &self.read_from {
            let header_bytes = self.model.header_bytes()?;
            return Some(ExactAfter { reference: Some(name.to_string()), header_bytes });
        }
        let after = self.model.exact_after()?;
        match (&self.read_from, &self.reference) {
            // of which another header was read
            (ReadFrom::Repository, Some(reference)) => {
                let header_bytes = Bytes(self.model.header.data_start);
                Some(ExactAfter { reference: Some(reference.clone()), header_bytes })
            }
            _ => Some(after),
        }
    }

    /// What the model reads besides text: by its projector, or by the encoders in its own file.
    pub fn modalities(&self) -> Modalities {
        let has =
            |prefix: &str| self.model.tensors(TensorGroup::Projector).any(|tensor| tensor.name.starts_with(prefix));
        match &self.projector {
            Some(projector) => projector.modalities(),
            None => Modalities { vision: has("v."), audio: has("a.") },
        }
    }

    /// The same with a draft beside the model.
    #[must_use]
    pub fn with_draft(self, draft: DraftFile) -> Self {
        let model = PreparedModel::clone(&self.model).with_draft(Some(draft));
        let ollama = self.ollama.map(|known| Box::new(FromOllama { draft: None, ..*known }));
        Self { model: model.into(), ollama, ..self }
    }

    /// The same with other values of keys in the model's header.
    ///
    /// # Errors
    /// If the header then describes no language model.
    pub fn with_keys(&self, keys: &[KvOverride]) -> Result<Self, ModelError> {
        Ok(Self { model: self.model.with_keys(keys)?.into(), ..self.clone() })
    }

    /// The same with the model requantised.
    ///
    /// # Errors
    /// If the quantiser would refuse.
    pub fn quantised(&self, to: impl Into<Quantisation>) -> Result<Self, QuantiseError> {
        let to = to.into();
        let name = self.reference.as_deref().and_then(|reference| reference.strip_prefix(catalogue::PREFIX));
        let name = name.map(|name| name.split_once('@').map_or(name, |(name, _)| name));
        if let Some((entry, file)) = name.and_then(|name| catalogue::published(name, to))
            && let Ok(model) = entry.published(to, &file)
        {
            // published with other blocks than the catalogue's own model has
            let model = PreparedModel::from(model);
            return Ok(Self { model: model.with_draft(self.model.draft().cloned()).into(), ..self.clone() });
        }
        Ok(Self { model: self.model.requantised(to)?.into(), ..self.clone() })
    }
}

/// `2026-11-22`, in UTC. Moments before 1970 are of its first day.
fn day(moment: SystemTime) -> String {
    let days = moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400;
    let (year, day_of_year) = year_of(days);
    let is_leap = is_leap(year);
    let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (mut month, mut day) = (1, day_of_year);
    for length in lengths {
        if day < length {
            break;
        }
        (month, day) = (month + 1, day - length);
    }
    format!("{year:04}-{month:02}-{:02}", day + 1)
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// The year of a day since 1970, and the day in it, both from zero on; 400 years have 146 097 days.
fn year_of(days: u64) -> (u64, u64) {
    let (mut year, mut left) = (1970 + days / 146_097 * 400, days % 146_097);
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if left < length {
            return (year, left);
        }
        (year, left) = (year + 1, left - length);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn days_are_named() {
        for (seconds, name) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_704_067_199, "2023-12-31"),
            (1_735_603_200, "2024-12-31"),
            (1_795_564_800, "2026-11-25"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(day(UNIX_EPOCH + Duration::from_secs(seconds)), name);
        }
    }
}
