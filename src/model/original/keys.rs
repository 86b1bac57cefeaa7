//! The keys of a header.

use serde_json::Value as Json;

use super::family::{Family, KeyKind, KeyRow};
use super::hparams::Hparams;
use crate::gguf::ElementType;
use crate::gguf::write::ValueSpec;
use crate::model::config::words::LayerWords;
use crate::model::expression;

/// The keys of a model, without its architecture.
pub(super) fn of(family: &Family, hparams: &Hparams, blocks: u64) -> Vec<(&'static str, ValueSpec)> {
    let mut keys: Vec<(&'static str, ValueSpec)> = Vec::new();
    for row in family.keys.iter().filter(|row| hparams.holds(family, row.condition, None)) {
        if row.kind == KeyKind::Unset {
            keys.retain(|(key, _)| *key != row.key);
            continue;
        }
        let Some(value) = value(row, family, hparams, blocks) else { continue };
        match keys.iter_mut().find(|(key, _)| *key == row.key) {
            Some((_, before)) => *before = value,
            None => keys.push((row.key, value)),
        }
    }
    keys
}

/// The value of a row; none where config.json says nothing of it.
fn value(row: &KeyRow, family: &Family, hparams: &Hparams, blocks: u64) -> Option<ValueSpec> {
    let of_model = hparams.words(family, None);
    if row.by_block {
        let of_block = |block| whole(row, &hparams.words(family, Some(block)), true);
        let values = (0..blocks).map(of_block).collect::<Option<Vec<_>>>()?;
        return Some(list(values));
    }
    match row.kind {
        KeyKind::Text => Some(ValueSpec::String(row.value.to_owned())),
        KeyKind::Float => {
            let (factor, name) = match row.value.split_once(" * ") {
                Some((factor, name)) => (factor.parse().ok()?, name),
                None => (1.0, row.value),
            };
            let number = match name {
                "longrope_factor" => longrope_factor(&of_model)?,
                name => name.parse().ok().or_else(|| of_model.named(name)?.as_f64())?,
            };
            Some(ValueSpec::F32((factor * number) as f32))
        }
        KeyKind::Number if row.value.contains(", ") => {
            let number = |text| Some(ValueSpec::I32(i32::try_from(expression::number(text, &of_model)?).ok()?));
            row.value.split(", ").map(number).collect::<Option<Vec<_>>>().map(list)
        }
        KeyKind::Number | KeyKind::Flag => match of_model.named(row.value) {
            Some(Json::Array(values)) => {
                let value = |value: &Json| Some(ValueSpec::I32(i32::try_from(value.as_i64()?).ok()?));
                values.iter().map(value).collect::<Option<Vec<_>>>().map(list)
            }
            _ => whole(row, &of_model, false),
        },
        KeyKind::Unset => None,
    }
}

/// The factor of attention that models have which are stretched to a longer context. Source: `Phi3MiniModel`.
fn longrope_factor(words: &LayerWords<'_>) -> Option<f64> {
    let number = |name: &str| words.named(name)?.as_f64().filter(|&number| number > 1.0);
    let (context, trained) = (number("context")?, number("rope.original_max_position_embeddings")?);
    Some(if context > trained { (1.0 + (context / trained).ln() / trained.ln()).sqrt() } else { 1.0 })
}

/// A whole number or a flag, of one block or of the model.
fn whole(row: &KeyRow, words: &LayerWords<'_>, in_list: bool) -> Option<ValueSpec> {
    let is_word = row.value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
    if is_word && row.value.parse::<u64>().is_err() && !words.is_known(row.value) {
        return None;
    }
    let number = expression::number(row.value, words)?;
    Some(match row.kind {
        KeyKind::Flag => ValueSpec::Bool(number != 0),
        _ if in_list => ValueSpec::I32(i32::try_from(number).ok()?),
        _ => ValueSpec::U32(u32::try_from(number).ok()?),
    })
}

fn list(values: Vec<ValueSpec>) -> ValueSpec {
    let kind = if matches!(values.first(), Some(ValueSpec::Bool(_))) { ElementType::Bool } else { ElementType::I32 };
    ValueSpec::Array(kind, values)
}
