//! Models of a running Ollama, local or remote, through its API.
//!
//! Fields: api/types.go (`ListModelResponse`, `ShowResponse`), Ollama 0.24. A model's metadata and tensors are written
//! as a GGUF header and parsed like a file.

mod api_show;

use serde::Deserialize;

use super::error::SourceError;
use super::http::{HttpRequest, Url};
use super::network::Network;
use super::open::OpenedModel;
use super::progress::ProgressCallback;
use super::remote::RemoteSession;
use super::store::ollama::OllamaName;
use super::tag::TagParameters;
use crate::gguf::write::{Encoding, write};
use crate::gguf::{HeaderLimits, HeaderOnly, read};
use crate::observed::{Observation, PsRow};
use crate::settings::OllamaVersion;
use crate::units::Bytes;

/// Maximum size of a response; vocabularies of a million tokens as JSON are large.
const MAX_RESPONSE: u64 = 256 << 20;

/// A model that a running Ollama has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningModel {
    /// `llama3.1:8b`
    pub name: String,
    /// Total size of its files.
    pub size: Bytes,
}

/// Maximum size of the answer with a version.
const MAX_VERSION: u64 = 4096;

#[derive(Deserialize)]
struct TagsResponse {
    #[serde(default)]
    models: Vec<TagsModel>,
}

#[derive(Deserialize)]
struct TagsModel {
    name: String,
    #[serde(default)]
    size: u64,
}

/// The models of the running Ollama of `network`; empty if there is none.
///
/// # Errors
/// If it does not respond, or with something else; [`SourceError::Cancelled`] if `on_progress` cancels.
pub fn list_models(
    network: &Network,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Vec<RunningModel>, SourceError> {
    let Some(server) = &network.ollama else { return Ok(Vec::new()) };
    let session = RemoteSession::new(network);
    let document = session.request(&HttpRequest::get(address(server)?.at("api/tags")), MAX_RESPONSE, on_progress)?;
    let tags: Option<TagsResponse> = serde_json::from_slice(&document.bytes).ok().filter(|_| document.status == 200);
    let TagsResponse { models } = tags.ok_or_else(|| unreadable(server, "its list of models"))?;
    Ok(models.into_iter().map(|model| RunningModel { name: model.name, size: Bytes(model.size) }).collect())
}

/// The models that the running Ollama of `network` has loaded, by `/api/ps`; none if there is no such server.
///
/// # Errors
/// As [`list_models`].
pub fn loaded(network: &Network, on_progress: &mut ProgressCallback<'_>) -> Result<Vec<PsRow>, SourceError> {
    let Some(server) = &network.ollama else { return Ok(Vec::new()) };
    let session = RemoteSession::new(network);
    let document = session.request(&HttpRequest::get(address(server)?.at("api/ps")), MAX_RESPONSE, on_progress)?;
    let text = std::str::from_utf8(&document.bytes).ok().filter(|_| document.status == 200);
    Ok(Observation::of(text.ok_or_else(|| unreadable(server, "its list of loaded models"))?).ps)
}

/// Opens the model `name` of the running Ollama at `server`; none if it has no such model.
pub(super) fn open(
    session: &RemoteSession<'_>,
    server: &str,
    name: &OllamaName,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Option<OpenedModel>, SourceError> {
    let short = name.short();
    let json = serde_json::json!({ "model": short, "verbose": true }).to_string();
    let request = HttpRequest { json: Some(json), ..HttpRequest::get(address(server)?.at("api/show")) };
    let document = session.request(&request, MAX_RESPONSE, on_progress)?;
    if document.status == 404 {
        return Ok(None);
    }
    let shown: Option<api_show::ShowResponse> =
        serde_json::from_slice(&document.bytes).ok().filter(|_| document.status == 200);
    let shown = shown.ok_or_else(|| unreadable(server, &format!("its description of '{short}'")))?;
    let header_spec = shown.header_spec().map_err(|reason| SourceError::Broken { name: short.clone(), reason })?;
    let bytes = write(&header_spec, Encoding::default());
    let header = read(&mut HeaderOnly(&bytes), &HeaderLimits::default())
        .map_err(|error| SourceError::Header { path: short.clone().into(), error })?;
    let mut opened = OpenedModel::new(header, short);
    opened.knobs = TagParameters::of_text(shown.parameters.as_deref().unwrap_or_default());
    opened.ollama = version(session, server, on_progress);
    Ok(Some(opened))
}

/// The version of the running Ollama at `server`; none if it does not say, or is too old for the engine.
fn version(session: &RemoteSession<'_>, server: &str, on_progress: &mut ProgressCallback<'_>) -> Option<OllamaVersion> {
    let request = HttpRequest::get(address(server).ok()?.at("api/version"));
    let document =
        session.request(&request, MAX_VERSION, on_progress).ok().filter(|document| document.status == 200)?;
    let answer: serde_json::Value = serde_json::from_slice(&document.bytes).ok()?;
    answer.get("version")?.as_str()?.parse().ok()
}

fn address(server: &str) -> Result<Url, SourceError> {
    let wrong =
        |why| SourceError::Broken { name: server.to_owned(), reason: format!("OLLAMA_HOST names no server: {why}") };
    Url::parse(server).map_err(wrong)
}

fn unreadable(server: &str, what: &str) -> SourceError {
    let reason = format!("{what} cannot be read: check that OLLAMA_HOST points to an Ollama server");
    SourceError::Broken { name: server.to_owned(), reason }
}
