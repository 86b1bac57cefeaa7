//! Names that llama.cpp and Ollama have for options: what people's fingers know.

use std::ffi::OsString;

/// Each name, and the option that it stands for (`common/arg.cpp`, 0.1.161; Ollama's `num_ctx`).
const ALIASES: [(&str, &str); 31] = [
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
    ("-ctxcp", "--ctx-checkpoints"),
    ("--swa-checkpoints", "--ctx-checkpoints"),
    ("-nr", "--no-repack"),
    ("-cram", "--cache-ram"),
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
    let mut expanded: Vec<OsString> = arguments
        .map(|argument| {
            verbatim |= argument == "--";
            let text = argument.to_str().filter(|_| !verbatim);
            text.and_then(option).map_or(argument.clone(), OsString::from)
        })
        .collect();
    log_behind_command(&mut expanded);
    expanded
}

/// Moves `--log FILE` in front of the command behind it, where every command takes it.
fn log_behind_command(arguments: &mut [OsString]) {
    let length = match arguments.get(1).and_then(|first| first.to_str()) {
        Some("--log") => 2,
        Some(first) if first.starts_with("--log=") => 1,
        _ => return,
    };
    let command = arguments.get(1 + length).and_then(|word| word.to_str());
    if command.is_some_and(|word| !word.starts_with('-')) {
        arguments[1..=1 + length].rotate_right(1);
    }
}

/// `--ctx=8192` for `-c=8192`.
fn option(argument: &str) -> Option<String> {
    let (name, value) = argument.split_once('=').map_or((argument, None), |(name, value)| (name, Some(value)));
    let (_, option) = ALIASES.iter().find(|(alias, _)| *alias == name)?;
    Some(value.map_or_else(|| (*option).to_owned(), |value| format!("{option}={value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_may_stand_before_the_command() {
        let expanded = |given: &[&str]| expand(given.iter().map(OsString::from)).join(&OsString::from(" "));
        assert_eq!(expanded(&["plimsoll", "--log", "f", "plan", "m"]), "plimsoll plan --log f m");
        assert_eq!(expanded(&["plimsoll", "--log=f", "plan"]), "plimsoll plan --log=f");
        assert_eq!(expanded(&["plimsoll", "--log", "f", "-c", "9"]), "plimsoll --log f --ctx 9");
        assert_eq!(expanded(&["plimsoll", "--log"]), "plimsoll --log");
    }

    #[test]
    fn known_names_stand_for_options() {
        let given = ["plimsoll", "plan", "m.gguf", "-c", "8192", "-ngl=99", "--ctxx", "--", "-c"];
        let expected = ["plimsoll", "plan", "m.gguf", "--ctx", "8192", "--gpu-layers=99", "--ctxx", "--", "-c"];
        assert_eq!(expand(given.into_iter().map(OsString::from)), expected.map(OsString::from));
    }
}
