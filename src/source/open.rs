//! A path becomes a header: one file, or all shards of a split one.

use std::path::{Path, PathBuf};

use super::error::SourceError;
use super::file::LocalFile;
use super::progress::{Progress, ProgressCallback, ProgressSource};
use super::store::{EntryState, StoreEntry};
use super::tag::TagParameters;
use crate::gguf::split::{self, Shard, ShardName};
use crate::gguf::{GgufError, Header, HeaderLimits, read};
use crate::units::Bytes;

/// A model that was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenedModel {
    /// What it says of itself.
    pub header: Header,
    /// What to call it where its header has no name: the file's name without its ending, or the reference.
    pub name: String,
    /// Its file, or all shards in order.
    pub paths: Vec<PathBuf>,
    /// The file of its vision or audio projector, where the place that it was found in names one.
    pub projector: Option<PathBuf>,
    /// Adapters (LoRA) that the place names beside it.
    pub adapters: Vec<PathBuf>,
    /// Bytes of the tensors of adapters that lie on a server.
    pub remote_adapters: Bytes,
    /// Bytes of the tensors of a projector that lies on a server.
    pub remote_projector: Bytes,
    /// What its tag sets of its own.
    pub knobs: TagParameters,
    /// What opens it again wherever that is asked, if what was written may come to mean something else.
    pub reference: Option<String>,
}

impl OpenedModel {
    /// A model with nothing beside it.
    pub(super) fn new(header: Header, name: String) -> Self {
        Self {
            header,
            name,
            paths: Vec::new(),
            projector: None,
            adapters: Vec::new(),
            remote_adapters: Bytes::ZERO,
            remote_projector: Bytes::ZERO,
            knobs: TagParameters::default(),
            reference: None,
        }
    }

    /// Bytes of its adapters' tensors.
    ///
    /// # Errors
    /// As [`open`], for the first adapter that cannot be read.
    pub fn adapter_bytes(&self, watch: &mut ProgressCallback<'_>) -> Result<Bytes, SourceError> {
        let mut sum = self.remote_adapters;
        for path in &self.adapters {
            sum += open(path, watch)?.tensor_bytes();
        }
        Ok(sum)
    }

    /// Bytes of its projector's tensors; none where it has no projector.
    ///
    /// # Errors
    /// As [`open`], for the projector.
    pub fn projector_bytes(&self, watch: &mut ProgressCallback<'_>) -> Result<Bytes, SourceError> {
        self.projector.as_ref().map_or(Ok(self.remote_projector), |path| Ok(open(path, watch)?.tensor_bytes()))
    }

    /// Bytes of its own tensors.
    pub fn tensor_bytes(&self) -> Bytes {
        self.header.tensors.iter().map(|tensor| tensor.bytes).sum()
    }
}

/// Opens the GGUF file at `path`; for any shard of a split file, all of them.
///
/// # Errors
/// When a file cannot be read, is no GGUF file, or a shard is missing; [`SourceError::Cancelled`] when `watch` says so.
pub fn open(path: &Path, watch: &mut ProgressCallback<'_>) -> Result<OpenedModel, SourceError> {
    let limits = HeaderLimits::default();
    let mut progress = Progress { done: 0, total: None, shard: 0, shards: 1 };
    let header = read_one(path, watch, &limits, &mut progress)?;
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
    // all are looked for before any is read
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
            None => read_one(path, watch, &limits, &mut progress)?,
        });
    }
    let header = split::join(headers, &limits).map_err(refused)?;
    Ok(OpenedModel { paths, ..OpenedModel::new(header, name.stem) })
}

/// Opens an entry of a store, with what its store says belongs to it.
///
/// # Errors
/// As [`open`]; and when the entry is broken.
pub fn stored(entry: &StoreEntry, watch: &mut ProgressCallback<'_>) -> Result<OpenedModel, SourceError> {
    match &entry.state {
        EntryState::Whole { projector, adapters, knobs, .. } => Ok(OpenedModel {
            name: entry.name.clone(),
            projector: projector.clone(),
            adapters: adapters.clone(),
            knobs: *knobs,
            ..open(&entry.path, watch)?
        }),
        EntryState::Broken(reason) => Err(SourceError::Broken { name: entry.name.clone(), reason: reason.clone() }),
    }
}

fn read_one(
    path: &Path,
    watch: &mut ProgressCallback<'_>,
    limits: &HeaderLimits,
    progress: &mut Progress,
) -> Result<Header, SourceError> {
    let mut file = LocalFile::open(path)?;
    let mut watched = ProgressSource::new(&mut file, watch, *progress);
    let header = read(&mut watched, limits).map_err(|error| match error {
        // what the file system says has its own sentences
        GgufError::Read { error, .. } => SourceError::system(path, error),
        error => SourceError::header(path, error),
    })?;
    progress.done = progress.done.saturating_add(watched.reached());
    Ok(header)
}
