//! Folders of GGUF files: shards are one model, and projectors belong to the models in their folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{EntryState, Store, StoreEntry};
use crate::gguf::read::ShardName;
use crate::gguf::{GgufError, check};
use crate::source::file::LocalFile;
use crate::source::reference::TagParameters;
use crate::units::Bytes;

/// Nesting depth of folders; LM Studio and snapshots need three.
const MAX_DEPTH: usize = 5;
/// Files and folders visited below one root.
const MAX_FILES: usize = 50_000;

/// Lists the GGUF files below `root`, which need not exist.
pub(super) fn list(root: &Path, store: Store, entries: &mut Vec<StoreEntry>) {
    let mut walk = FolderWalk { left: MAX_FILES, folders: Vec::new(), failed: Vec::new() };
    walk.folder(root, MAX_DEPTH);
    for (path, error) in walk.failed {
        entries.push(StoreEntry::broken(
            name_below(root, &path),
            store,
            path,
            format!("the folder cannot be read: {error}"),
        ));
    }
    for (folder, files) in walk.folders {
        models(&files, |file| name_below(root, &folder.join(file)), store, &folder, entries);
    }
}

/// A path below `root`, with slashes.
fn name_below(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).ok().filter(|below| !below.as_os_str().is_empty()).unwrap_or(path);
    let parts: Vec<_> = below.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

/// Finds GGUF files, folder by folder.
struct FolderWalk {
    left: usize,
    folders: Vec<(PathBuf, Vec<String>)>,
    failed: Vec<(PathBuf, io::Error)>,
}

impl FolderWalk {
    fn folder(&mut self, folder: &Path, depth: usize) {
        let dir = match fs::read_dir(folder) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.failed.push((folder.to_owned(), error)),
        };
        let mut files = Vec::new();
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
            }
        }
        if !files.is_empty() {
            files.sort();
            self.folders.push((folder.to_owned(), files));
        }
    }
}

/// Adds entries for the GGUF `files` of one folder; `named` returns a file's name in the list.
pub(super) fn models(
    files: &[String],
    named: impl Fn(&str) -> String,
    store: Store,
    folder: &Path,
    entries: &mut Vec<StoreEntry>,
) {
    let (projectors, models): (Vec<_>, Vec<_>) = files.iter().partition(|file| mmproj_prefix(file).is_some());
    let mut grouped: BTreeMap<(String, u64), Vec<&String>> = BTreeMap::new();
    for file in models {
        let group = ShardName::parse(file).map_or_else(|| (file.clone(), 0), |name| (name.stem, name.count));
        grouped.entry(group).or_default().push(file);
    }
    for ((stem, count), shards) in grouped {
        let Some(first) = shards.first() else { continue };
        let name = if count == 0 { named(first) } else { named(&format!("{stem}.gguf")) };
        let projector = projector_of(&stem, &projectors).map(|file| folder.join(file));
        entries.push(StoreEntry {
            name,
            store,
            path: folder.join(first),
            state: state(folder, &shards, count, projector).unwrap_or_else(EntryState::Broken),
        });
    }
}

/// Checks a model's files and adds up their sizes, or returns why it is broken.
fn state(folder: &Path, shards: &[&String], count: u64, projector: Option<PathBuf>) -> Result<EntryState, String> {
    for number in 1..=count.min(shards.len() as u64 + 1) {
        let is_number = |shard: &&&String| ShardName::parse(shard).is_some_and(|name| name.index + 1 == number);
        if !shards.iter().any(|shard| is_number(&shard)) {
            return Err(format!("shard {number} of {count} is missing: download it into the folder of the others"));
        }
    }
    let mut size = Bytes::ZERO;
    for shard in shards {
        size += size_of(&folder.join(shard.as_str()))?;
    }
    if let Some(projector) = &projector {
        size += size_of(projector)?;
    }
    Ok(EntryState::Whole { size, projector, adapters: Vec::new(), knobs: TagParameters::default() })
}

/// The size of a GGUF file, or why it is not one.
pub(super) fn size_of(path: &Path) -> Result<Bytes, String> {
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

/// The projector in the folder of the model at `path`, if that is not a projector itself.
pub(in crate::source) fn beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.to_owned();
    let folder = path.parent()?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if mmproj_prefix(&name).is_some() {
        return None;
    }
    let files = fs::read_dir(folder).ok()?.take(MAX_FILES).filter_map(|file| file.ok()?.file_name().into_string().ok());
    let mut projectors: Vec<String> =
        files.filter(|file| mmproj_prefix(file).is_some() && file.to_ascii_lowercase().ends_with(".gguf")).collect();
    projectors.sort();
    let stem = ShardName::parse(&name).map_or(name, |shard| shard.stem);
    projector_of(&stem, &projectors.iter().collect::<Vec<_>>()).map(|file| folder.join(file))
}

/// The part before `mmproj` in a projector's file name.
fn mmproj_prefix(file: &str) -> Option<&str> {
    file.to_ascii_lowercase().find("mmproj").and_then(|at| file.get(..at))
}

/// The projector for the model `stem`: the one with the longest common prefix, then the first in alphabetical order. In
/// llama.cpp's cache, the names of both begin with the repository.
pub(in crate::source) fn projector_of<'f>(stem: &str, projectors: &[&'f String]) -> Option<&'f String> {
    projectors
        .iter()
        .copied()
        .filter_map(|file| {
            mmproj_prefix(file).filter(|before| stem.starts_with(before)).map(|before| (before.len(), file))
        })
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .map(|(_, file)| file)
}
