//! What is said of each knob: its names, what it is, and how far its steps go.

use super::Knob;

/// What is said of a knob.
pub(super) struct Facts {
    pub name: &'static str,
    pub title: &'static str,
    pub says: &'static str,
    pub least: u64,
    pub fine: u64,
}

impl Knob {
    #[allow(clippy::too_many_lines, reason = "a table")]
    pub(super) const fn facts(self) -> Facts {
        match self {
            Self::Context => Facts {
                name: "ctx",
                title: "context",
                says: "Context size in tokens: per sequence with Ollama (num_ctx), for all sequences together with \
                       llama.cpp (-c).",
                least: 1,
                fine: 256,
            },
            Self::Parallel => Facts {
                name: "parallel",
                title: "parallel",
                says: "Parallel sequences; each has its own context.",
                least: 1,
                fine: 1,
            },
            Self::Quant => Facts {
                name: "quant",
                title: "weights",
                says: "Quantisation of the weights, from smallest to largest, with the size that llama.cpp's \
                       quantiser would produce. Auto: as opened.",
                least: 0,
                fine: 1,
            },
            Self::CacheType => Facts {
                name: "kv-type",
                title: "KV cache",
                says: "Data type of the KV cache. Types smaller than f16 need flash attention.",
                least: 0,
                fine: 1,
            },
            Self::CacheTypeK => Facts {
                name: "cache-type-k",
                title: "K cache",
                says: "Data type of the K cache (--cache-type-k), from smallest to largest.",
                least: 0,
                fine: 1,
            },
            Self::CacheTypeV => Facts {
                name: "cache-type-v",
                title: "V cache",
                says: "Data type of the V cache (--cache-type-v), from smallest to largest. Quantised types need \
                       flash attention.",
                least: 0,
                fine: 1,
            },
            Self::FlashAttn => Facts {
                name: "flash-attn",
                title: "flash attn",
                says: "Attention that never stores the full matrix of scores. Auto: chosen by the engine.",
                least: 0,
                fine: 1,
            },
            Self::Batch => Facts {
                name: "batch",
                title: "batch",
                says: "Logical batch size: prompt tokens submitted at once (num_batch, --batch-size).",
                least: 1,
                fine: 16,
            },
            Self::Ubatch => Facts {
                name: "ubatch",
                title: "ubatch",
                says: "Physical batch size: tokens computed at once, which sets the size of the compute graph \
                       (--ubatch-size).",
                least: 1,
                fine: 16,
            },
            Self::KvUnified => Facts {
                name: "kv-unified",
                title: "unified KV",
                says: "One KV buffer shared by all sequences instead of one each (--kv-unified). llama-server \
                       always uses it when parallel is auto.",
                least: 0,
                fine: 1,
            },
            Self::Outputs => Facts {
                name: "outputs",
                title: "outputs",
                says: "Tokens per ubatch whose logits are computed. llama-server needs one per sequence; type \
                       ubatch for all tokens.",
                least: 1,
                fine: 1,
            },
            Self::GpuLayers => Facts {
                name: "gpu-layers",
                title: "GPU layers",
                says: "Layers on GPU, including the output layer (num_gpu, -ngl). Auto: chosen by the engine.",
                least: 0,
                fine: 1,
            },
            Self::CpuMoe => Facts {
                name: "n-cpu-moe",
                title: "MoE in RAM",
                says: "The number of layers, counted from the first, whose MoE weights stay in RAM (--n-cpu-moe).",
                least: 0,
                fine: 1,
            },
            Self::TensorSplit => Facts {
                name: "tensor-split",
                title: "GPU split",
                says: "Share of the layers on the first GPU in use, in percent (--tensor-split). The other GPUs \
                       keep their proportions; type shares like 3,1,1 to set all of them.",
                least: 0,
                fine: 1,
            },
        }
    }
}
