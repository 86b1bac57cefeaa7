//! Opens models on servers: the servers with their tokens, the references that are looked up there, and the files, one or
//! all shards, from the cache if possible.

use std::time::{Duration, SystemTime};

use tracing::debug;

use super::cache::{Cache, CacheInfo};
use super::error::SourceError;
use super::host::leads_out;
use super::http::{CancelHandle, Client, Document, HttpRequest, RemoteFile, Url, WireError, cancellable};
use super::hub::{HfReference, Repository};
use super::hugging_face;
use super::network::Network;
use super::open::OpenedModel;
use super::progress::{Progress, ProgressCallback};
use super::read_from::ReadFrom;
use super::roots::Roots;
use super::store::ollama::OllamaName;
use super::{registry, running};
use crate::budget::Allowance;
use crate::gguf::read::{Shard, ShardName, join};
use crate::gguf::{ByteSource, Header, HeaderLimits, HeaderOnly, read};
use crate::safetensors::{self, SafetensorsError};
use crate::units::Bytes;

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

/// Lists a repository.
pub(super) fn repository(
    wanted: &HfReference,
    roots: &Roots,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Repository, SourceError> {
    let mut session = RemoteSession::new(network(&wanted.to_string(), roots)?);
    let mut found = hugging_face::repository(&mut session, wanted, on_progress)?;
    found.opened = finish(session, found.opened);
    Ok(found)
}

/// Opens the model `name` of the running Ollama, or else of the registry.
pub(super) fn name(
    reference: &str,
    name: &OllamaName,
    roots: &Roots,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let Some(network) = roots.network.as_ref() else {
        return Err(SourceError::Unknown { reference: reference.to_owned() });
    };
    let mut session = RemoteSession::new(network);
    if let Some(server) = network.ollama.as_ref().filter(|_| !network.offline) {
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
    let invalid = |why: String| SourceError::NotThere {
        reference: text.to_owned(),
        reason: format!("the address is invalid: {why}"),
    };
    if leads_out(text.split(['?', '#']).next().unwrap_or_default()) {
        return Err(invalid("'..' in it leads to another path: write that one".to_owned()));
    }
    let url = Url::parse(text).map_err(invalid)?;
    let location = |url: Url| FileLocation { request: HttpRequest::get(url), by_digest: false };
    let header = session.open(&location(url.clone()), &|name| location(url.beside(name)), on_progress)?;
    let name = url.file_name().to_owned();
    let opened = OpenedModel::new(header, name.strip_suffix(".gguf").unwrap_or(&name).to_owned());
    Ok(OpenedModel { read_from: ReadFrom::Address, ..opened })
}

fn network<'r>(reference: &str, roots: &'r Roots) -> Result<&'r Network, SourceError> {
    roots.network.as_ref().ok_or_else(|| SourceError::Remote { reference: reference.to_owned() })
}

/// Writes the cache, and adds the session's notes to the model.
fn finish(mut session: RemoteSession<'_>, mut opened: OpenedModel) -> OpenedModel {
    session.commit();
    session.notes.into_iter().for_each(|note| opened.note(note));
    opened
}

/// A manifest, or a list of files.
const SMALL: Allowance = Allowance { bytes: 8 << 20, ..Allowance::DOCUMENT };

/// What is read ahead of a GGUF file, whose header has its tokens; and of one of safetensors, which has names alone.
const LONG: Bytes = Bytes(768 << 10);
const SHORT: Bytes = Bytes(48 << 10);

/// Reads the beginning of a file, and says where it ends.
type Parse<'p, T> = dyn Fn(&mut dyn ByteSource) -> Result<(T, u64), SourceError> + 'p;

/// State of one remote load.
pub(super) struct RemoteSession<'n> {
    pub network: &'n Network,
    pub client: Client,
    cache: Option<Cache>,
    /// To be cached once the whole load has succeeded.
    fresh: Vec<FetchedFile>,
    /// One sentence each, without a full stop.
    pub notes: Vec<String>,
}

/// A fetched response to be cached.
struct FetchedFile {
    key: String,
    name: String,
    validator: Option<String>,
    total: Option<u64>,
    bytes: Vec<u8>,
}

/// A file on a server.
#[derive(Clone, Debug)]
pub(super) struct FileLocation {
    pub request: HttpRequest,
    /// Whether its address names the digest of its bytes; a cached copy of such an address is always valid. As a header
    /// alone cannot be checked against it, a copy is never that of another address.
    pub by_digest: bool,
}

impl<'n> RemoteSession<'n> {
    pub fn new(network: &'n Network) -> Self {
        let client = network.client();
        Self { network, client, cache: network.cache.as_deref().map(Cache::new), fresh: Vec::new(), notes: Vec::new() }
    }

    /// Adds a note, once.
    pub fn note(&mut self, sentence: String) {
        if !self.notes.contains(&sentence) {
            self.notes.push(sentence);
        }
    }

    /// Fetches a small response of any status. A successful one is cached; if the server is unreachable, the cached
    /// copy is used, with a note.
    pub fn small(
        &mut self,
        request: &HttpRequest,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<Document, WireError> {
        self.document(request, SMALL, on_progress)
    }

    /// The same of a response within `allowed`.
    pub fn document(
        &mut self,
        request: &HttpRequest,
        allowed: Allowance,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<Document, WireError> {
        let asked = self.request(request, allowed, on_progress);
        let key = format!("small {}", request.url.whole());
        match asked {
            Ok(document) => {
                if document.status == 200 {
                    self.keep(&key, &request.url, None, None, &document.bytes);
                }
                Ok(document)
            }
            Err(error) if error.is_unreachable() => match self.kept(&key) {
                Some((about, bytes)) => {
                    self.note_old(&about, &error);
                    Ok(Document { status: 200, code: None, challenge: None, url: request.url.clone(), bytes })
                }
                None => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Fetches a response of any status within `allowed`.
    pub fn request(
        &self,
        request: &HttpRequest,
        allowed: Allowance,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<Document, WireError> {
        let (client, request, cancel) = (self.client.clone(), request.clone(), CancelHandle::default());
        let mine = cancel.clone();
        cancellable(on_progress, Progress::START, &mine, move || client.document(&request, allowed, &cancel))?
    }

    /// Opens a file, and if it is a shard all others, whose locations `sibling` returns.
    pub fn open(
        &mut self,
        location: &FileLocation,
        sibling: &dyn Fn(&str) -> FileLocation,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<Header, SourceError> {
        let limits = HeaderLimits::default();
        let mut progress = Progress::START;
        let header = self.shard(location, on_progress, &mut progress)?;
        let refused = |error| SourceError::at(&location.request.url, error);
        let Some(shard) = Shard::of(&header.metadata, &limits).map_err(refused)? else { return Ok(header) };
        let name = ShardName::parse(location.request.url.file_name())
            .filter(|name| name.index == shard.index && name.count == shard.count)
            .ok_or_else(|| SourceError::ShardName {
                path: location.request.url.to_string().into(),
                number: shard.index + 1,
                count: shard.count,
            })?;
        progress.shards = shard.count;
        let mut first = Some(header);
        let mut headers = Vec::new();
        for index in 0..shard.count {
            progress.shard = index;
            headers.push(match first.take_if(|_| index == shard.index) {
                Some(header) => header,
                None => self.shard(&sibling(&name.sibling(index)), on_progress, &mut progress)?,
            });
        }
        join(headers, &limits).map_err(refused)
    }

    /// The header of one file.
    pub fn header(
        &mut self,
        location: &FileLocation,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<Header, SourceError> {
        self.shard(location, on_progress, &mut { Progress::START })
    }

    /// The header of one file of safetensors, whose end must be where its tensors end; `ahead` is what it may have.
    pub fn safetensors(
        &mut self,
        location: &FileLocation,
        ahead: Option<Bytes>,
        on_progress: &mut ProgressCallback<'_>,
        progress: &mut Progress,
    ) -> Result<safetensors::Header, SourceError> {
        let url = &location.request.url;
        let parse = |source: &mut dyn ByteSource| {
            let refused = |error| match error {
                SafetensorsError::Cancelled => SourceError::Cancelled,
                error => SourceError::Safetensors { path: url.to_string().into(), error: Box::new(error) },
            };
            let header = safetensors::read(source).map_err(refused)?;
            source.size().map_or(Ok(()), |size| safetensors::check_length(&header, size)).map_err(refused)?;
            let end = header.data_start;
            Ok((header, end))
        };
        self.fetched(location, ahead.unwrap_or(SHORT), on_progress, progress, &parse)
    }

    fn shard(
        &mut self,
        location: &FileLocation,
        on_progress: &mut ProgressCallback<'_>,
        progress: &mut Progress,
    ) -> Result<Header, SourceError> {
        let parse = |source: &mut dyn ByteSource| {
            let header = read(source, &HeaderLimits::default());
            let header = header.map_err(|error| SourceError::at(&location.request.url, error))?;
            let end = header.data_start;
            Ok((header, end))
        };
        self.fetched(location, LONG, on_progress, progress, &parse)
    }

    /// What `parse` reads of the beginning of a file, and where that ends.
    fn fetched<T>(
        &mut self,
        location: &FileLocation,
        ahead: Bytes,
        on_progress: &mut ProgressCallback<'_>,
        progress: &mut Progress,
        parse: &Parse<'_, T>,
    ) -> Result<T, SourceError> {
        let url = &location.request.url;
        let key = url.whole().to_owned();
        let parse_kept = |(about, bytes): &(CacheInfo, Vec<u8>)| match about.total {
            Some(total) => parse(&mut CachedHeader { bytes, total }).map(|(header, _)| header),
            None => parse(&mut HeaderOnly(bytes)).map(|(header, _)| header),
        };
        let mut kept = self.kept(&key);
        if let Some(kept) = kept.as_ref().filter(|_| location.by_digest) {
            return parse_kept(kept);
        }
        let validator = kept.as_ref().and_then(|(about, _)| about.validator.clone());
        let mut file = RemoteFile::new(&self.client, location.request.clone(), on_progress, *progress, ahead);
        let unchanged = match file.begin(validator.as_deref()) {
            Ok(unchanged) => unchanged,
            Err(error) if error.is_unreachable() && kept.is_some() => {
                if let Some(kept) = kept.take() {
                    self.note_old(&kept.0, &error);
                    return parse_kept(&kept);
                }
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        };
        if let (true, Some(kept)) = (unchanged, kept) {
            let header = parse_kept(&kept)?;
            // updates the time of the last check
            let (about, bytes) = kept;
            self.keep(&key, url, about.validator.as_deref(), about.total, &bytes);
            return Ok(header);
        }
        let (header, data_start) = parse(&mut file)?;
        let end = usize::try_from(data_start).unwrap_or(usize::MAX).min(file.bytes().len());
        progress.done = progress.done.saturating_add(end as u64);
        let bytes = file.bytes().get(..end).unwrap_or_default().to_vec();
        let (validator, total) = (file.validator().map(str::to_owned), file.total());
        if file.ignores_ranges() {
            self.note(format!(
                "'{}' sends whole files only: reading stopped after the header, at {}",
                url.host(),
                Bytes(data_start)
            ));
        }
        self.keep(&key, url, validator.as_deref(), total, &bytes);
        Ok(header)
    }

    fn kept(&self, key: &str) -> Option<(CacheInfo, Vec<u8>)> {
        self.cache
            .as_ref()?
            .get(key)
            .inspect(|(about, bytes)| debug!("cached: {}, {}", about.name, Bytes(bytes.len() as u64)))
    }

    fn keep(&mut self, key: &str, url: &Url, validator: Option<&str>, total: Option<u64>, bytes: &[u8]) {
        let (key, name, validator) = (key.to_owned(), url.to_string(), validator.map(str::to_owned));
        self.fresh.push(FetchedFile { key, name, validator, total, bytes: bytes.to_vec() });
    }

    /// Caches everything that was fetched, after the load has succeeded.
    pub fn commit(&mut self) {
        let Some(cache) = &self.cache else { return };
        let mut put = self
            .fresh
            .drain(..)
            .map(|fresh| cache.put(&fresh.key, &fresh.name, fresh.validator.as_deref(), fresh.total, &fresh.bytes));
        if let Some(Err(error)) = put.find(Result::is_err) {
            drop(put);
            let folder = cache.folder().display().to_string();
            self.note(format!("the header could not be cached in '{folder}': {error}"));
        }
    }

    fn note_old(&mut self, about: &CacheInfo, error: &WireError) {
        let age = ago(about.age(SystemTime::now()));
        self.note(format!("'{}' was read from the cache, last checked {age}: {error}", about.name));
    }
}

/// The cached beginning of a file of known length.
struct CachedHeader<'b> {
    bytes: &'b [u8],
    total: u64,
}

impl ByteSource for CachedHeader<'_> {
    fn size(&self) -> Option<u64> {
        Some(self.total)
    }

    fn window(&mut self, offset: u64) -> std::io::Result<&[u8]> {
        self.bytes.window(offset)
    }
}

/// An age in words: `3 hours ago`.
pub fn ago(age: Duration) -> String {
    let some = |count: u64, unit: &str| format!("{count} {unit}{} ago", if count == 1 { "" } else { "s" });
    match age.as_secs() {
        0..60 => "just now".to_owned(),
        seconds @ 60..3600 => some(seconds / 60, "minute"),
        seconds @ 3600..86_400 => some(seconds / 3600, "hour"),
        seconds => some(seconds / 86_400, "day"),
    }
}
