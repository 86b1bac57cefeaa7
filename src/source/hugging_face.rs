//! Opens models on Hugging Face: lists a repository's GGUF files and selects one.
//!
//! Addresses and error codes: `huggingface_hub` 0.26 (`hf_hub_url`, `model_info`, utils/_http.py). The default `Q4_K_M`
//! is that of llama.cpp (common/download.cpp, llama-cpp-sys-2 0.1.161) and of Ollama.

mod choose;
mod reference;

use serde::Deserialize;

use super::error::SourceError;
use super::http::{Document, HttpRequest, Url, WireError};
use super::open::OpenedModel;
use super::progress::ProgressCallback;
use super::remote::{FileLocation, RemoteSession};
use super::store::files::projector_of;
use choose::{RepoModel, groups};

pub use reference::HfReference;

#[derive(Deserialize)]
struct Repository {
    siblings: Option<Vec<Sibling>>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

#[derive(Deserialize)]
struct TreeFile {
    path: String,
}

/// Opens the model that `wanted` names.
pub(super) fn open(
    session: &mut RemoteSession<'_>,
    wanted: &HfReference,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let server = session.network.hugging_face.clone();
    let server = Url::parse(&server).map_err(|why| SourceError::Broken {
        name: wanted.to_string(),
        reason: format!("Hugging Face's address '{server}' is invalid: {why}"),
    })?;
    let (file, files) = if let Some(file) = &wanted.file {
        (file.clone(), None)
    } else {
        let files = list(session, &server, wanted, on_progress)?;
        (choose(session, wanted, &files)?, Some(files))
    };
    let token = session.network.hf_token.clone();
    let location = |file: &str| {
        let url =
            server.at(&format!("{}/resolve/{}/{}", wanted.repository, wanted.revision(), reference::escaped(file)));
        FileLocation { request: HttpRequest { bearer: token.clone(), ..HttpRequest::get(url) }, digest: None }
    };
    let folder = file.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
    let sibling = |name: &str| location(&format!("{folder}{name}"));
    let refused = |error| match error {
        SourceError::Wire(WireError::Status { status, code, .. }) => {
            refusal(wanted, status, code.as_deref(), token.is_some())
        }
        other => other,
    };
    let header = session.open(&location(&file), &sibling, on_progress).map_err(refused)?;
    let name = file.rsplit('/').next().unwrap_or(&file);
    let mut opened = OpenedModel::new(header, name.strip_suffix(".gguf").unwrap_or(name).to_owned());
    let files = match files {
        Some(files) => files,
        // only list the repository after the named file was opened, as its own errors are more helpful
        None => match list(session, &server, wanted, on_progress) {
            Ok(files) => files,
            Err(SourceError::Cancelled) => return Err(SourceError::Cancelled),
            Err(error) => {
                session.note(format!("a projector next to the file, if any, is not counted: {error}"));
                Vec::new()
            }
        },
    };
    if let Some(projector) = projector(&file, &files) {
        opened.remote_projector =
            Some(session.projector(&location(&projector), &projector, on_progress).map_err(refused)?);
    }
    Ok(opened)
}

/// The projector for `file` among those in its folder.
fn projector(file: &str, files: &[String]) -> Option<String> {
    let folder = |file: &str| file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
    let siblings: Vec<String> =
        files.iter().filter(|other| folder(other) == folder(file)).map(|file| name(file)).collect();
    let siblings: Vec<&String> = siblings.iter().filter(|file| file.to_lowercase().ends_with(".gguf")).collect();
    let found = projector_of(&name(file), &siblings)?;
    Some(folder(file).map_or_else(|| found.clone(), |folder| format!("{folder}/{found}")))
}

/// The files of a repository.
fn list(
    session: &mut RemoteSession<'_>,
    server: &Url,
    wanted: &HfReference,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Vec<String>, SourceError> {
    let api = server.at(&format!("api/models/{}", wanted.repository));
    let about =
        wanted.revision.as_ref().map_or_else(|| api.clone(), |revision| api.at(&format!("revision/{revision}")));
    let token = session.network.hf_token.clone();
    let request = |url| HttpRequest { bearer: token.clone(), ..HttpRequest::get(url) };
    let document = session.small(&request(about), on_progress)?;
    if let Ok(Repository { siblings: Some(files) }) = serde_json::from_slice(&document.bytes)
        && document.status == 200
    {
        return Ok(files.into_iter().map(|file| file.rfilename).collect());
    }
    let refused = |document: &Document| refusal(wanted, document.status, document.code.as_deref(), token.is_some());
    if document.status != 200 && document.status != 404 {
        return Err(refused(&document));
    }
    // a mirror may only support the tree API
    let tree = session
        .small(&request(api.at(&format!("tree/{}", wanted.revision())).with_query("recursive=true")), on_progress)?;
    if tree.status != 200 {
        return Err(refused(if document.status == 200 { &tree } else { &document }));
    }
    let files: Vec<TreeFile> = serde_json::from_slice(&tree.bytes).map_err(|_| SourceError::Broken {
        name: wanted.to_string(),
        reason: format!("'{}' did not return a list of files: check HF_ENDPOINT", tree.url.host()),
    })?;
    Ok(files.into_iter().map(|file| file.path).collect())
}

/// The file to open, or its first shard.
fn choose(session: &mut RemoteSession<'_>, wanted: &HfReference, files: &[String]) -> Result<String, SourceError> {
    let broken = |reason: String| SourceError::Broken { name: wanted.to_string(), reason };
    let groups = groups(files, wanted.folder.as_deref());
    let labels: Vec<_> = groups.iter().map(|group| group.label.as_str()).collect();
    if groups.is_empty() {
        let safetensors = files.iter().any(|file| file.ends_with(".safetensors"));
        let advice =
            if safetensors { "it holds safetensors; look for a GGUF version of the model" } else { "look for another" };
        return Err(broken(format!("the repository has no GGUF files: {advice}")));
    }
    let group = if let Some(quant) = &wanted.quant {
        let named = choose::named(&groups, quant);
        named.ok_or_else(|| broken(format!("the repository has no '{quant}'; it has {}", choose::listed(&labels))))?
    } else {
        let usual = ["Q4_K_M", "Q8_0"].iter().find_map(|usual| choose::named(&groups, usual));
        let group = usual.or(groups.first()).ok_or_else(|| broken("it has no files".to_owned()))?;
        if let Some(other) = labels.iter().find(|label| **label != group.label) {
            session.note(format!(
                "'{}' was chosen from {} quantisations; use {wanted}:{other} for another",
                group.label,
                groups.len(),
            ));
        }
        group
    };
    complete(group).map_err(broken)
}

/// The first file of `group`, unless a shard is missing.
fn complete(group: &RepoModel) -> Result<String, String> {
    if let Some(missing) = group.missing {
        return Err(format!(
            "shard {missing} of {} of '{}' is missing from the repository: use another quantisation",
            group.shards, group.label
        ));
    }
    group.files.first().cloned().ok_or_else(|| "it has no files".to_owned())
}

/// The error for a status. Hugging Face returns 401 for missing repositories too, to hide private ones.
fn refusal(wanted: &HfReference, status: u16, code: Option<&str>, with_token: bool) -> SourceError {
    let page = format!("https://huggingface.co/{}", wanted.repository);
    let reason = match (code, status) {
        (Some("GatedRepo"), _) | (None, 403) => {
            let token = if with_token { "the token in use has no access yet" } else { "then set HF_TOKEN" };
            format!("the repository is gated: accept its terms on {page}, {token}")
        }
        (Some("RevisionNotFound"), _) => format!("the repository has no revision '{}'", wanted.revision()),
        (Some("EntryNotFound"), _) => match &wanted.file {
            Some(file) => format!("the repository has no file '{file}'"),
            None => "the repository lists a file that does not exist: try again later".to_owned(),
        },
        (_, 404) if wanted.file.is_some() => {
            "there is no such repository, or it has no such file: check the name".to_owned()
        }
        (_, 404) => "there is no such repository: check the name".to_owned(),
        (_, 401) if with_token => {
            "there is no such repository, or it is private and the token in use has no access: check the name and \
             HF_TOKEN"
                .to_owned()
        }
        (_, 401) => {
            "there is no such repository, or it is private or gated: check the name, or set HF_TOKEN".to_owned()
        }
        (_, 403) => "access is denied: check the permissions of HF_TOKEN".to_owned(),
        (_, status) => format!("the server returned status {status}: check the name"),
    };
    SourceError::NotThere { reference: wanted.to_string(), reason }
}
