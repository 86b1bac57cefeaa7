//! The keys of the configuration file, a row each.

use super::super::value;
use super::Config;
use crate::answer::best::DEFAULT_MARGIN;
use crate::engine::EngineId;
use crate::hardware::remembered::THIS_MACHINE;
use crate::hardware::watch::DEFAULT_INTERVAL;
use crate::settings::{Flag, Release, Settings};
use crate::text::LONGEST_NAME;
use crate::tui::theme::{Glyphs, Tone};
use crate::units::{Bytes, NotASize};

/// A key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// What it decides.
    pub(super) what: &'static str,
    /// A value as it stands in the file.
    pub(super) example: &'static str,
    /// The variable that stands over the file, where [`Config`] reads one.
    pub(super) variable: Option<&'static str>,
    /// What holds without it.
    pub(super) default: fn() -> String,
    /// Checks the value and sets it; what has the name of an option is that option's to set.
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
}

/// All keys, in the order shown.
pub(super) static KEYS: [Key; 14] = [
    Key {
        name: "engine",
        what: "the engine that places the layers: ollama, llama.cpp, ollama-0.24 or ollama-0.11",
        example: "\"llama.cpp\"",
        variable: Some("PLIMSOLL_ENGINE"),
        default: || EngineId::default().to_string(),
        set: |config, text| put(&mut config.engine, text.trim().parse()),
    },
    Key {
        name: "release",
        what: "the release of llama.cpp",
        example: "\"2026-08\"",
        variable: Some("PLIMSOLL_RELEASE"),
        default: || Release::default().to_string(),
        set: |_, text| text.parse::<Release>().map(drop),
    },
    Key {
        name: "machine",
        what: "the machine to plan for: a saved one, a file, or this",
        example: "\"garage\"",
        variable: Some("PLIMSOLL_MACHINE"),
        default: || THIS_MACHINE.to_owned(),
        set: |config, text| put(&mut config.machine, Ok(text.to_owned())),
    },
    Key {
        name: "margin",
        what: "what a safe suggestion leaves on every GPU besides what the engine keeps free",
        example: "\"1GiB\"",
        variable: Some("PLIMSOLL_MARGIN"),
        default: || DEFAULT_MARGIN.to_string(),
        set: |config, text| put(&mut config.preferences.margin, size(text)),
    },
    Key {
        name: "gpu-overhead",
        what: "memory to keep free on each GPU, for the Ollama engines",
        example: "\"512MiB\"",
        // OLLAMA_GPU_OVERHEAD stands over it, and is read with Ollama's other variables
        variable: None,
        default: || Bytes::ZERO.to_string(),
        set: |_, text| size(text).map(drop),
    },
    Key {
        name: "fit-target",
        what: "memory in MiB that llama.cpp's fit leaves free on each GPU",
        example: "1024",
        // LLAMA_ARG_FIT_TARGET likewise
        variable: None,
        default: || "the engine's".to_owned(),
        set: |_, text| value::mebibytes(text).map(drop),
    },
    Key {
        name: "keep-ram",
        what: "RAM to keep for the system and other programs: a size, or a share of it",
        example: "\"10%\"",
        variable: None,
        default: || "0 where free RAM is known, else an eighth, at most 8 GiB".to_owned(),
        set: |_, text| Flag::KeepRam.read(&mut Settings::default(), text),
    },
    Key {
        name: "need",
        what: "the context, in tokens, to judge lists of models by",
        example: "\"16k\"",
        variable: Some("PLIMSOLL_NEED"),
        default: || "what each model would get".to_owned(),
        set: |config, text| put(&mut config.preferences.need, value::count(text)),
    },
    Key {
        name: "min-quant",
        what: "the narrowest quantisation that best, list and the browser suggest",
        example: "\"Q4_K_M\"",
        variable: None,
        default: || "none under IQ3_XXS, unless nothing else runs".to_owned(),
        set: |config, text| put(&mut config.preferences.minimums.quant, value::file_type(text)),
    },
    Key {
        name: "min-kv",
        what: "the narrowest type of the KV cache that best suggests",
        example: "\"q8_0\"",
        variable: None,
        default: || "q8_0".to_owned(),
        set: |config, text| put(&mut config.preferences.minimums.cache, text.trim().parse()),
    },
    Key {
        name: "refresh",
        what: "how often the planner reads the free memory: seconds, or \"off\"",
        example: "5",
        variable: Some("PLIMSOLL_REFRESH"),
        default: || DEFAULT_INTERVAL.as_secs().to_string(),
        set: |config, text| put(&mut config.refresh, value::interval(text)),
    },
    Key {
        name: "ask-to-quit",
        what: "whether q asks once before it leaves a changed plan: true or false",
        example: "false",
        variable: None,
        default: || "true".to_owned(),
        set: |config, text| {
            let asks: bool = text.trim().parse().map_err(|_| format!("'{text}' is neither true nor false"))?;
            config.preferences.quits_at_once = !asks;
            Ok(())
        },
    },
    Key {
        name: "theme",
        what: "the planner's colours: dark, light or mono",
        example: "\"light\"",
        // PLIMSOLL_THEME and NO_COLOR stand over it: see `Appearance::from_env`
        variable: None,
        default: || "by the terminal".to_owned(),
        set: |config, text| put(&mut config.look.tone, named(text, "theme", Tone::ALL, Tone::name)),
    },
    Key {
        name: "glyphs",
        what: "the planner's characters: unicode or ascii",
        example: "\"ascii\"",
        // PLIMSOLL_GLYPHS stands over it
        variable: None,
        default: || "by the terminal".to_owned(),
        set: |config, text| put(&mut config.look.glyphs, named(text, "set of characters", Glyphs::ALL, Glyphs::name)),
    },
];

/// The key nearest to `word`, with an edit distance of at most half of its length.
pub(super) fn nearest(word: &str) -> Option<&'static str> {
    if word.len() > LONGEST_NAME {
        return None;
    }
    let word = word.to_ascii_lowercase().replace('_', "-");
    let distance = |name: &str| strsim::osa_distance(&word, name);
    let near = KEYS.iter().map(|key| key.name).filter(|name| distance(name) * 2 <= name.len());
    near.min_by_key(|name| distance(name))
}

fn put<T>(place: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    *place = Some(value?);
    Ok(())
}

fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: NotASize| error.to_string())
}

/// The one of `all` with this name.
fn named<T: Copy, const N: usize>(
    text: &str,
    what: &str,
    all: [T; N],
    name: fn(T) -> &'static str,
) -> Result<T, String> {
    let names = all.map(name);
    let found = all.into_iter().find(|one| name(*one) == text.trim());
    found.ok_or_else(|| format!("'{text}' is not a {what}: use {}", names.join(" or ")))
}
