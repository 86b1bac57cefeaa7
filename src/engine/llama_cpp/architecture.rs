//! The architectures with known graphs, and the properties that follow from the name alone.

mod unread;

use crate::gguf::{Header, Value};

macro_rules! architectures {
    ($($(#[$doc:meta])* $variant:ident: $($name:literal)|+;)*) => {
        /// An architecture with a graph of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Architecture { $($(#[$doc])* $variant,)* }

        impl Architecture {
            /// The architecture with this name.
            pub fn named(name: &str) -> Option<Self> {
                Some(match name { $($($name)|+ => Self::$variant,)* _ => return None })
            }
        }
    };
}

architectures! {
    /// Llama, Mistral, Mixtral and derived models.
    Llama: "llama";
    /// Llama 4.
    Llama4: "llama4";
    /// Ministral 3 and variants.
    Mistral3: "mistral3";
    /// Qwen 2 and 2.5.
    Qwen2: "qwen2";
    /// The text part of Qwen 2 VL and 2.5 VL.
    Qwen2Vl: "qwen2vl";
    /// Qwen 3.
    Qwen3: "qwen3";
    /// The text part of Qwen 3 VL.
    Qwen3Vl: "qwen3vl";
    /// Qwen 3 with experts.
    Qwen3Moe: "qwen3moe";
    /// The text part of Qwen 3 VL with experts.
    Qwen3VlMoe: "qwen3vlmoe";
    /// Qwen 3 Next: delta nets and attention.
    Qwen3Next: "qwen3next";
    /// Qwen 3.5.
    Qwen35: "qwen35";
    /// Qwen 3.5 with experts.
    Qwen35Moe: "qwen35moe";
    /// Qwen 3.8 Flash Next: delta nets and attention to chosen pools, over residual streams that are mixed before each
    /// half.
    Qwen4Exp: "qwen4exp";
    /// Gemma 2.
    Gemma2: "gemma2";
    /// Gemma 3.
    Gemma3: "gemma3";
    /// Gemma 3n.
    Gemma3n: "gemma3n";
    /// Gemma 4.
    Gemma4: "gemma4";
    /// gpt-oss.
    GptOss: "gpt-oss";
    /// Phi 2.
    Phi2: "phi2";
    /// Phi 3 and 4.
    Phi3: "phi3";
    /// Command R.
    CommandR: "command-r";
    /// `DeepSeek` 2, 3 and all with MLA.
    DeepSeek2: "deepseek2";
    /// Mistral Small 4: `DeepSeek` 2's blocks.
    Mistral4: "mistral4";
    /// `DeepSeek` 3.2: the same with sparse attention.
    DeepSeek32: "deepseek32";
    /// `DeepSeek` 4: windows beside compressed caches, over several residual streams.
    DeepSeek4: "deepseek4";
    /// GLM 5: `DeepSeek` 3.2's blocks, some of which share an indexer.
    GlmDsa: "glm-dsa";
    /// The text part of `DeepSeek`-OCR: experts with ordinary attention.
    DeepSeek2Ocr: "deepseek2-ocr";
    /// GLM 4.
    Glm4: "glm4";
    /// GLM 4.5 with experts.
    Glm4Moe: "glm4moe";
    /// `ChatGLM` 3.
    ChatGlm: "chatglm";
    /// Stable LM.
    StableLm: "stablelm";
    /// Granite, also with experts.
    Granite: "granite" | "granitemoe";
    /// `MiniCPM`, whose graph is Granite's.
    MiniCpm: "minicpm";
    /// Granite 4 with state-space blocks.
    GraniteHybrid: "granitehybrid";
    /// Mamba.
    Mamba: "mamba";
    /// Nemotron H, also with experts.
    NemotronH: "nemotron_h" | "nemotron_h_moe";
    /// `SmolLM` 3.
    SmolLm3: "smollm3";
    /// `OLMo` 2 and 3.
    Olmo2: "olmo2";
    /// `StarCoder` 2.
    StarCoder2: "starcoder2";
    /// LFM 2.
    Lfm2: "lfm2" | "lfm2moe";
    /// Falcon H1: attention and state space in parallel.
    FalconH1: "falcon-h1";
    /// Jamba: state-space blocks of the first version, and attention.
    Jamba: "jamba";
    /// Mamba 2.
    Mamba2: "mamba2";
    /// Qwen 1 and 1.5 in the original format.
    Qwen: "qwen";
    /// Qwen 2 with experts.
    Qwen2Moe: "qwen2moe";
    /// Gemma.
    Gemma: "gemma";
    /// `EmbeddingGemma`.
    GemmaEmbedding: "gemma-embedding";
    /// Phi 3.5 with experts.
    PhiMoe: "phimoe";
    /// Command R7B and A.
    Cohere2: "cohere2";
    /// The first `DeepSeek` with experts.
    DeepSeek: "deepseek";
    /// Seed-OSS.
    SeedOss: "seed_oss";
    /// ERNIE 4.5, also with experts.
    Ernie45: "ernie4_5" | "ernie4_5-moe";
    /// Hunyuan, also with experts.
    Hunyuan: "hunyuan-dense" | "hunyuan-moe";
    /// The text part of Hunyuan VL.
    HunyuanVl: "hunyuan_vl";
    /// EXAONE 3.
    Exaone: "exaone";
    /// EXAONE 4.
    Exaone4: "exaone4";
    /// `InternLM` 2.
    InternLm2: "internlm2";
    /// `MiniMax` M2.
    MiniMaxM2: "minimax-m2";
    /// dots.llm1 and Ling 2.
    Dots1: "dots1" | "bailingmoe2";
    /// Ling.
    BailingMoe: "bailingmoe";
    /// `OLMo`.
    Olmo: "olmo";
    /// `OLMoE`.
    Olmoe: "olmoe";
    /// Arcee's AFM.
    Arcee: "arcee";
    /// Apertus.
    Apertus: "apertus";
    /// Nemotron and Minitron.
    Nemotron: "nemotron";
    /// Orion.
    Orion: "orion";
    /// XVERSE.
    Xverse: "xverse";
    /// Falcon.
    Falcon: "falcon";
    /// GPT-2, and `StarCoder`, whose graph is the same.
    Gpt2: "gpt2" | "starcoder";
    /// GPT-NeoX and Pythia.
    GptNeoX: "gptneox";
    /// BLOOM.
    Bloom: "bloom";
    /// MPT.
    Mpt: "mpt";
    /// DBRX.
    Dbrx: "dbrx";
    /// BERT with learned positions: reads whole texts at once.
    Bert: "bert" | "jina-bert-v2";
    /// BERT variants with rotary positions.
    NomicBert: "nomic-bert" | "nomic-bert-moe" | "jina-bert-v3";
    /// `ModernBERT`.
    ModernBert: "modern-bert";
    /// `EuroBERT`.
    EuroBert: "eurobert";
    /// EAGLE 3: one block that drafts for another model.
    Eagle3: "eagle3";
    /// `DFlash` and `DSpark`: blocks that draft several tokens at once for another model.
    DFlash: "dflash";
    /// Gemma 4's assistant, which drafts for it and shares its caches.
    Gemma4Assistant: "gemma4-assistant";
    /// Baichuan: of 40 blocks without rotary positions.
    Baichuan: "baichuan";
    /// `CodeShell`.
    CodeShell: "codeshell";
    /// Jais 1: positions as a bias of attention.
    Jais: "jais";
    /// Jais 2.
    Jais2: "jais2";
    /// Maincoder.
    MainCoder: "maincoder";
    /// openPangu Embedded.
    Pangu: "pangu-embedded";
    /// Refact: positions as a bias of attention.
    Refact: "refact";
    /// K-EXAONE.
    ExaoneMoe: "exaone-moe";
    /// Tencent Hy3.
    HyV3: "hy_v3";
    /// `JetBrains` Mellum 2.
    Mellum: "mellum";
    /// `MiMo` V2.
    Mimo2: "mimo2";
    /// The text part of `PaddleOCR`-VL.
    PaddleOcr: "paddleocr";
    /// `OpenELM`.
    OpenElm: "openelm";
    /// `PLaMo`.
    Plamo: "plamo";
    /// Dream and `LLaDA`, which fill in a whole text at once.
    Dream: "dream" | "llada";
    /// The same with experts.
    LladaMoe: "llada-moe";
    /// RND1, a diffusion model of Qwen 3's blocks.
    Rnd1: "rnd1";
    /// Kimi Linear: delta attention, and compressed attention without positions.
    KimiLinear: "kimi-linear";
    /// Ling 3: the same with rotary positions and a gate on attention.
    BailingMoe3: "bailingmoe3";
    /// Kimi K3: Kimi Linear's blocks, whose residuals are banked and mixed by attention.
    KimiK3: "kimi-k3";
    /// RWKV 6.
    Rwkv6: "rwkv6";
    /// RWKV 6's time mixing in Qwen 2's body (QRWKV).
    Rwkv6Qwen2: "rwkv6qwen2";
    /// RWKV 7.
    Rwkv7: "rwkv7";
    /// RWKV 7's time mixing in Qwen 2's body.
    Arwkv7: "arwkv7";
    /// Step 3.5.
    Step35: "step35";
    /// Cohere's models with experts.
    Cohere2Moe: "cohere2moe";
    /// `SmallThinker`, which routes by the input of the block.
    SmallThinker: "smallthinker";
    /// `DeciLM` and Nemotron Ultra: blocks differ in their heads and feed-forward parts, and some lack one.
    Deci: "deci";
    /// Grok.
    Grok: "grok";
    /// Arcee Trinity.
    AfMoe: "afmoe";
    /// Tencent Hy4: compressed, gated attention over several residual streams.
    HyV4: "hy_v4";
    /// GLM 5.3: delta attention by channel and compressed attention to chosen pools, over mixed residual streams.
    Glm5Next: "glm5-next";
    /// Muse Glimmer.
    MuseGlimmer: "muse-glimmer";
    /// Spark 2.5.
    Spark25: "spark2_5";
    /// Maple.
    Maple: "maple";
    /// Laguna.
    Laguna: "laguna";
    /// Arctic: a dense part in every block, and experts that read its input.
    Arctic: "arctic";
    /// `GroveMoE`: a second set of experts, shared by groups of the first.
    GroveMoe: "grovemoe";
    /// `BitNet`: norms inside both halves.
    BitNet: "bitnet";
    /// `PLaMo` 3.
    Plamo3: "plamo3";
    /// `MiniCPM` 3: compressed attention that caches full heads.
    MiniCpm3: "minicpm3";
    /// PLM: the same without compressed queries.
    Plm: "plm";
    /// Chameleon.
    Chameleon: "chameleon";
    /// Talkie: norms without weights, and the embeddings added after every block.
    Talkie: "talkie";
    /// Llama used for embeddings: its attention does not read the cache.
    LlamaEmbed: "llama-embed";
    /// Granite with sliding windows.
    GraniteSwa: "granite_swa";
    /// `NeoBERT`: an encoder with rotary positions.
    NeoBert: "neo-bert";
    /// The language part of `CogVLM` 2, whose weights for images are others.
    CogVlm: "cogvlm";
    /// dots 3 note: compressed attention of two sizes, with windows or an indexer.
    Dots3Note: "dots3note";
    /// `MiniMax` 01: lightning attention and full attention.
    MiniMax01: "minimax-01";
    /// `MiniMax` M3: an indexer chooses blocks of positions.
    MiniMaxM3: "minimax-m3";
    /// Nanbeige: its blocks run several times.
    Nanbeige: "nanbeige";
    /// `PLaMo` 2: state-space blocks and attention.
    Plamo2: "plamo2";
    /// HRM-Text: two stacks of blocks in nested cycles.
    HrmText: "hrm_text";
    /// T5: an encoder, and a decoder that attends to its result.
    T5: "t5";
    /// T5's encoder alone.
    T5Encoder: "t5encoder";
    /// GPT-J, whose name is all that llama.cpp knows of it.
    GptJ: "gptj";
    /// Granite Switch: adapters in the file, chosen for every token.
    GraniteSwitch: "graniteswitch";
    /// Any other: the tensors in the file decide.
    Unlisted: "";
}

/// The architecture whose graph is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphFamily {
    /// The architecture.
    pub architecture: Architecture,
    /// It is the model's own; otherwise the nearest one by the file's tensors.
    pub exact: bool,
}

impl GraphFamily {
    /// The family of a header.
    pub fn of(header: &Header) -> Self {
        let name = header.metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
        let listed = Architecture::named(name).filter(|architecture| *architecture != Architecture::Unlisted);
        Self { architecture: listed.unwrap_or(Architecture::Unlisted), exact: listed.is_some() }
    }
}

impl Architecture {
    /// Whether its graph was compared on CUDA only, and for no release before those that compare further.
    pub const fn is_compared_on_cuda_only(self) -> bool {
        matches!(
            self,
            Self::AfMoe
                | Self::Arctic
                | Self::Arwkv7
                | Self::Baichuan
                | Self::BailingMoe3
                | Self::BitNet
                | Self::Chameleon
                | Self::CodeShell
                | Self::CogVlm
                | Self::Cohere2Moe
                | Self::DFlash
                | Self::Deci
                | Self::DeepSeek2Ocr
                | Self::DeepSeek32
                | Self::DeepSeek4
                | Self::Dots3Note
                | Self::Dream
                | Self::Eagle3
                | Self::ExaoneMoe
                | Self::Gemma3n
                | Self::Glm5Next
                | Self::GlmDsa
                | Self::GraniteSwa
                | Self::GraniteSwitch
                | Self::Grok
                | Self::GroveMoe
                | Self::HrmText
                | Self::HyV3
                | Self::HyV4
                | Self::Jais
                | Self::Jais2
                | Self::KimiK3
                | Self::KimiLinear
                | Self::Laguna
                | Self::LladaMoe
                | Self::LlamaEmbed
                | Self::MainCoder
                | Self::Maple
                | Self::Mellum
                | Self::Mimo2
                | Self::MiniCpm3
                | Self::MiniMax01
                | Self::MiniMaxM3
                | Self::Mistral4
                | Self::MuseGlimmer
                | Self::Nanbeige
                | Self::NeoBert
                | Self::OpenElm
                | Self::PaddleOcr
                | Self::Pangu
                | Self::Plamo
                | Self::Plamo2
                | Self::Plamo3
                | Self::Plm
                | Self::Qwen4Exp
                | Self::Refact
                | Self::Rnd1
                | Self::Rwkv6
                | Self::Rwkv6Qwen2
                | Self::Rwkv7
                | Self::SmallThinker
                | Self::Spark25
                | Self::Step35
                | Self::T5
                | Self::T5Encoder
                | Self::Talkie
        )
    }

    /// Whether llama.cpp has the name but nothing that loads such a file (`llama_model_create` in `llama-model.cpp`,
    /// 0.1.161).
    pub const fn is_unsupported(self) -> bool {
        matches!(self, Self::GptJ)
    }

    /// Whether flash attention is off whatever is asked (`llama_init_from_model` in `llama-context.cpp`, 0.1.161).
    pub const fn forbids_flash_attention(self) -> bool {
        matches!(self, Self::Grok)
    }

    /// Whether llama.cpp ends with an error unless flash attention is off: values have no heads (`models/plm.cpp`,
    /// 0.1.161).
    pub const fn needs_flash_attention_off(self) -> bool {
        matches!(self, Self::Plm)
    }

    /// Whether logits are computed for every token of a batch, wanted or not.
    pub const fn gives_all_logits(self) -> bool {
        matches!(self, Self::CogVlm)
    }

    /// Whether a batch may mix tokens and embeddings (`llm_arch_supports_mixed_batch`, 0.1.161).
    pub const fn mixes_batches(self) -> bool {
        !matches!(self, Self::CogVlm | Self::DeepSeek4 | Self::GraniteSwitch)
    }

    /// Whether a limited gated activation is one operation, rather than limits before it.
    pub const fn clamps_in_activation(self) -> bool {
        matches!(self, Self::DeepSeek4 | Self::HyV4 | Self::Maple)
    }

    /// Whether memory is reserved for a batch of one sequence besides (`sched_reserve` in `llama-context.cpp`, 0.1.161).
    pub const fn reserves_one_sequence(self) -> bool {
        matches!(self, Self::KimiLinear | Self::MiniMax01)
    }

    /// Whether all blocks are recurrent.
    pub const fn is_recurrent(self) -> bool {
        matches!(self, Self::Mamba | Self::Mamba2 | Self::Rwkv6 | Self::Rwkv6Qwen2 | Self::Rwkv7 | Self::Arwkv7)
    }

    /// Whether some blocks are recurrent and some have attention.
    pub const fn is_hybrid(self) -> bool {
        matches!(
            self,
            Self::Qwen3Next
                | Self::Qwen35
                | Self::Qwen35Moe
                | Self::Qwen4Exp
                | Self::NemotronH
                | Self::GraniteHybrid
                | Self::Lfm2
                | Self::FalconH1
                | Self::Jamba
                | Self::KimiLinear
                | Self::KimiK3
                | Self::BailingMoe3
                | Self::Glm5Next
                | Self::MiniMax01
                | Self::Plamo2
        )
    }

    /// An encoder: reads whole texts, caches nothing, and its graph has no logits.
    pub const fn reads_only(self) -> bool {
        !self.loads_output() || matches!(self, Self::GemmaEmbedding)
    }

    /// Fills in whole texts: caches nothing either, and its graph has logits (`llm_arch_is_diffusion`, 0.1.161).
    pub const fn is_diffusion(self) -> bool {
        matches!(self, Self::Dream | Self::LladaMoe | Self::Rnd1)
    }

    /// Whether the output weights are loaded (possibly the token embeddings), used by the graph or not.
    pub const fn loads_output(self) -> bool {
        !matches!(self, Self::Bert | Self::NomicBert | Self::ModernBert | Self::EuroBert | Self::NeoBert)
    }

    /// Whether there is an encoder, which reads a text, or hidden states of another model (`llama_model_has_encoder`,
    /// 0.1.161).
    pub const fn has_encoder(self) -> bool {
        matches!(self, Self::T5 | Self::T5Encoder | Self::Eagle3 | Self::DFlash)
    }

    /// Whether every block is an MTP block, so that there is no model without them.
    pub const fn only_drafts(self) -> bool {
        matches!(self, Self::Gemma4Assistant)
    }

    /// Whether the graph can give the inputs of its layers to a draft (`t_layer_inp` in `models/*.cpp`, 0.1.161).
    pub const fn gives_layer_inputs(self) -> bool {
        matches!(
            self,
            Self::Llama
                | Self::GptOss
                | Self::Qwen3
                | Self::Qwen3Moe
                | Self::Qwen3Next
                | Self::Qwen35
                | Self::Qwen35Moe
                | Self::Qwen4Exp
                | Self::Gemma4
                | Self::Lfm2
                | Self::NemotronH
                | Self::MiniMaxM2
                | Self::HunyuanVl
                | Self::BailingMoe3
                | Self::MiniMax01
                | Self::MuseGlimmer
                | Self::DeepSeek4
                | Self::Nanbeige
                | Self::Unlisted
        )
    }

    /// Whether the token embeddings are loaded as output weights too if there are none. A draft without them uses those
    /// of its partner.
    pub const fn ties_output(self) -> bool {
        self.loads_output() && !matches!(self, Self::Eagle3 | Self::BitNet)
    }

    /// Whether later blocks use the KV caches of earlier ones.
    pub const fn shares_caches(self) -> bool {
        matches!(self, Self::Gemma3n | Self::Gemma4)
    }

    /// Whether its residual streams are mixed by operations that are fused where the device of the block runs them.
    pub const fn fuses_hyper_connections(self) -> bool {
        matches!(self, Self::DeepSeek4 | Self::Glm5Next | Self::Qwen4Exp)
    }

    /// Whether llama.cpp has no graph of its MTP blocks.
    pub const fn lacks_mtp_graph(self) -> bool {
        matches!(self, Self::Glm5Next)
    }

    /// Whether positions have several axes (`llama_model_rope_type`, 0.1.161).
    pub const fn has_several_positions(self, sections: bool) -> bool {
        match self {
            Self::Qwen2Vl
            | Self::Qwen3Vl
            | Self::Qwen3VlMoe
            | Self::Qwen35
            | Self::Qwen35Moe
            | Self::Qwen4Exp
            | Self::PaddleOcr => true,
            Self::Glm4 | Self::Glm4Moe | Self::HunyuanVl | Self::DFlash | Self::BailingMoe3 => sections,
            _ => false,
        }
    }
}
