//! Opens models on Hugging Face: lists a repository's GGUF files and selects one.
//!
//! Addresses and error codes: `huggingface_hub` 0.26 (`hf_hub_url`, `model_info`, utils/_http.py).

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use super::beside::of_repository;
use super::error::SourceError;
use super::host::leads_out;
use super::http::{Document, HttpRequest, Secret, Url, WireError};
use super::hub::files::{self, RepoModel, groups};
use super::hub::{HfReference, Repository, RepositoryFile};
use super::open::OpenedModel;
use super::progress::{Progress, ProgressCallback};
use super::read_from::ReadFrom;
use super::remote::{FileLocation, RemoteSession};
use super::safetensors;
use crate::budget::Allowance;
use crate::model::{Model, Projector};
use crate::safetensors::{Header, Index, Stored};
use crate::text::quoted;
use crate::units::Bytes;

#[derive(Deserialize)]
struct Listing {
    siblings: Option<Vec<Sibling>>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
}

#[derive(Deserialize)]
struct TreeFile {
    path: String,
    size: Option<u64>,
}

/// A file, and its size where that was asked for.
type Listed = (String, Option<u64>);

/// Opens the model that `wanted` names.
pub(super) fn open(
    session: &mut RemoteSession<'_>,
    wanted: &HfReference,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let server = server(session, wanted)?;
    let (file, files) = if let Some(file) = &wanted.file {
        (file.clone(), None)
    } else {
        let files: Vec<String> = names(list(session, &server, wanted, Sizes::Unasked, on_progress)?);
        let groups = groups(&files, wanted.folder.as_deref());
        let broken = |reason: String| SourceError::Broken { name: wanted.to_string(), reason };
        if is_original(&groups, &files) {
            let opened = original(session, &server, wanted, &files, on_progress)?;
            return opened.made(wanted.quant.as_deref()).map_err(broken);
        }
        let chosen = files::choose(&groups, &files, wanted).map_err(broken)?;
        if let (None, Some(other)) = (&wanted.quant, groups.iter().find(|group| group.label != chosen.label)) {
            session.note(format!(
                "'{}' was chosen from {} quantisations; use {wanted}:{} for another",
                chosen.label,
                groups.len(),
                other.label
            ));
        }
        (chosen.first_file().map_err(broken)?, Some(files))
    };
    read(session, &server, wanted, &file, files.as_deref(), on_progress)
}

/// The models of a repository, with the header of the one that `wanted` names.
pub(super) fn repository(
    session: &mut RemoteSession<'_>,
    wanted: &HfReference,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Repository, SourceError> {
    let server = server(session, wanted)?;
    let listed = list(session, &server, wanted, Sizes::Asked, on_progress)?;
    let files: Vec<String> = listed.iter().map(|(file, _)| file.clone()).collect();
    let groups = groups(&files, wanted.folder.as_deref());
    if is_original(&groups, &files) {
        return Ok(Repository::of_original(wanted, original(session, &server, wanted, &files, on_progress)?));
    }
    let broken = |reason: String| SourceError::Broken { name: wanted.to_string(), reason };
    let chosen = files::choose(&groups, &files, wanted).map_err(broken)?;
    // where no quantisation is named, a torn one says nothing against the others
    let is_named = wanted.quant.is_some() || wanted.file.is_some();
    let whole = Some(chosen).filter(|chosen| is_named || chosen.missing.is_none());
    let chosen = whole.or_else(|| groups.iter().find(|group| group.missing.is_none())).unwrap_or(chosen);
    let opened = read(session, &server, wanted, &chosen.first_file().map_err(broken)?, Some(&files), on_progress)?;
    if groups.len() > MOST_ROWS {
        session.note(format!("the first {MOST_ROWS} of {} files of {} are listed", groups.len(), wanted.repository));
    }
    let sizes: HashMap<&String, Option<u64>> = listed.iter().map(|(file, size)| (file, *size)).collect();
    let size = |group: &RepoModel| {
        let of_file = |file: &String| *sizes.get(file)?;
        group.files.iter().try_fold(0, |sum: u64, file| Some(sum.saturating_add(of_file(file)?))).map(Bytes)
    };
    let row = |group: &RepoModel| RepositoryFile::new(wanted, group, &groups, chosen, size(group));
    let name = wanted.of_repository().to_string();
    Ok(Repository { name, files: groups.iter().take(MOST_ROWS).map(row).collect(), opened })
}

/// Whether a repository has original weights alone.
fn is_original(groups: &[RepoModel], files: &[String]) -> bool {
    groups.is_empty() && files.iter().any(|file| file == safetensors::CONFIG)
}

/// The most models of a repository that are listed; those of one model have some thirty.
const MOST_ROWS: usize = 200;

fn server(session: &RemoteSession<'_>, wanted: &HfReference) -> Result<Url, SourceError> {
    let server = &session.network.hugging_face;
    Url::parse(server).map_err(|why| SourceError::Broken {
        name: wanted.to_string(),
        reason: format!("Hugging Face's address '{server}' is invalid: {why}"),
    })
}

/// Reads the header of `file`, and of its projector among `files`, which are listed if they are none.
fn read(
    session: &mut RemoteSession<'_>,
    server: &Url,
    wanted: &HfReference,
    file: &str,
    files: Option<&[String]>,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let (token, sent) = token(session, server);
    let location = |file: &str| {
        let url = server.at(&format!("{}/resolve/{}/{}", wanted.repository, wanted.revision(), escaped(file)));
        FileLocation { request: HttpRequest { bearer: token.clone(), ..HttpRequest::get(url) }, by_digest: false }
    };
    let folder = file.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
    let sibling = |name: &str| location(&format!("{folder}{name}"));
    let refused = |error| match error {
        SourceError::Wire(WireError::Status { status, code, .. }) => refusal(wanted, status, code.as_deref(), sent),
        other => other,
    };
    let header = session.open(&location(file), &sibling, on_progress).map_err(refused)?;
    let name = file.rsplit('/').next().unwrap_or(file);
    let mut opened = OpenedModel::new(header, name.strip_suffix(".gguf").unwrap_or(name).to_owned());
    opened.read_from = ReadFrom::Repository;
    let files = match files {
        Some(files) => files.to_vec(),
        // only list the repository after the named file was opened, as its own errors are more helpful
        None => match list(session, server, wanted, Sizes::Unasked, on_progress) {
            Ok(files) => names(files),
            Err(SourceError::Cancelled) => return Err(SourceError::Cancelled),
            Err(error) => {
                session.note(format!("a projector next to the file, if any, is not counted: {error}"));
                Vec::new()
            }
        },
    };
    if let Some(projector) = of_repository(file, &files) {
        let header = session.header(&location(projector), on_progress).map_err(refused)?;
        opened.remote_projector = Some(Projector::new(projector.clone(), header));
    }
    Ok(opened)
}

/// Opens a repository of safetensors: its config.json, and the header of each file of weights.
fn original(
    session: &mut RemoteSession<'_>,
    server: &Url,
    wanted: &HfReference,
    files: &[String],
    on_progress: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let (token, sent) = token(session, server);
    let request = |file: &str| {
        let url = server.at(&format!("{}/resolve/{}/{}", wanted.repository, wanted.revision(), escaped(file)));
        HttpRequest { bearer: token.clone(), ..HttpRequest::get(url) }
    };
    let broken = |reason: String| SourceError::Broken { name: wanted.to_string(), reason };
    let config = session.small(&request(safetensors::CONFIG), on_progress)?;
    if config.status != 200 {
        return Err(refusal(wanted, config.status, config.code.as_deref(), sent));
    }
    let mut weights: Vec<&String> =
        files.iter().filter(|file| !file.contains('/') && safetensors::is_weights(file)).collect();
    safetensors::own_weights(&mut weights, |file| (*file).clone());
    let listed: BTreeSet<&str> = weights.iter().map(|file| file.as_str()).collect();
    let has_index = listed.len() > MOST_WITHOUT_INDEX && files.iter().any(|file| file == safetensors::INDEX);
    let index = if has_index {
        let allowed = Allowance { bytes: safetensors::MAX_TEXT, ..Allowance::DOCUMENT };
        let document = session.document(&request(safetensors::INDEX), allowed, on_progress)?;
        let index = serde_json::from_slice::<Index>(&document.bytes).ok();
        index.filter(|index| document.status == 200 && index.files() == listed)
    } else {
        None
    };
    let mut header = |file: &str, progress: &mut Progress| {
        let location = FileLocation { request: request(file), by_digest: false };
        let ahead = index.as_ref().map(|index| Bytes(index.header_bytes(file)));
        session.safetensors(&location, ahead, on_progress, progress).map_err(|error| match error {
            SourceError::Wire(WireError::Status { status, code, .. }) => refusal(wanted, status, code.as_deref(), sent),
            other => other,
        })
    };
    let (headers, note) = headers(&listed, index.as_ref(), &mut header)?;
    let mut stored = Stored::default();
    for header in headers {
        stored.add(header).map_err(|name| broken(format!("tensor '{}' is in two of its files", quoted(&name))))?;
    }
    let name = wanted.repository.rsplit('/').next().unwrap_or(&wanted.repository);
    let model = Model::of_safetensors(&config.bytes, Some(stored).filter(|_| !listed.is_empty()), name);
    let mut model = model.map_err(|error| broken(error.to_string()))?;
    model.header.notes.extend(note);
    Ok(OpenedModel { read_from: ReadFrom::Repository, ..OpenedModel::of_model(model, name.to_owned()) })
}

/// The headers of a model's files, in order: of those that tell all where the index says so, else of every one; and what is to be
/// said of that.
fn headers(
    listed: &BTreeSet<&str>,
    index: Option<&Index>,
    header: &mut dyn FnMut(&str, &mut Progress) -> Result<Header, SourceError>,
) -> Result<(Vec<Header>, Option<String>), SourceError> {
    let telling = index.map_or_else(|| listed.iter().copied().collect(), Index::telling);
    let mut progress = Progress { shards: telling.len() as u64, ..Progress::START };
    let mut read: HashMap<&str, Header> = HashMap::new();
    for (at, &file) in (0..).zip(&telling) {
        progress.shard = at;
        read.insert(file, header(file, &mut progress)?);
    }
    if let Some(told) = index.filter(|_| telling.len() < listed.len()).and_then(|index| index.all(&read)) {
        let note = format!(
            "of its {} files the headers of {} were read; the sum of all bytes shows that tensors of the others are as those of \
             the same names in other layers",
            listed.len(),
            telling.len()
        );
        return Ok((told, Some(note)));
    }
    progress.shards = listed.len() as u64;
    for &file in listed {
        if !read.contains_key(file) {
            progress.shard += 1;
            read.insert(file, header(file, &mut progress)?);
        }
    }
    Ok((listed.iter().filter_map(|file| read.remove(file)).collect(), None))
}

/// Most files whose headers are read without asking which of them tell all: asking is a request too.
const MOST_WITHOUT_INDEX: usize = 3;

/// Whether the server is asked for the sizes of files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sizes {
    Asked,
    Unasked,
}

fn names(files: Vec<Listed>) -> Vec<String> {
    files.into_iter().map(|(file, _)| file).collect()
}

/// The files of a repository.
fn list(
    session: &mut RemoteSession<'_>,
    server: &Url,
    wanted: &HfReference,
    sizes: Sizes,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Vec<Listed>, SourceError> {
    let api = server.at(&format!("api/models/{}", wanted.repository));
    let about =
        wanted.revision.as_ref().map_or_else(|| api.clone(), |revision| api.at(&format!("revision/{revision}")));
    let about = if sizes == Sizes::Asked { about.with_query("blobs=true") } else { about };
    let (token, sent) = token(session, server);
    let request = |url| HttpRequest { bearer: token.clone(), ..HttpRequest::get(url) };
    let document = session.small(&request(about), on_progress)?;
    if let Ok(Listing { siblings: Some(files) }) = serde_json::from_slice(&document.bytes)
        && document.status == 200
    {
        return inside(named(files.into_iter().map(|file| (file.rfilename, file.size))), wanted);
    }
    let refused = |document: &Document| refusal(wanted, document.status, document.code.as_deref(), sent);
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
    inside(named(files.into_iter().map(|file| (file.path, file.size))), wanted)
}

/// The same files, all of which are in the repository: an address of another would ask the server for anything.
fn inside(files: Vec<Listed>, wanted: &HfReference) -> Result<Vec<Listed>, SourceError> {
    match files.iter().find(|(file, _)| leads_out(&escaped(file))) {
        Some((file, _)) => Err(SourceError::Broken {
            name: wanted.to_string(),
            reason: format!("it lists '{}', which is outside of the repository: use another", quoted(file)),
        }),
        None => Ok(files),
    }
}

/// What becomes of the user's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// There is none.
    None,
    Sent,
    /// Everybody on the way could read it.
    Withheld,
}

/// What is to be done about a token that is withheld.
const WITHHELD: &str = "the token is not sent, as the server is not https: set HF_ENDPOINT to https://…";

/// The token for `server`, unless everybody on the way could read it.
fn token(session: &mut RemoteSession<'_>, server: &Url) -> (Option<Secret>, Token) {
    let Some(token) = session.network.hf_token.clone() else { return (None, Token::None) };
    if server.is_secure() || server.is_loopback() {
        return (Some(token), Token::Sent);
    }
    session.note(WITHHELD.to_owned());
    (None, Token::Withheld)
}

/// The files whose names may be those of models.
fn named(files: impl Iterator<Item = Listed>) -> Vec<Listed> {
    files.filter(|(name, _)| name.len() <= LONGEST_NAME).collect()
}

/// Bytes of a file's name with its folders, at most; longer ones are no names.
const LONGEST_NAME: usize = 1024;

/// The error for a status. Hugging Face returns 401 for missing repositories too, to hide private ones.
fn refusal(wanted: &HfReference, status: u16, code: Option<&str>, token: Token) -> SourceError {
    let page = format!("https://huggingface.co/{}", wanted.repository);
    let with_token = token == Token::Sent;
    let reason = match (code, status) {
        (_, 401 | 403) if token == Token::Withheld => WITHHELD.to_owned(),
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

/// Escapes a file's path for an address: `%`, `?` and `#`.
fn escaped(file: &str) -> String {
    file.replace('%', "%25").replace('?', "%3F").replace('#', "%23")
}

#[cfg(test)]
mod tests {
    use super::super::Network;
    use super::*;

    #[test]
    fn the_token_is_only_sent_where_nobody_on_the_way_reads_it() {
        let network = Network { hf_token: Secret::new("hf_secret"), ..Network::default() };
        for (server, sent) in [
            ("https://hub.example", Token::Sent),
            ("http://127.0.0.1:8080/mirror", Token::Sent),
            ("http://localhost", Token::Sent),
            ("http://hub.example", Token::Withheld),
            ("http://127.evil.example", Token::Withheld),
        ] {
            let mut session = RemoteSession::new(&network);
            let (token, what) = token(&mut session, &Url::parse(server).unwrap());
            assert_eq!((what, token.is_some()), (sent, sent == Token::Sent), "{server}");
            assert_eq!(session.notes.contains(&WITHHELD.to_owned()), sent == Token::Withheld, "{server}");
        }
        let wanted = HfReference::parse("hf://o/r", "").unwrap();
        assert!(refusal(&wanted, 401, Some("RepoNotFound"), Token::Withheld).to_string().contains("not https"));
    }
}
