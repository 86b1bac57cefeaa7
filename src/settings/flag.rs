//! The options that set [`Settings`], a row each.
//!
//! To add one: a field of [`Settings`] and a row. The command line, its help, completions and manual, the options of
//! llama-server in exports, the variables that it reads, and what an engine says that it ignores follow from the row; what
//! the option does is the engine's. A knob for the screen is a row in [`super::knob`]. Names: `common/arg.cpp` of
//! llama.cpp, 0.1.161.

use super::adapter::{KvOverride, Lora};
use super::draft::{ImageSize, LlamaProgram, LoadMode, MmprojDevice, Pooling, SpecType};
use super::engine::EngineId;
use super::fields::Settings;
use super::kept_ram::KeptRam;
use super::placement::{self, LazyMode, SplitMode};
use super::release::{NearestRelease, Release};
use super::seen::Seen;
use super::values::{ALL_LAYERS, CacheType, FlashAttn};
use super::written::{
    cache_types, context, copy_layers, count, devices, flash_attn, gpu_layers, index, is_on, joined, layers, mebibytes,
    outputs, percent, prompt_cache, proportions, quantisation, release, share, size, turn, typed_context,
    written_context, written_devices, written_layers, written_mebibytes, written_outputs, written_overrides,
    written_prompt_cache,
};
use crate::gguf::FileType;
use crate::model::mixture::Quantisation;
use crate::units::Bytes;

/// What is known of an option.
pub struct FlagRow {
    /// Its name on the command line, after two dashes, and another one that is taken too.
    pub names: &'static [&'static str],
    /// Its other names with their dashes: llama.cpp's of today and before, and Ollama's.
    pub also: &'static [&'static str],
    /// The names that take a switch back.
    pub not: &'static [&'static str],
    /// What it means where no value follows it, if that is allowed.
    pub alone: Option<&'static str>,
    /// What it is, for `--help`.
    pub help: &'static str,
    /// What follows its name.
    pub takes: Takes,
    /// The engines that read it; the others say that they ignore it.
    pub read_by: ReadBy,
    /// What may be seen of a value where others see the command; a new option hides all of it.
    pub seen: Seen,
    /// Its values, where they have names.
    pub words: fn() -> Vec<&'static str>,
    /// `--help` lists these names.
    pub shows_words: bool,
    /// Options that cannot be given besides.
    pub conflicts: &'static [&'static str],
    /// The option that it takes back, and that takes it back.
    pub opposite: Option<&'static str>,
    /// It is one of llama.cpp, so that other engines may ignore it.
    pub is_llama_cpp: bool,
    /// llama-server's option; none where it has none.
    pub argument: Option<&'static str>,
    /// The variable of the same meaning that llama-server reads, and the one that exports write, if they differ.
    pub variables: &'static [Variable],
    /// The variable of Ollama's server.
    pub ollama: Option<&'static str>,
    /// Exports may leave it out where plans are the same without it.
    pub may_be_left_out: bool,
    /// The option that stands for it where an engine says what it ignores.
    pub ignored_with: Option<Flag>,
    /// How settings hold it.
    access: Access,
    /// As it is typed for this program, where that is not what llama-server is told.
    typed: Option<fn(&Settings) -> Option<String>>,
}

/// What follows the name of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// A value, which may begin with a dash.
    Number(&'static str),
    /// A value.
    Word(&'static str),
    /// Values divided by commas.
    List(&'static str),
    /// The same, which may begin with a dash.
    Numbers(&'static str),
    /// A value after `=`, or nothing for `true`.
    Truth(&'static str),
    /// A file, which the command opens.
    File(&'static str),
    /// It is set otherwise.
    NotTyped,
}

/// The engines that read an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadBy {
    /// llama-server.
    llama_server: bool,
    /// An Ollama that starts llama-server.
    ollama: OllamaReads,
    /// An Ollama that estimates.
    estimators: bool,
}

/// How an Ollama that starts llama-server takes an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OllamaReads {
    /// By its own rules, or it tells llama-server.
    Yes,
    /// It has no option for it, but llama-server reads a variable of its environment.
    ByVariable,
    /// Not at all.
    No,
}

impl ReadBy {
    const EVERY_ENGINE: Self = Self { llama_server: true, ollama: OllamaReads::Yes, estimators: true };
    const EVERY_ENGINE_BY_VARIABLE: Self = Self { ollama: OllamaReads::ByVariable, ..Self::EVERY_ENGINE };
    const EVERY_LLAMA_SERVER: Self = Self { estimators: false, ..Self::EVERY_ENGINE };
    const EVERY_LLAMA_SERVER_BY_VARIABLE: Self = Self { ollama: OllamaReads::ByVariable, ..Self::EVERY_LLAMA_SERVER };
    const LLAMA_SERVER: Self = Self { ollama: OllamaReads::No, ..Self::EVERY_LLAMA_SERVER };
    const OLLAMA: Self = Self { llama_server: false, ..Self::EVERY_ENGINE };
    const ESTIMATORS: Self = Self { ollama: OllamaReads::No, ..Self::OLLAMA };
}

/// A variable that llama-server reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub means: VariableMeaning,
}

/// What a variable of llama-server means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableMeaning {
    /// The option's value, or for a switch whether it is on.
    Value,
    /// The opposite of the switch.
    Not,
    /// Its presence turns the switch on; exports write another one.
    Presence,
    /// The option's value; exports leave it out, because Ollama ignores the option.
    Read,
    /// It is passed on as it is, and the option stands over it.
    Passed,
    /// The option's value, for a llama-server that Ollama does not start.
    Alone,
    /// The opposite of the switch, for the same.
    AloneNot,
}

impl VariableMeaning {
    /// Whether Ollama's llama-server is not told so.
    pub const fn is_alone(self) -> bool {
        matches!(self, Self::Alone | Self::AloneNot)
    }
}

/// How settings hold an option.
struct Access {
    /// As it is written on a command line; none if it is not given.
    write: fn(&Settings) -> Option<String>,
    read: fn(&mut Settings, &str) -> Result<(), String>,
    copy: fn(&Settings, &mut Settings),
}

impl Access {
    const NONE: Self = Self { write: |_| None, read: |_, _| Ok(()), copy: |_, _| {} };
}

impl FlagRow {
    const PLAIN: Self = Self {
        names: &[],
        also: &[],
        not: &[],
        alone: None,
        help: "",
        takes: Takes::Nothing,
        read_by: ReadBy::EVERY_ENGINE,
        seen: Seen::Nothing,
        words: Vec::new,
        shows_words: false,
        conflicts: &[],
        opposite: None,
        is_llama_cpp: true,
        argument: None,
        variables: &[],
        ollama: None,
        may_be_left_out: true,
        ignored_with: None,
        access: Access::NONE,
        typed: None,
    };
}

/// A switch.
macro_rules! switch {
    ($($field:ident).+) => {
        Access {
            write: |settings| settings.$($field).+.then(String::new),
            read: |settings, text| {
                settings.$($field).+ = is_on(text);
                Ok(())
            },
            copy: |from, to| to.$($field).+ = from.$($field).+,
        }
    };
}

/// A value that may be missing.
macro_rules! optional {
    ($($field:ident).+, $read:expr, $write:expr) => {
        Access {
            write: |settings| settings.$($field).+.as_ref().map($write),
            read: |settings, text| {
                settings.$($field).+ = Some($read(text)?);
                Ok(())
            },
            copy: |from, to| to.$($field).+.clone_from(&from.$($field).+),
        }
    };
}

/// Values that are added to those before.
macro_rules! list {
    ($($field:ident).+, $write:expr) => {
        Access {
            write: |settings| (!settings.$($field).+.is_empty()).then(|| settings.$($field).+.iter().map($write).collect::<Vec<_>>().join(",")),
            read: |settings, text| {
                for one in text.split(',') {
                    settings.$($field).+.push(one.parse().map_err(|error| format!("{error}"))?);
                }
                Ok(())
            },
            copy: |from, to| to.$($field).+.clone_from(&from.$($field).+),
        }
    };
}

/// A value of which one stands for the engine's own.
macro_rules! value {
    ($($field:ident).+, $read:expr, $write:expr) => {
        Access {
            write: |settings| (settings.$($field).+ != Settings::default().$($field).+).then(|| $write(&settings.$($field).+)),
            read: |settings, text| {
                settings.$($field).+ = $read(text)?;
                Ok(())
            },
            copy: |from, to| to.$($field).+.clone_from(&from.$($field).+),
        }
    };
}

macro_rules! flags {
    ($($variant:ident { $($field:ident: $value:expr),* $(,)? })*) => {
        /// An option that sets one of the [`Settings`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum Flag { $($variant,)* }

        impl Flag {
            /// All options, in the order of `--help`.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
        }

        static ROWS: [FlagRow; Flag::ALL.len()] = [$(FlagRow { $($field: $value,)* ..FlagRow::PLAIN }),*];
    };
}

const fn value_of(name: &'static str) -> Variable {
    Variable { name, means: VariableMeaning::Value }
}

const fn alone(name: &'static str) -> Variable {
    Variable { name, means: VariableMeaning::Alone }
}

flags! {
    Context {
        names: &["ctx"], takes: Takes::Number("N|max"), seen: Seen::Numbers, is_llama_cpp: false, argument: Some("-c"), ollama: Some("OLLAMA_CONTEXT_LENGTH"),
        also: &["-c", "--ctx-size", "--num-ctx"], variables: &[alone("LLAMA_ARG_CTX_SIZE")],
        help: "Context size in tokens (num_ctx per sequence, -c in total for llama.cpp), or max: the model's training context",
        access: value!(ctx, context, written_context), typed: Some(|settings| Some(typed_context(settings.ctx))),
    }
    Parallel {
        names: &["parallel"], takes: Takes::Number("N"), seen: Seen::Numbers, is_llama_cpp: false, argument: Some("-np"), ollama: Some("OLLAMA_NUM_PARALLEL"),
        also: &["-np"], variables: &[alone("LLAMA_ARG_N_PARALLEL")],
        help: "Parallel sequences (OLLAMA_NUM_PARALLEL, --parallel)", access: optional!(parallel, count, u64::to_string),
    }
    Batch {
        names: &["batch"], takes: Takes::Number("N"), seen: Seen::Numbers, is_llama_cpp: false, argument: Some("-b"),
        also: &["-b", "--batch-size"], variables: &[alone("LLAMA_ARG_BATCH")],
        help: "Logical batch size: prompt tokens submitted at once (num_batch, --batch-size)",
        access: optional!(batch, count, u64::to_string),
    }
    Ubatch {
        names: &["ubatch"], read_by: ReadBy::LLAMA_SERVER, takes: Takes::Number("N"), seen: Seen::Numbers, is_llama_cpp: false, argument: Some("-ub"),
        also: &["-ub", "--ubatch-size"], variables: &[alone("LLAMA_ARG_UBATCH")],
        help: "Physical batch size: tokens computed at once (--ubatch-size)", access: optional!(ubatch, count, u64::to_string),
    }
    KvType {
        names: &["kv-type"], takes: Takes::Word("TYPE"), seen: Seen::Read, is_llama_cpp: false, words: cache_types, shows_words: true,
        conflicts: &["cache-type-k", "cache-type-v"], ollama: Some("OLLAMA_KV_CACHE_TYPE"),
        help: "Data type of the KV cache, for both K and V",
        access: Access {
            write: |_| None,
            read: |settings, text| {
                (settings.cache_type_k, settings.cache_type_v) = (Some(text.parse()?), Some(text.parse()?));
                Ok(())
            },
            copy: |from, to| (to.cache_type_k, to.cache_type_v) = (from.cache_type_k, from.cache_type_v),
        },
    }
    CacheTypeK {
        names: &["cache-type-k"], takes: Takes::Word("TYPE"), seen: Seen::Read, is_llama_cpp: false, words: cache_types, argument: Some("-ctk"),
        also: &["-ctk"],
        variables: &[value_of("LLAMA_ARG_CACHE_TYPE_K")], ollama: Some("OLLAMA_KV_CACHE_TYPE"),
        help: "Data type of the K cache", access: optional!(cache_type_k, str::parse, CacheType::to_string),
    }
    CacheTypeV {
        names: &["cache-type-v"], takes: Takes::Word("TYPE"), seen: Seen::Read, is_llama_cpp: false, words: cache_types, argument: Some("-ctv"),
        also: &["-ctv"],
        variables: &[value_of("LLAMA_ARG_CACHE_TYPE_V")], ollama: Some("OLLAMA_KV_CACHE_TYPE"),
        help: "Data type of the V cache", access: optional!(cache_type_v, str::parse, CacheType::to_string),
    }
    FlashAttn {
        names: &["flash-attn"], takes: Takes::Word("auto|on|off"), seen: Seen::Read, is_llama_cpp: false, words: || vec!["auto", "on", "off"],
        also: &["-fa"], alone: Some("on"), variables: &[alone("LLAMA_ARG_FLASH_ATTN")],
        argument: Some("-fa"), ollama: Some("OLLAMA_FLASH_ATTENTION"),
        help: "Flash attention: auto (chosen by the engine), on or off",
        access: value!(flash_attn, flash_attn, FlashAttn::to_string),
    }
    GpuLayers {
        names: &["gpu-layers"], takes: Takes::Number("auto|all|N"), seen: Seen::Numbers, is_llama_cpp: false, argument: Some("-ngl"),
        also: &["-ngl", "--n-gpu-layers"],
        variables: &[Variable { name: "LLAMA_ARG_N_GPU_LAYERS", means: VariableMeaning::Passed }],
        help: "Layers on GPU, including the output layer (num_gpu, -ngl): auto (chosen by the engine), all, or a number",
        access: value!(gpu_layers, gpu_layers, written_layers), typed: Some(|settings| Some(written_layers(&settings.gpu_layers))),
    }
    GpuOverhead {
        names: &["gpu-overhead"], read_by: ReadBy::OLLAMA, takes: Takes::Number("SIZE"), seen: Seen::Numbers, is_llama_cpp: false, ollama: Some("OLLAMA_GPU_OVERHEAD"),
        help: "Memory to keep free on each GPU (OLLAMA_GPU_OVERHEAD)",
        access: value!(gpu_overhead, size, |bytes: &Bytes| bytes.0.to_string()),
    }
    Spread {
        names: &["spread"], read_by: ReadBy::OLLAMA, is_llama_cpp: false, ollama: Some("OLLAMA_SCHED_SPREAD"),
        help: "Spread the layers over all GPUs (OLLAMA_SCHED_SPREAD)", access: switch!(spread),
    }
    RequireFull {
        names: &["require-full"], read_by: ReadBy::ESTIMATORS, is_llama_cpp: false, help: "Refuse any plan without all layers on GPU",
        access: switch!(require_full),
    }
    Turn {
        names: &["turn"], takes: Takes::Word("SENT,WRITTEN"), seen: Seen::Read, is_llama_cpp: false,
        help: "Say how long an answer takes: tokens sent, with all that was said before, and tokens written, such as 32k,1k",
        access: Access {
            write: |_| None,
            read: |settings, text| {
                let (prompt, answer) = turn(text)?;
                (settings.prompt_tokens, settings.answer_tokens) = (Some(prompt), Some(answer));
                Ok(())
            },
            copy: |from, to| (to.prompt_tokens, to.answer_tokens) = (from.prompt_tokens, from.answer_tokens),
        },
    }
    PromptTokens {
        names: &["prompt-tokens"], takes: Takes::Number("N"), seen: Seen::Numbers, is_llama_cpp: false, conflicts: &["turn"],
        help: "Tokens sent, as in --turn [default: 2048]", access: optional!(prompt_tokens, count, u64::to_string),
    }
    AnswerTokens {
        names: &["answer-tokens"], takes: Takes::Number("N"), seen: Seen::Numbers, is_llama_cpp: false, conflicts: &["turn"],
        help: "Tokens written, as in --turn [default: 512]", access: optional!(answer_tokens, count, u64::to_string),
    }
    Cached {
        names: &["cached"], takes: Takes::Word("PERCENT"), seen: Seen::Read, is_llama_cpp: false, access: optional!(cached, share, percent),
        help: "The share of the tokens sent that the server still has in its cache [default: 0%]",
    }
    RawSettings {
        names: &["raw-settings"], is_llama_cpp: false, access: switch!(raw),
        help: "Use the knobs exactly as given, without the engine's adjustments and the OLLAMA_* variables",
    }
    Adapters { names: &["adapters"], read_by: ReadBy::OLLAMA, takes: Takes::NotTyped, access: value!(adapters, size, Bytes::to_string) }
    KvUnified {
        names: &["kv-unified"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, argument: Some("-kvu"), variables: &[value_of("LLAMA_ARG_KV_UNIFIED")],
        also: &["-kvu"], not: &["-no-kvu", "--no-kv-unified"],
        help: "Use one unified KV buffer shared by all sequences", access: switch!(kv_unified),
    }
    NoKvOffload {
        names: &["no-kv-offload"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, argument: Some("-nkvo"), help: "Keep the KV cache in RAM", access: switch!(no_kv_offload),
        also: &["-nkvo"], not: &["-kvo", "--kv-offload"],
        variables: &[
            Variable { name: "LLAMA_ARG_KV_OFFLOAD", means: VariableMeaning::Not },
            Variable { name: "LLAMA_ARG_NO_KV_OFFLOAD", means: VariableMeaning::Presence },
        ],
    }
    NoOpOffload {
        names: &["no-op-offload"], read_by: ReadBy::LLAMA_SERVER, argument: Some("--no-op-offload"), access: switch!(no_op_offload),
        not: &["--op-offload"],
        help: "Do not offload operations on weights in RAM to a GPU",
    }
    SwaFull {
        names: &["swa-full"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, argument: Some("--swa-full"), variables: &[value_of("LLAMA_ARG_SWA_FULL")],
        help: "Use a full-size cache for sliding-window layers", access: switch!(swa_full),
    }
    TensorSplit {
        names: &["tensor-split"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, takes: Takes::Numbers("A,B,…"), seen: Seen::Numbers, argument: Some("-ts"),
        also: &["-ts"],
        variables: &[value_of("LLAMA_ARG_TENSOR_SPLIT")], help: "Proportion of the layers on each GPU",
        access: value!(tensor_split, proportions, |split: &Vec<f64>| joined(split)),
    }
    Device {
        names: &["device"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, also: &["-dev"], may_be_left_out: false, takes: Takes::Word("GPU,…"), seen: Seen::Devices, argument: Some("-dev"), variables: &[value_of("LLAMA_ARG_DEVICE")],
        help: "GPUs to use, in this order, such as CUDA1,CUDA0 or GPU1, or none [default: all]",
        access: optional!(devices, devices, written_devices),
    }
    SplitMode {
        names: &["split-mode"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, also: &["-sm"], takes: Takes::Word("MODE"), seen: Seen::Read, words: || SplitMode::ALL.map(SplitMode::name).to_vec(),
        argument: Some("-sm"), variables: &[value_of("LLAMA_ARG_SPLIT_MODE")],
        help: "How the model is split over several GPUs: none, layer, row or tensor [default: layer]",
        access: value!(split_mode, str::parse, SplitMode::to_string),
    }
    MainGpu {
        names: &["main-gpu"], read_by: ReadBy::EVERY_ENGINE_BY_VARIABLE, also: &["-mg"], takes: Takes::Number("INDEX"), seen: Seen::Numbers, argument: Some("-mg"), variables: &[value_of("LLAMA_ARG_MAIN_GPU")],
        ignored_with: Some(Flag::SplitMode), help: "The GPU that is used alone with --split-mode none, counted among those used from 0",
        access: value!(main_gpu, index, i64::to_string),
    }
    Fit {
        names: &["fit"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, also: &["-fit"], may_be_left_out: false, takes: Takes::Word("on|off"), seen: Seen::Words("on|off"), words: || vec!["on", "off"], argument: Some("--fit"),
        variables: &[value_of("LLAMA_ARG_FIT")],
        help: "Whether context and placement are fitted to the free memory where they are not set [default: on]",
        access: Access {
            write: |settings| settings.no_fit.then(|| "off".to_owned()),
            read: |settings, text| {
                settings.no_fit = !is_on(text) || text == "off";
                Ok(())
            },
            copy: |from, to| to.no_fit = from.no_fit,
        },
    }
    Outputs {
        names: &["outputs"], read_by: ReadBy::LLAMA_SERVER, takes: Takes::Number("N|ubatch"), seen: Seen::Numbers,
        help: "Tokens per ubatch whose logits are computed: a number, or ubatch for all of them",
        access: value!(outputs, outputs, written_outputs),
    }
    Embeddings {
        names: &["embeddings", "embedding"], read_by: ReadBy::LLAMA_SERVER, may_be_left_out: false, takes: Takes::Truth("true|false"), seen: Seen::Read, argument: Some("--embeddings"),
        variables: &[alone("LLAMA_ARG_EMBEDDINGS")],
        help: "Serve embeddings only: logits of a whole batch are reserved, which is no larger than an ubatch [default: for models that are made for it]",
        access: Access {
            write: |settings| (settings.embeddings == Some(true) && !settings.reranking).then(String::new),
            read: |settings, text| {
                settings.embeddings = Some(text.parse().map_err(|_| "[possible values: true, false]".to_owned())?);
                Ok(())
            },
            copy: |from, to| to.embeddings = from.embeddings,
        },
        typed: Some(|settings| settings.embeddings.map(|on| on.to_string())),
    }
    Reranking {
        names: &["reranking", "rerank"], may_be_left_out: false, argument: Some("--reranking"), ignored_with: Some(Flag::Embeddings),
        variables: &[alone("LLAMA_ARG_RERANKING")],
        help: "Serve scores of texts: embeddings with pooling rank", access: switch!(reranking),
    }
    Pooling {
        names: &["pooling"], may_be_left_out: false, takes: Takes::Word("KIND"), seen: Seen::Read, argument: Some("--pooling"), ignored_with: Some(Flag::Embeddings),
        variables: &[alone("LLAMA_ARG_POOLING")],
        words: || Pooling::ALL.map(Pooling::name).to_vec(),
        help: "How embeddings are pooled: none, mean, cls, last or rank [default: the model's own]",
        access: optional!(pooling, str::parse, Pooling::to_string),
    }
    Program {
        names: &["program"], read_by: ReadBy::LLAMA_SERVER, takes: Takes::Word("NAME"), seen: Seen::Read,
        help: "The program of llama.cpp that runs the model: llama-server, llama-cli, llama-completion, llama-bench, llama-batched-bench, llama-perplexity or llama-fit-params [default: llama-server]",
        access: value!(program, str::parse, LlamaProgram::to_string),
    }
    FitTarget {
        names: &["fit-target"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, takes: Takes::Number("MIB,…"), seen: Seen::Numbers, argument: Some("-fitt"), also: &["-fitt"],
        variables: &[value_of("LLAMA_ARG_FIT_TARGET")],
        help: "Memory in MiB that the fit leaves free on each GPU, or a list with that of the first, the second and so on",
        access: Access {
            write: |settings| match settings.fit_targets.as_slice() {
                [] => settings.fit_target.as_ref().map(written_mebibytes),
                list => Some(list.iter().map(written_mebibytes).collect::<Vec<_>>().join(",")),
            },
            read: |settings, text| {
                let list = text.split([',', '/']).map(mebibytes).collect::<Result<Vec<_>, _>>()?;
                (settings.fit_target, settings.fit_targets) = match list.as_slice() {
                    [each] => (Some(*each), Vec::new()),
                    _ => (None, list),
                };
                Ok(())
            },
            copy: |from, to| {
                to.fit_target = from.fit_target;
                to.fit_targets.clone_from(&from.fit_targets);
            },
        },
    }
    FitCtx {
        names: &["fit-ctx"], read_by: ReadBy::LLAMA_SERVER, takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("-fitc"), variables: &[Variable { name: "LLAMA_ARG_FIT_CTX", means: VariableMeaning::Read }],
        also: &["-fitc"],
        help: "Smallest context that the fit may choose", access: optional!(fit_ctx, count, u64::to_string),
    }
    OverrideTensor {
        names: &["override-tensor"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, also: &["-ot"], takes: Takes::List("PATTERN=DEVICE"), seen: Seen::Tensors, argument: Some("-ot"),
        variables: &[value_of("LLAMA_ARG_OVERRIDE_TENSOR")],
        help: "Tensors placed on a device by their names, such as 'ffn_.*_exps=CPU'; the first pattern that is found counts",
        access: Access {
            write: |settings| written_overrides(&settings.override_tensor),
            read: |settings, text| {
                let before = placement::kept_in_ram(settings.n_cpu_moe, settings.n_cpu_ffn);
                settings.override_tensor.extend(placement::overrides(before.as_deref(), text)?);
                Ok(())
            },
            copy: |from, to| to.override_tensor.clone_from(&from.override_tensor),
        },
    }
    CpuMoe {
        names: &["cpu-moe"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, also: &["-cmoe"], argument: Some("-cmoe"), variables: &[value_of("LLAMA_ARG_CPU_MOE")],
        help: "Keep the MoE weights of all layers in RAM",
        access: Access {
            write: |settings| (settings.n_cpu_moe == Some(ALL_LAYERS)).then(String::new),
            read: |settings, text| {
                settings.n_cpu_moe = is_on(text).then_some(ALL_LAYERS);
                Ok(())
            },
            copy: |from, to| copy_layers(from.n_cpu_moe, &mut to.n_cpu_moe, true),
        },
    }
    NCpuMoe {
        names: &["n-cpu-moe"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("-ncmoe"),
        also: &["-ncmoe"],
        variables: &[value_of("LLAMA_ARG_N_CPU_MOE")], help: "Keep the MoE weights of the first N layers in RAM",
        access: Access {
            write: |settings| settings.n_cpu_moe.filter(|count| *count != ALL_LAYERS).map(|count| count.to_string()),
            read: |settings, text| {
                settings.n_cpu_moe = settings.n_cpu_moe.max(Some(layers(text)?));
                Ok(())
            },
            copy: |from, to| copy_layers(from.n_cpu_moe, &mut to.n_cpu_moe, false),
        },
    }
    MoeCacheMib {
        names: &["moe-cache-mib"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, takes: Takes::Number("MIB"), seen: Seen::Numbers, argument: Some("--moe-cache-mib"),
        variables: &[value_of("LLAMA_ARG_MOE_CACHE_MIB")],
        help: "Memory in MiB on GPUs for experts that are in RAM, 0 for none; it turns pipelines off [default: 0]",
        access: optional!(moe_cache, mebibytes, written_mebibytes),
    }
    NCpuFfn {
        names: &["n-cpu-ffn"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, also: &["-ncffn"], takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("-ncffn"),
        variables: &[value_of("LLAMA_ARG_N_CPU_FFN")], help: "Keep the dense feed-forward weights of the first N layers in RAM",
        access: Access {
            read: |settings, text| {
                settings.n_cpu_ffn = settings.n_cpu_ffn.max(Some(layers(text)?));
                Ok(())
            },
            ..optional!(n_cpu_ffn, layers, u64::to_string)
        },
    }
    LoadMode {
        names: &["load-mode"], read_by: ReadBy::EVERY_LLAMA_SERVER, may_be_left_out: false, takes: Takes::Word("MODE"), seen: Seen::Read, argument: Some("--load-mode"),
        also: &["-lm"],
        variables: &[value_of("LLAMA_ARG_LOAD_MODE")],
        help: "How weights are read into RAM: mmap, mlock, none, dio or mmap+mlock [default: the engine's]",
        access: optional!(load_mode, str::parse, LoadMode::to_string),
    }
    Mmap {
        names: &["mmap"], opposite: Some("no-mmap"), help: "Map the model's file: --load-mode mmap",
        access: Access { read: |settings, text| read_load_mode(settings, text, LoadMode::Mmap), copy: |from, to| to.load_mode = from.load_mode, ..Access::NONE },
    }
    NoMmap {
        names: &["no-mmap"], also: &["-nommap"], opposite: Some("mmap"), help: "Read weights in RAM into memory of their own: --load-mode none",
        access: Access { read: |settings, text| read_load_mode(settings, text, LoadMode::Read), copy: |from, to| to.load_mode = from.load_mode, ..Access::NONE },
    }
    Mlock {
        names: &["mlock"], help: "Map the model's file and keep it in RAM: --load-mode mmap+mlock",
        access: Access { read: |settings, text| read_load_mode(settings, text, LoadMode::MmapLocked), copy: |from, to| to.load_mode = from.load_mode, ..Access::NONE },
    }
    CacheRam {
        names: &["cache-ram"], read_by: ReadBy::EVERY_LLAMA_SERVER, may_be_left_out: false, takes: Takes::Number("MIB"), seen: Seen::Numbers, argument: Some("--cache-ram"),
        also: &["-cram"],
        variables: &[value_of("LLAMA_ARG_CACHE_RAM")],
        help: "Limit in MiB of llama-server's prompt cache in RAM, 0 for no cache, -1 for no limit [default: 8192]",
        access: optional!(cache_ram, prompt_cache, written_prompt_cache),
    }
    KeepRam {
        names: &["keep-ram"], takes: Takes::Number("SIZE|PERCENT"), seen: Seen::Numbers, is_llama_cpp: false,
        help: "RAM to keep for the system and other programs: a size, or a share such as 10% [default: 0 where free RAM is detected or stated, else an eighth, at most 8 GiB]",
        access: optional!(keep_ram, str::parse, KeptRam::to_string),
    }
    CtxCheckpoints {
        names: &["ctx-checkpoints"], read_by: ReadBy::EVERY_LLAMA_SERVER, may_be_left_out: false, takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("--ctx-checkpoints"),
        also: &["-ctxcp", "--swa-checkpoints"],
        variables: &[value_of("LLAMA_ARG_CTX_CHECKPOINTS")],
        help: "Checkpoints of recurrent states and sliding windows that llama-server keeps per sequence at most [default: 32]",
        access: optional!(ctx_checkpoints, layers, u64::to_string),
    }
    NoRepack {
        names: &["no-repack"], read_by: ReadBy::EVERY_LLAMA_SERVER, may_be_left_out: false, opposite: Some("repack"), argument: Some("--no-repack"),
        also: &["-nr"],
        variables: &[Variable { name: "LLAMA_ARG_REPACK", means: VariableMeaning::Not }],
        help: "Leave weights in RAM as they are in the file, not repacked for the CPU", access: switch!(no_repack),
    }
    Repack {
        names: &["repack"], opposite: Some("no-repack"),
        help: "Repack weights in RAM for the CPU, as llama.cpp does by default",
        access: Access {
            read: |settings, text| {
                settings.no_repack = !is_on(text);
                Ok(())
            },
            copy: |from, to| to.no_repack = from.no_repack,
            ..Access::NONE
        },
    }
    NoHost {
        names: &["no-host"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, may_be_left_out: false, argument: Some("--no-host"), variables: &[Variable { name: "LLAMA_ARG_NO_HOST", means: VariableMeaning::Value }],
        help: "Keep weights in RAM out of the GPU driver's buffers, so that the CPU may repack them", access: switch!(no_host),
    }
    LazyMode {
        names: &["lazy-mode"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, also: &["-lzm"], may_be_left_out: false, takes: Takes::Word("off|auto|on"), seen: Seen::Read, words: || LazyMode::ALL.map(LazyMode::name).to_vec(),
        argument: Some("-lzm"), variables: &[value_of("LLAMA_ARG_LAZY_MODE")], help: "Whether large tables are read from the file on demand [default: auto, above 4 GiB]",
        access: value!(lazy_mode, str::parse, LazyMode::to_string),
    }
    Lora {
        names: &["lora"], read_by: ReadBy::LLAMA_SERVER, also: &["--lora-scaled"], may_be_left_out: false, takes: Takes::List("FILE|rank=N"), seen: Seen::File, argument: Some("--lora"),
        help: "An adapter that is loaded with the model: a file, or what is assumed of one, such as rank=16 or rank=16:attn_q+attn_v",
        access: list!(loras, |lora: &Lora| lora.to_string()),
    }
    ControlVector {
        names: &["control-vector"], read_by: ReadBy::LLAMA_SERVER, also: &["--control-vector-scaled"], may_be_left_out: false, takes: Takes::List("FILE"), seen: Seen::File, argument: Some("--control-vector"),
        help: "A control vector that is loaded with the model", access: list!(control_vectors, String::clone),
    }
    OverrideKv {
        names: &["override-kv"], may_be_left_out: false, takes: Takes::List("KEY=TYPE:VALUE"), argument: Some("--override-kv"),
        help: "Plan as if the model's header had this value for a key: qwen3moe.expert_used_count=int:4",
        access: list!(override_kv, |one: &KvOverride| one.to_string()),
    }
    BackendSampling {
        names: &["backend-sampling"], read_by: ReadBy::EVERY_LLAMA_SERVER_BY_VARIABLE, also: &["-bs"], argument: Some("-bs"), variables: &[value_of("LLAMA_ARG_BACKEND_SAMPLING")],
        help: "Choose tokens on the device of the output layer", access: switch!(backend_sampling),
    }
    KvUnifiedPerSlot {
        names: &["kv-unified-per-slot"], read_by: ReadBy::LLAMA_SERVER, takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("--kv-unified-per-slot"), variables: &[value_of("LLAMA_ARG_KV_UNIFIED_PER_SLOT")],
        help: "Context of each slot in tokens, where --ctx is not given", access: optional!(ctx_per_slot, count, u64::to_string),
    }
    Mmproj {
        names: &["mmproj"], takes: Takes::File("FILE|catalogue:NAME"), seen: Seen::File,
        also: &["-mm"], variables: &[alone("LLAMA_ARG_MMPROJ")],
        help: "The model's vision or audio projector: a file, or one of the catalogue, such as catalogue:gemma3-4b. Without this, the one that is found with the model is planned",
    }
    NoMmproj {
        names: &["no-mmproj"], conflicts: &["mmproj"], help: "Plan without a projector, also if one is found with the model",
        also: &["--no-mmproj-auto"], not: &["--mmproj-auto"],
        variables: &[Variable { name: "LLAMA_ARG_MMPROJ_AUTO", means: VariableMeaning::AloneNot }],
    }
    MmprojDevice {
        names: &["mmproj-device"], takes: Takes::Word("GPU1|none"), seen: Seen::Devices, conflicts: &["no-mmproj-offload"],
        also: &["-mmdev"],
        help: "The projector's device: GPU0, GPU1, …, or none for the CPU [default: the first GPU]",
        access: Access {
            write: |_| None,
            read: |settings, text| {
                settings.mmproj.device = text.parse()?;
                Ok(())
            },
            copy: |from, to| to.mmproj.device = from.mmproj.device,
        },
        typed: Some(|settings| settings.mmproj.device.typed()),
    }
    NoMmprojOffload {
        names: &["no-mmproj-offload"], may_be_left_out: false, argument: Some("--no-mmproj-offload"), help: "Keep the projector in RAM",
        not: &["--mmproj-offload"],
        variables: &[Variable { name: "LLAMA_ARG_MMPROJ_OFFLOAD", means: VariableMeaning::AloneNot }],
        access: Access {
            write: |settings| {
                (settings.projector.is_some() && settings.mmproj.device == MmprojDevice::Cpu).then(String::new)
            },
            read: |settings, text| {
                settings.mmproj.device = if is_on(text) { MmprojDevice::Cpu } else { MmprojDevice::First };
                Ok(())
            },
            copy: |from, to| to.mmproj.device = from.mmproj.device,
        },
        typed: Some(|_| None),
    }
    ImageMinTokens {
        names: &["image-min-tokens"], takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("--image-min-tokens"),
        variables: &[alone("LLAMA_ARG_IMAGE_MIN_TOKENS")],
        help: "Minimum number of tokens of an image, for projectors that read many sizes",
        access: Access {
            write: |settings| settings.projector.as_ref().and(settings.mmproj.image_min_tokens).map(|n| n.to_string()),
            ..optional!(mmproj.image_min_tokens, count, u64::to_string)
        },
        typed: Some(|settings| settings.mmproj.image_min_tokens.map(|tokens| tokens.to_string())),
    }
    ImageMaxTokens {
        names: &["image-max-tokens"], takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("--image-max-tokens"),
        variables: &[alone("LLAMA_ARG_IMAGE_MAX_TOKENS")],
        help: "Maximum number of tokens of an image, for projectors that read many sizes",
        access: Access {
            write: |settings| settings.projector.as_ref().and(settings.mmproj.image_max_tokens).map(|n| n.to_string()),
            ..optional!(mmproj.image_max_tokens, count, u64::to_string)
        },
        typed: Some(|settings| settings.mmproj.image_max_tokens.map(|tokens| tokens.to_string())),
    }
    MtmdBatchMaxTokens {
        names: &["mtmd-batch-max-tokens"], read_by: ReadBy::LLAMA_SERVER, takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("--mtmd-batch-max-tokens"), variables: &[value_of("LLAMA_ARG_MTMD_BATCH_MAX_TOKENS")],
        help: "Maximum number of tokens of several images that are computed at once; plans count one image",
        access: optional!(mmproj.batch_max_tokens, count, u64::to_string),
    }
    Image {
        names: &["image"], takes: Takes::Word("WxH"), seen: Seen::Read, help: "Plan for an image of this size in pixels, not for the largest one allowed",
        access: optional!(mmproj.image, str::parse, ImageSize::to_string),
    }
    SpecType {
        names: &["spec-type"], read_by: ReadBy::EVERY_LLAMA_SERVER, takes: Takes::List("KIND"), seen: Seen::Read, argument: Some("--spec-type"),
        variables: &[alone("LLAMA_ARG_SPEC_TYPE")],
        help: "How tokens are drafted, several separated by commas: draft-mtp, draft-simple, draft-eagle3, draft-dflash, draft-dspark, ngram-simple, ngram-map-k, ngram-map-k4v, ngram-mod, ngram-cache, or none [default: what the draft model is for]",
        access: optional!(draft.types, |text: &str| text.split(',').map(str::parse).collect::<Result<Vec<_>, _>>(), |kinds: &Vec<SpecType>| joined(kinds)),
    }
    ModelDraft {
        names: &["model-draft"], takes: Takes::File("MODEL"), seen: Seen::File, help: "The model that drafts tokens: a file, or any other name of a model",
        also: &["-md", "--spec-draft-model"], variables: &[alone("LLAMA_ARG_SPEC_DRAFT_MODEL")],
    }
    SpecDraftNMax {
        names: &["spec-draft-n-max"], takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("--spec-draft-n-max"),
        also: &["--draft-max", "--draft", "--draft-n"], variables: &[alone("LLAMA_ARG_SPEC_DRAFT_N_MAX"), alone("LLAMA_ARG_DRAFT_MAX")],
        ignored_with: Some(Flag::SpecType), help: "Tokens drafted at most", access: optional!(draft.n_max, layers, u64::to_string),
    }
    NgramModMax {
        names: &["spec-ngram-mod-n-max"], takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("--spec-ngram-mod-n-max"),
        ignored_with: Some(Flag::SpecType), help: "Tokens drafted at most by ngram-mod [default: 64]",
        access: optional!(draft.ngram.by_mod, layers, u64::to_string),
    }
    NgramSimpleSize {
        names: &["spec-ngram-simple-size-m"], takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("--spec-ngram-simple-size-m"),
        ignored_with: Some(Flag::SpecType), help: "Tokens drafted by ngram-simple [default: 48]",
        access: optional!(draft.ngram.simple, count, u64::to_string),
    }
    NgramMapKSize {
        names: &["spec-ngram-map-k-size-m"], takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("--spec-ngram-map-k-size-m"),
        ignored_with: Some(Flag::SpecType), help: "Tokens drafted by ngram-map-k [default: 48]",
        access: optional!(draft.ngram.map_k, count, u64::to_string),
    }
    NgramMapK4vSize {
        names: &["spec-ngram-map-k4v-size-m"], takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("--spec-ngram-map-k4v-size-m"),
        ignored_with: Some(Flag::SpecType), help: "Tokens drafted by ngram-map-k4v [default: 48]",
        access: optional!(draft.ngram.map_k4v, count, u64::to_string),
    }
    GpuLayersDraft {
        names: &["gpu-layers-draft"], takes: Takes::Number("auto|all|N"), seen: Seen::Numbers, argument: Some("-ngld"), ignored_with: Some(Flag::SpecType),
        also: &["-ngld", "--n-gpu-layers-draft", "--spec-draft-ngl"], variables: &[alone("LLAMA_ARG_N_GPU_LAYERS_DRAFT")],
        help: "Layers of the draft on GPU: auto, all, or a number [default: all]",
        access: value!(draft.gpu_layers, gpu_layers, written_layers),
    }
    CacheTypeKDraft {
        names: &["cache-type-k-draft"], takes: Takes::Word("TYPE"), seen: Seen::Read, words: cache_types, argument: Some("-ctkd"),
        also: &["-ctkd", "--spec-draft-type-k"], variables: &[alone("LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K")],
        ignored_with: Some(Flag::SpecType), help: "Data type of the draft's K cache [default: f16]",
        access: optional!(draft.cache_type_k, str::parse, CacheType::to_string),
    }
    CacheTypeVDraft {
        names: &["cache-type-v-draft"], takes: Takes::Word("TYPE"), seen: Seen::Read, words: cache_types, argument: Some("-ctvd"),
        also: &["-ctvd", "--spec-draft-type-v"], variables: &[alone("LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V")],
        ignored_with: Some(Flag::SpecType), help: "Data type of the draft's V cache [default: f16]",
        access: optional!(draft.cache_type_v, str::parse, CacheType::to_string),
    }
    DeviceDraft {
        names: &["device-draft"], takes: Takes::Word("GPU,…"), seen: Seen::Devices, argument: Some("-devd"), ignored_with: Some(Flag::SpecType),
        also: &["-devd", "--spec-draft-device"],
        help: "GPUs of the draft, such as GPU1, or none [default: those of the model]",
        access: optional!(draft.devices, devices, written_devices),
    }
    OverrideTensorDraft {
        names: &["override-tensor-draft"], also: &["-otd", "--spec-draft-override-tensor"], takes: Takes::List("PATTERN=DEVICE"), seen: Seen::Tensors, argument: Some("-otd"), ignored_with: Some(Flag::SpecType),
        help: "Tensors of the draft placed on a device by their names",
        access: Access {
            write: |settings| written_overrides(&settings.draft.override_tensor),
            read: |settings, text| {
                let before = placement::kept_in_ram(settings.draft.n_cpu_moe, None);
                settings.draft.override_tensor.extend(placement::overrides(before.as_deref(), text)?);
                Ok(())
            },
            copy: |from, to| to.draft.override_tensor.clone_from(&from.draft.override_tensor),
        },
    }
    CpuMoeDraft {
        names: &["cpu-moe-draft"], also: &["-cmoed", "--spec-draft-cpu-moe"], argument: Some("-cmoed"), variables: &[alone("LLAMA_ARG_SPEC_DRAFT_CPU_MOE")], ignored_with: Some(Flag::SpecType), help: "Keep the MoE weights of all layers of the draft in RAM",
        access: Access {
            write: |settings| (settings.draft.n_cpu_moe == Some(ALL_LAYERS)).then(String::new),
            read: |settings, text| {
                settings.draft.n_cpu_moe = is_on(text).then_some(ALL_LAYERS);
                Ok(())
            },
            copy: |from, to| copy_layers(from.draft.n_cpu_moe, &mut to.draft.n_cpu_moe, true),
        },
    }
    NCpuMoeDraft {
        names: &["n-cpu-moe-draft"], also: &["-ncmoed", "--spec-draft-ncmoe", "--spec-draft-n-cpu-moe"], takes: Takes::Number("N"), seen: Seen::Numbers, argument: Some("-ncmoed"), variables: &[alone("LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE")], ignored_with: Some(Flag::SpecType),
        help: "Keep the MoE weights of the first N layers of the draft in RAM",
        access: Access {
            write: |settings| settings.draft.n_cpu_moe.filter(|count| *count != ALL_LAYERS).map(|count| count.to_string()),
            read: |settings, text| {
                settings.draft.n_cpu_moe = settings.draft.n_cpu_moe.max(Some(layers(text)?));
                Ok(())
            },
            copy: |from, to| copy_layers(from.draft.n_cpu_moe, &mut to.draft.n_cpu_moe, false),
        },
    }
    NoSpecDraftBackendSampling {
        names: &["no-spec-draft-backend-sampling"], not: &["--spec-draft-backend-sampling"], argument: Some("--no-spec-draft-backend-sampling"), ignored_with: Some(Flag::SpecType),
        variables: &[Variable { name: "LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING", means: VariableMeaning::Not }],
        help: "Choose the draft's tokens on the CPU", access: switch!(draft.no_backend_sampling),
    }
    Release {
        names: &["release"], read_by: ReadBy::EVERY_LLAMA_SERVER, takes: Takes::Word("RELEASE"), seen: Seen::Read, words: || Release::ALL.map(Release::name).to_vec(), shows_words: true,
        help: "The llama.cpp to plan for: a release, a build (b11200), what a program ships (\"koboldcpp 1.120\"), or the release nearest to a date (2026-09-15) [default: the newest, or the nearest to what this version of Ollama ships]",
        access: Access {
            write: |settings| settings.release.map(|release| release.to_string()),
            read: |settings, text| {
                let nearest = release(text)?;
                (settings.release, settings.build) = (Some(nearest.release), nearest.build);
                Ok(())
            },
            copy: |from, to| (to.release, to.build) = (from.release, from.build),
        },
        typed: Some(|settings| {
            let by_build = settings.build.map(|build| format!("b{build}"));
            let is_same = |text: &String| NearestRelease::to(text).is_some_and(|near| Some(near.release) == settings.release);
            by_build.filter(is_same).or_else(|| settings.release.map(|release| release.to_string()))
        }),
    }
    Quant {
        names: &["quant"], takes: Takes::Word("TYPE"), seen: Seen::Read, words: || FileType::ALL.iter().map(|ty| ty.name()).collect(),
        help: "Plan as if the model had this quantisation: Q4_K_M, Q8_0, MXFP4, …, as a packager publishes it: UD-Q4_K_XL, bartowski:Q4_K_L, …, or in a mode of MLX: 4bit, 8bit, nvfp4, mixed_3_6, …",
        access: optional!(quant, quantisation, Quantisation::to_string),
    }
}

/// The options that mlx-lm has too, under other names.
const MLX_READS: [Flag; 7] =
    [Flag::Context, Flag::Parallel, Flag::Batch, Flag::Ubatch, Flag::KvType, Flag::Quant, Flag::RawSettings];

impl Flag {
    /// Those that say which projector is loaded.
    pub const OF_PROJECTOR: [Self; 2] = [Self::Mmproj, Self::NoMmproj];

    /// Whether `engine` reads it.
    pub fn is_read_by(self, engine: EngineId) -> bool {
        let ReadBy { llama_server, ollama, estimators } = self.row().read_by;
        match engine {
            EngineId::LlamaCpp => llama_server,
            EngineId::Ollama => ollama != OllamaReads::No,
            EngineId::Ollama024 | EngineId::Ollama011 => estimators,
            // what an option of every engine says is mlx-lm's own, if it has one
            EngineId::Mlx => MLX_READS.contains(&self),
        }
    }

    /// Whether an Ollama that starts llama-server leaves it to that, which reads a variable.
    pub fn is_left_to_llama_server(self) -> bool {
        self.row().read_by.ollama == OllamaReads::ByVariable
    }

    /// What is known of it.
    pub fn row(self) -> &'static FlagRow {
        &ROWS[self as usize]
    }

    /// Its name on the command line, after two dashes.
    pub fn name(self) -> &'static str {
        self.row().names[0]
    }

    /// The option of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|flag| flag.name() == name)
    }

    /// Whether neither can be given besides the other.
    pub fn excludes(self, other: Self) -> bool {
        let (one, other) = (self.row(), other.row());
        one.conflicts.contains(&other.names[0]) || other.conflicts.contains(&one.names[0])
    }

    /// Whether it says what the variable says: its own, or that of another option of which Ollama has the same variable.
    pub fn stands_for(self, variable: &str) -> bool {
        let is_of = |flag: &Self| {
            let mut variables = flag.row().variables.iter().filter(|known| !known.means.is_alone());
            flag.row().ollama == Some(variable) || variables.any(|known| known.name == variable)
        };
        let ollama = self.row().ollama;
        let same = |flag: &&Self| **flag == self || ollama.is_some() && flag.row().ollama == ollama;
        Self::ALL.iter().filter(same).any(is_of)
    }

    /// As an engine calls it that ignores it: it may stand for others.
    pub fn ignored_as(self) -> String {
        match self {
            Self::Embeddings => "--embeddings (with --reranking and --pooling)".to_owned(),
            Self::SpecType => "drafting (--spec-type and its options)".to_owned(),
            _ => format!("--{}", self.name()),
        }
    }

    /// Sets it from what is written after it; a switch from `true` or `false`.
    ///
    /// # Errors
    /// One sentence that names the accepted values.
    pub fn read(self, settings: &mut Settings, text: &str) -> Result<(), String> {
        (self.row().access.read)(settings, text)
    }

    /// Its value as it is written after llama-server's option, empty for a switch; none if it is not given.
    pub fn write(self, settings: &Settings) -> Option<String> {
        (self.row().access.write)(settings)
    }

    /// Its value as it is typed for this program: what [`Self::read`] reads all of, also where the engine decides; an
    /// empty text for a switch, none if there is nothing to type.
    pub fn typed(self, settings: &Settings) -> Option<String> {
        match self.row().typed {
            Some(typed) => typed(settings),
            None => self.write(settings),
        }
    }

    /// Copies its value.
    pub fn copy(self, from: &Settings, to: &mut Settings) {
        (self.row().access.copy)(from, to);
    }

    /// Takes it back: the engine decides.
    pub fn reset(self, settings: &mut Settings) {
        self.copy(&Settings::default(), settings);
    }

    /// Whether `settings` differ from the default in what it sets, or in what it stands for.
    pub fn is_given(self, settings: &Settings) -> bool {
        let mut alone = Settings::default();
        let stands_for = |flag: &&Self| **flag == self || flag.row().ignored_with == Some(self);
        Self::ALL.iter().filter(stands_for).for_each(|flag| flag.copy(settings, &mut alone));
        alone != Settings::default()
    }
}

/// Sets how weights are read by a switch.
#[allow(clippy::unnecessary_wraps, reason = "as the other readers")]
fn read_load_mode(settings: &mut Settings, text: &str, mode: LoadMode) -> Result<(), String> {
    settings.load_mode = is_on(text).then_some(mode);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::settings::{Context, GpuLayers};

    /// A value that the option takes, if it is typed.
    pub(crate) fn sample(flag: Flag) -> Option<&'static str> {
        Some(match flag.row().takes {
            Takes::NotTyped | Takes::File(_) => return None,
            Takes::Nothing | Takes::Truth(_) => "true",
            Takes::Number(
                "auto|all|N" | "N|max" | "N|ubatch" | "N" | "MIB" | "MIB,…" | "SIZE" | "SIZE|PERCENT" | "INDEX",
            ) => "3",
            Takes::List("PATTERN=DEVICE") => r"blk\.[0-9]\.ffn=CPU",
            Takes::Word("on|off") => "off",
            Takes::List("FILE|rank=N") => "rank=16",
            Takes::List("FILE") => "vector.gguf",
            Takes::List("KEY=TYPE:VALUE") => "llama.block_count=int:2",
            Takes::Word("MODE") if flag == Flag::SplitMode => "none",
            Takes::Numbers(_) => "3,1",
            Takes::List(_) => "draft-mtp",
            Takes::Word("TYPE") if flag == Flag::Quant => "Q8_0",
            Takes::Word("TYPE") => "q8_0",
            Takes::Word("auto|on|off" | "off|auto|on") => "on",
            Takes::Word("KIND") => "mean",
            Takes::Word("NAME") => "llama-cli",
            Takes::Word("MODE") => "mlock",
            Takes::Word("WxH") => "640x480",
            Takes::Word("SENT,WRITTEN") => "32768,1024",
            Takes::Word("PERCENT") => "90%",
            Takes::Word("GPU1|none" | "GPU,…") => "GPU1",
            Takes::Word("RELEASE") => "2026-08",
            other => panic!("{flag:?}: a sample for {other:?} is missing"),
        })
    }

    #[test]
    fn every_option_is_read_copied_and_taken_back() {
        let does_nothing = [Flag::NoMmproj, Flag::Repack];
        for &flag in Flag::ALL.iter().filter(|flag| !does_nothing.contains(flag)) {
            let Some(text) = sample(flag) else { continue };
            let (mut settings, mut copy) = (Settings::default(), Settings::default());
            flag.read(&mut settings, text).unwrap();
            assert_ne!(settings, Settings::default(), "{flag:?}");
            assert!(flag.is_given(&settings), "{flag:?}");
            flag.copy(&settings, &mut copy);
            assert_eq!(copy, settings, "{flag:?}");
            flag.reset(&mut copy);
            assert_eq!(copy, Settings::default(), "{flag:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for &flag in Flag::ALL {
            let Some(text) = sample(flag) else { continue };
            let (mut settings, mut again) = (Settings::default(), Settings::default());
            flag.read(&mut settings, text).unwrap();
            let Some(written) = flag.write(&settings) else { continue };
            flag.read(&mut again, if written.is_empty() { "true" } else { &written }).unwrap();
            assert_eq!(again, settings, "{flag:?}");
        }
    }

    #[test]
    fn what_is_typed_is_all_of_it() {
        let mut kinds: Vec<Settings> = Vec::new();
        for &flag in Flag::ALL {
            let Some(text) = sample(flag) else { continue };
            let mut settings = Settings::default();
            flag.read(&mut settings, text).unwrap();
            kinds.push(settings);
        }
        let embeddings = [Some(true), Some(false)];
        kinds.extend(embeddings.map(|embeddings| Settings { embeddings, reranking: true, ..Settings::default() }));
        kinds.push(Settings { ctx: Context::Max, gpu_layers: GpuLayers::All, ..Settings::default() });
        for settings in kinds {
            let mut again = Settings::default();
            for flag in Flag::ALL {
                let Some(typed) = flag.typed(&settings) else { continue };
                flag.read(&mut again, if typed.is_empty() { "true" } else { &typed }).unwrap();
            }
            assert_eq!(again, settings);
        }
    }

    #[test]
    fn names_are_used_once_and_every_option_is_explained() {
        for &flag in Flag::ALL {
            assert_eq!(Flag::named(flag.name()), Some(flag));
            let row = flag.row();
            assert!(row.takes == Takes::NotTyped || !row.help.is_empty(), "{flag:?}");
            let for_ollama = row.variables.iter().any(|variable| !variable.means.is_alone());
            assert!(!for_ollama || row.argument.is_some(), "{flag:?}");
        }
    }
}
