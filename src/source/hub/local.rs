//! Files of a repository that other programs keep on this machine.

use std::path::{Path, PathBuf};

use super::HfReference;
use super::files::{choose, groups};
use crate::files;
use crate::gguf::read::ShardName;
use crate::source::roots::Roots;
use crate::source::safetensors::CONFIG;
use crate::source::store::{self, EntryState, Store, StoreEntry};

/// The file on this machine that `wanted` means.
pub(in crate::source) fn find(wanted: &HfReference, roots: &Roots) -> Option<StoreEntry> {
    let mut kept = kept(wanted, roots);
    kept.retain(|(_, entry)| matches!(entry.state, EntryState::Whole { .. }));
    let files: Vec<String> = kept.iter().map(|(file, _)| file.clone()).collect();
    // shards are listed as one file
    let file = wanted.file.as_ref().map(|file| match ShardName::parse(file) {
        Some(shard) => format!("{}.gguf", shard.stem),
        None => file.clone(),
    });
    let wanted = HfReference { file, ..wanted.clone() };
    let groups = groups(&files, wanted.folder.as_deref());
    let chosen = choose(&groups, &files, &wanted).ok()?.files.first()?;
    kept.into_iter().find(|(file, _)| file == chosen).map(|(_, entry)| entry)
}

/// The files of the repository that are on this machine.
pub(in crate::source) fn list(wanted: &HfReference, roots: &Roots) -> Vec<StoreEntry> {
    kept(wanted, roots).into_iter().map(|(_, entry)| entry).collect()
}

/// The same with the path of each in the repository.
fn kept(wanted: &HfReference, roots: &Roots) -> Vec<(String, StoreEntry)> {
    let of_repository = |entry: StoreEntry| Some((path_in(&wanted.repository, &entry)?, entry));
    let kept = store::list(roots).into_iter().filter_map(of_repository);
    kept.filter(|(_, entry)| is_of_revision(entry, wanted.revision.as_deref())).collect()
}

/// The folder of safetensors on this machine that `wanted` means: a snapshot in Hugging Face's cache, or one of LM Studio's.
pub(in crate::source) fn original(wanted: &HfReference, roots: &Roots) -> Option<(PathBuf, Store)> {
    if wanted.file.is_some() {
        return None;
    }
    let revision = wanted.revision();
    if revision.contains(['/', '\\']) || revision.starts_with('.') {
        return None;
    }
    let folder = |root: &PathBuf| {
        let repository = root.join(format!("models--{}", wanted.repository.replace('/', "--")));
        let named = files::text(&repository.join("refs").join(revision), files::TEXT).ok().flatten();
        let commit = named.as_deref().map_or(revision, str::trim);
        let inside = !commit.contains(['/', '\\']) && !commit.starts_with('.');
        inside.then(|| repository.join("snapshots").join(commit)).filter(|folder| folder.join(CONFIG).is_file())
    };
    // LM Studio keeps no revisions
    let of_lm_studio = |root: &PathBuf| {
        let folder = root.join(&wanted.repository);
        (wanted.revision.is_none() && folder.join(CONFIG).is_file()).then_some(folder)
    };
    let of_hub = roots.hugging_face.iter().find_map(folder).map(|folder| (folder, Store::HuggingFace));
    of_hub.or_else(|| Some((roots.lm_studio.iter().find_map(of_lm_studio)?, Store::LmStudio)))
}

/// The path of an entry in `repository`; none if it is of another one.
fn path_in(repository: &str, entry: &StoreEntry) -> Option<String> {
    let below = |start: &str| {
        let head = entry.name.get(..start.len()).filter(|head| head.eq_ignore_ascii_case(start));
        head.and(entry.name.get(start.len()..)).filter(|rest| !rest.is_empty()).map(str::to_owned)
    };
    let path = match entry.store {
        // the tag is the quantisation
        Store::Ollama => ["hf.co/", "huggingface.co/"].into_iter().find_map(|host| {
            let tag = below(&format!("{host}{repository}:"))?;
            Some(format!("{}-{tag}.gguf", repository.rsplit('/').next().unwrap_or(repository)))
        }),
        // the older cache is one folder
        Store::LlamaCpp => {
            below(&format!("{repository}/")).or_else(|| below(&format!("{}_", repository.replace('/', "_"))))
        }
        Store::HuggingFace | Store::LmStudio => below(&format!("{repository}/")),
    }?;
    // an older revision is named behind the file
    Some(path.rsplit_once('@').filter(|(file, _)| is_gguf(file)).map_or(path.clone(), |(file, _)| file.to_owned()))
}

/// Whether a file is of this revision: of a snapshot of it, or without one of what `main` is.
fn is_of_revision(entry: &StoreEntry, revision: Option<&str>) -> bool {
    let snapshot = snapshot(&entry.path);
    match revision {
        // older revisions have theirs behind the name
        None => entry.store == Store::Ollama || is_gguf(&entry.name),
        Some(revision) => snapshot.is_some_and(|(repository, commit)| {
            // a branch or a tag, unless it is a commit itself
            let safe = !revision.contains(['/', '\\']) && !revision.starts_with('.');
            let named = safe
                .then(|| files::text(&repository.join("refs").join(revision), files::TEXT).ok().flatten())
                .flatten();
            named.is_some_and(|named| named.trim() == commit) || (revision.len() >= 7 && commit.starts_with(revision))
        }),
    }
}

fn is_gguf(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"))
}

/// The folder of the repository, and the commit, of a file in Hugging Face's layout.
fn snapshot(path: &Path) -> Option<(&Path, &str)> {
    let of = path.ancestors().find(|folder| folder.parent().is_some_and(|above| above.ends_with("snapshots")))?;
    Some((of.parent()?.parent()?, of.file_name()?.to_str()?))
}
