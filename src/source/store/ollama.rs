//! Ollama's store: JSON manifests at `manifests/HOST/NAMESPACE/NAME/TAG`, which name blobs by digest.
//!
//! Default names: types/model/name.go, Ollama 0.24.
//! Media types of their layers: server/images.go, Ollama 0.24; registries have the same manifests.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{EntryState, Store, StoreEntry, size_of};
use crate::files;
use crate::source::tag::TagParameters;
use crate::units::Bytes;

/// Folders of manifests: the current one, and the one that Ollama is moving to.
const MANIFESTS: [&str; 2] = ["manifests", "manifests-v2"];
/// Hosts omitted in short names; the first is the default.
pub(in crate::source) const HOSTS: [&str; 2] = ["registry.ollama.ai", "ollama.com"];
const NAMESPACE: &str = "library";
const TAG: &str = "latest";

/// A model's full name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub struct OllamaName {
    pub host: String,
    pub namespace: String,
    pub model: String,
    pub tag: String,
}

impl OllamaName {
    /// Parses and completes `llama3.1`, `llama3.1:8b`, `owner/model:tag` or `host/owner/model:tag`, optionally after
    /// `ollama://`; none if it is not a valid name.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("ollama://").unwrap_or(text);
        let mut parts: Vec<&str> = text.split('/').collect();
        let (model, tag) = parts.pop().map(|last| last.split_once(':').unwrap_or((last, TAG)))?;
        let namespace = parts.pop().unwrap_or(NAMESPACE);
        let host = parts.pop().unwrap_or(HOSTS[0]);
        let fit = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        let host_fits = host.split(':').all(&fit) && host.matches(':').count() < 2;
        (parts.is_empty() && host_fits && [namespace, model, tag].into_iter().all(fit)).then(|| Self {
            host: host.to_owned(),
            namespace: namespace.to_owned(),
            model: model.to_owned(),
            tag: tag.to_owned(),
        })
    }

    /// The name without default parts.
    pub fn short(&self) -> String {
        let Self { host, namespace, model, tag } = self;
        match (HOSTS.contains(&host.as_str()), namespace == NAMESPACE) {
            (true, true) => format!("{model}:{tag}"),
            (true, false) => format!("{namespace}/{model}:{tag}"),
            (false, _) => format!("{host}/{namespace}/{model}:{tag}"),
        }
    }
}

/// Finds the model `name` in the store `root`; none if the store has no such manifest.
pub fn find(root: &Path, name: &OllamaName) -> Option<StoreEntry> {
    let hosts = if HOSTS.contains(&name.host.as_str()) { HOSTS.to_vec() } else { vec![name.host.as_str()] };
    let places = MANIFESTS.iter().flat_map(|folder| hosts.iter().map(move |host| root.join(folder).join(host)));
    places
        .map(|place| place.join(&name.namespace).join(&name.model).join(&name.tag))
        .find(|path| path.is_file())
        .map(|path| entry(root, name, path))
}

/// Lists the models of the store `root`, which need not exist.
pub(super) fn list(root: &Path, entries: &mut Vec<StoreEntry>) {
    let of_ollama = entries.iter().filter(|entry| entry.store == Store::Ollama);
    let mut listed: HashSet<String> = of_ollama.map(|entry| entry.name.clone()).collect();
    for manifests in MANIFESTS.map(|folder| root.join(folder)) {
        let mut paths = Vec::new();
        if let Err((folder, error)) = tags(&manifests, 4, &mut paths) {
            let name = folder.display().to_string();
            entries.push(StoreEntry::broken(
                name,
                Store::Ollama,
                folder,
                format!("the folder cannot be read: {error}"),
            ));
        }
        for path in paths {
            let parts: Vec<_> =
                path.strip_prefix(&manifests).into_iter().flatten().map(|part| part.to_string_lossy()).collect();
            let [host, namespace, model, tag] = parts.as_slice() else { continue };
            let name = OllamaName {
                host: host.to_string(),
                namespace: namespace.to_string(),
                model: model.to_string(),
                tag: tag.to_string(),
            };
            if listed.insert(name.short()) {
                entries.push(entry(root, &name, path));
            }
        }
    }
}

/// More models than a store has.
const MAX_MANIFESTS: usize = 4096;

/// Collects the files `depth` levels down: host, namespace, model, tag.
fn tags(folder: &Path, depth: usize, paths: &mut Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    let dir = match fs::read_dir(folder) {
        Ok(dir) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err((folder.to_owned(), error)),
    };
    for entry in dir.flatten().filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')) {
        if paths.len() == MAX_MANIFESTS {
            let more = io::Error::other(format!("it has more than {MAX_MANIFESTS} models, of which those are listed"));
            return Err((folder.to_owned(), more));
        }
        let path = entry.path();
        match (depth, path.is_dir()) {
            (1, false) => paths.push(path),
            (2.., true) => tags(&path, depth - 1, paths)?,
            _ => {}
        }
    }
    Ok(())
}

fn entry(root: &Path, name: &OllamaName, manifest: PathBuf) -> StoreEntry {
    let short = name.short();
    match open_manifest(root, &short, &manifest) {
        Ok((path, state)) => StoreEntry { name: short, store: Store::Ollama, path, state },
        Err(reason) => StoreEntry::broken(short, Store::Ollama, manifest, reason),
    }
}

fn open_manifest(root: &Path, name: &str, manifest: &Path) -> Result<(PathBuf, EntryState), String> {
    let again = format!("run 'ollama pull {name}' to fetch it again");
    let path_of_manifest = manifest;
    let manifest = Manifest::read(path_of_manifest, name)?;
    let path =
        |layer: &ManifestLayer| blob(root, layer).ok_or_else(|| format!("its manifest has an invalid digest: {again}"));
    let of_kind = |kind: &str| manifest.of_kind(kind).map(path).collect::<Result<Vec<_>, _>>();
    let tensors = of_kind("tensor")?;
    if of_kind("model")?.is_empty() && !tensors.is_empty() {
        if let Some(missing) = tensors.iter().find(|path| !path.exists()) {
            return Err(format!("its blob {} is missing: {again}", short(missing)));
        }
        let size = manifest.of_kind("tensor").filter_map(ManifestLayer::size).map(Bytes).sum();
        return Ok((path_of_manifest.to_owned(), EntryState::Tensors { size }));
    }
    let model = path(manifest.model()?)?;
    let (models, projectors, adapters) = (of_kind("model")?, of_kind("projector")?, of_kind("adapter")?);
    let drafts = of_kind("draft")?;
    let mut size = Bytes::ZERO;
    let ggufs = models.iter().chain(&projectors).chain(&drafts);
    for (path, is_gguf) in ggufs.map(|path| (path, true)).chain(adapters.iter().map(|path| (path, false))) {
        if !path.exists() {
            return Err(format!("its blob {} is missing: {again}", short(path)));
        }
        // adapters may be in older formats
        size += if is_gguf { size_of(path)? } else { Bytes(fs::metadata(path).map_or(0, |about| about.len())) };
    }
    let knobs = of_kind("params")?.first().map(|path| params(path)).transpose()?.unwrap_or_default();
    Ok((
        model,
        EntryState::Whole {
            size,
            projector: projectors.into_iter().next(),
            draft: drafts.into_iter().next(),
            adapters,
            knobs,
        },
    ))
}

/// The beginning of a blob's name.
fn short(path: &Path) -> String {
    let blob = path.file_name().unwrap_or_default().to_string_lossy();
    blob.get(..19).unwrap_or(&blob).to_owned()
}

/// Reads the params layer at `path`.
pub(in crate::source) fn params(path: &Path) -> Result<TagParameters, String> {
    let text = files::text(path, files::TEXT).map_err(|why| format!("its parameters: {why}"))?;
    Ok(text.map(|text| TagParameters::of_json(text.as_bytes())).unwrap_or_default())
}

/// The path of a layer's file.
pub(in crate::source) fn blob(root: &Path, layer: &ManifestLayer) -> Option<PathBuf> {
    layer.sha256().map(|hex| root.join("blobs").join(format!("sha256-{hex}")))
}

#[derive(Deserialize)]
pub(in crate::source) struct Manifest {
    #[serde(default)]
    config: Option<ManifestLayer>,
    #[serde(default)]
    layers: Vec<ManifestLayer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::source) struct ManifestLayer {
    media_type: String,
    digest: String,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    name: Option<String>,
}

impl Manifest {
    /// Reads the manifest at `path`, of the model `name`.
    ///
    /// # Errors
    /// One sentence on why it cannot be read.
    pub fn read(path: &Path, name: &str) -> Result<Self, String> {
        let again = format!("run 'ollama pull {name}' to fetch it again");
        // one with a layer for each tensor may be longer than what people write
        let json = files::text(path, files::RECORD).map_err(|why| format!("its manifest {why}"))?;
        let json = json.ok_or_else(|| format!("its manifest is gone: {again}"))?;
        serde_json::from_str(&json).map_err(|error| format!("its manifest is damaged ({error}): {again}"))
    }

    /// What describes the model: its configuration.
    pub const fn config(&self) -> Option<&ManifestLayer> {
        self.config.as_ref()
    }

    /// The layers of a kind: `model`, `projector`, `adapter`, `params`.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &ManifestLayer> {
        let kind = format!("application/vnd.ollama.image.{kind}");
        self.layers.iter().filter(move |layer| layer.media_type == kind)
    }

    /// The file of this name: `config.json`.
    pub fn named(&self, name: &str) -> Option<&ManifestLayer> {
        self.of_kind("json").find(|layer| layer.name() == Some(name))
    }

    /// What describes it, of a model with a layer for each tensor; none of others.
    #[cfg(feature = "net")]
    pub fn of_tensors(&self) -> Option<&ManifestLayer> {
        let is_one = self.of_kind("model").next().is_none() && self.of_kind("tensor").next().is_some();
        self.named("config.json").filter(|_| is_one)
    }

    /// The layer of the model's GGUF file.
    ///
    /// # Errors
    /// One sentence on why there is none.
    pub fn model(&self) -> Result<&ManifestLayer, String> {
        self.of_kind("model").next().ok_or_else(|| {
            let tensors = self.of_kind("tensor").next().is_some();
            let why = if tensors {
                "it is stored as safetensors without a config.json"
            } else {
                "its manifest names no model file"
            };
            format!("{why}: it cannot be planned")
        })
    }
}

impl ManifestLayer {
    /// Bytes of its file, by the manifest.
    pub const fn size(&self) -> Option<u64> {
        self.size
    }

    /// The name of a tensor or a file.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The 64 hexadecimal digits of its `sha256:` digest; none for anything else, which must not get into a path or an
    /// address.
    pub fn sha256(&self) -> Option<&str> {
        let hex = self.digest.strip_prefix("sha256:").or_else(|| self.digest.strip_prefix("sha256-"))?;
        (hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hex)
    }
}
