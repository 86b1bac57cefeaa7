//! References that are looked up on servers.

use super::{OpenedModel, ProgressCallback, Roots, SourceError, ollama};
use crate::source::http::{HttpRequest, Url};
use crate::source::hugging_face::{self, HfReference};
use crate::source::remote::{FileLocation, RemoteSession};
use crate::source::{Network, registry, running};

/// Beginnings of references that can mean nothing on this machine.
const REMOTE_PREFIXES: [&str; 5] = ["http://", "https://", "hf://", "hf.co/", "huggingface.co/"];

/// Whether `reference` can only be meant for a server.
pub(super) fn is_remote(reference: &str) -> bool {
    let reference = reference.to_ascii_lowercase();
    REMOTE_PREFIXES.iter().any(|start| reference.starts_with(start))
}

/// Opens a reference that [`is_remote`].
pub(super) fn load(
    reference: &str,
    roots: &Roots,
    watch: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let network = network(reference, roots)?;
    let mut session = RemoteSession::new(network);
    let opened = if let Some(wanted) = HfReference::parse(reference, &network.hugging_face) {
        hugging_face::open(&mut session, &wanted, watch)?
    } else if reference.to_ascii_lowercase().starts_with("http") {
        address(&mut session, reference, watch)?
    } else {
        let reason = "it is not a model name that can be looked up; use hf://owner/repository:QUANT".to_owned();
        return Err(SourceError::NotThere { reference: reference.to_owned(), reason });
    };
    Ok(finish(session, opened))
}

/// Opens the model `name` of the running Ollama, else of its registry.
pub(super) fn name(
    reference: &str,
    name: &ollama::OllamaName,
    roots: &Roots,
    watch: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let Some(network) = roots.network.as_ref() else {
        return Err(SourceError::Unknown { reference: reference.to_owned() });
    };
    let mut session = RemoteSession::new(network);
    if let Some(server) = &network.ollama {
        match running::open(&session, server, name, watch) {
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
            // it has no such model, or something else listens where an Ollama usually does
            Ok(None) | Err(_) => {}
        }
    }
    match registry::open(&mut session, name, watch) {
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
    watch: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let url = Url::parse(text).map_err(|why| SourceError::NotThere {
        reference: text.to_owned(),
        reason: format!("the address is invalid: {why}"),
    })?;
    let place = |url: Url| FileLocation { ask: HttpRequest::get(url), digest: None };
    let header = session.open(&place(url.clone()), &|name| place(url.beside(name)), watch)?;
    let name = url.file_name().to_owned();
    Ok(OpenedModel::new(header, name.strip_suffix(".gguf").unwrap_or(&name).to_owned()))
}

fn network<'r>(reference: &str, roots: &'r Roots) -> Result<&'r Network, SourceError> {
    roots.network.as_ref().ok_or_else(|| SourceError::Remote { reference: reference.to_owned() })
}

/// The model with everything that is to be said of its way here.
fn finish(mut session: RemoteSession<'_>, mut opened: OpenedModel) -> OpenedModel {
    session.commit();
    opened.header.notes.extend(session.notes);
    opened
}
