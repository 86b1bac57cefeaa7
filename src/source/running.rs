//! A running Ollama, here or elsewhere: it lists its models, and tells a model's metadata and tensors without its file.
//!
//! Fields: api/types.go (`ListModelResponse`, `ShowResponse`), Ollama 0.24. What it tells is written as a GGUF header and
//! read by the one parser.

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
use crate::units::Bytes;

/// The longest answer that is taken: vocabularies of a million tokens, written as JSON.
const MAX_ANSWER: u64 = 256 << 20;

/// A model that a running Ollama has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningModel {
    /// `llama3.1:8b`
    pub name: String,
    /// Of all its files.
    pub size: Bytes,
}

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

/// The models of the running Ollama that `network` names; none where none is named.
///
/// # Errors
/// When it does not answer, or with something else; [`SourceError::Cancelled`] when `watch` says so.
pub fn list_models(network: &Network, watch: &mut ProgressCallback<'_>) -> Result<Vec<RunningModel>, SourceError> {
    let Some(server) = &network.ollama else { return Ok(Vec::new()) };
    let session = RemoteSession::new(network);
    let document = session.ask(&HttpRequest::get(address(server)?.at("api/tags")), MAX_ANSWER, watch)?;
    let tags: Option<TagsResponse> = serde_json::from_slice(&document.bytes).ok().filter(|_| document.status == 200);
    let TagsResponse { models } = tags.ok_or_else(|| strange(server, "its list of models"))?;
    Ok(models.into_iter().map(|model| RunningModel { name: model.name, size: Bytes(model.size) }).collect())
}

/// Opens the model `name` of the running Ollama at `server`; none where it has no such model.
pub(super) fn open(
    session: &RemoteSession<'_>,
    server: &str,
    name: &OllamaName,
    watch: &mut ProgressCallback<'_>,
) -> Result<Option<OpenedModel>, SourceError> {
    let short = name.short();
    let json = serde_json::json!({ "model": short, "verbose": true }).to_string();
    let ask = HttpRequest { json: Some(json), ..HttpRequest::get(address(server)?.at("api/show")) };
    let document = session.ask(&ask, MAX_ANSWER, watch)?;
    if document.status == 404 {
        return Ok(None);
    }
    let shown: Option<api_show::ShowResponse> =
        serde_json::from_slice(&document.bytes).ok().filter(|_| document.status == 200);
    let shown = shown.ok_or_else(|| strange(server, &format!("its description of '{short}'")))?;
    let draft = shown.draft().map_err(|reason| SourceError::Broken { name: short.clone(), reason })?;
    let bytes = write(&draft, Encoding::default());
    let header = read(&mut HeaderOnly(&bytes), &HeaderLimits::default())
        .map_err(|error| SourceError::Header { path: short.clone().into(), error })?;
    let mut opened = OpenedModel::new(header, short);
    opened.knobs = TagParameters::of_text(shown.parameters.as_deref().unwrap_or_default());
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
