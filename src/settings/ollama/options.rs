//! Options of a request, and the parameters of a Modelfile.
//! Source: `FromMap`, `api/types.go`, and `parser/parser.go`, Ollama, August 2026.

use serde_json::{Map, Value as Json};

use super::Source;
use crate::settings::knob::{Knob, MAX_VALUE};
use crate::settings::{Context, GpuLayers, Settings};

/// The default of `num_batch`.
const NUM_BATCH: u64 = 512;

/// Sets what `options` set. Null counts as given, with the default's value; unknown options are passed over.
///
/// # Errors
/// Ollama's own sentence, if an option has the wrong type.
pub fn apply_options(settings: &mut Settings, options: &Map<String, Json>, source: Source) -> Result<(), String> {
    for (name, value) in options {
        let integer = || integer(name, value);
        match name.as_str() {
            "num_ctx" => {
                let tokens = integer()?;
                settings.ollama.ctx_is_given = tokens.is_none();
                if let Some(tokens) = tokens {
                    settings.ctx = Context::Tokens(at_least_none(tokens));
                }
                settings.set_by(Knob::Context, source);
            }
            "num_batch" => {
                settings.batch = Some(integer()?.map_or(NUM_BATCH, at_least_none));
                settings.set_by(Knob::Batch, source);
            }
            "num_gpu" => {
                let layers = integer()?.map(u64::try_from).and_then(Result::ok);
                settings.gpu_layers = layers.map_or(GpuLayers::Auto, |n| GpuLayers::Count(n.min(MAX_VALUE)));
                settings.set_by(Knob::GpuLayers, source);
            }
            "main_gpu" => settings.ollama.main_gpu = integer()?.or(settings.ollama.main_gpu),
            "num_thread" => settings.ollama.num_thread = integer()?.or(settings.ollama.num_thread),
            "num_keep" => settings.ollama.num_keep = integer()?.or(settings.ollama.num_keep),
            "draft_num_predict" => {
                settings.ollama.draft_num_predict = integer()?.or(settings.ollama.draft_num_predict);
            }
            "use_mmap" => match value {
                Json::Null => {}
                Json::Bool(mapped) => settings.ollama.use_mmap = Some(*mapped),
                _ => return Err(format!("option \"{name}\" must be of type boolean")),
            },
            _ => {}
        }
    }
    Ok(())
}

/// The whole part of a number; none for null.
fn integer(name: &str, value: &Json) -> Result<Option<i64>, String> {
    match value {
        Json::Null => Ok(None),
        Json::Number(number) => Ok(number.as_i64().or_else(|| number.as_f64().map(|number| number as i64))),
        _ => Err(format!("option \"{name}\" must be of type integer")),
    }
}

/// Zero for anything below one.
fn at_least_none(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default().min(MAX_VALUE)
}

/// The parameters of a Modelfile that are numbers or truth values.
///
/// # Errors
/// One sentence, with the line's number, if a value is neither.
pub fn modelfile_parameters(text: &str) -> Result<Map<String, Json>, String> {
    let mut parameters = Map::new();
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        if !words.next().is_some_and(|word| word.eq_ignore_ascii_case("parameter")) {
            continue;
        }
        let (Some(name), Some(value)) = (words.next(), words.next()) else {
            return Err(format!("line {}: PARAMETER needs a name and a value", number + 1));
        };
        let value = value.trim_matches('"');
        if name == "use_mmap" {
            let truth = value.parse().map_err(|_| format!("line {}: {name} is true or false", number + 1))?;
            parameters.insert(name.to_owned(), Json::Bool(truth));
        } else if ["num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "draft_num_predict"]
            .contains(&name)
        {
            let count: i64 = value.parse().map_err(|_| format!("line {}: {name} is a whole number", number + 1))?;
            parameters.insert(name.to_owned(), Json::from(count));
        }
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Source;
    use serde_json::json;

    fn applied(options: &Json) -> Result<Settings, String> {
        let mut settings = Settings::default();
        apply_options(&mut settings, options.as_object().unwrap(), Source::Request)?;
        Ok(settings)
    }

    #[test]
    fn whole_parts_are_taken_and_null_counts_as_given() {
        let settings = applied(&json!({"num_ctx": 4.9, "num_batch": null, "num_gpu": -2, "top_k": "x"})).unwrap();
        assert_eq!((settings.ctx, settings.batch), (Context::Tokens(4), Some(512)));
        assert_eq!(settings.gpu_layers, GpuLayers::Auto);
        let unset = applied(&json!({"num_ctx": null})).unwrap();
        assert_eq!((unset.ctx, unset.ollama.ctx_is_given), (Context::Auto, true));
    }

    #[test]
    fn wrong_types_are_refused_in_ollamas_words() {
        assert_eq!(applied(&json!({"num_ctx": "8192"})).unwrap_err(), "option \"num_ctx\" must be of type integer");
        assert_eq!(applied(&json!({"use_mmap": "yes"})).unwrap_err(), "option \"use_mmap\" must be of type boolean");
    }

    #[test]
    fn a_modelfile_is_read_line_by_line() {
        let text = "FROM x\nPARAMETER num_ctx 8192\nparameter use_mmap false\nPARAMETER stop \"<|end|>\"\n";
        let read = modelfile_parameters(text).unwrap();
        assert_eq!(Json::Object(read), json!({"num_ctx": 8192, "use_mmap": false}));
        assert!(modelfile_parameters("PARAMETER num_ctx much").is_err());
    }
}
