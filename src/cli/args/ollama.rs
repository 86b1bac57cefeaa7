//! Options of Ollama.

use std::path::PathBuf;

use clap::Args;

use super::super::value;
use crate::settings::OllamaVersion;
use crate::settings::ollama::Endpoint;

/// What only Ollama from 0.30 is asked.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Ollama (from 0.30)")]
pub(in super::super) struct OllamaArgs {
    /// Ollama's version: 0.33, 0.30, or one between such as 0.31.2, or one of an engine with an estimator [default: 0.33,
    /// or the one that runs where the model comes from].
    #[arg(long, value_name = "VERSION", value_parser = OllamaVersion::any)]
    pub(in super::super) ollama: Option<OllamaVersion>,
    /// A variable of Ollama's server, once per variable; if given, this environment's variables are not read.
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::pair)]
    pub(in super::super) server_env: Vec<(String, String)>,
    /// A Modelfile, whose PARAMETER, ADAPTER and DRAFT lines count.
    #[arg(long, value_name = "FILE")]
    pub(in super::super) modelfile: Option<PathBuf>,
    /// An option of the request, as JSON: num_ctx=8192, num_batch=null, main_gpu=1, use_mmap=false.
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::pair)]
    pub(in super::super) option: Vec<(String, String)>,
    /// What is asked of the model: generate or embed [default: what it is for].
    #[arg(long, value_name = "generate|embed")]
    pub(in super::super) endpoint: Option<Endpoint>,
    /// Whether the request lets the context shift [default: by the model].
    #[arg(long, value_name = "true|false")]
    pub(in super::super) shift: Option<bool>,
    /// Ollama renders the prompt by the model's own template.
    #[arg(long)]
    pub(in super::super) go_template: bool,
}
