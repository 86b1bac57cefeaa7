//! Opens local files: one, or all shards of a split one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::SourceError;
use super::file::LocalFile;
use super::progress::{Progress, ProgressCallback, ProgressSource};
use super::store::{EntryState, StoreEntry};
use super::tag::TagParameters;
use crate::gguf::read::{Shard, ShardName, join};
use crate::gguf::{GgufError, Header, HeaderLimits, read};
use crate::model::Projector;
use crate::settings::OllamaVersion;
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
    /// The files of its `LoRA` adapters, from its store.
    pub adapters: Vec<PathBuf>,
    /// Bytes of the tensors of adapters on a server.
    pub remote_adapters: Bytes,
    /// The projector on a server.
    pub remote_projector: Option<Arc<Projector>>,
    /// Parameters of its tag.
    pub knobs: TagParameters,
    /// The version of the running Ollama that it comes from.
    pub ollama: Option<OllamaVersion>,
    /// An unambiguous reference to open it again, if the one that was given could later mean another model.
    pub reference: Option<String>,
}

impl OpenedModel {
    /// A model without adapters, projector and tag parameters.
    pub(super) fn new(header: Header, name: String) -> Self {
        Self {
            header,
            name,
            paths: Vec::new(),
            projector: None,
            adapters: Vec::new(),
            remote_adapters: Bytes::ZERO,
            remote_projector: None,
            knobs: TagParameters::default(),
            ollama: None,
            reference: None,
        }
    }

    /// Bytes of its adapters' tensors.
    ///
    /// # Errors
    /// As [`open`], for the first adapter that cannot be read.
    pub fn adapter_bytes(&self, on_progress: &mut ProgressCallback<'_>) -> Result<Bytes, SourceError> {
        let mut sum = self.remote_adapters;
        for path in &self.adapters {
            sum += open(path, on_progress)?.tensor_bytes();
        }
        Ok(sum)
    }

    /// Its projector, if it has one.
    ///
    /// # Errors
    /// As [`open`], for the projector.
    pub fn its_projector(&self, on_progress: &mut ProgressCallback<'_>) -> Result<Option<Arc<Projector>>, SourceError> {
        match &self.projector {
            Some(path) => Ok(Some(open(path, on_progress)?.into_projector())),
            None => Ok(self.remote_projector.clone()),
        }
    }

    /// This file as a projector.
    pub fn into_projector(self) -> Arc<Projector> {
        let file = self.paths.first().map_or(self.name, |path| path.display().to_string());
        Projector::new(file, self.header)
    }

    /// Bytes of its own tensors.
    pub fn tensor_bytes(&self) -> Bytes {
        self.header.tensors.iter().map(|tensor| tensor.bytes).sum()
    }
}

/// Opens the GGUF file at `path`; for any shard of a split file, all of them.
///
/// # Errors
/// If a file cannot be read or is not a GGUF file, or a shard is missing; [`SourceError::Cancelled`] if `on_progress`
/// cancels.
pub fn open(path: &Path, on_progress: &mut ProgressCallback<'_>) -> Result<OpenedModel, SourceError> {
    let limits = HeaderLimits::default();
    let mut progress = Progress { done: 0, total: None, shard: 0, shards: 1 };
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
        EntryState::Whole { projector, adapters, knobs, .. } => Ok(OpenedModel {
            name: entry.name.clone(),
            projector: projector.clone(),
            adapters: adapters.clone(),
            knobs: *knobs,
            ..open(&entry.path, on_progress)?
        }),
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
