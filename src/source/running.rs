//! Models of a running Ollama, local or remote, through its API.
//!
//! Fields: api/types.go (`ListModelResponse`, `ShowResponse`), Ollama 0.24. A model's metadata and tensors are written
//! as a GGUF header and parsed like a file.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::error::SourceError;
use super::http::{CancelHandle, HttpRequest, Timeouts, Url, cancellable};
use super::network::Network;
use super::open::OpenedModel;
use super::progress::{Progress, ProgressCallback};
use super::read_from::ReadFrom;
use super::remote::RemoteSession;
use super::store::ollama::OllamaName;
use super::tag::TagParameters;
use crate::budget::Allowance;
use crate::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use crate::gguf::{ElementType, GgmlType, HeaderLimits, HeaderOnly, read};
use crate::settings::OllamaVersion;
use crate::units::Bytes;

/// A description of a model; vocabularies of a million tokens as JSON are large.
const DESCRIPTION: Allowance = Allowance { bytes: 32 << 20, ..Allowance::DOCUMENT };
/// The most keys of a description; published headers have some hundred.
const MAX_KEYS: usize = 4096;
/// The most elements of all its arrays; a vocabulary of 262,144 tokens has some 1.3 million with scores and merges.
const MAX_ELEMENTS: usize = 4 << 20;
/// Elements of an array that are kept; of longer ones only the number counts.
const KEPT_ELEMENTS: usize = 4096;
/// The most models that are listed.
const MAX_MODELS: usize = 2000;

/// A model that a running Ollama has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningModel {
    /// `llama3.1:8b`
    pub name: String,
    /// Total size of its files.
    pub size: Bytes,
}

/// An answer with a version, or a page that another program shows.
const VERSION: Allowance = Allowance { bytes: 1 << 20, ..Allowance::QUESTION };
/// A server on this machine gets this share of the usual time for it, which is two seconds, but at least the other.
const LOCAL_SHARE: u32 = 7;
const LOCAL_LEAST: Duration = Duration::from_millis(700);

#[derive(Deserialize)]
struct TagsResponse {
    #[serde(default, deserialize_with = "first_models")]
    models: Vec<TagsModel>,
}

#[derive(Deserialize)]
struct TagsModel {
    name: String,
    #[serde(default)]
    size: u64,
}

/// As many of a list as are shown.
fn first_models<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TagsModel>, D::Error> {
    struct First;

    impl<'de> Visitor<'de> for First {
        type Value = Vec<TagsModel>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of models")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut models = Vec::new();
            while models.len() < MAX_MODELS
                && let Some(model) = list.next_element()?
            {
                models.push(model);
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(models)
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }
    }

    deserializer.deserialize_any(First)
}

/// The models of the running Ollama of `network`, the first of very many; empty if there is none.
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
    let document =
        session.request(&HttpRequest::get(address(server)?.at("api/tags")), Allowance::QUESTION, on_progress)?;
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
    let document = session.request(&request, DESCRIPTION, on_progress)?;
    if document.status == 404 {
        return Ok(None);
    }
    let shown: Option<ShowResponse> = serde_json::from_slice(&document.bytes).ok().filter(|_| document.status == 200);
    drop(document);
    let shown = shown.ok_or_else(|| unreadable(server, &format!("its description of '{short}'")))?;
    // the names that it shows are not those of the files, which the registry has too
    if shown.details.as_ref().is_some_and(|details| details.format == "safetensors") {
        return Ok(None);
    }
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
    let client = Network { timeouts, ..session.network.clone() }.client();
    let asked =
        cancellable(on_progress, Progress::START, &CancelHandle::default(), move || client.ask(&request, VERSION));
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
    #[serde(default, deserialize_with = "shown_keys")]
    model_info: BTreeMap<String, HeaderValue>,
    #[serde(default)]
    tensors: Option<Vec<ShowTensor>>,
    /// The tag's parameters, one per line.
    #[serde(default)]
    pub parameters: Option<String>,
    #[serde(default)]
    details: Option<ShowDetails>,
}

#[derive(Deserialize)]
struct ShowDetails {
    #[serde(default)]
    format: String,
}

#[derive(Deserialize)]
struct ShowTensor {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    shape: Vec<u64>,
}

/// A value of a header as JSON.
enum HeaderValue {
    /// Null, an object, or an array without elements: GGUF has none of them.
    Nothing,
    Bool(bool),
    Text(String),
    Whole(i64),
    /// Beyond those.
    Large(u64),
    Real(f64),
    Array(HeaderArray),
}

/// An array, of which the first elements are kept.
struct HeaderArray {
    first: Vec<HeaderValue>,
    count: usize,
    /// Whether all are whole numbers of 32 bits.
    all_small: bool,
    /// Whether all are texts, all truths, or all numbers.
    of_one_type: bool,
}

impl<'de> Deserialize<'de> for HeaderValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = HeaderValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a header")
    }

    fn visit_bool<E>(self, value: bool) -> Result<HeaderValue, E> {
        Ok(HeaderValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<HeaderValue, E> {
        Ok(HeaderValue::Whole(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<HeaderValue, E> {
        Ok(i64::try_from(value).map_or(HeaderValue::Large(value), HeaderValue::Whole))
    }

    fn visit_f64<E>(self, value: f64) -> Result<HeaderValue, E> {
        Ok(HeaderValue::Real(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<HeaderValue, E> {
        Ok(HeaderValue::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<HeaderValue, E> {
        Ok(HeaderValue::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<HeaderValue, A::Error> {
        let mut array = HeaderArray { first: Vec::new(), count: 0, all_small: true, of_one_type: true };
        while let Some(value) = list.next_element::<HeaderValue>()? {
            array.count += 1;
            array.all_small &= matches!(value, HeaderValue::Whole(n) if i32::try_from(n).is_ok());
            array.of_one_type &= array.first.first().is_none_or(|first| first.is_like(&value));
            if array.first.len() < KEPT_ELEMENTS {
                array.first.push(value);
            }
        }
        Ok(if array.count == 0 { HeaderValue::Nothing } else { HeaderValue::Array(array) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HeaderValue, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(HeaderValue::Nothing)
    }
}

/// The keys of a header, as many as one may have.
fn shown_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, HeaderValue>, D::Error> {
    struct Keys;

    impl<'de> Visitor<'de> for Keys {
        type Value = BTreeMap<String, HeaderValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the keys of a header")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut keys, mut elements) = (BTreeMap::new(), 0_usize);
            while let Some((key, value)) = map.next_entry::<String, HeaderValue>()? {
                elements = elements.saturating_add(value.count());
                if keys.len() == MAX_KEYS || elements > MAX_ELEMENTS {
                    return Err(A::Error::custom("more keys or elements than a header has"));
                }
                keys.insert(key, value);
            }
            Ok(keys)
        }
    }

    deserializer.deserialize_map(Keys)
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
            spec.metadata.extend(value.spec(key).map(|value| (key.clone(), value)));
        }
        let mut seen = HashSet::new();
        for ShowTensor { name, kind, shape } in tensors {
            let ty: GgmlType = kind.parse().map_err(|why| format!("tensor '{name}': {why}"))?;
            // a projector's tensors may follow the model's own
            if seen.insert(name) {
                spec.tensors.push((name.clone(), ty, shape.clone()));
            }
        }
        Ok(spec)
    }
}

impl HeaderValue {
    /// How many values it is.
    const fn count(&self) -> usize {
        if let Self::Array(array) = self { array.count } else { 1 }
    }

    /// Whether an array of GGUF may have both.
    const fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(_), Self::Text(_)) | (Self::Bool(_), Self::Bool(_)) => true,
            _ => self.number().is_some() && other.number().is_some(),
        }
    }

    const fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(n) => Some(*n as f64),
            Self::Large(n) => Some(*n as f64),
            Self::Real(x) => Some(*x),
            _ => None,
        }
    }

    /// The value of `key`; none for null, omitted arrays, and types that GGUF lacks.
    fn spec(&self, key: &str) -> Option<ValueSpec> {
        Some(match self {
            Self::Bool(flag) => ValueSpec::Bool(*flag),
            Self::Text(text) => ValueSpec::String(text.clone()),
            Self::Array(array) => array.spec(key)?,
            Self::Nothing => return None,
            number if is_float(key) => ValueSpec::F32(number.number()? as f32),
            Self::Large(n) => ValueSpec::U64(*n),
            Self::Whole(n) => integer(*n),
            Self::Real(x) if x.fract() == 0.0 && x.abs() < 9e15 => integer(*x as i64),
            Self::Real(x) => ValueSpec::F32(*x as f32),
        })
    }
}

fn integer(n: i64) -> ValueSpec {
    match (u32::try_from(n), i32::try_from(n)) {
        (Ok(n), _) => ValueSpec::U32(n),
        (_, Ok(n)) => ValueSpec::I32(n),
        _ => ValueSpec::I64(n),
    }
}

impl HeaderArray {
    /// Values of one type; those that were not kept are empty texts, false, or 0.
    fn spec(&self, key: &str) -> Option<ValueSpec> {
        let is_whole = self.all_small && !is_float(key);
        let (ty, missing) = match self.first.first().filter(|_| self.of_one_type)? {
            HeaderValue::Text(_) => (ElementType::String, ValueSpec::String(String::new())),
            HeaderValue::Bool(_) => (ElementType::Bool, ValueSpec::Bool(false)),
            HeaderValue::Whole(_) | HeaderValue::Large(_) | HeaderValue::Real(_) if is_whole => {
                (ElementType::I32, ValueSpec::I32(0))
            }
            HeaderValue::Whole(_) | HeaderValue::Large(_) | HeaderValue::Real(_) => {
                (ElementType::F32, ValueSpec::F32(0.0))
            }
            HeaderValue::Nothing | HeaderValue::Array(_) => return None,
        };
        let draw = |value: &HeaderValue| match value {
            HeaderValue::Text(text) => Some(ValueSpec::String(text.clone())),
            HeaderValue::Bool(flag) => Some(ValueSpec::Bool(*flag)),
            HeaderValue::Whole(n) if is_whole => i32::try_from(*n).ok().map(ValueSpec::I32),
            number => number.number().map(|x| ValueSpec::F32(x as f32)),
        };
        let mut values = self.first.iter().map(draw).collect::<Option<Vec<_>>>()?;
        values.resize(self.count, missing);
        Some(ValueSpec::Array(ty, values))
    }
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
