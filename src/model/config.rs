//! `config.json`, as Hugging Face's libraries and mlx-lm write it beside a model's weights.

pub(in crate::model) mod words;

use serde_json::{Map, Value};

use crate::text;

/// Largest text that is read.
pub const MAX_CONFIG_BYTES: usize = 16 << 20;

/// Why a text is no `config.json` of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Larger than [`MAX_CONFIG_BYTES`].
    #[error("config.json has {0} bytes, more than the limit of {MAX_CONFIG_BYTES}: it is damaged or forged")]
    TooLarge(usize),
    /// Not JSON.
    #[error("config.json is not JSON at line {line}, column {column}: download it again")]
    Json {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// Not a dictionary, or one without `model_type`.
    #[error("config.json has no key 'model_type' holding a text: this is not a language model that can be planned")]
    NoType,
}

/// A model's `config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    outer: Map<String, Value>,
    model_type: String,
}

impl ModelConfig {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// If it is too large, no JSON, or names no type of model.
    pub fn read(text: &[u8]) -> Result<Self, ConfigError> {
        if text.len() > MAX_CONFIG_BYTES {
            return Err(ConfigError::TooLarge(text.len()));
        }
        let value: Value = serde_json::from_slice(text)
            .map_err(|error| ConfigError::Json { line: error.line(), column: error.column() })?;
        let Value::Object(outer) = value else { return Err(ConfigError::NoType) };
        Self::of(outer)
    }

    /// The same of its keys.
    ///
    /// # Errors
    /// If it names no type of model.
    pub fn of(outer: Map<String, Value>) -> Result<Self, ConfigError> {
        let model_type = outer.get("model_type").and_then(Value::as_str).filter(|name| !name.trim().is_empty());
        let model_type = text::one_line(model_type.ok_or(ConfigError::NoType)?).into_owned();
        Ok(Self { outer, model_type })
    }

    /// `model_type`, on one line.
    pub fn model_type(&self) -> &str {
        &self.model_type
    }

    /// The keys beside `text_config`.
    pub const fn outer(&self) -> &Map<String, Value> {
        &self.outer
    }

    /// The keys of the language model: those of `text_config`, where there is one.
    pub fn text(&self) -> &Map<String, Value> {
        self.outer.get("text_config").and_then(Value::as_object).unwrap_or(&self.outer)
    }

    /// A key of the language model, or else one beside it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let found = |map: &'_ Map<String, Value>| map.get(key).is_some_and(|value| !value.is_null());
        if found(self.text()) { self.text().get(key) } else { self.outer.get(key).filter(|value| !value.is_null()) }
    }

    /// The same as a whole number.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    /// The first of `architectures`, on one line.
    pub fn architecture(&self) -> Option<String> {
        let named = match self.outer.get("architectures")? {
            Value::Array(all) => all.first()?.as_str()?,
            value => value.as_str()?,
        };
        Some(text::one_line(named).into_owned())
    }

    /// The type that the weights were trained or converted in, as they name it: `bfloat16`.
    pub fn dtype(&self) -> Option<&str> {
        ["torch_dtype", "dtype"].into_iter().find_map(|key| self.get(key)?.as_str())
    }

    /// What mlx-lm wrote of its quantisation, if it did.
    pub fn quantization(&self) -> Option<&Map<String, Value>> {
        self.outer.get("quantization").and_then(Value::as_object)
    }

    /// The tokens that it was trained for.
    pub fn context(&self) -> Option<u64> {
        ["max_position_embeddings", "model_max_length"].into_iter().find_map(|key| self.number(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_language_model_come_first() {
        let config = ModelConfig::read(
            br#"{"model_type": "x\u001b[31m", "dtype": "float16", "a": 1, "text_config": {"a": 2, "b": null}, "b": 3}"#,
        )
        .unwrap();
        assert_eq!(config.model_type(), "x [31m");
        assert_eq!((config.number("a"), config.number("b"), config.number("c")), (Some(2), Some(3), None));
        assert_eq!((config.dtype(), config.architecture()), (Some("float16"), None));
    }

    #[test]
    fn damaged_texts_are_refused_with_their_place() {
        let said = |text: &str| ModelConfig::read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(said("{\n \"a\": }"), "config.json is not JSON at line 2, column 7: download it again");
        for text in ["[]", "{}", "{\"model_type\": 3}", "{\"model_type\": \" \"}"] {
            assert!(said(text).contains("'model_type'"), "{text}");
        }
    }
}
