//! The world as it is: files, folders, stores.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::action::Listing;
use super::effect::{Heard, Loaded, World};
use crate::model::Model;
use crate::source::store::{State, Store};
use crate::source::{self, Roots};

/// Most paths that are offered.
const MOST: usize = 200;

/// This computer.
pub struct ThisComputer;

impl World for ThisComputer {
    fn load(&self, path: &Path, progress: &mut Heard<'_>) -> Result<Loaded, String> {
        let mut watch = |now: source::Progress| -> ControlFlow<()> { progress(now.done, now.total) };
        let roots = Roots::of_this_machine();
        let opened = source::load(&path.to_string_lossy(), &roots, &mut watch).map_err(|error| error.to_string())?;
        let adapters = opened.adapter_bytes(&mut watch).map_err(|error| error.to_string())?;
        let model =
            Model::from_header(opened.header, &opened.name).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Loaded { model: Arc::new(model), adapters })
    }

    fn list(&self) -> Vec<Listing> {
        let entries = source::store::list(&Roots::of_this_machine());
        entries
            .into_iter()
            .map(|entry| {
                let file = match entry.state {
                    // by its name a model of Ollama's comes with its adapters
                    State::Whole { size, .. } if entry.store == Store::Ollama => Ok((PathBuf::from(&entry.name), size)),
                    State::Whole { size, .. } => Ok((entry.path, size)),
                    State::Broken(why) => Err(why),
                };
                Listing { name: entry.name, store: entry.store.to_string(), file }
            })
            .collect()
    }

    fn complete(&self, typed: &str) -> Vec<String> {
        let (shown, start) = match typed.rfind('/') {
            Some(slash) => typed.split_at(slash + 1),
            None => ("", typed),
        };
        let folder = if shown.is_empty() { PathBuf::from(".") } else { at_home(Path::new(shown)) };
        // a folder that cannot be read has nothing to offer
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let mut paths: Vec<String> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let hidden = name.starts_with('.') && !start.starts_with('.');
                let folder = entry.path().is_dir();
                let wanted = folder || name.to_lowercase().ends_with(".gguf");
                let slash = if folder { "/" } else { "" };
                (name.starts_with(start) && wanted && !hidden).then(|| format!("{shown}{name}{slash}"))
            })
            .collect();
        paths.sort_unstable();
        paths.truncate(MOST);
        paths
    }
}

/// `path` with the home folder in place of a leading `~`.
fn at_home(path: &Path) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(rest) => directories::BaseDirs::new().map_or_else(|| path.to_owned(), |dirs| dirs.home_dir().join(rest)),
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_completed_to_folders_and_models() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["llama.gguf", "llama.txt", ".hidden.gguf"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("library")).unwrap();
        let base = format!("{}/", folder.path().display());
        assert_eq!(ThisComputer.complete(&base), [format!("{base}library/"), format!("{base}llama.gguf")]);
        assert_eq!(ThisComputer.complete(&format!("{base}ll")), [format!("{base}llama.gguf")]);
        assert!(ThisComputer.complete("/no such folder/").is_empty());
    }
}
