//! Models stored on this machine by other programs.
//!
//! In folders of GGUF files, shards are one model, and projectors belong to the models in their folder; a folder with
//! `config.json` and safetensors is a model of MLX. Hugging Face's cache has `models--OWNER--NAME/snapshots/REVISION/FILE`, links to blobs.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use super::beside::{in_folder, of_repository};
use super::file::LocalFile;
use super::file_name::is_projector;
use super::roots::Roots;
use super::safetensors;
use super::tag::TagParameters;
use crate::files;
use crate::gguf::read::ShardName;
use crate::gguf::{GgufError, check};
use crate::units::Bytes;

pub mod ollama;

/// The program that keeps a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Store {
    Ollama,
    HuggingFace,
    LmStudio,
    LlamaCpp,
}

impl Store {
    /// The program's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ollama => "Ollama",
            Self::HuggingFace => "Hugging Face",
            Self::LmStudio => "LM Studio",
            Self::LlamaCpp => "llama.cpp",
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A model on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreEntry {
    /// Its name: `llama3.1:8b` for Ollama, `owner/repository/file` for files.
    pub name: String,
    /// The program that keeps it.
    pub store: Store,
    /// Its file, or the first shard; for a broken entry the faulty file.
    pub path: PathBuf,
    /// Whether it can be opened.
    pub state: EntryState,
}

/// Whether an entry can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// It can.
    Whole {
        /// Total size of its files, including shards and projector.
        size: Bytes,
        /// Its vision or audio projector.
        projector: Option<PathBuf>,
        /// Its draft model.
        draft: Option<PathBuf>,
        /// Its `LoRA` adapters, in order.
        adapters: Vec<PathBuf>,
        /// Parameters of its tag.
        knobs: TagParameters,
    },
    /// It can, and its weights are safetensors: its path is that of the manifest, or of their folder.
    Tensors {
        /// Total size of its tensors' files.
        size: Bytes,
    },
    /// It cannot; the reason is one sentence without a full stop.
    Broken(String),
}

impl StoreEntry {
    fn broken(name: impl Into<String>, store: Store, path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self { name: name.into(), store, path: path.into(), state: EntryState::Broken(reason.into()) }
    }
}

/// Lists the models below `roots`, sorted by store and name, each file once. Reads only file names, sizes, Ollama's
/// manifests and the first bytes of each file.
pub fn list(roots: &Roots) -> Vec<StoreEntry> {
    let mut entries = Vec::new();
    for root in &roots.ollama {
        ollama::list(root, &mut entries);
    }
    for (store, folders) in [(Store::HuggingFace, &roots.hugging_face), (Store::LlamaCpp, &roots.llama_cpp)] {
        for root in folders {
            list_hub(root, store, &mut entries);
        }
    }
    for (store, folders) in [(Store::LmStudio, &roots.lm_studio), (Store::LlamaCpp, &roots.llama_cpp)] {
        for root in folders {
            list_folder(root, store, Kind::Folders, &mut entries);
        }
    }
    entries.sort_by(|a, b| (a.store, &a.name, &a.path).cmp(&(b.store, &b.name, &b.path)));
    // two roots may be the same folder
    entries.dedup_by(|a, b| (a.store, &a.name) == (b.store, &b.name) && same_file(a, b));
    entries
}

/// The file of this name in a store, as [`list`] names it; Ollama's models are found by [`ollama::find`].
pub(super) fn named(name: &str, roots: &Roots) -> Option<StoreEntry> {
    // folders are only read for what can be a file's name
    let lower = name.to_ascii_lowercase();
    let can_be = lower.contains(".gguf") && !lower.contains("://");
    let is_path = name.starts_with(['/', '.', '~']) || name.contains('\\');
    if !can_be || is_path {
        return None;
    }
    list(roots).into_iter().find(|entry| entry.store != Store::Ollama && entry.name == name)
}

fn same_file(a: &StoreEntry, b: &StoreEntry) -> bool {
    let place = |entry: &StoreEntry| entry.path.canonicalize().unwrap_or_else(|_| entry.path.clone());
    place(a) == place(b)
}

/// Nesting depth of folders; LM Studio and snapshots need three.
const MAX_DEPTH: usize = 5;
/// Files and folders visited below one root.
const MAX_FILES: usize = 50_000;

/// What a folder with others inside is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Each holds models of its own.
    Folders,
    /// All are one repository.
    Repository,
}

/// Lists the GGUF files below `root`, which need not exist, and the folders of models of MLX; where `root` is such a folder itself,
/// its name is empty.
fn list_folder(root: &Path, store: Store, kind: Kind, entries: &mut Vec<StoreEntry>) {
    let mut walk = FolderWalk { left: MAX_FILES, folders: Vec::new(), tensors: Vec::new(), failed: Vec::new() };
    walk.folder(root, MAX_DEPTH);
    for (path, error) in walk.failed {
        entries.push(StoreEntry::broken(
            name_below(root, &path),
            store,
            path,
            format!("the folder cannot be read: {error}"),
        ));
    }
    for folder in walk.tensors {
        let Some(size) = safetensors::size_of(&folder, store == Store::LmStudio) else { continue };
        let state = size.map_or_else(|why| EntryState::Broken(why.to_string()), |size| EntryState::Tensors { size });
        let name = if folder == root { String::new() } else { name_below(root, &folder) };
        entries.push(StoreEntry { name, store, path: folder, state });
    }
    let below = |folder: &Path, file: &String| name_below(root, &folder.join(file));
    let all = walk.folders.iter().flat_map(|(folder, files)| files.iter().map(|file| below(folder, file)));
    let all: Vec<String> = all.collect();
    for (folder, files) in walk.folders {
        let projector = |file: &String| match kind {
            Kind::Repository => of_repository(&below(&folder, file), &all).map(|file| root.join(file)),
            Kind::Folders => match in_folder(file, &files).as_slice() {
                [projector] => Some(folder.join(projector)),
                _ => None,
            },
        };
        models(&files, |file| name_below(root, &folder.join(file)), projector, store, &folder, entries);
    }
}

/// A path below `root`, with slashes.
fn name_below(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).ok().filter(|below| !below.as_os_str().is_empty()).unwrap_or(path);
    let parts: Vec<_> = below.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

/// Finds GGUF files, folder by folder, and folders of safetensors.
struct FolderWalk {
    left: usize,
    folders: Vec<(PathBuf, Vec<String>)>,
    tensors: Vec<PathBuf>,
    failed: Vec<(PathBuf, io::Error)>,
}

impl FolderWalk {
    fn folder(&mut self, folder: &Path, depth: usize) {
        let dir = match fs::read_dir(folder) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.failed.push((folder.to_owned(), error)),
        };
        let (mut files, mut has_config, mut has_tensors) = (Vec::new(), false, false);
        for entry in dir {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let Ok(entry) = entry else { continue };
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if name.to_ascii_lowercase().ends_with(".gguf") && !path.is_dir() {
                files.push(name);
            } else if path.is_dir() && depth > 0 && !name.starts_with("models--") {
                self.folder(&path, depth - 1);
            } else {
                has_config |= name == safetensors::CONFIG;
                has_tensors |= safetensors::is_weights(&name);
            }
        }
        if has_config && has_tensors {
            self.tensors.push(folder.to_owned());
        }
        if !files.is_empty() {
            files.sort();
            self.folders.push((folder.to_owned(), files));
        }
    }
}

/// Adds entries for the GGUF `files` of one folder; `named` returns a file's name in the list, and `projector` that of a
/// model's first file.
fn models(
    files: &[String],
    named: impl Fn(&str) -> String,
    projector: impl Fn(&String) -> Option<PathBuf>,
    store: Store,
    folder: &Path,
    entries: &mut Vec<StoreEntry>,
) {
    let mut grouped: BTreeMap<(String, u64), Vec<&String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !is_projector(file)) {
        let group = ShardName::parse(file).map_or_else(|| (file.clone(), 0), |name| (name.stem, name.count));
        grouped.entry(group).or_default().push(file);
    }
    for ((stem, count), shards) in grouped {
        let Some(first) = shards.first() else { continue };
        let name = if count == 0 { named(first) } else { named(&format!("{stem}.gguf")) };
        entries.push(StoreEntry {
            name,
            store,
            path: folder.join(first),
            state: state(folder, &shards, count, projector(first)).unwrap_or_else(EntryState::Broken),
        });
    }
}

/// Checks a model's files and adds up their sizes, or returns why it is broken.
fn state(folder: &Path, shards: &[&String], count: u64, projector: Option<PathBuf>) -> Result<EntryState, String> {
    if let Some(number) = missing_shard(shards.iter().copied(), count) {
        return Err(format!("shard {number} of {count} is missing: download it into the folder of the others"));
    }
    let mut size = Bytes::ZERO;
    for shard in shards {
        size += size_of(&folder.join(shard.as_str()))?;
    }
    if let Some(projector) = &projector {
        size += size_of(projector)?;
    }
    Ok(EntryState::Whole { size, projector, draft: None, adapters: Vec::new(), knobs: TagParameters::default() })
}

/// The first of `count` shards that is not among `files`, counted from one.
pub(super) fn missing_shard<'f>(files: impl Iterator<Item = &'f String>, count: u64) -> Option<u64> {
    let there: HashSet<u64> = files.filter_map(|file| Some(ShardName::parse(file)?.index + 1)).collect();
    (1..=count.min(there.len() as u64 + 1)).find(|number| !there.contains(number))
}

/// The size of a GGUF file, or why it is not one.
fn size_of(path: &Path) -> Result<Bytes, String> {
    if fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink()) && !path.exists() {
        return Err("the link is broken: its download is incomplete, or its blob was deleted".to_owned());
    }
    let mut file = LocalFile::open(path).map_err(|error| error.to_string())?;
    match check(&mut file) {
        Ok(()) => Ok(Bytes(file.len())),
        Err(GgufError::Read { error, .. }) => Err(format!("it cannot be read: {error}")),
        Err(error) => Err(error.to_string()),
    }
}

/// The projectors in the folder of the model at `path` that may be its own, if that is not a projector itself.
pub(super) fn beside(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().and_then(|name| name.to_str()).filter(|name| !is_projector(name));
    let (Some(name), Some(folder)) = (name, path.parent()) else { return Vec::new() };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<String> =
        files.take(MAX_FILES).filter_map(|file| file.ok()?.file_name().into_string().ok()).collect();
    files.sort();
    in_folder(name, &files).into_iter().map(|file| folder.join(file)).collect()
}

/// Lists the GGUF files of all repositories in the cache `root`. Files of revisions other than `refs/main` get a suffix
/// if they differ.
fn list_hub(root: &Path, store: Store, entries: &mut Vec<StoreEntry>) {
    let Ok(folders) = fs::read_dir(root) else { return };
    for folder in folders.flatten() {
        let folder_name = folder.file_name().to_string_lossy().into_owned();
        let Some(repository) = folder_name.strip_prefix("models--").map(|name| name.replace("--", "/")) else {
            continue;
        };
        let main = files::text(&folder.path().join("refs/main"), files::TEXT).ok().flatten().unwrap_or_default();
        let mut found: Vec<(String, Vec<StoreEntry>)> = Vec::new();
        for snapshot in fs::read_dir(folder.path().join("snapshots")).into_iter().flatten().flatten() {
            let revision = snapshot.file_name().to_string_lossy().into_owned();
            let mut files = Vec::new();
            list_folder(&snapshot.path(), store, Kind::Repository, &mut files);
            found.push((revision, files));
        }
        found.sort_by_key(|(revision, _)| (revision != main.trim(), revision.clone()));
        let mut seen: Vec<StoreEntry> = Vec::new();
        for (revision, files) in found {
            for mut entry in files {
                // of the folder itself the name is that of the repository
                let below = if entry.name.is_empty() { String::new() } else { format!("/{}", entry.name) };
                entry.name = format!("{repository}{below}");
                match seen.iter().find(|other| other.name == entry.name) {
                    Some(other) if same_file(other, &entry) => continue,
                    Some(_) => entry.name = format!("{}@{}", entry.name, revision.get(..7).unwrap_or(&revision)),
                    None => {}
                }
                seen.push(entry);
            }
        }
        entries.append(&mut seen);
    }
}
