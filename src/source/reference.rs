//! What a person writes to name a model: a path, a name in an Ollama store on this machine, a name on a server, or one in
//! the catalogue.

use std::path::{Path, PathBuf};

use super::catalogue::{self, CatalogueEntry};
use super::error::SourceError;
use super::open::{OpenedModel, open, stored};
use super::progress::ProgressCallback;
use super::roots::Roots;
use super::store::ollama;
use crate::gguf::NotAFileType;

/// The beginning of references to the catalogue.
const CATALOGUE: &str = "catalogue:";

/// Opens the model that `reference` names: a path (`~/` is the home folder), a name such as `llama3.1:8b` in one of the
/// Ollama stores of `roots`, then one on its servers, or an entry of the catalogue (`catalogue:qwen3-8b@q4_K_M`; its
/// beginning may be left out). A file of that name goes first, a folder before the servers, the catalogue last.
///
/// # Errors
/// When nothing goes by this name, or it cannot be opened; [`SourceError::Cancelled`] when `watch` says so.
pub fn load(reference: &str, roots: &Roots, watch: &mut ProgressCallback<'_>) -> Result<OpenedModel, SourceError> {
    let path = in_home(reference, roots);
    if path.is_file() {
        return open(&path, watch);
    }
    let name = ollama::OllamaName::parse(reference);
    if let Some(name) = &name
        && let Some(found) = roots.ollama.iter().find_map(|root| ollama::find(root, name))
    {
        return stored(&found, watch);
    }
    if let Some(entry) = reference.strip_prefix(CATALOGUE) {
        return built_in(entry);
    }
    if remote::is_remote(reference) {
        return remote::load(reference, roots, watch);
    }
    if let (None, Some((kind, _))) = (&name, reference.split_once("://")) {
        let reason = format!(
            "'{kind}://' is not a supported kind of address: use http, https, hf, ollama, or a plain file path"
        );
        return Err(SourceError::NotThere { reference: reference.to_owned(), reason });
    }
    if is_path(reference) || path.exists() {
        return open(&path, watch);
    }
    let unknown = match name {
        Some(name) => match remote::name(reference, &name, roots, watch) {
            Err(error @ SourceError::Cancelled) => return Err(error),
            Err(error) => error,
            found => return found,
        },
        None => SourceError::Unknown { reference: reference.to_owned() },
    };
    match built_in(reference) {
        Ok(mut found) => {
            found.header.notes.push(format!("Planned from the catalogue's description: {unknown}"));
            Ok(found)
        }
        Err(SourceError::NoEntry { near, .. }) if near.is_empty() => Err(unknown),
        Err(SourceError::NoEntry { near, .. }) => Err(SourceError::Near { error: Box::new(unknown), near }),
        Err(error) => Err(error),
    }
}

#[cfg(feature = "net")]
mod remote;

/// Without a network.
#[cfg(not(feature = "net"))]
mod remote {
    use super::{OpenedModel, ProgressCallback, Roots, SourceError, ollama};

    pub(super) fn is_remote(reference: &str) -> bool {
        ["http://", "https://", "hf://", "hf.co/", "huggingface.co/"].iter().any(|scheme| reference.starts_with(scheme))
    }

    pub(super) fn load(reference: &str, _: &Roots, _: &mut ProgressCallback<'_>) -> Result<OpenedModel, SourceError> {
        Err(SourceError::Remote { reference: reference.to_owned() })
    }

    pub(super) fn name(
        reference: &str,
        _: &ollama::OllamaName,
        _: &Roots,
        _: &mut ProgressCallback<'_>,
    ) -> Result<OpenedModel, SourceError> {
        Err(SourceError::Unknown { reference: reference.to_owned() })
    }
}

/// Opens an entry of the catalogue: `qwen3-8b`, in the quantisation that people mostly run it in, or `qwen3-8b@Q8_0`.
///
/// # Errors
/// When the catalogue has no such model, or the quantiser makes no such file of it.
pub(super) fn built_in(reference: &str) -> Result<OpenedModel, SourceError> {
    let (name, quantisation) = match reference.rsplit_once('@') {
        Some((name, quantisation)) => (name, Some(quantisation)),
        None => (reference, None),
    };
    let entry = catalogue::find(name)
        .ok_or_else(|| SourceError::NoEntry { name: name.to_owned(), near: some(&catalogue::nearest(name)) })?;
    let refused = |reason: String| SourceError::Broken { name: format!("{CATALOGUE}{reference}"), reason };
    let quantisation = match quantisation {
        Some(text) => text.parse().map_err(|error: NotAFileType| refused(error.to_string()))?,
        None => entry.quantisation,
    };
    let model = entry.model(quantisation).map_err(|error| refused(error.to_string()))?;
    let own = quantisation == entry.quantisation;
    let name = if own { entry.name.clone() } else { format!("{}@{quantisation}", entry.name) };
    Ok(OpenedModel {
        reference: Some(format!("{CATALOGUE}{name}")),
        ..OpenedModel::new(model.header, entry.title.clone())
    })
}

/// The first of `entries` by name, and how many more there are.
fn some(entries: &[&CatalogueEntry]) -> String {
    const NAMED: usize = 5;
    let names: Vec<_> = entries.iter().take(NAMED).map(|entry| entry.name.as_str()).collect();
    match entries.len().saturating_sub(NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Whether a text can only be meant as a path.
fn is_path(text: &str) -> bool {
    let gguf = Path::new(text).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
    gguf || text.contains('\\') || ["/", "./", "../", "~"].iter().any(|start| text.starts_with(start))
}

/// A path whose `~/` is the home folder.
fn in_home(text: &str, roots: &Roots) -> PathBuf {
    match (text.strip_prefix('~'), &roots.home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with(['/', '\\']) => {
            home.join(rest.trim_start_matches(['/', '\\']))
        }
        _ => PathBuf::from(text),
    }
}
