//! The programs that start servers, and what their options are called.

use super::shell::assignment;
use crate::observed::program;
use crate::settings::{Flag, LlamaProgram};

/// A program whose options are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// One of llama.cpp's.
    LlamaCpp(LlamaProgram),
    /// Ollama: its options are variables.
    Ollama,
    /// KoboldCpp.
    KoboldCpp,
    /// The server of llama-cpp-python.
    LlamaCppPython,
}

/// An option of a program that has llama.cpp in it, under a name of its own.
struct OwnName {
    name: &'static str,
    flag: Flag,
    /// What its values are called by llama.cpp, where that differs.
    values: &'static [(&'static str, &'static str)],
}

const fn own(name: &'static str, flag: Flag) -> OwnName {
    OwnName { name, flag, values: &[] }
}

/// Words that may stand before a program.
const BEFORE: [&str; 10] = ["sudo", "nohup", "exec", "env", "nice", "time", "$", "%", "&", "start"];

/// `koboldcpp.py`, 1.102 and 1.120.
const KOBOLDCPP: [OwnName; 19] = [
    own("--contextsize", Flag::Context),
    own("--batchsize", Flag::Batch),
    own("--blasbatchsize", Flag::Batch),
    own("--flashattention", Flag::FlashAttn),
    OwnName { name: "--noflashattention", flag: Flag::FlashAttn, values: &[("true", "off")] },
    OwnName { name: "--useswa", flag: Flag::SwaFull, values: &TURNED },
    own("--gpulayers", Flag::GpuLayers),
    // without a number it is for all layers
    OwnName { name: "--moecpu", flag: Flag::NCpuMoe, values: &[("true", "999")] },
    own("--kv-cache-type", Flag::KvType),
    own("--draftmodel", Flag::ModelDraft),
    own("--draftamount", Flag::SpecDraftNMax),
    own("--overridetensors", Flag::OverrideTensor),
    own("--overridekv", Flag::OverrideKv),
    own("--lowvram", Flag::NoKvOffload),
    own("--draftgpulayers", Flag::GpuLayersDraft),
    own("--mmprojcpu", Flag::NoMmprojOffload),
    OwnName { name: "--usemmap", flag: Flag::LoadMode, values: &[("true", "mmap")] },
    OwnName { name: "--usemlock", flag: Flag::LoadMode, values: &[("true", "mlock")] },
    OwnName { name: "--quantkv", flag: Flag::KvType, values: &[("0", "f16"), ("1", "q8_0"), ("2", "q4_0")] },
];

/// Types of tensors by their numbers (`ggml.h`, 0.1.161).
const TYPES: [(&str, &str); 7] =
    [("0", "f32"), ("1", "f16"), ("2", "q4_0"), ("3", "q4_1"), ("6", "q5_0"), ("7", "q5_1"), ("8", "q8_0")];

/// How a model is split, by number (`llama.h`, 0.1.161).
const SPLIT_MODES: [(&str, &str); 3] = [("0", "none"), ("1", "layer"), ("2", "row")];

/// Whether weights are mapped.
const MAPPED: [(&str, &str); 4] = [("true", "mmap"), ("True", "mmap"), ("false", "none"), ("False", "none")];

/// Whether weights, which are mapped unless told otherwise, are locked.
const LOCKED: [(&str, &str); 4] =
    [("true", "mmap+mlock"), ("True", "mmap+mlock"), ("false", "mmap"), ("False", "mmap")];

/// Switches that are on or off, turned round.
const TURNED: [(&str, &str); 4] = [("true", "false"), ("false", "true"), ("True", "false"), ("False", "true")];

/// `llama_cpp/server/settings.py`, 0.3.36.
const LLAMA_CPP_PYTHON: [OwnName; 13] = [
    own("--n-ctx", Flag::Context),
    own("--n-batch", Flag::Batch),
    own("--n-ubatch", Flag::Ubatch),
    own("--clip-model-path", Flag::Mmproj),
    own("--lora-path", Flag::Lora),
    own("--embedding", Flag::Embeddings),
    own("--kv-overrides", Flag::OverrideKv),
    OwnName { name: "--split-mode", flag: Flag::SplitMode, values: &SPLIT_MODES },
    OwnName { name: "--use-mmap", flag: Flag::LoadMode, values: &MAPPED },
    OwnName { name: "--use-mlock", flag: Flag::LoadMode, values: &LOCKED },
    OwnName { name: "--type-k", flag: Flag::CacheTypeK, values: &TYPES },
    OwnName { name: "--type-v", flag: Flag::CacheTypeV, values: &TYPES },
    OwnName { name: "--offload-kqv", flag: Flag::NoKvOffload, values: &TURNED },
];

impl Dialect {
    /// The program of a command, and the place of its first argument.
    ///
    /// # Errors
    /// If there is none; with one sentence where it is one whose options are not read.
    pub fn find(words: &[String]) -> Result<(usize, Self), Option<String>> {
        for (at, word) in words.iter().enumerate() {
            let (before, next) = (at.checked_sub(1).and_then(|at| words.get(at)), words.get(at + 1));
            // the name of a container, or of a file
            if before.is_some_and(|before| ["--name", "-v", "--volume", "cd", "echo", "#"].contains(&before.as_str())) {
                continue;
            }
            let next = next.map(String::as_str);
            match (program(word), next) {
                ("llama", Some("serve")) => return Ok((at + 2, Self::LlamaCpp(LlamaProgram::Server))),
                ("llama-bench", _) => {
                    return Err(Some("llama-bench has options of its own, which are not read".to_owned()));
                }
                ("ollama", Some("run" | "serve" | "start")) => return Ok((at + 1, Self::Ollama)),
                ("llama_cpp.server", _) if before.is_some_and(|before| before == "-m") => {
                    return Ok((at + 1, Self::LlamaCppPython));
                }
                _ => {}
            }
            let Some(dialect) = Self::of_image(word).or_else(|| Self::of_program(program(word))) else { continue };
            if dialect == Self::Ollama && Self::of_image(word).is_none() {
                continue;
            }
            let is_image = Self::of_image(word).is_some();
            let starts_alone = || {
                let starts_another = |word: &String| {
                    assignment(word).is_some() || word.starts_with('-') || BEFORE.contains(&word.as_str())
                };
                words[..at].iter().all(starts_another)
            };
            // other programs are told of it, and texts speak of it
            let is_started = match next {
                Some(next) => next.starts_with('-') || program(word) != "server" && starts_alone(),
                None => starts_alone(),
            };
            if !is_image && !is_started {
                continue;
            }
            // the image with all programs is told which
            let is_told = next.is_some_and(|next| ["--server", "-s"].contains(&next)) && is_image;
            return Ok((at + 1 + usize::from(is_told), dialect));
        }
        if words.first().is_some_and(|word| word.starts_with('-')) {
            return Ok((0, Self::LlamaCpp(LlamaProgram::Server)));
        }
        Err(None)
    }

    /// The program of this name.
    pub fn of_program(name: &str) -> Option<Self> {
        let name = name.strip_suffix(".py").unwrap_or(name);
        match name {
            "server" => Some(Self::LlamaCpp(LlamaProgram::Server)),
            "ollama" => Some(Self::Ollama),
            _ if name.starts_with("koboldcpp") => Some(Self::KoboldCpp),
            _ if name.starts_with("llama-") => name.parse().ok().map(Self::LlamaCpp),
            _ => None,
        }
    }

    /// The program in a container's image.
    fn of_image(word: &str) -> Option<Self> {
        if word.contains('\\') || word.starts_with('-') {
            return None;
        }
        let image = word.rsplit('/').next().unwrap_or(word);
        let (name, tag) = image.split_once(':').unwrap_or((image, ""));
        match name {
            "llama.cpp" if tag.starts_with("server") || tag.starts_with("full") => {
                Some(Self::LlamaCpp(LlamaProgram::Server))
            }
            "ollama" if word.contains("ollama/ollama") => Some(Self::Ollama),
            "koboldcpp" if word.contains('/') => Some(Self::KoboldCpp),
            _ => None,
        }
    }

    /// The words of one of its options as llama.cpp has them: its name, and the value that follows.
    pub fn translated(self, word: &str, value: Option<&str>) -> Option<[String; 2]> {
        let names: &[OwnName] = match self {
            Self::KoboldCpp => &KOBOLDCPP,
            Self::LlamaCppPython => &LLAMA_CPP_PYTHON,
            Self::LlamaCpp(_) | Self::Ollama => return None,
        };
        let plain = word.replace('_', "-");
        let own = names.iter().find(|own| own.name == word || own.name == plain)?;
        let value = value.unwrap_or("true");
        let value = own.values.iter().find(|(its, _)| *its == value).map_or(value, |(_, known)| known);
        // a switch that is told whether it is on
        let value = match value {
            "True" => "true",
            "False" => "false",
            other => other,
        };
        Some([format!("--{}", own.flag.name()), value.to_owned()])
    }

    /// The program by whose name its own defaults are listed.
    pub const fn of_defaults(self) -> Option<&'static str> {
        match self {
            Self::KoboldCpp => Some("KoboldCpp"),
            Self::LlamaCppPython => Some("llama-cpp-python server"),
            Self::LlamaCpp(_) | Self::Ollama => None,
        }
    }
}
