//! The complete list of arguments and the environment that Ollama starts llama-server with.
//! Source: `llamaServerArgs` and its callees, `llm/llama_server.go`, Ollama, August 2026.

use std::collections::BTreeMap;

use super::discovery::{ROCM, VULKAN};
use super::server_launch::Decisions;
use crate::engine::error::EngineError;
use crate::engine::estimator::{OllamaKeys, OllamaRelease};
use crate::engine::launch::ServerCommand;
use crate::machine::{Backend, Os};
use crate::model::Model;
use crate::settings::ollama::DraftModel;
use crate::settings::{DraftSettings, GpuLayers, MmprojDevice, Settings, SpecType, llama_server_variables};
use crate::units::Bytes;

/// Architectures whose images have a minimum of tokens.
const IMAGE_TOKENS: [&str; 4] = ["qwen25vl", "qwen2vl", "qwen3vl", "qwen3vlmoe"];

/// `--mmproj`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProjectorArgument {
    None,
    /// The placeholder of its file, and whether it stays in RAM.
    File {
        name: &'static str,
        in_ram: bool,
    },
}

impl ProjectorArgument {
    /// The projector's device as llama-server chooses it by this argument.
    pub const fn device(&self, settings: &Settings) -> MmprojDevice {
        match self {
            _ if settings.raw => settings.mmproj.device,
            Self::File { in_ram: true, .. } => MmprojDevice::Cpu,
            Self::File { in_ram: false, .. } | Self::None => MmprojDevice::First,
        }
    }
}

/// How llama-server is told to draft.
#[derive(Clone, Copy, Debug)]
struct Drafting {
    kind: SpecType,
    /// Tokens at most.
    tokens: i64,
    /// By a model of its own file.
    separate: bool,
}

impl Decisions<'_> {
    /// The command.
    ///
    /// # Errors
    /// When llama-server does not see a device that the settings name.
    pub fn command(&self) -> Result<ServerCommand, EngineError> {
        Ok(ServerCommand { args: self.arguments(), env: self.environment()?, sees: self.sees() })
    }

    fn arguments(&self) -> Vec<String> {
        let Self { model, settings, .. } = self;
        let ollama = &settings.ollama;
        let mut args = Arguments::default();
        args.words("--model MODEL --port PORT --host 127.0.0.1 --no-webui --offline");
        args.pair("-c", self.tokens).pair("-np", self.parallel);
        args.words("--log-verbosity 4 --no-log-prefix --no-log-timestamps");
        if ollama.go_template && !ollama.server.no_go_template {
            args.words("--no-jinja --chat-template chatml");
        }
        if let ProjectorArgument::File { name, in_ram } = self.projector {
            args.pair("--mmproj", name).flag("--no-mmproj-offload", in_ram);
        }
        self.draft(&mut args);
        if IMAGE_TOKENS.contains(&model.architecture.as_str()) {
            args.words("--image-min-tokens 1024");
        }
        for _ in 0..ollama.adapters.max(usize::from(settings.adapters > Bytes::ZERO)) {
            args.words("--lora ADAPTER");
        }
        match self.load_mode {
            None => {}
            Some("none") if !self.traits.has_load_mode => _ = args.words("--no-mmap"),
            Some(mode) => _ = args.pair("--load-mode", mode),
        }
        if let Some(ty) = self.cache_type() {
            args.pair("--cache-type-k", &ty).pair("--cache-type-v", &ty);
        }
        args.pair("--flash-attn", self.flash_attn).flag("--embedding", self.embedding);
        if self.sent > 0 {
            args.pair("-b", self.sent).pair("-ub", self.sent);
        }
        match settings.gpu_layers {
            GpuLayers::Auto => {}
            GpuLayers::All => _ = args.pair("-ngl", model.block_count() + 1),
            GpuLayers::Count(count) => _ = args.pair("-ngl", count),
        }
        if let Some(threads) = ollama.num_thread.filter(|&threads| threads > 0) {
            args.pair("-t", threads);
        }
        if let Some(main_gpu) = self.main_gpu {
            args.words("--split-mode none").pair("--main-gpu", main_gpu);
        }
        if ollama.shift.unwrap_or(model.architecture != "deepseek2") {
            args.words("--context-shift");
            if let Some(keep) = Some(ollama.num_keep.unwrap_or(4)).filter(|&keep| keep > 0) {
                args.pair("--keep", keep);
            }
        }
        args.0
    }

    fn draft(&self, args: &mut Arguments) {
        let Some(Drafting { kind, tokens, separate }) = self.drafting() else { return };
        args.pair("--spec-type", kind).pair("--spec-draft-n-max", tokens);
        args.flag("--spec-draft-backend-sampling", kind == SpecType::DraftMtp);
        if separate {
            args.words("--spec-draft-model DRAFT");
        }
    }

    /// How llama-server is told to draft, if it is (`appendDraftArgs`).
    fn drafting(&self) -> Option<Drafting> {
        let asked = self.settings.ollama.draft_num_predict;
        let (kind, separate) = match self.settings.ollama.draft {
            Some(DraftModel::Dflash) if self.traits.knows_dflash => (SpecType::DraftDflash, true),
            Some(_) => (SpecType::DraftMtp, true),
            None if asked.is_some() && predicts_tokens(self.model) => (SpecType::DraftMtp, false),
            None => return None,
        };
        let tokens = asked.unwrap_or(4);
        (tokens > 0).then_some(Drafting { kind, tokens, separate })
    }

    /// llama-server's options of drafting: as its arguments say, or else as its environment does.
    pub(super) fn draft_options(&self) -> DraftSettings {
        let own = self.settings.draft.clone();
        match self.drafting() {
            Some(Drafting { kind, tokens, .. }) => DraftSettings {
                types: Some(vec![kind]),
                n_max: u64::try_from(tokens).ok(),
                no_backend_sampling: own.no_backend_sampling && kind != SpecType::DraftMtp,
                ..own
            },
            None => own,
        }
    }

    /// The one type for K and V that Ollama passes on.
    fn cache_type(&self) -> Option<String> {
        let server = &self.settings.ollama.server;
        if let Some(unknown) = &server.unknown_cache_type {
            return Some(unknown.clone());
        }
        let by_llama_server = |name| server.inherited.contains_key(name);
        if by_llama_server("LLAMA_ARG_CACHE_TYPE_K") || by_llama_server("LLAMA_ARG_CACHE_TYPE_V") {
            return None;
        }
        let (k, v) = (self.settings.cache_type_k, self.settings.cache_type_v);
        k.filter(|_| k == v).map(|ty| ty.name().to_owned())
    }

    fn environment(&self) -> Result<BTreeMap<String, String>, EngineError> {
        let mut env = self.settings.ollama.server.inherited.clone();
        let machine = self.visible_machine(&self.sees());
        let all: Vec<usize> = (0..machine.gpus.len()).collect();
        let settings = self.settings_as_seen()?.by_own_names(&machine, &all);
        for (name, value) in llama_server_variables(&settings) {
            env.entry(name.to_owned()).or_insert(value);
        }
        if let Some(margin) = self.margin {
            env.entry("LLAMA_ARG_FIT_TARGET".to_owned()).or_insert((margin.0 >> 20).to_string());
        }
        let Some(first) = self.chosen.first() else { return Ok(env) };
        let numbers: Vec<String> = self.chosen.iter().map(|one| one.number.to_string()).collect();
        let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
        match first.gpu.backend {
            Backend::Cuda => {
                set("CUDA_VISIBLE_DEVICES", numbers.join(","));
                set("GGML_BACKEND_PATH", format!("{}/libggml-cuda.so", first.folder.unwrap_or("cuda_v13")));
            }
            Backend::Rocm if self.machine.os == Os::Windows => {
                set("HIP_VISIBLE_DEVICES", numbers.join(","));
                set("GGML_BACKEND_PATH", format!("{ROCM}/libggml-hip.so"));
            }
            Backend::Rocm => {
                set("ROCR_VISIBLE_DEVICES", numbers.join(","));
                set("GGML_BACKEND_PATH", format!("{ROCM}/libggml-hip.so"));
                // HIP counts what ROCR leaves
                if self.settings.ollama.server.inherited.contains_key("HIP_VISIBLE_DEVICES") {
                    let left: Vec<String> = (0..self.chosen.len()).map(|number| number.to_string()).collect();
                    set("HIP_VISIBLE_DEVICES", left.join(","));
                }
            }
            Backend::Vulkan => {
                if let [number] = &numbers[..] {
                    set("GGML_VK_VISIBLE_DEVICES", number.clone());
                }
                set("GGML_BACKEND_PATH", format!("{VULKAN}/libggml-vulkan.so"));
            }
            Backend::Metal | Backend::Sycl | Backend::Plain => {}
        }
        Ok(env)
    }

    /// The GPUs that llama-server's backend lists, as indices in the machine. Several Vulkan devices are not filtered.
    pub(super) fn sees(&self) -> Vec<usize> {
        let metal = |(index, gpu): (usize, &crate::machine::Gpu)| (gpu.backend == Backend::Metal).then_some(index);
        match self.chosen.as_slice() {
            [] => self.machine.gpus.iter().enumerate().filter_map(metal).collect(),
            [first, _, ..] if first.gpu.backend == Backend::Vulkan => self.vulkan().to_vec(),
            chosen => chosen.iter().map(|one| one.index).collect(),
        }
    }
}

/// Whether a model predicts more than one token (MTP).
fn predicts_tokens(model: &Model) -> bool {
    let keyed = OllamaKeys { model, release: OllamaRelease::August2026 }.number("nextn_predict_layers") > 0;
    let qwen = ["qwen35", "qwen35moe"].contains(&model.architecture.as_str());
    keyed || qwen && model.header.tensors.iter().any(|tensor| tensor.name.starts_with("mtp."))
}

#[derive(Default)]
struct Arguments(Vec<String>);

impl Arguments {
    fn words(&mut self, words: &str) -> &mut Self {
        self.0.extend(words.split(' ').map(str::to_owned));
        self
    }

    fn pair(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Self {
        self.0.extend([name.to_owned(), format!("{value}")]);
        self
    }

    fn flag(&mut self, name: &str, given: bool) -> &mut Self {
        self.0.extend(given.then(|| name.to_owned()));
        self
    }
}
