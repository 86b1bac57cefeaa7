//! References that are looked up on servers.

use super::{OpenedModel, ProgressCallback, Roots, SourceError, ollama};
use crate::source::http::{HttpRequest, Url};
use crate::source::hugging_face::{self, HfReference};
use crate::source::remote::{FileLocation, RemoteSession};
use crate::source::{Network, registry, running};

/// Prefixes of references to servers.
const REMOTE_PREFIXES: [&str; 5] = ["http://", "https://", "hf://", "hf.co/", "huggingface.co/"];

/// Whether `reference` can only name a model on a server.
pub(super) fn is_remote(reference: &str) -> bool {
    let reference = reference.to_ascii_lowercase();
    REMOTE_PREFIXES.iter().any(|start| reference.starts_with(start))
}

/// Opens a reference for which [`is_remote`] is true.
pub(super) fn load(
    reference: &str,
    roots: &Roots,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let network = network(reference, roots)?;
    let mut session = RemoteSession::new(network);
    let opened = if let Some(wanted) = HfReference::parse(reference, &network.hugging_face) {
        hugging_face::open(&mut session, &wanted, on_progress)?
    } else if reference.to_ascii_lowercase().starts_with("http") {
        address(&mut session, reference, on_progress)?
    } else {
        let reason = "it is not a model name that can be looked up; use hf://owner/repository:QUANT".to_owned();
        return Err(SourceError::NotThere { reference: reference.to_owned(), reason });
    };
    Ok(finish(session, opened))
}

/// Opens the model `name` of the running Ollama, or else of the registry.
pub(super) fn name(
    reference: &str,
    name: &ollama::OllamaName,
    roots: &Roots,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let Some(network) = roots.network.as_ref() else {
        return Err(SourceError::Unknown { reference: reference.to_owned() });
    };
    let mut session = RemoteSession::new(network);
    if let Some(server) = &network.ollama {
        match running::open(&session, server, name, on_progress) {
            Ok(Some(opened)) => {
                session.note(format!("the header is as reported by the running Ollama at {server}"));
                return Ok(finish(session, opened));
            }
            Err(SourceError::Wire(error)) if error.is_unreachable() => {
                if network.ollama_is_named {
                    session.note(format!("OLLAMA_HOST is ignored: {error}"));
                }
            }
            Err(error) if network.ollama_is_named || matches!(error, SourceError::Cancelled) => return Err(error),
            // it has no such model, or another program listens on Ollama's default port
            Ok(None) | Err(_) => {}
        }
    }
    match registry::open(&mut session, name, on_progress) {
        Ok(Some(opened)) => Ok(finish(session, opened)),
        Ok(None) => Err(SourceError::Unknown { reference: reference.to_owned() }),
        Err(SourceError::Wire(error)) if error.is_unreachable() => Err(SourceError::NotThere {
            reference: reference.to_owned(),
            reason: format!("it is neither a file nor a model on this machine, and {error}"),
        }),
        Err(error) => Err(error),
    }
}

/// Opens the file at an address.
fn address(
    session: &mut RemoteSession<'_>,
    text: &str,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let url = Url::parse(text).map_err(|why| SourceError::NotThere {
        reference: text.to_owned(),
        reason: format!("the address is invalid: {why}"),
    })?;
    let location = |url: Url| FileLocation { request: HttpRequest::get(url), digest: None };
    let header = session.open(&location(url.clone()), &|name| location(url.beside(name)), on_progress)?;
    let name = url.file_name().to_owned();
    Ok(OpenedModel::new(header, name.strip_suffix(".gguf").unwrap_or(&name).to_owned()))
}

fn network<'r>(reference: &str, roots: &'r Roots) -> Result<&'r Network, SourceError> {
    roots.network.as_ref().ok_or_else(|| SourceError::Remote { reference: reference.to_owned() })
}

/// Writes the cache, and adds the session's notes to the model.
fn finish(mut session: RemoteSession<'_>, mut opened: OpenedModel) -> OpenedModel {
    session.commit();
    opened.header.notes.extend(session.notes);
    opened
}
