//! Models of a running Ollama, local or remote, through its API.
//!
//! Fields: api/types.go (`ListModelResponse`, `ShowResponse`), Ollama 0.24. A model's metadata and tensors are written
//! as a GGUF header and parsed like a file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value as Json;

use super::http::{CancelHandle, Client, HttpRequest, Timeouts, Url, cancellable};
use super::open::OpenedModel;
use super::read_from::ReadFrom;
use super::remote::{Network, RemoteSession};
use super::store::ollama::OllamaName;
use super::tag::TagParameters;
use super::{Progress, ProgressCallback, SourceError};
use crate::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use crate::gguf::{ElementType, GgmlType, HeaderLimits, HeaderOnly, read};
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

/// Maximum size of the answer with a version, or of a page that another program shows.
const MAX_VERSION: u64 = 1 << 20;
/// A server on this machine gets this share of the usual time for it, which is two seconds, but at least the other.
const LOCAL_SHARE: u32 = 7;
const LOCAL_LEAST: Duration = Duration::from_millis(700);

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
    version(&session, server, on_progress)?;
    let document = session.request(&HttpRequest::get(address(server)?.at("api/tags")), MAX_RESPONSE, on_progress)?;
    let tags: Option<TagsResponse> = serde_json::from_slice(&document.bytes).ok().filter(|_| document.status == 200);
    let TagsResponse { models } = tags.ok_or_else(|| unreadable(server, "its list of models"))?;
    Ok(models.into_iter().map(|model| RunningModel { name: model.name, size: Bytes(model.size) }).collect())
}

/// Opens the model `name` of the running Ollama at `server`; none if it has no such model.
pub(super) fn open(
    session: &RemoteSession<'_>,
    server: &str,
    name: &OllamaName,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Option<OpenedModel>, SourceError> {
    let version = version(session, server, on_progress)?;
    let short = name.short();
    let json = serde_json::json!({ "model": short, "verbose": true }).to_string();
    let request = HttpRequest { json: Some(json), ..HttpRequest::get(address(server)?.at("api/show")) };
    let document = session.request(&request, MAX_RESPONSE, on_progress)?;
    if document.status == 404 {
        return Ok(None);
    }
    let shown: Option<ShowResponse> = serde_json::from_slice(&document.bytes).ok().filter(|_| document.status == 200);
    let shown = shown.ok_or_else(|| unreadable(server, &format!("its description of '{short}'")))?;
    let header_spec = shown.header_spec().map_err(|reason| SourceError::Broken { name: short.clone(), reason })?;
    let bytes = write(&header_spec, Encoding::default());
    let header = read(&mut HeaderOnly(&bytes), &HeaderLimits::default())
        .map_err(|error| SourceError::Header { path: short.clone().into(), error })?;
    let mut opened = OpenedModel::new(header, short);
    opened.read_from = ReadFrom::RunningOllama;
    opened.knobs = TagParameters::of_text(shown.parameters.as_deref().unwrap_or_default());
    opened.ollama = version;
    Ok(Some(opened))
}

/// The version of the running Ollama at `server`; none if it does not say, or is too old for the engine. It is asked first,
/// since it answers this at once: whatever else listens on its port may be silent.
fn version(
    session: &RemoteSession<'_>,
    server: &str,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Option<OllamaVersion>, SourceError> {
    let request = HttpRequest::get(address(server)?.at("api/version"));
    let usual = &session.network.timeouts;
    let wait = if request.url.is_loopback() {
        (usual.answer / LOCAL_SHARE).max(LOCAL_LEAST).min(usual.answer)
    } else {
        usual.answer
    };
    let timeouts = Timeouts { connect: wait.min(usual.connect), answer: wait, silence: wait, ..usual.clone() };
    let client = Client::of(&Network { timeouts, ..session.network.clone() });
    let asked =
        cancellable(on_progress, Progress::START, &CancelHandle::default(), move || client.ask(&request, MAX_VERSION));
    let document = asked??;
    let answer: Option<Json> = serde_json::from_slice(&document.bytes).ok().filter(|_| document.status == 200);
    Ok(answer.and_then(|answer| answer.get("version")?.as_str()?.parse().ok()))
}

/// The address of an Ollama.
///
/// # Errors
/// If it is none.
pub fn address(server: &str) -> Result<Url, SourceError> {
    let wrong =
        |why| SourceError::Broken { name: server.to_owned(), reason: format!("OLLAMA_HOST names no server: {why}") };
    Url::parse(server).map_err(wrong)
}

fn unreadable(server: &str, what: &str) -> SourceError {
    let reason = format!("{what} cannot be read: check that OLLAMA_HOST points to an Ollama server");
    SourceError::Broken { name: server.to_owned(), reason }
}

/// A response of `/api/show`.
#[derive(Deserialize)]
struct ShowResponse {
    #[serde(default)]
    model_info: BTreeMap<String, Json>,
    #[serde(default)]
    tensors: Option<Vec<ShowTensor>>,
    /// The tag's parameters, one per line.
    #[serde(default)]
    pub parameters: Option<String>,
}

#[derive(Deserialize)]
struct ShowTensor {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    shape: Vec<u64>,
}

impl ShowResponse {
    /// The header, or an error if it cannot be built.
    pub fn header_spec(&self) -> Result<HeaderSpec, String> {
        let tensors = self.tensors.as_deref().unwrap_or_default();
        if tensors.is_empty() {
            return Err("this Ollama does not list its tensors: update it, or pull the model here".to_owned());
        }
        let mut spec = HeaderSpec::default();
        for (key, value) in &self.model_info {
            // Ollama adds this key, the file lacks it
            if key == "general.parameter_count" {
                continue;
            }
            spec.metadata.extend(value_spec(key, value).map(|value| (key.clone(), value)));
        }
        let mut occurrences: BTreeMap<String, usize> = BTreeMap::new();
        for ShowTensor { name, kind, shape } in tensors {
            let ty: GgmlType = kind.parse().map_err(|why| format!("tensor '{name}': {why}"))?;
            // a projector's tensors may follow the model's own
            if *occurrences.entry(name.clone()).and_modify(|seen| *seen += 1).or_insert(1) == 1 {
                spec.tensors.push((name.clone(), ty, shape.clone()));
            }
        }
        Ok(spec)
    }
}

/// A value; none for null, omitted arrays, and types that GGUF lacks.
fn value_spec(key: &str, value: &Json) -> Option<ValueSpec> {
    Some(match value {
        Json::Bool(flag) => ValueSpec::Bool(*flag),
        Json::String(text) => ValueSpec::String(text.clone()),
        Json::Number(number) if is_float(key) => ValueSpec::F32(number.as_f64()? as f32),
        Json::Number(number) => integer(number).or_else(|| Some(ValueSpec::F32(number.as_f64()? as f32)))?,
        Json::Array(values) => array(key, values)?,
        Json::Null | Json::Object(_) => return None,
    })
}

fn integer(number: &serde_json::Number) -> Option<ValueSpec> {
    let whole =
        number.as_i64().or_else(|| number.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 9e15).map(|x| x as i64));
    Some(match (whole, number.as_u64()) {
        (Some(n), _) => match (u32::try_from(n), i32::try_from(n)) {
            (Ok(n), _) => ValueSpec::U32(n),
            (_, Ok(n)) => ValueSpec::I32(n),
            _ => ValueSpec::I64(n),
        },
        (None, Some(n)) => ValueSpec::U64(n),
        (None, None) => return None,
    })
}

/// Values of one type.
fn array(key: &str, values: &[Json]) -> Option<ValueSpec> {
    let all = |fits: fn(&Json) -> bool| values.iter().all(fits);
    let numbers = |draw: &dyn Fn(f64) -> ValueSpec| {
        values.iter().map(|value| value.as_f64().map(draw)).collect::<Option<Vec<_>>>()
    };
    let small = |value: &Json| value.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
    Some(match values.first()? {
        Json::String(_) => {
            let text = |value: &Json| value.as_str().map(|text| ValueSpec::String(text.to_owned()));
            ValueSpec::Array(ElementType::String, values.iter().map(text).collect::<Option<_>>()?)
        }
        Json::Bool(_) => {
            let flag = |value: &Json| value.as_bool().map(ValueSpec::Bool);
            ValueSpec::Array(ElementType::Bool, values.iter().map(flag).collect::<Option<_>>()?)
        }
        Json::Number(_) if !is_float(key) && all(Json::is_i64) && values.iter().all(small) => {
            ValueSpec::Array(ElementType::I32, numbers(&|n| ValueSpec::I32(n as i32))?)
        }
        Json::Number(_) => ValueSpec::Array(ElementType::F32, numbers(&|x| ValueSpec::F32(x as f32))?),
        _ => return None,
    })
}

/// Whether `key` is a float in GGUF (`gguf-py/gguf/constants.py`, `gguf_writer.py`, llama.cpp).
fn is_float(key: &str) -> bool {
    let ends = [
        "epsilon",
        "freq_base",
        "freq_base_swa",
        "scale",
        "scaling.factor",
        "scaling.attn_factor",
        "softcapping",
        "weights_scale",
        "clamp_kqv",
        "max_alibi_bias",
        "yarn_log_multiplier",
        "temperature_scale",
        "scores",
    ];
    ends.iter().any(|end| key.ends_with(end))
}
