//! Opens a model by reference: a path, a name in a local Ollama store, a name on a server, or one in the catalogue.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tracing::{info, warn};

use super::error::SourceError;
use super::host::HUB;
use super::hub::{HfReference, Repository, local};
use super::open::{OpenedModel, open, stored, tensor_bytes};
use super::progress::ProgressCallback;
use super::read_from::ReadFrom;
#[cfg(feature = "net")]
use super::remote;
use super::roots::Roots;
use super::safetensors;
use super::store::{self, Store, StoreEntry, beside, ollama};
use crate::catalogue::{self, Nearest, PREFIX as CATALOGUE};
use crate::model::mixture::{NotAQuantisation, Quantisation};
use crate::model::{Model, Projector};
use crate::text::without_secrets;

/// Opens the model that `reference` names: a path (`~/` is the home folder), a name such as `llama3.1:8b` in one of the
/// Ollama stores of `roots` or on its servers, or an entry of the catalogue (`catalogue:qwen3-8b@q4_K_M`; the prefix is
/// optional). Files are tried first, then local stores, folders, servers, and the catalogue last. The name of a file in a
/// store is one too; a file of Hugging Face is read from a store where the server cannot be asked.
///
/// # Errors
/// If no model has this name or it cannot be opened; [`SourceError::Cancelled`] if `on_progress` cancels.
pub fn load(
    reference: &str,
    roots: &Roots,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let since = Instant::now();
    let result = find(reference, roots, on_progress);
    let (name, took) = (without_secrets(reference), since.elapsed());
    match &result {
        Ok(model) => info!("opened '{name}' in {took:.1?}: {}, {} tensors", model.name, model.header.tensors.len()),
        Err(error) => warn!("'{name}' not opened after {took:.1?}: {}", without_secrets(&error.to_string())),
    }
    result
}

fn find(reference: &str, roots: &Roots, on_progress: &mut ProgressCallback<'_>) -> Result<OpenedModel, SourceError> {
    let path = expand_home(reference, roots);
    if safetensors::is_one(&path) {
        return safetensors::folder(&path);
    }
    if path.is_file() {
        return file(&path, on_progress);
    }
    let name = ollama::OllamaName::parse(reference);
    if let Some(name) = &name
        && let Some(found) = roots.ollama.iter().find_map(|root| ollama::find(root, name))
    {
        return stored(&found, on_progress);
    }
    if let Some(entry) = reference.strip_prefix(CATALOGUE) {
        return built_in(entry);
    }
    if let Some(found) = store::named(reference, roots).filter(|_| !path.exists()) {
        return stored(&found, on_progress);
    }
    if remote::is_remote(reference) {
        return match remote::load(reference, roots, on_progress) {
            Err(error) if !matches!(error, SourceError::Cancelled) => kept(reference, roots, error, on_progress),
            found => found,
        };
    }
    if let (None, Some((kind, _))) = (&name, reference.split_once("://")) {
        let reason = format!(
            "'{kind}://' is not a supported kind of address: use http, https, hf, ollama, or a plain file path"
        );
        return Err(SourceError::NotThere { reference: reference.to_owned(), reason });
    }
    if is_path(reference) || path.exists() {
        return file(&path, on_progress);
    }
    let unknown = match name {
        Some(name) => match remote::name(reference, &name, roots, on_progress) {
            Err(error @ SourceError::Cancelled) => return Err(error),
            Err(error) => error,
            found => return found,
        },
        None => SourceError::Unknown { reference: reference.to_owned() },
    };
    match built_in(reference) {
        Ok(mut found) => {
            // a name that a server does not know can be fetched nowhere
            let stands_for = Some(Box::from(reference)).filter(|_| !matches!(unknown, SourceError::Unknown { .. }));
            if let Some(projector) = found.remote_projector.as_ref().filter(|_| stands_for.is_some()) {
                let (text, sees) = (tensor_bytes(&found.header), projector.tensor_bytes);
                found.header.notes.push(format!(
                    "its projector, {sees}, is planned with it; Ollama's file of this name may have other types of \
                     tensors and be larger than the {} planned: 'ollama list' says its size",
                    text + sees
                ));
            }
            found.read_from = ReadFrom::Catalogue { stands_for };
            found.header.notes.push(format!("Planned from the catalogue's description: {unknown}"));
            Ok(found)
        }
        Err(SourceError::NoEntry { .. }) if catalogue::described_by(reference).is_some() => {
            Err(with_offer(unknown, reference))
        }
        Err(SourceError::NoEntry { near, .. }) if near.is_empty() => Err(unknown),
        Err(SourceError::NoEntry { near, .. }) => Err(SourceError::Near { error: Box::new(unknown), near }),
        Err(error) => Err(error),
    }
}

/// The file of a repository that another program keeps on this machine, after `error` from its server.
fn kept(
    reference: &str,
    roots: &Roots,
    error: SourceError,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let wanted = HfReference::parse(reference, roots.hub());
    let Some(entry) = wanted.as_ref().and_then(|wanted| local::find(wanted, roots)) else {
        let Some(wanted) = wanted else { return Err(with_offer(error, reference)) };
        let opened = original(&wanted, roots, &error).ok_or_else(|| with_offer(error, reference))?;
        let broken = |reason: String| SourceError::Broken { name: wanted.to_string(), reason };
        return opened.made(wanted.quant.as_deref()).map_err(broken);
    };
    let mut opened = stored(&entry, on_progress)?;
    opened.header.notes.push(format!("the file is that of {} on this machine: {error}", entry.store));
    Ok(opened)
}

/// The safetensors that Hugging Face's cache or LM Studio on this machine has of a repository, after `error` from its server.
fn original(wanted: &HfReference, roots: &Roots, error: &SourceError) -> Option<OpenedModel> {
    let (folder, store) = local::original(wanted, roots)?;
    let mut opened = safetensors::folder(&folder).ok()?;
    let whose = if store == Store::HuggingFace { "Hugging Face's cache" } else { store.name() };
    opened.note(format!("the files are those of {whose} on this machine: {error}"));
    Some(opened)
}

/// What is known of a repository, or of a folder of original weights.
#[derive(Debug)]
pub enum Listed {
    /// Its models, by the server.
    Repository(Box<Repository>),
    /// The weights of a folder.
    Folder(Box<OpenedModel>),
    /// Those of its files that are on this machine, and why no server says more.
    Local(Box<HfReference>, Vec<StoreEntry>, Box<SourceError>),
}

/// Whether `reference` names a repository on Hugging Face, or a file in one.
pub fn is_repository(reference: &str) -> bool {
    // of a mirror's address only a server knows
    HfReference::parse(reference, HUB).is_some()
}

/// Whether `reference` names a repository on Hugging Face, or a folder of original weights.
pub fn can_be_listed(reference: &str, roots: &Roots) -> bool {
    HfReference::parse(reference, roots.hub()).is_some() || safetensors::is_one(&expand_home(reference, roots))
}

/// Lists the models of a repository on Hugging Face, and reads the header of the one that [`load`] would open; or opens a folder
/// of original weights.
///
/// # Errors
/// If neither the server nor a store on this machine has it; [`SourceError::Cancelled`] if `on_progress` cancels.
pub fn repository(
    reference: &str,
    roots: &Roots,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Listed, SourceError> {
    let path = expand_home(reference, roots);
    if safetensors::is_one(&path) {
        return Ok(Listed::Folder(Box::new(safetensors::folder(&path)?)));
    }
    let wanted = HfReference::parse(reference, roots.hub())
        .ok_or_else(|| SourceError::Unknown { reference: reference.to_owned() })?;
    match remote::repository(&wanted, roots, on_progress) {
        Ok(found) => Ok(Listed::Repository(Box::new(found))),
        Err(SourceError::Cancelled) => Err(SourceError::Cancelled),
        Err(error) => match local::list(&wanted, roots) {
            none if none.is_empty() => match original(&wanted, roots, &error) {
                Some(opened) => Ok(Listed::Repository(Box::new(Repository::of_original(&wanted, opened)))),
                None => Err(with_offer(error, reference)),
            },
            files => Ok(Listed::Local(Box::new(wanted), files, Box::new(error))),
        },
    }
}

/// The model at `path`, with the projectors beside it.
fn file(path: &Path, on_progress: &mut ProgressCallback<'_>) -> Result<OpenedModel, SourceError> {
    Ok(OpenedModel { beside: beside(path), ..open(path, on_progress)? })
}

/// Stubs for builds without the network.
#[cfg(not(feature = "net"))]
mod remote {
    use super::{HfReference, OpenedModel, ProgressCallback, Repository, Roots, SourceError, ollama};

    pub(super) fn is_remote(reference: &str) -> bool {
        ["http://", "https://", "hf://", "hf.co/", "huggingface.co/"].iter().any(|scheme| reference.starts_with(scheme))
    }

    pub(super) fn load(reference: &str, _: &Roots, _: &mut ProgressCallback<'_>) -> Result<OpenedModel, SourceError> {
        Err(SourceError::Remote { reference: reference.to_owned() })
    }

    pub(super) fn repository(
        wanted: &HfReference,
        _: &Roots,
        _: &mut ProgressCallback<'_>,
    ) -> Result<Repository, SourceError> {
        Err(SourceError::Remote { reference: wanted.to_string() })
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

/// Opens a projector: the file at `path`, or that of a model of the catalogue (`catalogue:gemma3-4b`).
///
/// # Errors
/// As [`open`], and if the catalogue has no such projector.
pub fn projector(path: &Path, on_progress: &mut ProgressCallback<'_>) -> Result<Arc<Projector>, SourceError> {
    let Some(name) = path.to_str().and_then(|path| path.strip_prefix(CATALOGUE)) else {
        return Ok(open(path, on_progress)?.into_projector());
    };
    let found = catalogue::find(name).and_then(|entry| entry.projector().cloned());
    found.ok_or_else(|| {
        let known = catalogue::all().iter().filter(|entry| entry.projector().is_some());
        let known: Vec<&str> = known.map(|entry| entry.name.as_str()).collect();
        SourceError::NoProjector { name: name.to_owned(), known: known.join(", ") }
    })
}

/// Opens an entry of the catalogue: `qwen3-8b`, in its usual quantisation, or `qwen3-8b@Q8_0`.
///
/// # Errors
/// If the catalogue has no such model, or the quantiser refuses.
pub(super) fn built_in(reference: &str) -> Result<OpenedModel, SourceError> {
    let refused = |reason: String| SourceError::Broken { name: format!("{CATALOGUE}{reference}"), reason };
    let (name, quantisation) = match reference.rsplit_once('@') {
        Some((name, text)) => (name, Some(text.parse::<Quantisation>())),
        None => (reference, None),
    };
    if let Some(Ok(quantisation)) = &quantisation
        && let Some((entry, file)) = catalogue::published(name, *quantisation)
    {
        let model = entry.published(*quantisation, &file).map_err(|error| refused(error.to_string()))?;
        let opened = of_catalogue(model, file.edition.model_name(), &format!("{name}@{quantisation}"));
        let remote_projector = catalogue::find(name).and_then(|entry| entry.projector().cloned());
        return Ok(OpenedModel { remote_projector, ..opened });
    }
    let entry = catalogue::find(name)
        .ok_or_else(|| SourceError::NoEntry { name: name.to_owned(), near: suggested(&catalogue::nearest(name)) })?;
    let quantisation = match quantisation {
        Some(read) => read.map_err(|error: NotAQuantisation| refused(error.to_string()))?,
        None => entry.quantisation.into(),
    };
    let model = entry.model(quantisation).map_err(|error| refused(error.to_string()))?;
    let own = quantisation == entry.quantisation.into();
    let name = if own { entry.name.clone() } else { format!("{}@{quantisation}", entry.name) };
    Ok(OpenedModel { remote_projector: entry.projector().cloned(), ..of_catalogue(model, &entry.title, &name) })
}

fn of_catalogue(model: Model, title: &str, name: &str) -> OpenedModel {
    let Model { header, entry, mixture, mlx, .. } = model.clone();
    // of a mode of MLX the header has key facts alone
    let opened = match mlx {
        Some(_) => OpenedModel::of_model(model, title.to_owned()),
        None => OpenedModel::new(header, title.to_owned()),
    };
    OpenedModel {
        reference: Some(format!("{CATALOGUE}{name}")),
        entry,
        mixture,
        read_from: ReadFrom::Catalogue { stands_for: None },
        ..opened
    }
}

/// `error` with the catalogue's own name of the model, if it has the model.
fn with_offer(error: SourceError, reference: &str) -> SourceError {
    match catalogue::described_by(reference) {
        Some((entry, quantisation)) if !matches!(error, SourceError::Cancelled) => {
            let offer = match quantisation.filter(|quantisation| *quantisation != entry.quantisation.into()) {
                Some(quantisation) => format!("{CATALOGUE}{}@{quantisation}", entry.name),
                None => format!("{CATALOGUE}{}", entry.name),
            };
            SourceError::InCatalogue { error: Box::new(error), offer }
        }
        _ => error,
    }
}

/// `similar models are qwen3-4b, qwen3-8b and 10 more`: the first five; nothing if there are none.
fn suggested(Nearest { entries, of_other_sizes }: &Nearest) -> String {
    const MAX_SHOWN: usize = 5;
    let names: Vec<_> = entries.iter().take(MAX_SHOWN).map(|entry| entry.name.as_str()).collect();
    let of = if *of_other_sizes { " of other sizes" } else { "" };
    match entries.len().saturating_sub(MAX_SHOWN) {
        _ if names.is_empty() => String::new(),
        0 => format!("similar models{of} are {}", names.join(", ")),
        more => format!("similar models{of} are {} and {more} more", names.join(", ")),
    }
}

/// Whether a text can only be a path.
fn is_path(text: &str) -> bool {
    let gguf = Path::new(text).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
    gguf || text.contains('\\') || ["/", "./", "../", "~"].iter().any(|start| text.starts_with(start))
}

/// Expands `~/` to the home folder.
fn expand_home(text: &str, roots: &Roots) -> PathBuf {
    match (text.strip_prefix('~'), &roots.home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with(['/', '\\']) => {
            home.join(rest.trim_start_matches(['/', '\\']))
        }
        _ => PathBuf::from(text),
    }
}
