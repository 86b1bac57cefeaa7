//! The words of expressions in tables of families: keys of `config.json`, what the program takes for missing ones, and the
//! table's own words.

use serde_json::Value;

use super::ModelConfig;
use crate::model::expression::{self, Words};

/// A family's own words.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// What is taken for missing keys; the first of a name counts.
    pub defaults: Vec<(&'static str, i64)>,
    /// Words and their expressions; the last of a name counts.
    pub lets: Vec<(&'static str, &'static str)>,
    /// Names, and the keys of which they are the first that there is; the last of a name counts.
    pub names: Vec<(&'static str, &'static str)>,
}

impl Definitions {
    /// Reads a line of a table; whether it defines a word.
    pub fn read(&mut self, word: &str, rest: &'static str) -> bool {
        match word {
            "default" => {
                let pairs = rest.split_whitespace().filter_map(|pair| pair.split_once('='));
                self.defaults.extend(pairs.filter_map(|(key, number)| Some((key, number.parse().ok()?))));
            }
            "let" => self.lets.extend(rest.split_once(" = ")),
            "list" => self.names.extend(rest.split_once(" = ")),
            _ => return false,
        }
        true
    }
}

/// The words as one layer has them.
#[derive(Clone, Copy, Debug)]
pub struct LayerWords<'a> {
    /// The family's own words.
    definitions: &'a Definitions,
    /// The keys.
    pub config: &'a ModelConfig,
    /// The layer; none where a path has none.
    pub layer: Option<u64>,
    /// Number of layers.
    pub layers: u64,
    /// How many of the table's words may be used: an expression of one knows those above it.
    known: usize,
}

impl<'a> LayerWords<'a> {
    /// The words of this layer.
    pub fn new(definitions: &'a Definitions, config: &'a ModelConfig, layer: Option<u64>, layers: u64) -> Self {
        Self { definitions, config, layer, layers, known: definitions.lets.len() }
    }

    /// The same of a layer.
    #[must_use]
    pub fn of_layer(self, layer: u64) -> Self {
        Self { layer: Some(layer), ..self }
    }

    /// The number of layers.
    pub fn layer_count(definitions: &'a Definitions, config: &'a ModelConfig) -> Option<u64> {
        let words = Self::new(definitions, config, None, 0);
        let named = words.word("layers").flatten().filter(|&layers| layers > 0);
        u64::try_from(named.or_else(|| words.key("num_hidden_layers"))?).ok().filter(|&layers| layers > 0)
    }

    /// The value of an expression that must have one, as a size.
    pub fn size(&self, expression: &str) -> Option<u64> {
        u64::try_from(expression::number(expression, self)?).ok().filter(|&size| size > 0)
    }

    /// Whether a condition holds; one that is not there does.
    pub fn holds(&self, condition: Option<&str>) -> bool {
        condition.is_none_or(|condition| expression::value(condition, self) == Some(1))
    }

    #[allow(clippy::option_option, reason = "a word that is not there is not one without a value")]
    /// A word of the table, whose value may not be known; none if the table has no such word.
    fn word(&self, word: &str) -> Option<Option<i64>> {
        let (at, (_, text)) =
            self.definitions.lets[..self.known].iter().enumerate().rev().find(|(_, (name, _))| *name == word)?;
        Some(expression::number(text, &Self { known: at, ..*self }))
    }

    /// A key, or what the class takes for it; 0 for what is no number.
    fn key(&self, key: &str) -> Option<i64> {
        let default = || self.definitions.defaults.iter().find(|(name, _)| *name == key).map(|(_, number)| *number);
        self.named(key).map(number).or_else(default)
    }

    fn value(&self, path: &str) -> Option<&'a Value> {
        let mut keys = path.split('.');
        let mut value = self.config.text().get(keys.next()?)?;
        for key in keys {
            value = match value {
                Value::Array(list) => list.get(key.parse::<usize>().ok()?)?,
                value => value.as_object()?.get(key)?,
            };
        }
        Some(value).filter(|value| !value.is_null())
    }

    /// What config.json has under this name; a list may be a text: a list of letters.
    pub fn named(&self, name: &str) -> Option<&'a Value> {
        match self.definitions.names.iter().rev().find(|(known, _)| *known == name) {
            Some((_, keys)) => keys.split_whitespace().find_map(|key| self.value(key)),
            None => self.value(name),
        }
    }

    /// Whether the word has a meaning here: it is the table's, a number, or config.json says it.
    pub fn is_known(&self, word: &str) -> bool {
        let is_default = || self.definitions.defaults.iter().any(|(name, _)| *name == word);
        self.named(word).is_some() || self.word(word).is_some() || self.special(word).is_some() || is_default()
    }

    fn element(&self, name: &str) -> Option<Element<'a>> {
        let layer = usize::try_from(self.layer?).ok()?;
        match self.named(name)? {
            Value::Array(list) => list.get(layer).map(Element::Value),
            Value::String(letters) => {
                let count = letters.chars().count().max(1);
                letters.chars().nth(layer % count).map(Element::Letter)
            }
            _ => None,
        }
    }

    fn is_in(&self, name: &str, number: u64) -> bool {
        let list = self.named(name).and_then(Value::as_array);
        list.is_some_and(|list| list.iter().any(|value| value.as_u64() == Some(number)))
    }

    fn length(&self, name: &str) -> i64 {
        let length = match self.named(name) {
            Some(Value::Array(list)) => list.len(),
            Some(Value::String(letters)) => letters.chars().count(),
            _ => 0,
        };
        i64::try_from(length).unwrap_or(i64::MAX)
    }

    fn special(&self, word: &str) -> Option<i64> {
        let flag = |is: bool| Some(i64::from(is));
        if let Some(key) = word.strip_prefix("no.") {
            return match key.strip_prefix("outer.") {
                Some(key) => flag(self.config.outer().get(key).is_none_or(Value::is_null)),
                None => flag(self.named(key).is_none()),
            };
        }
        if let Some(key) = word.strip_prefix("unset.") {
            return flag(!self.config.text().contains_key(key));
        }
        if let Some(key) = word.strip_prefix("outer.") {
            return Some(self.config.outer().get(key).map_or(0, number));
        }
        if let Some(name) = word.strip_prefix("is.") {
            return flag(self.config.text().get("model_type").and_then(Value::as_str) == Some(name));
        }
        if let Some((key, wanted)) = word.split_once(".is.") {
            return flag(self.named(key).and_then(Value::as_str) == Some(wanted));
        }
        if let Some((key, at)) = word.split_once(".at.") {
            return Some(self.named(key)?.get(at.parse::<usize>().ok()?).map_or(0, number));
        }
        if let Some((key, wanted)) = word.split_once(".any.") {
            let list = self.named(key).and_then(Value::as_array);
            return flag(list.is_some_and(|list| list.iter().any(|value| value.as_str() == Some(wanted))));
        }
        if let Some(name) = word.strip_prefix("zeros.") {
            let list = self.named(name).and_then(Value::as_array)?;
            return i64::try_from(list.iter().take_while(|value| number(value) == 0).count()).ok();
        }
        if let Some(name) = word.strip_suffix(".first") {
            return self.named(name)?.as_str()?.split(',').next()?.trim().parse().ok();
        }
        if let Some(name) = word.strip_prefix("len.") {
            return Some(self.length(name));
        }
        if let Some(name) = word.strip_suffix(".has") {
            return flag(self.layer.is_some_and(|layer| self.is_in(name, layer)));
        }
        if let Some(name) = word.strip_suffix(".has1") {
            return flag(self.layer.is_some_and(|layer| self.is_in(name, layer + 1)));
        }
        if let Some(name) = word.strip_suffix(".i") {
            return Some(match self.element(name) {
                Some(Element::Value(value)) => number(value),
                _ => 0,
            });
        }
        if let Some((name, wanted)) = word.split_once(".i.") {
            return flag(self.element(name).is_some_and(|element| element.is(wanted)));
        }
        if let Some((key, word)) = word.split_once(".times.") {
            let (factor, word) = (self.value(key)?.as_f64()?, self.of(word)?);
            return Some((factor * word as f64).trunc() as i64);
        }
        None
    }
}

/// An element of a list.
enum Element<'a> {
    Value(&'a Value),
    Letter(char),
}

impl Element<'_> {
    fn is(&self, wanted: &str) -> bool {
        match self {
            Self::Value(value) => {
                value.as_str().is_some_and(|text| text == if wanted == "star" { "*" } else { wanted })
            }
            Self::Letter('*') => wanted == "star",
            Self::Letter('-') => wanted == "dash",
            Self::Letter(letter) => wanted.chars().eq([*letter]),
        }
    }
}

/// Flags are 0 and 1, and what is no whole number is 0.
fn number(value: &Value) -> i64 {
    match value {
        Value::Bool(flag) => i64::from(*flag),
        value => value.as_i64().unwrap_or(0),
    }
}

impl Words for LayerWords<'_> {
    fn of(&self, word: &str) -> Option<i64> {
        match word {
            "i" => i64::try_from(self.layer?).ok(),
            "layers" => i64::try_from(self.layers).ok(),
            _ => match self.special(word) {
                Some(value) => Some(value),
                None => self.word(word).unwrap_or_else(|| Some(self.key(word).unwrap_or(0))),
            },
        }
    }
}
