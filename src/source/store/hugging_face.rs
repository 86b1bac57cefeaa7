//! Hugging Face's cache: `models--OWNER--NAME/snapshots/REVISION/FILE`, links to blobs.

use std::fs;
use std::path::Path;

use super::{Store, StoreEntry, files};

/// Lists the GGUF files of all repositories in the cache `root`. Files of revisions other than `refs/main` get a suffix
/// if they differ.
pub(super) fn list(root: &Path, store: Store, entries: &mut Vec<StoreEntry>) {
    let Ok(folders) = fs::read_dir(root) else { return };
    for folder in folders.flatten() {
        let folder_name = folder.file_name().to_string_lossy().into_owned();
        let Some(repository) = folder_name.strip_prefix("models--").map(|name| name.replace("--", "/")) else {
            continue;
        };
        let main = fs::read_to_string(folder.path().join("refs/main")).unwrap_or_default();
        let mut found: Vec<(String, Vec<StoreEntry>)> = Vec::new();
        for snapshot in fs::read_dir(folder.path().join("snapshots")).into_iter().flatten().flatten() {
            let revision = snapshot.file_name().to_string_lossy().into_owned();
            let mut files = Vec::new();
            files::list(&snapshot.path(), store, &mut files);
            found.push((revision, files));
        }
        found.sort_by_key(|(revision, _)| (revision != main.trim(), revision.clone()));
        let mut seen: Vec<StoreEntry> = Vec::new();
        for (revision, files) in found {
            for mut entry in files {
                entry.name = format!("{repository}/{}", entry.name);
                match seen.iter().find(|other| other.name == entry.name) {
                    Some(other) if super::same_file(other, &entry) => continue,
                    Some(_) => entry.name = format!("{}@{}", entry.name, revision.get(..7).unwrap_or(&revision)),
                    None => {}
                }
                seen.push(entry);
            }
        }
        entries.append(&mut seen);
    }
}
