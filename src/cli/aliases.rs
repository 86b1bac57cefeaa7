//! Names that llama.cpp and Ollama have for options: what people's fingers know.

use std::ffi::OsString;

/// Each name, and the option that it stands for (`common/arg.cpp`, 0.1.161; Ollama's `num_ctx`).
const ALIASES: [(&str, &str); 27] = [
    ("-c", "--ctx"),
    ("--ctx-size", "--ctx"),
    ("--num-ctx", "--ctx"),
    ("-ngl", "--gpu-layers"),
    ("--n-gpu-layers", "--gpu-layers"),
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-np", "--parallel"),
    ("-fa", "--flash-attn"),
    ("-b", "--batch"),
    ("--batch-size", "--batch"),
    ("-ub", "--ubatch"),
    ("--ubatch-size", "--ubatch"),
    ("-ts", "--tensor-split"),
    ("-ncmoe", "--n-cpu-moe"),
    ("-md", "--model-draft"),
    ("--spec-draft-model", "--model-draft"),
    ("-ngld", "--gpu-layers-draft"),
    ("--n-gpu-layers-draft", "--gpu-layers-draft"),
    ("--spec-draft-ngl", "--gpu-layers-draft"),
    ("-ctkd", "--cache-type-k-draft"),
    ("--spec-draft-type-k", "--cache-type-k-draft"),
    ("-ctvd", "--cache-type-v-draft"),
    ("--spec-draft-type-v", "--cache-type-v-draft"),
    ("-devd", "--device-draft"),
    ("--spec-draft-device", "--device-draft"),
    ("--draft-max", "--spec-draft-n-max"),
];

/// The arguments with such names replaced, up to `--`.
pub(super) fn expand(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut verbatim = false;
    arguments
        .map(|argument| {
            verbatim |= argument == "--";
            let text = argument.to_str().filter(|_| !verbatim);
            text.and_then(expanded).map_or(argument.clone(), OsString::from)
        })
        .collect()
}

/// `--ctx=8192` for `-c=8192`.
fn expanded(argument: &str) -> Option<String> {
    let (name, value) = argument.split_once('=').map_or((argument, None), |(name, value)| (name, Some(value)));
    let (_, option) = ALIASES.iter().find(|(alias, _)| *alias == name)?;
    Some(value.map_or_else(|| (*option).to_owned(), |value| format!("{option}={value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_stand_for_options() {
        let given = ["plimsoll", "plan", "m.gguf", "-c", "8192", "-ngl=99", "--ctxx", "--", "-c"];
        let expected = ["plimsoll", "plan", "m.gguf", "--ctx", "8192", "--gpu-layers=99", "--ctxx", "--", "-c"];
        assert_eq!(expand(given.into_iter().map(OsString::from)), expected.map(OsString::from));
    }
}
