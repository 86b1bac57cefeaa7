//! Whether a value is what a JSON Schema says. Only the keywords that `plimsoll schema` prints are known; others, and keys
//! that no schema describes, are errors, so that nothing is passed over.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// # Errors
/// The first difference, with its place in the value.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    described(schema, schema, value, "$").map(drop)
}

/// Keys of an object that a schema describes.
type Keys = BTreeSet<String>;

fn described(root: &Value, schema: &Value, value: &Value, place: &str) -> Result<Keys, String> {
    let keys = matched(root, schema, value, place)?;
    let undescribed = value.as_object().and_then(|object| object.keys().find(|key| !keys.contains(*key)));
    undescribed.map_or(Ok(keys), |key| Err(format!("{place}.{key} is not described")))
}

fn matched(root: &Value, schema: &Value, value: &Value, place: &str) -> Result<Keys, String> {
    let schema = match schema {
        Value::Bool(true) => return Ok(value.as_object().into_iter().flat_map(Map::keys).cloned().collect()),
        Value::Object(schema) => schema,
        other => return Err(format!("{place}: {other} is no schema")),
    };
    let mut keys = Keys::new();
    for (keyword, of) in schema {
        match keyword.as_str() {
            "$ref" => {
                let to = of.as_str().and_then(|to| root.pointer(to.strip_prefix('#')?));
                keys.extend(matched(root, to.ok_or_else(|| format!("{of} is not there"))?, value, place)?);
            }
            "type" => {
                let types = of.as_array().map_or(std::slice::from_ref(of), Vec::as_slice);
                if !types.iter().any(|name| is(name.as_str().unwrap(), value)) {
                    return Err(format!("{place} is not {of}: {value}"));
                }
            }
            "const" if of != value => return Err(format!("{place} is not {of}: {value}")),
            "enum" if !of.as_array().unwrap().contains(value) => {
                return Err(format!("{place} is none of {of}: {value}"));
            }
            "minimum" if value.is_number() && value.as_f64() < of.as_f64() => {
                return Err(format!("{place} is less than {of}: {value}"));
            }
            "maximum" if value.is_number() && value.as_f64() > of.as_f64() => {
                return Err(format!("{place} is more than {of}: {value}"));
            }
            "minItems" if value.as_array().is_some_and(|items| (items.len() as u64) < of.as_u64().unwrap()) => {
                return Err(format!("{place} has too few items"));
            }
            "maxItems" if value.as_array().is_some_and(|items| items.len() as u64 > of.as_u64().unwrap()) => {
                return Err(format!("{place} has too many items"));
            }
            // said above of what is wrong, or for readers
            "const" | "enum" | "minimum" | "maximum" | "minItems" | "maxItems" | "$schema" | "$defs" | "title"
            | "description" | "format" => {}
            "required" => {
                let missing = |object: &Map<String, Value>| {
                    of.as_array().unwrap().iter().find(|key| !object.contains_key(key.as_str().unwrap())).cloned()
                };
                if let Some(key) = value.as_object().and_then(missing) {
                    return Err(format!("{place} has no {key}"));
                }
            }
            "properties" => {
                for (key, schema) in of.as_object().unwrap() {
                    let Some(value) = value.get(key) else { continue };
                    described(root, schema, value, &format!("{place}.{key}"))?;
                    keys.insert(key.clone());
                }
            }
            "additionalProperties" => {
                let named = schema.get("properties").and_then(Value::as_object);
                for (key, value) in value.as_object().into_iter().flatten() {
                    if named.is_none_or(|named| !named.contains_key(key)) {
                        described(root, of, value, &format!("{place}.{key}"))?;
                        keys.insert(key.clone());
                    }
                }
            }
            "propertyNames" => {
                for key in value.as_object().into_iter().flat_map(Map::keys) {
                    described(root, of, &Value::from(key.as_str()), &format!("{place}: the key"))?;
                }
            }
            "prefixItems" => {
                for (at, (schema, value)) in
                    of.as_array().unwrap().iter().zip(value.as_array().into_iter().flatten()).enumerate()
                {
                    described(root, schema, value, &format!("{place}[{at}]"))?;
                }
            }
            "items" => {
                let before = schema.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                for (at, value) in value.as_array().into_iter().flatten().enumerate().skip(before) {
                    described(root, of, value, &format!("{place}[{at}]"))?;
                }
            }
            "anyOf" | "oneOf" => {
                let (fit, not): (Vec<_>, Vec<_>) =
                    of.as_array().unwrap().iter().map(|one| matched(root, one, value, place)).partition(Result::is_ok);
                if fit.is_empty() || keyword == "oneOf" && fit.len() > 1 {
                    return Err(format!("{place} fits {} of {}: {not:?}", fit.len(), fit.len() + not.len()));
                }
                keys.extend(fit.into_iter().flatten().flatten());
            }
            "allOf" => {
                for one in of.as_array().unwrap() {
                    keys.extend(matched(root, one, value, place)?);
                }
            }
            other => return Err(format!("{place}: the keyword {other} is not known")),
        }
    }
    Ok(keys)
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    }
}
