//! What files may have, and the graph of an architecture does not read (`models/*.cpp`, 0.1.161).

use super::Architecture;
use crate::engine::llama_cpp::weights::LlmTensor;

impl Architecture {
    /// Whether the scales of matrices with this role are loaded and not read.
    pub const fn ignores_scale(self, of: LlmTensor) -> bool {
        match of {
            // of MTP blocks
            LlmTensor::NextnEhProj => false,
            _ if matches!(self, Self::DeepSeek4 | Self::Glm5Next | Self::KimiK3 | Self::BailingMoe3) => true,
            LlmTensor::FfnDown if matches!(self, Self::Talkie) => false,
            LlmTensor::FfnGate
            | LlmTensor::FfnUp
            | LlmTensor::FfnDown
            | LlmTensor::FfnGateExps
            | LlmTensor::FfnUpExps
            | LlmTensor::FfnGateUpExps
            | LlmTensor::FfnDownExps
            | LlmTensor::FfnGateShexp
            | LlmTensor::FfnUpShexp
            | LlmTensor::FfnDownShexp => !self.reads_scales_of_feed_forward(),
            LlmTensor::AttnQ | LlmTensor::AttnK | LlmTensor::AttnV => matches!(self, Self::KimiLinear | Self::Mimo2),
            LlmTensor::AttnQkv => matches!(
                self,
                Self::Mimo2 | Self::MiniMax01 | Self::CogVlm | Self::OpenElm | Self::Plamo2 | Self::Plamo3
            ),
            LlmTensor::AttnGate => !matches!(self, Self::Qwen35 | Self::Qwen35Moe | Self::Qwen4Exp | Self::Unlisted),
            LlmTensor::AttnOutput => matches!(self, Self::HyV4),
            LlmTensor::SsmBeta | LlmTensor::SsmIn | LlmTensor::SsmOut => {
                matches!(self, Self::KimiLinear | Self::Plamo2)
            }
            _ => false,
        }
    }

    const fn reads_scales_of_feed_forward(self) -> bool {
        matches!(
            self,
            Self::Llama
                | Self::LlamaEmbed
                | Self::Mistral3
                | Self::Nanbeige
                | Self::NemotronH
                | Self::Qwen3
                | Self::Qwen3Moe
                | Self::Qwen3Next
                | Self::Qwen35
                | Self::Qwen35Moe
                | Self::Qwen4Exp
                | Self::Mellum
                | Self::Gemma4
                | Self::BitNet
                | Self::Cohere2
                | Self::Cohere2Moe
                | Self::DeepSeek32
                | Self::GlmDsa
                | Self::Dots3Note
                | Self::DFlash
                | Self::HyV3
                | Self::Unlisted
        )
    }

    /// Whether biases of queries, keys and values are loaded and not read.
    pub const fn ignores_qkv_biases(self) -> bool {
        matches!(self, Self::Mimo2)
    }

    /// Whether factors of rotary positions are loaded and not read, in blocks with a sliding window or in others.
    pub const fn ignores_rope_factors(self, windowed: bool) -> bool {
        match self {
            Self::Pangu | Self::FalconH1 | Self::CogVlm | Self::Dream => true,
            Self::Step35 => windowed,
            _ => false,
        }
    }

    /// Whether the header's factor for the weights of experts is not read (`expert_weights_scale`).
    pub const fn ignores_expert_weights_scale(self) -> bool {
        matches!(
            self,
            Self::Llama
                | Self::Llama4
                | Self::Mistral3
                | Self::Qwen2Moe
                | Self::Qwen3Moe
                | Self::Qwen3VlMoe
                | Self::Qwen3Next
                | Self::Qwen35Moe
                | Self::Qwen4Exp
                | Self::Gemma4
                | Self::GptOss
                | Self::Phi3
                | Self::PhiMoe
                | Self::Granite
                | Self::GraniteHybrid
                | Self::GraniteSwa
                | Self::MiniCpm
                | Self::Lfm2
                | Self::Jamba
                | Self::Ernie45
                | Self::Hunyuan
                | Self::MiniMaxM2
                | Self::MiniMax01
                | Self::Olmoe
                | Self::Dbrx
                | Self::NomicBert
                | Self::Mellum
                | Self::Mimo2
                | Self::LladaMoe
                | Self::Rnd1
                | Self::SmallThinker
                | Self::Grok
                | Self::Maple
                | Self::Arctic
                | Self::GroveMoe
        )
    }

    /// Whether attention does not read its cache.
    pub const fn ignores_cache(self) -> bool {
        matches!(self, Self::LlamaEmbed | Self::T5Encoder)
    }
}
