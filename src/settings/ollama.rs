//! What only Ollama is asked: options of a request that no knob has, and variables of its server.

mod options;
mod shipped;
mod source;
mod variables;
mod version;

use std::collections::BTreeMap;

pub use options::{apply_options, modelfile_parameters};
pub use source::{Source, Sources};
pub use variables::{apply_variables, is_inherited, seconds};
pub use version::OllamaVersion;

/// Settings of Ollama from 0.30. The default is what it does when nobody says anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OllamaSettings {
    /// Its version.
    pub version: OllamaVersion,
    /// What is asked of the model.
    pub endpoint: Endpoint,
    /// `main_gpu`: a GPU's index among those of its backend.
    pub main_gpu: Option<i64>,
    /// `use_mmap`
    pub use_mmap: Option<bool>,
    /// `num_thread`
    pub num_thread: Option<i64>,
    /// `num_keep`
    pub num_keep: Option<i64>,
    /// `draft_num_predict`
    pub draft_num_predict: Option<i64>,
    /// Whether the context may be shifted; by the model's family if nobody says.
    pub shift: Option<bool>,
    /// Whether Ollama renders the prompt by the model's own template.
    pub go_template: bool,
    /// A draft model of the Modelfile.
    pub draft: Option<DraftModel>,
    /// Adapters of the Modelfile.
    pub adapters: usize,
    /// The context is the default by the machine, yet was asked for: `"num_ctx": null`.
    pub ctx_is_given: bool,
    /// Variables of its server.
    pub server: ServerVariables,
    /// Who set what.
    pub sources: Sources,
}

/// What a request asks of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// Whatever the model is for.
    #[default]
    Fitting,
    /// Text: `/api/generate`, `/api/chat`.
    Generate,
    /// Embeddings: `/api/embed`.
    Embed,
}

impl std::str::FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "generate" | "chat" => Ok(Self::Generate),
            "embed" => Ok(Self::Embed),
            _ => Err(format!("'{text}' is not an endpoint: use generate or embed")),
        }
    }
}

/// A draft model, as far as Ollama looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftModel {
    /// Architecture `dflash`.
    Dflash,
    /// Any other architecture.
    Other,
}

/// Variables of Ollama's server that no knob has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerVariables {
    /// `OLLAMA_IGPU_ENABLE`
    pub igpu_enable: Option<bool>,
    /// `OLLAMA_VULKAN=0`
    pub no_vulkan: bool,
    /// `OLLAMA_LLM_LIBRARY`: the one folder of backends that is used.
    pub llm_library: Option<String>,
    /// `OLLAMA_GO_TEMPLATE=0`
    pub no_go_template: bool,
    /// `OLLAMA_MAX_LOADED_MODELS`
    pub max_loaded_models: Option<u64>,
    /// `OLLAMA_KEEP_ALIVE`, in seconds; negative is for ever.
    pub keep_alive: Option<i64>,
    /// `OLLAMA_KV_CACHE_TYPE` where it is none that llama-server knows.
    pub unknown_cache_type: Option<String>,
    /// `LLAMA_ARG_FIT=off`
    pub no_fit: bool,
    /// What llama-server gets of the server's environment: `LLAMA_ARG_*`, `GGML_*`, `*_VISIBLE_DEVICES`.
    pub inherited: BTreeMap<String, String>,
}
