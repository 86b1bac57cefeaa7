//! Settings that a log shows: those of the command and those in force.

use serde::{Serialize, Serializer};

use super::Mib;
use crate::settings::{CacheType, FlashAttn, GpuLayers, Pooling};

/// Declares the struct with a method that fills gaps from another.
macro_rules! settings {
    ($($(#[$attribute:meta])* $field:ident: $type:ty,)*) => {
        /// Settings as a program was given them or says that they are; what a log does not tell is none.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct ObservedSettings {
            $($(#[$attribute])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
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
    /// Embeddings are asked for (`--embeddings`).
    embeddings: bool,
    /// Scores of texts are asked for (`--reranking`).
    reranking: bool,
    /// How embeddings are pooled (`--pooling`).
    pooling: Pooling,
    /// Saved recurrent states per sequence.
    n_rs_seq: u64,
    /// Flash attention as it was asked for (`-fa`).
    flash_attn: FlashAttn,
    /// Whether flash attention is in use, where the log tells what became of it.
    flash_attn_in_use: bool,
    /// One cache for all sequences (`-kvu`).
    kv_unified: bool,
    /// Type of the K cache (`-ctk`).
    cache_type_k: CacheType,
    /// Type of the V cache (`-ctv`).
    cache_type_v: CacheType,
    /// Layers on GPUs as they were asked for (`-ngl`).
    #[serde(serialize_with = "gpu_layers")]
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
    /// Layers whose experts stay in RAM (`-ncmoe`); all of them are [`u64::MAX`].
    n_cpu_moe: u64,
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

/// A number, or `auto` or `all`.
#[allow(clippy::ref_option, reason = "serde's signature")]
fn gpu_layers<S: Serializer>(layers: &Option<GpuLayers>, serializer: S) -> Result<S::Ok, S::Error> {
    match layers.unwrap_or_default().word() {
        Ok(count) => serializer.serialize_u64(count),
        Err(word) => serializer.serialize_str(word),
    }
}

/// `auto`, `enabled`, `on`, `1`, … as llama.cpp reads and prints it; `-fa` alone, before August 2025, meant on.
pub(super) fn flash_attn(text: &str) -> Option<FlashAttn> {
    Some(match text.trim() {
        "auto" | "-1" => FlashAttn::Auto,
        "on" | "enabled" | "Enabled" | "true" | "1" => FlashAttn::On,
        "off" | "disabled" | "Disabled" | "false" | "0" => FlashAttn::Off,
        _ => return None,
    })
}
