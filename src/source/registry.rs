//! Opens models in Ollama's registry: the manifest names the layers of a model, which are fetched by digest.
//!
//! Paths: server/images.go and server/download.go, Ollama 0.24.

use super::error::SourceError;
use super::http::{Document, HttpRequest, Url};
use super::manifest::{Manifest, ManifestLayer};
use super::open::OpenedModel;
use super::progress::ProgressCallback;
use super::reference::TagParameters;
use super::remote::{FileLocation, RemoteSession};
use super::store::ollama::{HOSTS, OllamaName};
use crate::model::Projector;

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// Opens the model `name`; none if its registry has no such model or tag.
pub(super) fn open(
    session: &mut RemoteSession<'_>,
    name: &OllamaName,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Option<OpenedModel>, SourceError> {
    let short = name.short();
    let wrong = |reason: &str| SourceError::Broken { name: short.clone(), reason: reason.to_owned() };
    let server = if HOSTS.contains(&name.host.as_str()) {
        session.network.registry.clone()
    } else {
        format!("https://{}", name.host)
    };
    let server =
        Url::parse(&server).map_err(|why| wrong(&format!("the registry's address '{server}' is invalid: {why}")))?;
    let model = server.at(&format!("v2/{}/{}", name.namespace, name.model));
    let mut request = HttpRequest::get(model.at(&format!("manifests/{}", name.tag)));
    request.fields.push(("accept", MANIFEST.to_owned()));
    let document = session.small(&request, on_progress)?;
    let document = match document.status {
        401 => super::sign_in::retry_with_token(session, &mut request, &document, on_progress)
            .map_err(|reason| wrong(&reason))?,
        _ => document,
    };
    if document.status == 404 {
        return Ok(None);
    }
    let manifest = manifest(&document, &short)?;
    let model_layer = manifest.model().map_err(|why| wrong(&why))?;
    let location = |layer: &ManifestLayer| -> Result<FileLocation, SourceError> {
        let hex = layer.sha256().ok_or_else(|| wrong("its manifest has an invalid digest"))?;
        let digest = format!("sha256:{hex}");
        let request =
            HttpRequest { bearer: request.bearer.clone(), ..HttpRequest::get(model.at(&format!("blobs/{digest}"))) };
        Ok(FileLocation { request, digest: Some(digest) })
    };
    let knobs = match manifest.of_kind("params").next() {
        Some(layer) => params(&session.small(&location(layer)?.request, on_progress)?),
        None => TagParameters::default(),
    };
    let first = location(model_layer)?;
    let header = session.open(&first, &|_| first.clone(), on_progress)?;
    let mut opened = OpenedModel::new(header, short.clone());
    opened.knobs = knobs;
    if let Some(layer) = manifest.of_kind("projector").next() {
        opened.remote_projector = Some(session.projector(&location(layer)?, Projector::UNNAMED, on_progress)?);
    }
    for layer in manifest.of_kind("adapter") {
        opened.remote_adapters += session.tensor_bytes(&location(layer)?, on_progress)?;
    }
    Ok(Some(opened))
}

fn manifest(document: &Document, name: &str) -> Result<Manifest, SourceError> {
    let wrong = |reason: String| SourceError::Broken { name: name.to_owned(), reason };
    let host = document.url.host();
    match document.status {
        200 => serde_json::from_slice(&document.bytes)
            .map_err(|_| wrong(format!("'{host}' did not return a manifest: check the registry's address"))),
        401 | 403 => Err(wrong(format!("'{host}' denies this user access: request the model's owner"))),
        status => Err(wrong(format!("'{host}' returned status {status}: try again later"))),
    }
}

/// The tag's parameters; none set if the layer cannot be fetched or parsed.
fn params(document: &Document) -> TagParameters {
    if document.status == 200 { TagParameters::of_json(&document.bytes) } else { TagParameters::default() }
}
