//! The variables of the environment that are read.

use super::config;

/// A variable that the program or a library of it reads, and what it does. A name that ends in `*` stands for all that
/// begin so; several names mean the same.
pub(super) type VariableRow = (&'static [&'static str], &'static str);

/// The variables besides those that stand for keys of the configuration.
const VARIABLES: [VariableRow; 21] = [
    (&["PLIMSOLL_LOG"], "a file for what was detected, fetched and planned, as --log"),
    (&["PLIMSOLL_OFFLINE"], "if it is set, and neither 0 nor false: ask no server for models, as --offline"),
    (&["PLIMSOLL_THEME"], "dark, light or mono: the planner's colours"),
    (&["PLIMSOLL_GLYPHS"], "unicode or ascii: the planner's characters"),
    (&["OLLAMA_HOST"], "the address of the running Ollama"),
    (&["OLLAMA_MODELS"], "the folder of Ollama's models"),
    (&["OLLAMA_REGISTRY"], "the registry that the names of models are looked up in"),
    (&["OLLAMA_*"], "Ollama's own variables set the knobs that no option sets"),
    (&["LLAMA_ARG_*"], "llama-server's own variables, which a server that Ollama starts inherits"),
    (&["LLAMA_CACHE"], "the folder of llama.cpp's models"),
    (&["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"], "the folder of Hugging Face's models"),
    (&["HF_ENDPOINT"], "the address of Hugging Face, or of a mirror"),
    (&["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"], "the token for Hugging Face, or its file"),
    (&["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"], "the NVIDIA GPUs that are seen, and their order"),
    (&["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"], "the AMD GPUs that are seen"),
    (&["GGML_*"], "GPUs that Ollama's server hides from llama-server, and its libraries"),
    (&["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"], "the folders of the files below, on Linux"),
    (&["NO_COLOR"], "if it is set, nothing is coloured"),
    (&["TERM", "COLORTERM", "COLORFGBG", "WT_SESSION"], "the colours of the terminal"),
    (&["LC_ALL", "LC_CTYPE", "LANG"], "the characters of the terminal"),
    (&["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"], "the proxy for servers, and the hosts that need none"),
];

/// Variables whose values no report tells.
pub(super) const UNTOLD: [VariableRow; 3] = [
    (&["HOME"], "the home folder, for the files below and for models"),
    (&["PATH"], "where llama-server is looked for"),
    (&["USER", "USERNAME", "LOGNAME", "COMPUTERNAME", "HOSTNAME"], "names that 'check --share' leaves out"),
];

/// All variables that reports tell, with what each does.
pub(super) fn told() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    VARIABLES.into_iter().map(|(names, what)| (names.to_vec(), what)).chain(config::variables())
}

/// Whether reports tell the variable `name`.
pub(super) fn is_told(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    told().any(|(names, _)| names.iter().any(|row| is_named(row, &name)))
}

fn is_named(row: &str, name: &str) -> bool {
    row.strip_suffix('*').map_or(row == name, |start| name.starts_with(start))
}
