//! What Ollama reads: environment variables of its server, as lines for a shell and as a drop-in for systemd, and the
//! options of a request, as a Modelfile and as JSON.
//! Names: `envconfig/config.go`, `api/types.go` (`Options`, `Runner`) and `parser/parser.go`, Ollama 0.24; those of
//! llama-server: `common/arg.cpp`, 0.1.161.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::{ExportInput, ModelLocation, comment};
use crate::settings::{FlashAttn, GpuLayers, llama_server_variables};
use crate::text::{exact, shell_word, without_secrets};
use crate::units::Bytes;

/// The variable for the context, which a request can override.
pub(super) const CONTEXT: &str = "OLLAMA_CONTEXT_LENGTH";
/// The variable for parallelism.
pub(super) const PARALLEL: &str = "OLLAMA_NUM_PARALLEL";

/// A variable and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names suffice")]
pub struct Variable {
    pub name: &'static str,
    pub value: String,
}

impl Variable {
    fn new(name: &'static str, value: impl Display) -> Self {
        Self { name, value: format!("{value}") }
    }

    /// `NAME=value`
    fn line(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}

/// The variables for this plan: context and parallelism in effect, and the settings that the user changed.
pub fn variables(input: &ExportInput<'_>) -> Vec<Variable> {
    let (plan, settings) = (input.plan, &input.request.settings);
    let mut variables =
        vec![Variable::new(CONTEXT, plan.settings.ctx), Variable::new(PARALLEL, plan.settings.parallel)];
    let (k, v) = (settings.cache_type_k, settings.cache_type_v);
    if let Some(both) = k.filter(|_| k == v) {
        variables.push(Variable::new("OLLAMA_KV_CACHE_TYPE", both));
    }
    match settings.flash_attn {
        FlashAttn::Auto => {}
        FlashAttn::On => variables.push(Variable::new("OLLAMA_FLASH_ATTENTION", 1)),
        FlashAttn::Off => variables.push(Variable::new("OLLAMA_FLASH_ATTENTION", 0)),
    }
    if settings.gpu_overhead > Bytes::ZERO {
        variables.push(Variable::new("OLLAMA_GPU_OVERHEAD", settings.gpu_overhead.0));
    }
    if settings.spread {
        variables.push(Variable::new("OLLAMA_SCHED_SPREAD", 1));
    }
    if plan.engine.facts().starts_llama_server {
        let named = input.request.by_server_names().unwrap_or_else(|_| settings.clone());
        let inherited = llama_server_variables(&named).into_iter();
        variables.extend(inherited.map(|(name, value)| Variable { name, value }));
    }
    variables
}

/// Settings of the plan that Ollama has no variable or option for, one sentence each.
fn caveats(input: &ExportInput<'_>) -> Vec<String> {
    let settings = &input.request.settings;
    let mut caveats = Vec::new();
    if settings.raw {
        caveats.push("planned with the knobs exactly as given; Ollama adjusts them by its own rules".to_owned());
    }
    if settings.require_full {
        caveats.push("Ollama has no setting that refuses a model not fully on GPU".to_owned());
    }
    if settings.cache_type_k != settings.cache_type_v && input.plan.engine.facts().has_one_cache_type() {
        caveats.push("Ollama uses one type for K and V".to_owned());
    }
    caveats
}

/// As lines for a shell.
///
/// # Errors
/// As [`exact`], for a value.
pub fn shell(input: &ExportInput<'_>) -> Result<String, String> {
    let mut lines = String::new();
    for Variable { name, value } in variables(input) {
        lines += &format!("export {name}={}\n", shell_word(exact(&value)?));
    }
    lines += &comments(input);
    Ok(lines)
}

/// As a drop-in: `/etc/systemd/system/ollama.service.d/plimsoll.conf`.
///
/// # Errors
/// As [`exact`], for a value.
pub fn systemd(input: &ExportInput<'_>) -> Result<String, String> {
    let mut lines = "[Service]\n".to_owned();
    for variable in variables(input) {
        // backslashes escape and percent signs are specifiers (systemd.exec(5), systemd.unit(5))
        let value = exact(&variable.value)?.replace('\\', r"\\").replace('"', r#"\""#).replace('%', "%%");
        lines += &format!("Environment=\"{}\"\n", Variable { value, ..variable }.line());
    }
    lines += &comments(input);
    Ok(lines)
}

/// What variables cannot set, as comments.
pub(super) fn comments(input: &ExportInput<'_>) -> String {
    let options = options(input).into_iter().filter(|(name, _)| *name != "num_ctx");
    let options: Vec<String> = options.map(|(name, value)| format!("{name} {value}")).collect();
    let mut lines = String::new();
    if !options.is_empty() {
        lines += &comment(&format!("set in each request or in a Modelfile: {}", options.join(", ")));
    }
    for caveat in caveats(input) {
        lines += &comment(&caveat);
    }
    lines
}

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
///
/// # Errors
/// As [`exact`], for the model's path; and if it ends in a blank, which Ollama leaves out (`parser/parser.go`, 0.24).
pub fn modelfile(input: &ExportInput<'_>) -> Result<String, String> {
    let mut lines = String::new();
    let from = match input.location {
        ModelLocation::File(path) if path.starts_with(['/', '.', '~']) => path.clone(),
        ModelLocation::File(path) => format!("./{path}"),
        ModelLocation::Ollama(name) => name.clone(),
        ModelLocation::HuggingFace(name) => format!("hf.co/{name}"),
        ModelLocation::Url(name) | ModelLocation::Unknown(name) => {
            lines += &comment(&format!("the file of {}, once downloaded", without_secrets(name)));
            "./model.gguf".to_owned()
        }
    };
    let from = exact(&from)?;
    if from != from.trim() {
        return Err(format!(
            "'{from}' ends in a blank, which a Modelfile leaves out: rename the file, or make a link to it"
        ));
    }
    lines += &format!("FROM {from}\n");
    for (name, value) in options(input) {
        lines += &format!("PARAMETER {name} {value}\n");
    }
    let variables = variables(input);
    let server: Vec<String> =
        variables.iter().filter(|variable| variable.name != CONTEXT).map(Variable::line).collect();
    if !server.is_empty() {
        lines += &comment("the server needs these environment variables, which apply to all its models:");
        for line in server {
            lines += &comment(&format!("  {line}"));
        }
    }
    for caveat in caveats(input) {
        lines += &comment(&caveat);
    }
    Ok(lines)
}
