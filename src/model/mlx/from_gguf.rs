//! The `config.json` of a model's original, as far as memory depends on it, from its GGUF header: for models of which only
//! such a header is known. The rows are in `assets/mlx-from-gguf.txt`, whose first lines explain them.

use serde_json::{Map, Value as Json};

use super::error::MlxError;
use super::modules::Architecture;
use crate::gguf::{Elements, Value};
use crate::model::config::ModelConfig;
use crate::model::expression::{self, Words};
use crate::model::sections;
use crate::model::{Model, TensorGroup};

const TABLE: &str = include_str!("../../../assets/mlx-from-gguf.txt");
/// Weights may differ by one of so many: rotation factors and what the class drops.
const SHARE: u64 = 50;

impl ModelConfig {
    /// That of the original of a model which a GGUF header describes.
    ///
    /// # Errors
    /// If its architecture is not among the rows, or what follows is another model.
    pub fn of_gguf(model: &Model) -> Result<Self, MlxError> {
        let facts = Facts::of(model, None);
        let (kind, rows) =
            section(&model.architecture, &facts).ok_or_else(|| MlxError::NoOriginal(model.architecture.clone()))?;
        let mut config = Map::new();
        config.insert("model_type".to_owned(), kind.into());
        let of_all = sections::sections(TABLE).find(|(names, ..)| *names == "*").map_or("", |(.., rows)| rows);
        for line in of_all.lines().chain(rows.lines()).filter(|line| !line.starts_with('#')) {
            if let Some((key, text)) = line.split_once(": ") {
                config.insert(key.to_owned(), text.into());
                continue;
            }
            let Some((key, text)) = line.split_once(" = ") else { continue };
            match key.strip_suffix("[]") {
                None => {
                    drop(expression::number(text, &facts).map(|number| config.insert(key.to_owned(), number.into())));
                }
                Some(key) => drop(config.insert(key.to_owned(), by_layer(model, text))),
            }
        }
        let config = Self::of(config).map_err(|_| MlxError::NoOriginal(model.architecture.clone()))?;
        let made = Architecture::of(&config)?.parameters();
        // blocks that predict further tokens are in the header, and mlx-lm drops them
        let nextn = facts.key("nextn_predict_layers").unwrap_or(0);
        let dropped = model.block_count().saturating_sub(usize::try_from(nextn).unwrap_or(0))..model.block_count();
        let elements = |group| model.tensors(group).map(|tensor| tensor.dims.iter().product::<u64>()).sum::<u64>();
        let dropped: u64 = dropped.map(|block| elements(TensorGroup::Block(block))).sum();
        if made.abs_diff(model.parameters - dropped.min(model.parameters)) > model.parameters / SHARE {
            return Err(MlxError::OtherModel { made, header: model.parameters });
        }
        Ok(config)
    }
}

/// A value for each layer.
fn by_layer(model: &Model, text: &str) -> Json {
    let layer = |layer: usize| {
        let facts = Facts::of(model, Some(layer));
        if !text.contains('?') {
            return expression::number(text, &facts).map_or(Json::Null, Json::from);
        }
        let mut rest = text;
        // conditions with a text each, the last text without one
        loop {
            let Some((condition, texts)) = rest.split_once('?') else { return Json::from(rest.trim()) };
            let (yes, no) = texts.split_once(':').unwrap_or((texts, ""));
            if expression::value(condition, &facts) == Some(1) {
                return Json::from(yes.trim());
            }
            rest = no;
        }
    };
    (0..model.block_count()).map(layer).collect::<Vec<_>>().into()
}

/// The type and the rows of the first section of this architecture that holds.
fn section(architecture: &str, facts: &Facts<'_>) -> Option<(&'static str, &'static str)> {
    let of_it =
        sections::sections(TABLE).filter(|(names, ..)| names.split_whitespace().any(|name| name == architecture));
    let held = of_it.filter_map(|(_, kind, rows)| match kind.split_once(" if ") {
        None => Some((kind, rows)),
        Some((kind, condition)) => (expression::value(condition, facts) == Some(1)).then_some((kind, rows)),
    });
    held.into_iter().next()
}

/// What a header says, as one layer has it.
struct Facts<'m> {
    model: &'m Model,
    layer: Option<usize>,
    /// The first layer with full attention, and the first with a window.
    first: [usize; 2],
}

impl<'m> Facts<'m> {
    fn of(model: &'m Model, layer: Option<usize>) -> Self {
        let sliding = |layer: usize| {
            let pattern = &model.hyper.sliding;
            pattern.get(layer % pattern.len().max(1)).copied().unwrap_or(false)
        };
        let first = |wanted: bool| (0..model.block_count()).find(|&layer| sliding(layer) == wanted).unwrap_or(0);
        Self { model, layer, first: [first(false), first(true)] }
    }

    /// The numbers of a key: one for all layers, or a list that repeats.
    fn list(&self, key: &str) -> Option<Vec<i64>> {
        let number = |value: &Value| {
            value.as_i64().or_else(|| value.as_bool().map(i64::from)).or_else(|| whole(value.as_f64()?))
        };
        match self.model.value(key)? {
            Value::Array(array) => match &array.elements {
                Elements::Bool(flags) => Some(flags.iter().map(|&flag| i64::from(flag)).collect()),
                elements => elements.integers(),
            },
            value => Some(vec![number(value)?]),
        }
    }

    fn key(&self, key: &str) -> Option<i64> {
        self.list(key)?.first().copied()
    }

    fn at(&self, key: &str, layer: usize) -> Option<i64> {
        let list = self.list(key)?;
        list.get(layer % list.len().max(1)).copied()
    }

    /// The tensor of this name, with or without its ending.
    fn rows(&self, name: &str) -> Option<i64> {
        let tensor = self.model.tensor(name).or_else(|| self.model.tensor(&format!("{name}.weight")))?;
        i64::try_from(*tensor.dims.get(1).unwrap_or(&1)).ok()
    }
}

fn whole(number: f64) -> Option<i64> {
    (number.is_finite() && number.abs() < 1e15).then_some(number as i64)
}

impl Words for Facts<'_> {
    fn of(&self, word: &str) -> Option<i64> {
        if word == "i" {
            return i64::try_from(self.layer?).ok();
        }
        let block = |name: &str| {
            let in_layer = name.strip_prefix("i.").zip(self.layer);
            let in_layer = in_layer.or_else(|| Some((name.strip_prefix("full.")?, self.first[0])));
            in_layer.map_or_else(|| name.to_owned(), |(name, layer)| format!("blk.{layer}.{name}"))
        };
        if let Some(name) = word.strip_prefix("has.") {
            return Some(i64::from(self.rows(&block(name)).is_some()));
        }
        if let Some(name) = word.strip_prefix("rows.") {
            return self.rows(&block(name));
        }
        let found = match word.rsplit_once('.') {
            Some((key, "any")) => self.list(key).and_then(|list| list.into_iter().find(|&number| number != 0)),
            Some((key, "varies")) => self.list(key).map(|list| i64::from(list.iter().any(|number| *number != list[0]))),
            Some((key, "i")) => self.layer.and_then(|layer| self.at(key, layer)),
            Some((key, "full")) => self.at(key, self.first[0]),
            Some((key, "sliding")) => self.at(key, self.first[1]),
            _ => self.key(word),
        };
        Some(found.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::model::mlx::Family;

    #[test]
    fn every_type_is_that_of_a_family() {
        for (names, kind, rows) in sections::sections(TABLE).filter(|(names, ..)| *names != "*") {
            let kind = kind.split_once(" if ").map_or(kind, |(kind, _)| kind);
            assert!(Family::of(kind).is_some(), "{names}: {kind}");
            assert!(
                rows.lines().all(|line| line.is_empty() || [" = ", ": "].iter().any(|sign| line.contains(sign))),
                "{names}"
            );
        }
    }

    /// A description that gives another model is refused, and most of the catalogue gives none.
    #[test]
    fn most_of_the_catalogue_has_an_original() {
        let (mut made, mut refused) = (0, Vec::new());
        for entry in catalogue::all() {
            let Some(model) = catalogue::model(&entry.name) else { continue };
            match ModelConfig::of_gguf(&model) {
                Ok(_) => made += 1,
                Err(MlxError::NoOriginal(_)) => {}
                Err(error) => refused.push(format!("{}: {error}", entry.name)),
            }
        }
        assert!(made > 120, "{made} of {}", catalogue::all().len());
        assert!(refused.len() < 12, "{refused:#?}");
    }
}
