//! The settings, one field each.

use std::sync::Arc;

use super::adapter::{KvOverride, Lora};
use super::draft::{DraftSettings, LlamaProgram, LoadMode, MmprojOptions, Pooling};
use super::given::GivenValues;
use super::kept_ram::KeptRam;
use super::ollama::OllamaSettings;
use super::placement::{DeviceName, LazyMode, SplitMode, TensorOverride};
use super::release::{Build, NearestRelease, Release};
use super::values::{CACHE_CHOICES, CacheType, Context, FlashAttn, GpuLayers, Outputs, one_type};
use crate::machine::{Machine, Ram};
use crate::model::Projector;
use crate::model::mixture::Quantisation;
use crate::units::Bytes;

/// Everything that can be asked of an engine. `None`, `Auto` and the empty list mean: the engine decides.
#[derive(Clone, Debug, PartialEq, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Settings {
    /// Context: per sequence (`num_ctx`) for the Ollama engines, in total (`-c`) for llama.cpp.
    pub ctx: Context,
    /// Sequences served at once.
    pub parallel: Option<u64>,
    /// Logical batch, in tokens.
    pub batch: Option<u64>,
    /// Physical batch, in tokens.
    pub ubatch: Option<u64>,
    /// Type of the K cache.
    pub cache_type_k: Option<CacheType>,
    /// Type of the V cache.
    pub cache_type_v: Option<CacheType>,
    /// Flash attention.
    pub flash_attn: FlashAttn,
    /// How many layers go to GPUs.
    pub gpu_layers: GpuLayers,
    /// One KV cache for all sequences instead of one each.
    pub kv_unified: bool,
    /// Keep the KV cache in RAM.
    pub no_kv_offload: bool,
    /// Never copy weights to a GPU for one operation.
    pub no_op_offload: bool,
    /// Full-size caches for sliding-window layers.
    pub swa_full: bool,
    /// Share of the layers per GPU.
    pub tensor_split: Vec<f64>,
    /// The GPUs that may be used, in this order (`--device`), which may be none; `None` for the engine's own.
    pub devices: Option<Vec<DeviceName>>,
    /// How the model is split over them.
    pub split_mode: SplitMode,
    /// The GPU that is used alone if the model is not split, as an index in the list of those used; below zero for none.
    pub main_gpu: i64,
    /// Tensors placed on devices by their names, the first that matches counting.
    pub override_tensor: Vec<TensorOverride>,
    /// What is not set is not fitted to the free memory (`--fit off`).
    pub no_fit: bool,
    /// Tokens whose logits one ubatch computes.
    pub outputs: Outputs,
    /// Embeddings are asked for (`--embeddings`); `None` for what the model is for.
    pub embeddings: Option<bool>,
    /// Scores of texts are asked for (`--reranking`), which are embeddings of pooling `rank`.
    pub reranking: bool,
    /// How embeddings are pooled (`--pooling`); `None` for the model's own.
    pub pooling: Option<Pooling>,
    /// The program of llama.cpp.
    pub program: LlamaProgram,
    /// Memory that `--fit` leaves free on each device.
    pub fit_target: Option<Bytes>,
    /// The same of the first GPUs, where several sizes are given.
    pub fit_targets: Vec<Bytes>,
    /// Smallest context that `--fit` may choose, in tokens.
    pub fit_ctx: Option<u64>,
    /// Memory kept free on each GPU (`OLLAMA_GPU_OVERHEAD`).
    pub gpu_overhead: Bytes,
    /// Bytes of the `LoRA` adapters' tensors that are loaded with the model.
    pub adapters: Bytes,
    /// The projector that is loaded with the model, from a file of its own (`--mmproj`).
    pub projector: Option<Arc<Projector>>,
    /// Where it is, and the images that it reads.
    pub mmproj: MmprojOptions,
    /// Spread over all GPUs (`OLLAMA_SCHED_SPREAD`).
    pub spread: bool,
    /// Refuse anything less than every layer on GPUs.
    pub require_full: bool,
    /// Tokens sent in the turn whose time is said, with all that was said before.
    pub prompt_tokens: Option<u64>,
    /// Tokens written in it.
    pub answer_tokens: Option<u64>,
    /// The share of the tokens sent that the server still has.
    pub cached: Option<f64>,
    /// Layers whose experts stay in RAM; [`super::ALL_LAYERS`] for all.
    pub n_cpu_moe: Option<u64>,
    /// Layers whose dense feed-forward weights stay in RAM (`--n-cpu-ffn`).
    pub n_cpu_ffn: Option<u64>,
    /// Drafting of tokens.
    pub draft: DraftSettings,
    /// Quantisation to plan for; `None` keeps that of the opened file. Engines ignore it: the caller requantises the
    /// model before planning.
    pub quant: Option<Quantisation>,
    /// What only Ollama is asked.
    pub ollama: OllamaSettings,
    /// Release of llama.cpp; `None` for the engine's own: the newest, or the nearest to what this version of Ollama ships.
    pub release: Option<Release>,
    /// The build of llama.cpp, where it is known more closely than by its release.
    pub build: Option<u64>,
    /// Memory on GPUs for experts that are in RAM.
    pub moe_cache: Option<Bytes>,
    /// How weights are read; no engine's decision follows from it here.
    pub load_mode: Option<LoadMode>,
    /// What llama-server's prompt cache may grow to (`--cache-ram`); zero for off. No engine counts it.
    pub cache_ram: Option<Bytes>,
    /// Checkpoints that llama-server keeps per sequence at most (`--ctx-checkpoints`). No engine counts them.
    pub ctx_checkpoints: Option<u64>,
    /// What of RAM is kept for the system; none for what is assumed. No engine counts it.
    pub keep_ram: Option<KeptRam>,
    /// Adapters of weights that are loaded with the model.
    pub loras: Vec<Lora>,
    /// Files of directions that are added to states (`--control-vector`); their sizes follow from the model.
    pub control_vectors: Vec<String>,
    /// Keys of the model's header with other values. Engines ignore them: the caller changes the header before planning.
    pub override_kv: Vec<KvOverride>,
    /// Weights in RAM are in no buffer of a GPU's driver (`--no-host`).
    pub no_host: bool,
    /// Whether large tables are read from the file on demand (`--lazy-mode`).
    pub lazy_mode: LazyMode,
    /// The device of the output layer chooses tokens (`--backend-sampling`).
    pub backend_sampling: bool,
    /// Tokens of context of each slot, where the context is not set (`--kv-unified-per-slot`).
    pub ctx_per_slot: Option<u64>,
    /// Leave weights in RAM in the layout of the file (`--no-repack`).
    pub no_repack: bool,
    /// Whether the compute buffers of a pipeline are refused, whatever is free, as a log shows; `None` goes by what is free.
    pub pipeline_refused: Option<bool>,
    /// Whether every copy of a pipeline has the inputs that nothing reads, where the release is known to differ from what
    /// ran; none for what the release does.
    pub unread_inputs: Option<bool>,
    /// The GPUs' backend is registered after the CPU's, as one that `GGML_BACKEND_PATH` names.
    pub gpus_registered_last: bool,
    /// Skip the engine's own adjustments of the knobs.
    pub raw: bool,
    /// Who gave what.
    pub given: GivenValues,
}

impl Settings {
    /// The llama.cpp that is planned for, where the engine has none of its own: the release that is set, or the build, where
    /// the release is the nearest to it.
    pub fn llama_cpp(&self) -> NearestRelease {
        let release = self.release.unwrap_or_default();
        let build = self.build.filter(|build| Release::nearest_to_build(*build) == release);
        NearestRelease { release, build }
    }

    /// What of `ram` is kept for the system and other programs: as asked; else a share where all of it counts as free, as of a
    /// machine that is described. What was detected or stated as free leaves that out already.
    pub fn kept_ram(&self, ram: Ram) -> Bytes {
        let assumed = if ram.free < ram.total { Bytes::ZERO } else { KeptRam::assumed(ram.total) };
        self.keep_ram.map_or(assumed, |kept| kept.of(ram.total))
    }

    /// Its build.
    pub fn llama_cpp_build(&self) -> Build {
        self.llama_cpp().llama_cpp()
    }

    /// Whether K and V have types that no single choice stands for.
    pub fn has_two_cache_types(&self) -> bool {
        let (k, v) = (self.cache_type_k, self.cache_type_v);
        k != v || k.is_some_and(|ty| !CACHE_CHOICES.contains(&ty))
    }

    /// The types of caches that are asked for, the draft's too.
    pub fn cache_types(&self) -> impl Iterator<Item = CacheType> {
        let DraftSettings { cache_type_k, cache_type_v, .. } = self.draft;
        [self.cache_type_k, self.cache_type_v, cache_type_k, cache_type_v].into_iter().flatten()
    }

    /// Gives V the type of K, or both the engine's own if no choice is that type.
    pub fn use_one_cache_type(&mut self) {
        let one = one_type(self.cache_type_k, self.cache_type_v);
        (self.cache_type_k, self.cache_type_v) = (one, one);
    }

    /// The same for llama-server where it sees only the GPUs `seen` of a machine, in which `find` finds a device by its
    /// name; names that it does not find stay.
    ///
    /// # Errors
    /// One sentence if a device is not seen.
    pub fn seen_by_server(&self, seen: &[usize], find: impl Fn(&DeviceName) -> Option<usize>) -> Result<Self, String> {
        let mut settings = self.clone();
        let place = |name: &mut DeviceName| -> Result<(), String> {
            let Some(gpu) = find(name) else { return Ok(()) };
            let place = seen.iter().position(|seen| *seen == gpu);
            *name = DeviceName::gpu(place.ok_or_else(|| format!("{name} is none of the GPUs that llama-server sees"))?);
            Ok(())
        };
        settings.used_devices().try_for_each(place)?;
        settings.devices_of_tensors().try_for_each(place)?;
        Ok(settings)
    }

    /// The same with the names that llama.cpp has for the GPUs of `machine`; `gpus` are those that indices mean.
    #[must_use]
    pub fn by_own_names(&self, machine: &Machine, gpus: &[usize]) -> Self {
        let mut settings = self.clone();
        let own = |name: &DeviceName, named: fn(&Machine, usize) -> Option<String>| {
            named(machine, *gpus.get(name.index()?)?)?.parse().ok()
        };
        for name in settings.used_devices() {
            *name = own(name, Machine::device_name).unwrap_or_else(|| name.clone());
        }
        for name in settings.devices_of_tensors() {
            *name = own(name, Machine::buffer_name).unwrap_or_else(|| name.clone());
        }
        settings
    }

    /// Whether a device is named.
    pub fn names_devices(&self) -> bool {
        self.devices.is_some() || !self.override_tensor.is_empty()
    }

    fn used_devices(&mut self) -> impl Iterator<Item = &mut DeviceName> {
        self.devices.iter_mut().chain(&mut self.draft.devices).flatten()
    }

    fn devices_of_tensors(&mut self) -> impl Iterator<Item = &mut DeviceName> {
        self.override_tensor.iter_mut().chain(&mut self.draft.override_tensor).map(|to| &mut to.device)
    }

    /// Bytes of the tensors of a separate projector; zero without one.
    pub fn projector_bytes(&self) -> Bytes {
        self.projector.as_ref().map_or(Bytes::ZERO, |projector| projector.tensor_bytes)
    }
}
