//! Names, description, minimum and step size of each knob.

use super::Knob;

pub(super) struct KnobInfo {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub least: u64,
    pub fine: u64,
}

impl Knob {
    #[allow(clippy::too_many_lines, reason = "a table")]
    pub(super) const fn facts(self) -> KnobInfo {
        match self {
            Self::Context => KnobInfo {
                name: "ctx",
                title: "context",
                description: "Context size in tokens: per sequence with Ollama (num_ctx), for all sequences together with \
                       llama.cpp (-c).",
                least: 1,
                fine: 256,
            },
            Self::Parallel => KnobInfo {
                name: "parallel",
                title: "parallel",
                description: "Parallel sequences; each has its own context.",
                least: 1,
                fine: 1,
            },
            Self::Quant => KnobInfo {
                name: "quant",
                title: "weights",
                description: "Quantisation of the weights, from smallest to largest, with the size that llama.cpp's \
                       quantiser would produce. Auto: as opened.",
                least: 0,
                fine: 1,
            },
            Self::CacheType => KnobInfo {
                name: "kv-type",
                title: "KV cache",
                description: "Data type of the KV cache. Types smaller than f16 need flash attention.",
                least: 0,
                fine: 1,
            },
            Self::CacheTypeK => KnobInfo {
                name: "cache-type-k",
                title: "K cache",
                description: "Data type of the K cache (--cache-type-k), from smallest to largest.",
                least: 0,
                fine: 1,
            },
            Self::CacheTypeV => KnobInfo {
                name: "cache-type-v",
                title: "V cache",
                description: "Data type of the V cache (--cache-type-v), from smallest to largest. Quantised types need \
                       flash attention.",
                least: 0,
                fine: 1,
            },
            Self::FlashAttn => KnobInfo {
                name: "flash-attn",
                title: "flash attn",
                description: "Attention that never stores the full matrix of scores. Auto: chosen by the engine.",
                least: 0,
                fine: 1,
            },
            Self::Batch => KnobInfo {
                name: "batch",
                title: "batch",
                description: "Logical batch size: prompt tokens submitted at once (num_batch, --batch-size).",
                least: 1,
                fine: 16,
            },
            Self::Ubatch => KnobInfo {
                name: "ubatch",
                title: "ubatch",
                description: "Physical batch size: tokens computed at once, which sets the size of the compute graph \
                       (--ubatch-size).",
                least: 1,
                fine: 16,
            },
            Self::KvUnified => KnobInfo {
                name: "kv-unified",
                title: "unified KV",
                description: "One KV buffer shared by all sequences instead of one each (--kv-unified). llama-server \
                       always uses it when parallel is auto.",
                least: 0,
                fine: 1,
            },
            Self::Outputs => KnobInfo {
                name: "outputs",
                title: "outputs",
                description: "Tokens per ubatch whose logits are computed. llama-server needs one per sequence; type \
                       ubatch for all tokens.",
                least: 1,
                fine: 1,
            },
            Self::GpuLayers => KnobInfo {
                name: "gpu-layers",
                title: "GPU layers",
                description: "Layers on GPU, including the output layer (num_gpu, -ngl). Auto: chosen by the engine.",
                least: 0,
                fine: 1,
            },
            Self::CpuMoe => KnobInfo {
                name: "n-cpu-moe",
                title: "MoE in RAM",
                description: "The number of layers, counted from the first, whose MoE weights stay in RAM (--n-cpu-moe).",
                least: 0,
                fine: 1,
            },
            Self::MmprojDevice => KnobInfo {
                name: "mmproj-device",
                title: "projector",
                description: "Where the vision or audio projector is: on the first GPU, or in RAM (--no-mmproj-offload), \
                       where it is slower. Auto: on the first GPU.",
                least: 0,
                fine: 1,
            },
            Self::ImageTokens => KnobInfo {
                name: "image-max-tokens",
                title: "image tokens",
                description: "Most tokens of an image (--image-max-tokens), for projectors that read images of many \
                       sizes. Auto: what the projector's type allows.",
                least: 1,
                fine: 16,
            },
            Self::TensorSplit => KnobInfo {
                name: "tensor-split",
                title: "GPU split",
                description: "Share of the layers on the first GPU in use, in percent (--tensor-split). The other GPUs \
                       keep their proportions; type shares like 3,1,1 to set all of them.",
                least: 0,
                fine: 1,
            },
            Self::Draft => KnobInfo {
                name: "spec-type",
                title: "draft",
                description: "How tokens are drafted, which the model then checks several at a time (--spec-type): by its \
                       own MTP blocks, or by the draft model. Auto: what the draft model is for.",
                least: 0,
                fine: 1,
            },
            Self::DraftMax => KnobInfo {
                name: "spec-draft-n-max",
                title: "draft n-max",
                description: "Tokens drafted at most (--spec-draft-n-max). Recurrent states are kept once more for each.",
                least: 1,
                fine: 1,
            },
            Self::LoadMode => KnobInfo {
                name: "load-mode",
                title: "load mode",
                description: "How weights get into RAM (--load-mode): mapped from the file, so that pages may leave RAM \
                       (mmap), read and locked (mlock), read (none), read past the page cache (dio), or mapped and \
                       locked (mmap+mlock). It moves what must stay in RAM, and no other figure: i on RAM shows that.",
                least: 0,
                fine: 1,
            },
            Self::CacheRam => KnobInfo {
                name: "cache-ram",
                title: "cache RAM",
                description: "What saved prompts may take of RAM while llama-server runs (--cache-ram); 0 for none. It is in \
                       no figure of the plan: i on RAM shows what a prompt takes.",
                least: 0,
                fine: 256,
            },
        }
    }
}
