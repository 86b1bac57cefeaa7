//! Contexts and slots with their parameters; and the settings in a log, requested or in effect.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::amount::{Buffers, Mib, Term};
use super::hole;
use super::memory::CacheSize;
use crate::settings::seen::{HIDDEN, or_hidden};
use crate::settings::{CacheType, Flag, FlashAttn, GpuLayers, Pooling};

/// A context of the target or of a draft.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObservedContext {
    /// Its own parameters.
    pub settings: ObservedSettings,
    /// KV caches, recurrent state, outputs and compute buffers by device, in MiB; the last of several reservations.
    pub observed: Buffers,
    /// The caches that have a line with their size; one for sliding windows is separate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheSize>,
    /// Compute buffers before they were reserved anew, by device, where they differ, in MiB.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reserved_before: BTreeMap<String, Mib>,
    /// Lines that each say the CPU's compute buffer in one reservation, where there are several: one of each backend that
    /// computes in its memory, as Metal's builds have BLAS. What is measured without being allocated counts for each
    /// (`ggml_gallocr_reserve_n_size` in `ggml-alloc.c`, 0.1.157).
    #[serde(skip)]
    pub cpu_backends: Option<u64>,
    /// Whether the compute buffers for pipeline parallelism were refused, and reserved again without it.
    #[serde(skip)]
    pub gave_up_pipeline: bool,
    /// Parts of the graph of one token, by the devices that compute them, where they differ from a ubatch's.
    #[serde(skip)]
    pub splits_of_a_token: Option<u64>,
    /// Whether it was given back before the text ends.
    #[serde(skip)]
    pub(super) is_over: bool,
}

impl ObservedContext {
    /// Whether its compute buffers are known.
    pub fn computes(&self) -> bool {
        self.has(Term::Compute)
    }

    pub(super) fn has(&self, term: Term) -> bool {
        self.observed.values().any(|terms| terms.contains_key(&term))
    }

    /// Drops a reservation, because the next line begins another.
    pub(super) fn release_compute(&mut self) {
        self.reserved_before.clear();
        self.cpu_backends = None;
        for (device, terms) in &mut self.observed {
            if let Some(mib) = terms.remove(&Term::Compute) {
                self.reserved_before.insert(device.clone(), mib);
            }
        }
        self.observed.retain(|_, terms| !terms.is_empty());
    }
}

/// Sets the parameter `key`.
pub(super) fn set(settings: &mut ObservedSettings, key: &str, value: &str) {
    let count = || hole::count(value).map(|(count, _)| count);
    match key {
        "n_ctx" => settings.n_ctx = count(),
        "n_ctx_seq" | "n_ctx_per_seq" => settings.n_ctx_seq = count(),
        "n_seq_max" => settings.n_seq_max = count(),
        "n_batch" => settings.n_batch = count(),
        "n_ubatch" => settings.n_ubatch = count(),
        "n_outputs_max" => settings.n_outputs_max = count(),
        "n_rs_seq" => settings.n_rs_seq = count(),
        "flash_attn" => settings.flash_attn = FlashAttn::of(value),
        "kv_unified" => settings.kv_unified = value.trim_end_matches(|c: char| !c.is_alphanumeric()).parse().ok(),
        _ => {}
    }
}

/// Whether `key` is the first parameter that contexts print.
pub(super) fn is_first(key: &str) -> bool {
    matches!(key, "n_seq_max" | "n_ctx")
}

/// Declares the struct, with a method that fills gaps from another.
macro_rules! settings {
    ($($(#[$attribute:meta])* $field:ident: $type:ty,)*) => {
        /// Settings that a program was given or reports; none where the log does not say.
        #[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
        pub struct ObservedSettings {
            $($(#[$attribute])* pub $field: Option<$type>,)*
        }

        impl ObservedSettings {
            /// These, with gaps filled from `other`.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                Self { $($field: self.$field.or(other.$field),)* }
            }

            /// Whether nothing is known.
            pub fn is_empty(&self) -> bool {
                *self == Self::default()
            }
        }
    };
}

settings! {
    /// Tokens of context over all sequences (`-c`).
    n_ctx: u64,
    /// Tokens of context per sequence.
    n_ctx_seq: u64,
    /// Sequences at once (`-np`).
    n_seq_max: u64,
    /// Logical batch, in tokens (`-b`).
    n_batch: u64,
    /// Physical batch, in tokens (`-ub`).
    n_ubatch: u64,
    /// Tokens whose logits one ubatch computes.
    n_outputs_max: u64,
    /// Whether embeddings are requested (`--embeddings`).
    embeddings: bool,
    /// Whether reranking is requested (`--reranking`).
    reranking: bool,
    /// How embeddings are pooled (`--pooling`).
    pooling: Pooling,
    /// Saved recurrent states per sequence.
    n_rs_seq: u64,
    /// Flash attention as requested (`-fa`).
    flash_attn: FlashAttn,
    /// Whether flash attention is in use, if the log says.
    flash_attn_in_use: bool,
    /// One cache for all sequences (`-kvu`).
    kv_unified: bool,
    /// Type of the K cache (`-ctk`).
    cache_type_k: CacheType,
    /// Type of the V cache (`-ctv`).
    cache_type_v: CacheType,
    /// Layers on GPUs as requested (`-ngl`).
    #[serde(serialize_with = "gpu_layers")]
    #[schemars(with = "Option<CountOrWord>")]
    gpu_layers: GpuLayers,
    /// Shares of the layers per GPU (`-ts`).
    tensor_split: Vec<f64>,
    /// `none`, `layer`, `row` or `tensor` (`-sm`).
    split_mode: String,
    /// Index of the main GPU (`-mg`).
    main_gpu: u64,
    /// Devices to use (`-dev`).
    device: String,
    /// Servers of RPC devices (`--rpc`).
    rpc: String,
    /// Layers whose experts stay in RAM (`-ncmoe`); all of them are 2^64 - 1.
    n_cpu_moe: u64,
    /// Layers whose dense feed-forward weights stay in RAM (`-ncffn`).
    n_cpu_ffn: u64,
    /// Weights in RAM are in no buffer of a GPU's driver (`--no-host`).
    no_host: bool,
    /// Tensors put elsewhere (`-ot`).
    override_tensor: String,
    /// Full-size caches for sliding windows (`--swa-full`).
    swa_full: bool,
    /// KV cache in RAM (`-nkvo`).
    no_kv_offload: bool,
    /// No weights copied to a GPU for one operation (`--no-op-offload`).
    no_op_offload: bool,
    /// Whether the parameters are fitted to the memory (`--fit`).
    fit: bool,
    /// Memory that the fit leaves free, in MiB, per device (`--fit-target`).
    fit_target: Vec<u64>,
    /// Smallest context that the fit may choose, in tokens (`--fit-ctx`).
    fit_ctx: u64,
    /// How weights are read: `mmap`, `none`, `mlock`, … (`--load-mode`, `--no-mmap`, `--mlock`).
    load_mode: String,
    /// The projector's file (`--mmproj`).
    mmproj: String,
    /// The draft model's file (`-md`).
    model_draft: String,
    /// Kinds of speculative decoding (`--spec-type`).
    spec_type: String,
    /// Tokens drafted at most (`--spec-draft-n-max`).
    spec_draft_n_max: u64,
    /// Adapter (`--lora`).
    lora: String,
    /// Limit of saved prompts in RAM, in MiB; -1 is none (`--cache-ram`).
    cache_ram: i64,
    /// Context checkpoints per slot (`--ctx-checkpoints`).
    ctx_checkpoints: u64,
    /// Copies of the graph's inputs; more than 1 means pipeline parallelism.
    sched_copies: u64,
    /// Tokens of context that the model was trained for.
    n_ctx_train: u64,
    /// Size of the projector's tensors that was estimated before the load, in MiB.
    projector_estimate: Mib,
    /// Memory of the draft that was estimated before the load, in MiB.
    draft_estimate: Mib,
}

impl ObservedSettings {
    /// These, with what others may see of texts.
    #[must_use]
    pub fn shown(&self) -> Self {
        let seen = |flag: Flag, text: &Option<String>| {
            let text = text.as_deref()?;
            Some(or_hidden(flag.seen(text)).into_owned())
        };
        Self {
            split_mode: seen(Flag::SplitMode, &self.split_mode),
            device: seen(Flag::Device, &self.device),
            rpc: self.rpc.as_ref().map(|_| HIDDEN.to_owned()),
            override_tensor: seen(Flag::OverrideTensor, &self.override_tensor),
            load_mode: seen(Flag::LoadMode, &self.load_mode),
            mmproj: seen(Flag::Mmproj, &self.mmproj),
            model_draft: seen(Flag::ModelDraft, &self.model_draft),
            spec_type: seen(Flag::SpecType, &self.spec_type),
            lora: seen(Flag::Lora, &self.lora),
            ..self.clone()
        }
    }
}

/// A number, or `auto` or `all`.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
enum CountOrWord {
    Count(u64),
    Word(&'static str),
}

#[allow(clippy::ref_option, reason = "serde's signature")]
fn gpu_layers<S: Serializer>(layers: &Option<GpuLayers>, serializer: S) -> Result<S::Ok, S::Error> {
    layers.map(|layers| layers.word().map_or_else(CountOrWord::Word, CountOrWord::Count)).serialize(serializer)
}
