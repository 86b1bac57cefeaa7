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
                says: "Tokens of context: for each sequence with Ollama (num_ctx), for all together with llama.cpp (-c).",
                least: 1,
                fine: 256,
            },
            Self::Parallel => Facts {
                name: "parallel",
                title: "parallel",
                says: "Sequences served at once; each has a context of its own.",
                least: 1,
                fine: 1,
            },
            Self::Quant => Facts {
                name: "quant",
                title: "weights",
                says: "The quantisation of the model's weights, from the smallest to the largest: its size as llama.cpp's \
                       quantiser would make it, whatever it was opened as. On auto it is as it was opened.",
                least: 0,
                fine: 1,
            },
            Self::CacheType => Facts {
                name: "kv-type",
                title: "KV cache",
                says: "The number format of the KV cache. Formats below f16 need flash attention.",
                least: 0,
                fine: 1,
            },
            Self::CacheTypeK => Facts {
                name: "cache-type-k",
                title: "K cache",
                says: "The number format of the K cache (--cache-type-k), from the narrowest to the widest.",
                least: 0,
                fine: 1,
            },
            Self::CacheTypeV => Facts {
                name: "cache-type-v",
                title: "V cache",
                says: "The number format of the V cache (--cache-type-v), from the narrowest to the widest. Packed formats \
                       need flash attention.",
                least: 0,
                fine: 1,
            },
            Self::FlashAttn => Facts {
                name: "flash-attn",
                title: "flash attn",
                says: "Attention without the full matrix of scores. On auto the engine decides.",
                least: 0,
                fine: 1,
            },
            Self::Batch => Facts {
                name: "batch",
                title: "batch",
                says: "Tokens of a prompt that are taken at once (num_batch, --batch-size).",
                least: 1,
                fine: 16,
            },
            Self::Ubatch => Facts {
                name: "ubatch",
                title: "ubatch",
                says: "Tokens of a batch that are computed at once, which the graph is built for (--ubatch-size).",
                least: 1,
                fine: 16,
            },
            Self::KvUnified => Facts {
                name: "kv-unified",
                title: "one cache",
                says: "One KV cache that all sequences share, instead of one each (--kv-unified). llama-server has one in \
                       any case where the number of sequences is left to it.",
                least: 0,
                fine: 1,
            },
            Self::Outputs => Facts {
                name: "outputs",
                title: "outputs",
                says: "Tokens whose logits one ubatch computes. llama-server needs one for each sequence; type ubatch for \
                       all tokens.",
                least: 1,
                fine: 1,
            },
            Self::GpuLayers => Facts {
                name: "gpu-layers",
                title: "GPU layers",
                says: "Layers on GPUs, the output layer counted (num_gpu, -ngl). On auto the engine decides.",
                least: 0,
                fine: 1,
            },
            Self::CpuMoe => Facts {
                name: "n-cpu-moe",
                title: "MoE in RAM",
                says: "Layers whose experts stay in RAM while the rest of them goes to a GPU, from the first on \
                       (--n-cpu-moe).",
                least: 0,
                fine: 1,
            },
            Self::TensorSplit => Facts {
                name: "tensor-split",
                title: "GPU split",
                says: "What the first of the GPUs in use gets of the layers, in percent (--tensor-split). The others keep \
                       their proportion; type shares like 3,1,1 to set them all.",
                least: 0,
                fine: 1,
            },
        }
    }
}
