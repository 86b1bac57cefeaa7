//! `/api/show` responses as GGUF headers. JSON numbers have no width: an integer gets the narrowest type that holds it,
//! and keys that are floats in GGUF stay floats even if they are whole numbers.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::gguf::write::{HeaderSpec, ValueSpec};
use crate::gguf::{ElementType, GgmlType};

/// A response of `/api/show`.
#[derive(Deserialize)]
pub(super) struct ShowResponse {
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
