//! A running Ollama, here or elsewhere: it lists its models, and tells a model's metadata and tensors without its file.
//!
//! Fields: api/types.go (`ListModelResponse`, `ShowResponse`), Ollama 0.24. What it tells is written as a GGUF header and
//! read by the one parser.

mod told;

use serde::Deserialize;

use super::error::SourceError;
use super::http::{Ask, Url};
use super::network::Network;
use super::open::Opened;
use super::remote::Desk;
use super::store::ollama::Name;
use super::tag::TagKnobs;
use super::watch::Watch;
use crate::gguf::write::{Form, write};
use crate::gguf::{HeaderAlone, Limits, read};
use crate::units::Bytes;

/// The longest answer that is taken: vocabularies of a million tokens, written as JSON.
const LONGEST: u64 = 256 << 20;

/// A model that a running Ollama has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// `llama3.1:8b`
    pub name: String,
    /// Of all its files.
    pub size: Bytes,
}

#[derive(Deserialize)]
struct Tags {
    #[serde(default)]
    models: Vec<InTags>,
}

#[derive(Deserialize)]
struct InTags {
    name: String,
    #[serde(default)]
    size: u64,
}

/// The models of the running Ollama that `network` names; none where none is named.
///
/// # Errors
/// When it does not answer, or with something else; [`SourceError::Stopped`] when `watch` says so.
pub fn tags(network: &Network, watch: &mut Watch<'_>) -> Result<Vec<Tag>, SourceError> {
    let Some(server) = &network.ollama else { return Ok(Vec::new()) };
    let desk = Desk::new(network);
    let document = desk.ask(&Ask::get(address(server)?.at("api/tags")), LONGEST, watch)?;
    let tags: Option<Tags> = serde_json::from_slice(&document.bytes).ok().filter(|_| document.status == 200);
    let Tags { models } = tags.ok_or_else(|| strange(server, "its list of models"))?;
    Ok(models.into_iter().map(|model| Tag { name: model.name, size: Bytes(model.size) }).collect())
}

/// Opens the model `name` of the running Ollama at `server`; none where it has no such model.
pub(super) fn open(
    desk: &Desk<'_>,
    server: &str,
    name: &Name,
    watch: &mut Watch<'_>,
) -> Result<Option<Opened>, SourceError> {
    let short = name.short();
    let json = serde_json::json!({ "model": short, "verbose": true }).to_string();
    let ask = Ask { json: Some(json), ..Ask::get(address(server)?.at("api/show")) };
    let document = desk.ask(&ask, LONGEST, watch)?;
    if document.status == 404 {
        return Ok(None);
    }
    let shown: Option<told::Shown> = serde_json::from_slice(&document.bytes).ok().filter(|_| document.status == 200);
    let shown = shown.ok_or_else(|| strange(server, &format!("its description of '{short}'")))?;
    let draft = shown.draft().map_err(|reason| SourceError::Broken { name: short.clone(), reason })?;
    let bytes = write(&draft, Form::default());
    let header = read(&mut HeaderAlone(&bytes), &Limits::default())
        .map_err(|error| SourceError::Header { path: short.clone().into(), error })?;
    let mut opened = Opened::new(header, short);
    opened.knobs = TagKnobs::of_text(shown.parameters.as_deref().unwrap_or_default());
    Ok(Some(opened))
}

fn address(server: &str) -> Result<Url, SourceError> {
    let wrong =
        |why| SourceError::Broken { name: server.to_owned(), reason: format!("OLLAMA_HOST names no server: {why}") };
    Url::parse(server).map_err(wrong)
}

fn strange(server: &str, what: &str) -> SourceError {
    let reason = format!("{what} cannot be read: check that OLLAMA_HOST points to an Ollama server");
    SourceError::Broken { name: server.to_owned(), reason }
}
