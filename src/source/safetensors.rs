//! Opens models whose weights are safetensors: a folder as Hugging Face's libraries and mlx-lm write it, and Ollama's store,
//! which has a file for each tensor.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::SourceError;
use super::file::LocalFile;
use super::open::OpenedModel;
use super::read_from::ReadFrom;
use super::store::ollama::{Manifest, ManifestLayer, blob, params};
use super::store::{Store, StoreEntry};
use crate::files;
use crate::model::{Model, ModelError};
use crate::safetensors::{self, Header, Index, Stored, TensorLayers};
use crate::text;
use crate::units::Bytes;

/// What describes the model.
pub(super) const CONFIG: &str = "config.json";
/// What says which file has a tensor.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// Largest description or index that is read, in bytes; the largest published has nine million.
pub(super) const MAX_TEXT: u64 = 16 << 20;
/// Most files of one model.
const MAX_FILES: usize = 1 << 13;

/// Whether `path` is a folder of such a model, or a file in one.
pub(super) fn is_one(path: &Path) -> bool {
    let is_file = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("safetensors"));
    is_file || path.is_dir() && path.join(CONFIG).is_file()
}

/// Opens the folder at `path`, or that of the file there.
///
/// # Errors
/// If `config.json` is missing or damaged, or a file of its weights is.
pub(super) fn folder(path: &Path) -> Result<OpenedModel, SourceError> {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let config = text_of(&folder.join(CONFIG))?;
    let index = index(folder)?;
    let paths = weight_files(folder, index.as_ref())?;
    let mut stored = Stored::default();
    for file in &paths {
        stored.add(read(file)?).map_err(|name| {
            damaged(file, format!("tensor '{name}' is in another file of the folder too: remove the older one"))
        })?;
    }
    listed(folder, index.as_ref(), &stored)?;
    let name = fs::canonicalize(folder).ok().and_then(|whole| Some(whole.file_name()?.to_string_lossy().into_owned()));
    let name = name.unwrap_or_else(|| folder.display().to_string());
    let model = model(&folder.join(CONFIG), &config, Some(stored).filter(|_| !paths.is_empty()), &name)?;
    let paths = if paths.is_empty() { vec![folder.join(CONFIG)] } else { paths };
    Ok(OpenedModel { paths, ..OpenedModel::of_model(model, name) })
}

/// Bytes of the weights in a folder, or why it cannot be opened; none if it is no model of MLX. Original weights are one only where
/// `as_they_are`.
pub(super) fn size_of(folder: &Path, as_they_are: bool) -> Option<Result<Bytes, SourceError>> {
    let is_quantised = Model::is_config_of_mlx(text_of(&folder.join(CONFIG)).ok()?.as_bytes())?;
    (as_they_are || is_quantised).then_some(())?;
    let files = index(folder).and_then(|index| weight_files(folder, index.as_ref()));
    let size = |path: &PathBuf| fs::metadata(path).map(|about| Bytes(about.len()));
    Some(files.and_then(|files| {
        let sizes = files.iter().map(|path| size(path).map_err(|error| SourceError::system(path, error)));
        sizes.sum()
    }))
}

/// Opens the model of a store's entry: of a manifest in Ollama's, or of a folder.
///
/// # Errors
/// If its files are missing or damaged.
pub(super) fn of_entry(entry: &StoreEntry) -> Result<OpenedModel, SourceError> {
    if entry.store == Store::Ollama {
        return of_store(entry);
    }
    let read_from = ReadFrom::Store(entry.store);
    Ok(OpenedModel { read_from, ..folder(&entry.path)? })
}

/// Opens the model of a manifest in Ollama's store.
///
/// # Errors
/// If its blobs are missing or damaged.
fn of_store(entry: &StoreEntry) -> Result<OpenedModel, SourceError> {
    let broken = |reason: String| SourceError::Broken { name: entry.name.clone(), reason };
    // STORE/manifests/HOST/NAMESPACE/NAME/TAG
    let root = entry.path.ancestors().nth(5).ok_or_else(|| broken("its manifest is in no store".to_owned()))?;
    let manifest = Manifest::read(&entry.path, &entry.name).map_err(broken)?;
    let place = |layer: &ManifestLayer| {
        blob(root, layer).ok_or_else(|| broken("its manifest has an invalid digest".to_owned()))
    };
    let of_model = manifest.named(CONFIG).ok_or_else(|| broken(format!("its manifest has no {CONFIG}")))?;
    let described = place(of_model)?;
    let config = text_of(&described)?;
    let mut paths = Vec::new();
    let about = match manifest.config() {
        Some(about) => files::text(&place(about)?, files::TEXT).map_err(broken)?.unwrap_or_default(),
        None => "{}".to_owned(),
    };
    let mut header = |layer: &ManifestLayer| {
        let path = place(layer)?;
        let header = read(&path)?;
        paths.push(path);
        Ok(header)
    };
    let stored = of_manifest(&manifest, about.as_bytes(), &entry.name, &mut header)?;
    let knobs = manifest.of_kind("params").next().map(place).transpose()?;
    let knobs = knobs.map(|path| params(&path)).transpose().map_err(broken)?.unwrap_or_default();
    let model = model(&described, &config, Some(stored), &entry.name)?;
    let read_from = ReadFrom::Store(entry.store);
    Ok(OpenedModel { paths, knobs, read_from, ..OpenedModel::of_model(model, entry.name.clone()) })
}

/// What the tensor layers of a manifest hold, of the model `name`: `header` reads that of one. `about` is the text of its
/// configuration.
///
/// # Errors
/// If a layer is another one than its manifest says, or those of `header`.
pub(super) fn of_manifest(
    manifest: &Manifest,
    about: &[u8],
    name: &str,
    header: &mut dyn FnMut(&ManifestLayer) -> Result<Header, SourceError>,
) -> Result<Stored, SourceError> {
    let broken = |reason: String| SourceError::Broken { name: name.to_owned(), reason };
    let mut stored = Stored::default();
    let mut layers = TensorLayers { draft: manifest.named("draft/config.json").is_some(), ..TensorLayers::default() };
    for layer in manifest.of_kind("tensor") {
        let header = header(layer)?;
        let told = layer.size().unwrap_or(header.data_end);
        if told != header.data_end {
            return Err(broken(format!(
                "its manifest gives the layer {} {told} bytes, but its blob's header describes {}: run 'ollama pull {name}' to \
                 fetch it again",
                text::quoted(layer.name().unwrap_or("without a name")),
                header.data_end,
            )));
        }
        layers.layers += 1;
        layers.bytes = layers.bytes.saturating_add(told);
        stored.add(header).map_err(|name| broken(format!("tensor '{name}' is in two of its blobs")))?;
    }
    let about: Configuration = serde_json::from_slice(about)
        .map_err(|error| broken(format!("its configuration is damaged ({error}): run 'ollama pull {name}' again")))?;
    layers.file_type = text::one_line(&about.file_type).into_owned();
    stored.manifest = Some(layers);
    Ok(stored)
}

/// What is read of a manifest's configuration.
#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    file_type: String,
}

fn text_of(path: &Path) -> Result<String, SourceError> {
    let text = files::text(path, MAX_TEXT).map_err(|reason| damaged(path, reason))?;
    text.ok_or_else(|| SourceError::Missing { path: path.to_owned() })
}

fn model(path: &Path, config: &str, stored: Option<Stored>, name: &str) -> Result<Model, SourceError> {
    let made = Model::of_safetensors(config.as_bytes(), stored, name);
    made.map_err(|error: ModelError| damaged(path, error.to_string()))
}

/// The header of a file.
fn read(path: &Path) -> Result<Header, SourceError> {
    let of = |error: safetensors::SafetensorsError| match error {
        safetensors::SafetensorsError::Cancelled => SourceError::Cancelled,
        safetensors::SafetensorsError::Read { error, .. } => SourceError::system(path, error),
        error => SourceError::Safetensors { path: path.to_owned(), error: Box::new(error) },
    };
    let mut file = LocalFile::open(path)?;
    let header = safetensors::read(&mut file).map_err(of)?;
    safetensors::check_length(&header, file.len()).map_err(of)?;
    Ok(header)
}

/// The files of weights in a folder: those of its index, or else as mlx-lm finds them.
fn weight_files(folder: &Path, index: Option<&Index>) -> Result<Vec<PathBuf>, SourceError> {
    if let Some(index) = index {
        let names = index.files();
        if names.len() > MAX_FILES {
            return Err(damaged(folder, format!("{INDEX} names more than {MAX_FILES} files")));
        }
        let odd = |name: &&&str| name.contains(['/', '\\']) || name.starts_with('.');
        if let Some(name) = names.iter().find(odd) {
            return Err(damaged(folder, format!("{INDEX} names '{}', which is no file beside it", text::quoted(name))));
        }
        let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
        if let Some((at, path)) = paths.iter().enumerate().find(|(_, path)| !path.exists()) {
            return Err(SourceError::MissingShard {
                path: path.clone(),
                number: at as u64 + 1,
                count: paths.len() as u64,
            });
        }
        return Ok(paths);
    }
    let entries = fs::read_dir(folder).map_err(|error| SourceError::system(folder, error))?;
    let mut paths: Vec<PathBuf> = entries.take(MAX_FILES).filter_map(|entry| Some(entry.ok()?.path())).collect();
    let name = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    paths.retain(|path| is_weights(&name(path)) && path.is_file());
    own_weights(&mut paths, name);
    paths.sort();
    Ok(paths)
}

/// Whether a file of this name may have weights.
pub(super) fn is_weights(name: &str) -> bool {
    name.ends_with(".safetensors") && !name.starts_with('.')
}

/// Leaves out an original's own copy of the same weights, which is not loaded.
pub(super) fn own_weights<T>(files: &mut Vec<T>, name: impl Fn(&T) -> String) {
    if files.iter().any(|file| name(file).starts_with("model")) {
        files.retain(|file| name(file).starts_with("model"));
    }
}

fn index(folder: &Path) -> Result<Option<Index>, SourceError> {
    let path = folder.join(INDEX);
    let Some(text) = files::text(&path, MAX_TEXT).map_err(|reason| damaged(&path, reason))? else {
        return Ok(None);
    };
    let read: Result<Index, _> = serde_json::from_str(&text);
    read.map(Some).map_err(|error| damaged(&path, format!("it is no index of tensors ({error}): download it again")))
}

/// That every tensor of the index is in a file.
fn listed(folder: &Path, index: Option<&Index>, stored: &Stored) -> Result<(), SourceError> {
    let Some(index) = index else { return Ok(()) };
    let missing = index.weight_map.iter().find(|(name, _)| stored.tensor(&text::one_line(name)).is_none());
    missing.map_or(Ok(()), |(name, file)| {
        let (name, file) = (text::quoted(name).into_owned(), text::quoted(file).into_owned());
        Err(damaged(folder, format!("{INDEX} says that {file} has tensor '{name}', but it has not: download it again")))
    })
}

fn damaged(path: &Path, reason: String) -> SourceError {
    SourceError::Damaged { path: path.to_owned(), reason }
}
