//! Ollama's request options, as a Modelfile and as JSON.
//! Names: `api/types.go` (`Options`, `Runner`) and `parser/parser.go`, Ollama 0.24.

use serde_json::{Map, Value};

use super::environment::{self, Variable};
use super::shell::comment;
use super::{ExportInput, ModelLocation};
use crate::settings::GpuLayers;
use crate::text::is_printable;

/// The request options for this plan, in the order of Ollama's list: always the context, which Ollama would otherwise
/// choose by the machine, and the others that the user set.
pub fn options(input: &ExportInput<'_>) -> Vec<(&'static str, u64)> {
    let (plan, settings) = (input.plan, &input.request.settings);
    let mut options = vec![("num_ctx", plan.settings.ctx)];
    if settings.batch.is_some() {
        options.push(("num_batch", plan.settings.batch));
    }
    match settings.gpu_layers {
        GpuLayers::Auto => {}
        GpuLayers::All => options.push(("num_gpu", plan.layers.len() as u64)),
        GpuLayers::Count(count) => options.push(("num_gpu", count)),
    }
    options
}

/// The `options` object of an API request.
pub fn options_json(input: &ExportInput<'_>) -> String {
    let object: Map<String, Value> =
        options(input).into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    format!("{:#}\n", Value::Object(object))
}

/// A Modelfile with the options as parameters; variables of the server are in comments.
pub fn modelfile(input: &ExportInput<'_>) -> String {
    let mut lines = String::new();
    let from = match input.location {
        ModelLocation::File(path) if path.starts_with(['/', '.', '~']) => path.clone(),
        ModelLocation::File(path) => format!("./{path}"),
        ModelLocation::Ollama(name) => name.clone(),
        ModelLocation::HuggingFace(name) => format!("hf.co/{name}"),
        ModelLocation::Url(name) | ModelLocation::Unknown(name) => {
            lines += &comment(&format!("the file of {name}, once downloaded"));
            "./model.gguf".to_owned()
        }
    };
    lines += &format!("FROM {}\n", from.chars().filter(|c| is_printable(*c)).collect::<String>());
    for (name, value) in options(input) {
        lines += &format!("PARAMETER {name} {value}\n");
    }
    let variables = environment::variables(input);
    let server: Vec<String> =
        variables.iter().filter(|variable| variable.name != environment::CONTEXT).map(Variable::line).collect();
    if !server.is_empty() {
        lines += &comment("the server needs these environment variables, which apply to all its models:");
        for line in server {
            lines += &comment(&format!("  {line}"));
        }
    }
    for caveat in environment::caveats(input) {
        lines += &comment(&caveat);
    }
    lines
}
