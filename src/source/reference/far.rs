//! References that are looked up on servers.

use super::{Opened, Roots, SourceError, Watch, ollama};
use crate::source::http::{Ask, Url};
use crate::source::hugging_face::{self, Wanted};
use crate::source::remote::{Desk, Place};
use crate::source::{Network, registry, running};

/// Beginnings of references that can mean nothing on this machine.
const FAR: [&str; 5] = ["http://", "https://", "hf://", "hf.co/", "huggingface.co/"];

/// Whether `reference` can only be meant for a server.
pub(super) fn is_far(reference: &str) -> bool {
    let reference = reference.to_ascii_lowercase();
    FAR.iter().any(|start| reference.starts_with(start))
}

/// Opens a reference that [`is_far`].
pub(super) fn load(reference: &str, roots: &Roots, watch: &mut Watch<'_>) -> Result<Opened, SourceError> {
    let network = network(reference, roots)?;
    let mut desk = Desk::new(network);
    let opened = if let Some(wanted) = Wanted::parse(reference, &network.hugging_face) {
        hugging_face::open(&mut desk, &wanted, watch)?
    } else if reference.to_ascii_lowercase().starts_with("http") {
        address(&mut desk, reference, watch)?
    } else {
        let reason = "it is not a model name that can be looked up; use hf://owner/repository:QUANT".to_owned();
        return Err(SourceError::NotThere { reference: reference.to_owned(), reason });
    };
    Ok(finish(desk, opened))
}

/// Opens the model `name` of the running Ollama, else of its registry.
pub(super) fn name(
    reference: &str,
    name: &ollama::Name,
    roots: &Roots,
    watch: &mut Watch<'_>,
) -> Result<Opened, SourceError> {
    let Some(network) = roots.network.as_ref() else {
        return Err(SourceError::Unknown { reference: reference.to_owned() });
    };
    let mut desk = Desk::new(network);
    if let Some(server) = &network.ollama {
        match running::open(&desk, server, name, watch) {
            Ok(Some(opened)) => {
                desk.note(format!("the header is as reported by the running Ollama at {server}"));
                return Ok(finish(desk, opened));
            }
            Err(SourceError::Wire(error)) if error.is_away() => {
                if network.ollama_is_named {
                    desk.note(format!("OLLAMA_HOST is ignored: {error}"));
                }
            }
            Err(error) if network.ollama_is_named || matches!(error, SourceError::Stopped) => return Err(error),
            // it has no such model, or something else listens where an Ollama usually does
            Ok(None) | Err(_) => {}
        }
    }
    match registry::open(&mut desk, name, watch) {
        Ok(Some(opened)) => Ok(finish(desk, opened)),
        Ok(None) => Err(SourceError::Unknown { reference: reference.to_owned() }),
        Err(SourceError::Wire(error)) if error.is_away() => Err(SourceError::NotThere {
            reference: reference.to_owned(),
            reason: format!("it is neither a file nor a model on this machine, and {error}"),
        }),
        Err(error) => Err(error),
    }
}

/// Opens the file at an address.
fn address(desk: &mut Desk<'_>, text: &str, watch: &mut Watch<'_>) -> Result<Opened, SourceError> {
    let url = Url::parse(text).map_err(|why| SourceError::NotThere {
        reference: text.to_owned(),
        reason: format!("the address is invalid: {why}"),
    })?;
    let place = |url: Url| Place { ask: Ask::get(url), digest: None };
    let header = desk.open(&place(url.clone()), &|name| place(url.beside(name)), watch)?;
    let name = url.file_name().to_owned();
    Ok(Opened::new(header, name.strip_suffix(".gguf").unwrap_or(&name).to_owned()))
}

fn network<'r>(reference: &str, roots: &'r Roots) -> Result<&'r Network, SourceError> {
    roots.network.as_ref().ok_or_else(|| SourceError::Remote { reference: reference.to_owned() })
}

/// The model with everything that is to be said of its way here.
fn finish(mut desk: Desk<'_>, mut opened: Opened) -> Opened {
    desk.settle();
    opened.header.notes.extend(desk.notes);
    opened
}
