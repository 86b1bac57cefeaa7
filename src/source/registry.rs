//! Opens models in Ollama's registry: the manifest names the layers of a model, which are fetched by digest.
//!
//! Paths: server/images.go and server/download.go, Ollama 0.24.
//!
//! Signs in with the user's Ollama key where the registry asks for it: the challenge names a realm, which returns a token for one model to a request signed with the key (server/auth.go
//! and auth/auth.go, Ollama 0.24).

use std::collections::HashMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::Ed25519KeyPair;
use serde::Deserialize;

use super::error::SourceError;
use super::http::{Document, HttpRequest, Secret, Url, WireError};
use super::open::{OpenedModel, tensor_bytes};
use super::progress::{Progress, ProgressCallback};
use super::read_from::ReadFrom;
use super::remote::{FileLocation, RemoteSession};
use super::safetensors;
use super::store::ollama::{HOSTS, Manifest, ManifestLayer, OllamaName};
use super::tag::TagParameters;
use crate::budget::Allowance;
use crate::files;
use crate::model::{Model, Projector};
use crate::safetensors::{Header, Tensor, kind};
use crate::units::Bytes;

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
        401 => retry_with_token(session, &mut request, &document, on_progress).map_err(|reason| wrong(&reason))?,
        _ => document,
    };
    if document.status == 404 {
        return Ok(None);
    }
    let manifest = manifest(&document, &short)?;
    let location = |layer: &ManifestLayer| -> Result<FileLocation, SourceError> {
        let hex = layer.sha256().ok_or_else(|| wrong("its manifest has an invalid digest"))?;
        let digest = format!("sha256:{hex}");
        let request =
            HttpRequest { bearer: request.bearer.clone(), ..HttpRequest::get(model.at(&format!("blobs/{digest}"))) };
        Ok(FileLocation { request, by_digest: true })
    };
    let knobs = match manifest.of_kind("params").next() {
        Some(layer) => params(&session.small(&location(layer)?.request, on_progress)?),
        None => TagParameters::default(),
    };
    if let Some(config) = manifest.of_tensors() {
        let opened = of_tensors(session, &manifest, &location(config)?, &short, &location, on_progress)?;
        return Ok(Some(OpenedModel { knobs, ..opened }));
    }
    let first = location(manifest.model().map_err(|why| wrong(&why))?)?;
    let header = session.open(&first, &|_| first.clone(), on_progress)?;
    let mut opened = OpenedModel::new(header, short.clone());
    opened.knobs = knobs;
    opened.read_from = ReadFrom::Registry;
    if let Some(layer) = manifest.of_kind("projector").next() {
        let header = session.header(&location(layer)?, on_progress)?;
        opened.remote_projector = Some(Projector::new(Projector::UNNAMED.to_owned(), header));
    }
    if let Some(layer) = manifest.of_kind("draft").next() {
        opened.remote_draft = Some(session.header(&location(layer)?, on_progress)?);
    }
    for layer in manifest.of_kind("adapter") {
        opened.remote_adapters += tensor_bytes(&session.header(&location(layer)?, on_progress)?);
    }
    Ok(Some(opened))
}

/// A model with a layer for each tensor, described by the file at `config`.
fn of_tensors(
    session: &mut RemoteSession<'_>,
    manifest: &Manifest,
    config: &FileLocation,
    name: &str,
    location: &dyn Fn(&ManifestLayer) -> Result<FileLocation, SourceError>,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let broken = |reason: String| SourceError::Broken { name: name.to_owned(), reason };
    let mut text = |location: &FileLocation, what: &str, on_progress: &mut ProgressCallback<'_>| {
        let document = session.small(&location.request, on_progress)?;
        if document.status == 200 {
            return Ok(document.bytes);
        }
        Err(broken(format!("its {what} cannot be fetched (status {}): try again later", document.status)))
    };
    let config = text(config, safetensors::CONFIG, on_progress)?;
    let about = match manifest.config() {
        Some(about) => text(&location(about)?, "configuration", on_progress)?,
        None => b"{}".to_vec(),
    };
    let mut known = KnownHeaders::default();
    let count = manifest.of_kind("tensor").count();
    let mut progress = Progress { shards: count as u64, ..Progress::START };
    let mut header = |layer: &ManifestLayer| {
        progress.shard += 1;
        if let Some(told) = known.of(layer) {
            return Ok(told);
        }
        let header = session.safetensors(&location(layer)?, Some(TENSOR), on_progress, &mut progress)?;
        known.add(layer, header.clone());
        Ok(header)
    };
    let stored = safetensors::of_manifest(manifest, &about, name, &mut header)?;
    let read = known.read;
    let model = Model::of_safetensors(&config, Some(stored), name).map_err(|error| broken(error.to_string()))?;
    let mut opened = OpenedModel { read_from: ReadFrom::Registry, ..OpenedModel::of_model(model, name.to_owned()) };
    if read < count {
        opened.note(format!(
            "of its {count} tensors' files the headers of {read} were read; the sizes of the others are those of the same tensors \
             in other layers"
        ));
    }
    Ok(opened)
}

/// What is read ahead of a tensor's file, whose header has some hundred bytes.
const TENSOR: Bytes = Bytes(4 << 10);

/// Headers that were read, which tell those of the same tensors in other layers where these files have as many bytes.
#[derive(Default)]
struct KnownHeaders {
    /// By the layer's name without numbers.
    by_kind: HashMap<String, Vec<(String, Header)>>,
    /// How many were read.
    read: usize,
}

impl KnownHeaders {
    fn add(&mut self, layer: &ManifestLayer, header: Header) {
        self.read += 1;
        if let Some(name) = layer.name() {
            self.by_kind.entry(kind(name)).or_default().push((name.to_owned(), header));
        }
    }

    /// The header of a layer, if that of the same tensors in another one tells it.
    fn of(&self, layer: &ManifestLayer) -> Option<Header> {
        let (name, size) = (layer.name()?, layer.size()?);
        let told = |(other, header): &(String, Header)| {
            // each name in the header is as much longer as the layer's own is
            let longer = name.len() as i128 - other.len() as i128;
            let text = i128::from(header.data_start) + longer * header.tensors.len() as i128;
            let data = header.data_end - header.data_start;
            let left = i128::from(size) - i128::from(data);
            // Ollama pads its own to whole eights, MLX none
            let is_padded = header.data_start.is_multiple_of(8) && left % 8 == 0 && left.abs_diff(text) < 8;
            let begins = header.tensors.iter().all(|tensor| tensor.name.starts_with(other.as_str()));
            if !(begins && (left == text || is_padded)) {
                return None;
            }
            let tensors = header.tensors.iter().map(|tensor| {
                let rest = tensor.name.get(other.len()..).unwrap_or_default();
                Tensor { name: format!("{name}{rest}"), ..tensor.clone() }
            });
            let (tensors, metadata) = (tensors.collect(), header.metadata.clone());
            Some(Header { tensors, metadata, data_start: u64::try_from(left).ok()?, data_end: size })
        };
        self.by_kind.get(&kind(name))?.iter().find_map(told)
    }
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

/// SHA-256 of an empty body, which is signed.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// The token response, which usually has a few hundred bytes.
const TOKEN: Allowance = Allowance { bytes: 64 << 10, ..Allowance::DOCUMENT };

#[derive(Deserialize)]
struct TokenResponse {
    token: String,
}

/// Gets a token, stores it in the request, and sends that again.
///
/// # Errors
/// Why there is no token: one sentence without a full stop.
fn retry_with_token(
    session: &mut RemoteSession<'_>,
    request: &mut HttpRequest,
    refused: &Document,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Document, String> {
    let host = refused.url.host().to_owned();
    let key = session.network.ollama_key.as_deref().filter(|path| path.exists());
    let Some(path) = key else {
        return Err(format!("'{host}' requires a login, and there is no Ollama key: sign in with 'ollama signin'"));
    };
    let challenge = refused.challenge.as_deref().and_then(Challenge::read);
    let challenge =
        challenge.ok_or_else(|| format!("'{host}' requires a kind of login that Ollama's registry does not use"))?;
    let realm = challenge.realm(&request.url)?;
    let key = SigningKey::open(path)?;
    let url = challenge.signed_url(&realm)?;
    let text = format!("GET,{},{}", url.whole(), STANDARD.encode(EMPTY_SHA256));
    let mut token = HttpRequest::get(url);
    token.fields.push(("authorization", format!("{}:{}", key.public(), key.sign(text.as_bytes()))));
    let text_of = |error: WireError| error.to_string();
    let response = session.request(&token, TOKEN, on_progress).map_err(text_of)?;
    let parsed: Option<TokenResponse> = serde_json::from_slice(&response.bytes).ok().filter(|_| response.status == 200);
    let secret = parsed.and_then(|response| Secret::new(&response.token));
    let no_token =
        || format!("'{}' issued no token for this user's Ollama key: sign in with 'ollama signin'", realm.host());
    request.bearer = Some(secret.ok_or_else(no_token)?);
    session.small(request, on_progress).map_err(text_of)
}

/// A `WWW-Authenticate` challenge.
#[derive(Debug, PartialEq, Eq)]
struct Challenge<'f> {
    realm: &'f str,
    service: &'f str,
    scope: &'f str,
}

impl<'f> Challenge<'f> {
    /// Parses `Bearer realm="…",service="…",scope="…"`.
    fn read(field: &'f str) -> Option<Self> {
        let rest = field.trim_start().strip_prefix("Bearer ")?;
        let value = |key: &str| {
            let (_, rest) = rest.split_once(&format!("{key}=\""))?;
            rest.split_once('"').map(|(value, _)| value)
        };
        let (service, scope) = (value("service").unwrap_or_default(), value("scope").unwrap_or_default());
        Some(Self { realm: value("realm")?, service, scope })
    }

    /// The realm, if it belongs to the registry: another host could use the signature to impersonate the user.
    fn realm(&self, registry: &Url) -> Result<Url, String> {
        let realm = Url::parse(self.realm).map_err(|why| format!("the login address is invalid: {why}"))?;
        let owner = |url: &Url| {
            let ollamas = ["ollama.ai", "ollama.com"];
            let host = url.host();
            let its_own = ollamas.iter().any(|own| host == *own || host.ends_with(&format!(".{own}")));
            if its_own { ollamas[0].to_owned() } else { host.to_owned() }
        };
        let local = realm.is_loopback() && registry.is_loopback();
        if local || (realm.is_secure() && owner(&realm) == owner(registry)) {
            Ok(realm)
        } else {
            Err(format!("'{}' redirects the login to '{}', which is not followed", registry.host(), realm.host()))
        }
    }

    /// The realm with the query to be signed, sorted by key as Go encodes it.
    fn signed_url(&self, realm: &Url) -> Result<Url, String> {
        let mut random = [0; 16];
        SystemRandom::new().fill(&mut random).map_err(|_| "this system provides no random numbers".to_owned())?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let scopes: Vec<_> = self.scope.split(' ').map(|scope| format!("&scope={}", in_query(scope))).collect();
        let (nonce, service) = (URL_SAFE_NO_PAD.encode(random), in_query(self.service));
        Ok(realm.with_query(&format!("nonce={nonce}{}&service={service}&ts={seconds}", scopes.concat())))
    }
}

/// Percent-encodes a text for a query.
fn in_query(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

const KIND: &[u8] = b"ssh-ed25519";

struct SigningKey {
    pair: Ed25519KeyPair,
    public: String,
}

impl SigningKey {
    /// Reads the key in the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read or is of another kind: one sentence without a full stop.
    fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = files::text(path, files::TEXT).map_err(|why| format!("the key {why}"))?;
        let text = text.ok_or_else(|| format!("the key '{shown}' does not exist: sign in with 'ollama signin'"))?;
        Self::read(&text).ok_or_else(|| {
            format!("the key '{shown}' is not an Ed25519 key without a passphrase: sign in with 'ollama signin'")
        })
    }

    fn read(text: &str) -> Option<Self> {
        let packed: String = text.lines().map(str::trim).filter(|line| !line.starts_with("-----")).collect();
        let bytes = STANDARD.decode(packed).ok()?;
        let mut rest = Fields(bytes.strip_prefix(b"openssh-key-v1\0")?);
        // cipher, key derivation function and its options: without a passphrase none, none and empty
        let open = rest.field()? == b"none" && rest.field()? == b"none" && rest.field()?.is_empty();
        if !open || rest.number()? != 1 {
            return None;
        }
        let public = rest.field()?;
        let mut private = Fields(rest.field()?);
        if private.number()? != private.number()? || private.field()? != KIND {
            return None;
        }
        let (point, secret) = (private.field()?, private.field()?);
        let seed = secret.get(..32)?;
        let pair = Ed25519KeyPair::from_seed_and_public_key(seed, point).ok()?;
        Some(Self { pair, public: STANDARD.encode(public) })
    }

    /// The public key as in `id_ed25519.pub`, without its kind and comment.
    fn public(&self) -> &str {
        &self.public
    }

    /// The signature of `text`, as base64.
    fn sign(&self, text: &[u8]) -> String {
        STANDARD.encode(self.pair.sign(text))
    }
}

/// SSH's encoding: big-endian numbers, and fields preceded by their length.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn field(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_parsed() {
        let field = "Bearer realm=\"https://ollama.com/token\",service=\"ollama.com\",scope=\"repository:o/m:pull\"";
        let challenge = Challenge::read(field).unwrap();
        let registry = Url::parse("https://registry.ollama.ai/v2").unwrap();
        let realm = challenge.realm(&registry).unwrap();
        let signed = challenge.signed_url(&realm).unwrap();
        let signed = signed.whole();
        assert!(signed.starts_with("https://ollama.com/token?nonce="), "{signed}");
        assert!(signed.contains("&scope=repository%3Ao%2Fm%3Apull&service=ollama.com&ts="), "{signed}");
        assert_eq!(Challenge::read("Basic realm=\"x\""), None);
    }

    #[test]
    fn other_hosts_get_no_signature() {
        let registry = Url::parse("https://registry.ollama.ai/v2").unwrap();
        for realm in ["https://evil.example/token", "http://ollama.com/token", "https://ollama.com.evil.example/"] {
            let field = format!("Bearer realm=\"{realm}\"");
            assert!(Challenge::read(&field).unwrap().realm(&registry).is_err(), "{realm}");
        }
    }
}
