//! The types of projectors (`PROJECTOR_TYPE_NAMES` in `clip-impl.h`, 0.1.161), and what their names alone decide
//! (`clip_model_loader::load_hparams` in `clip.cpp`, 0.1.161).

macro_rules! projector_types {
    ($($variant:ident = $name:literal,)*) => {
        /// The type of a projector.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum ProjectorType { $($variant,)* }

        impl ProjectorType {
            /// The type with this name in a header.
            pub fn named(name: &str) -> Option<Self> {
                Some(match name { $($name => Self::$variant,)* _ => return None })
            }

            /// Its name in a header.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

projector_types! {
    Mlp = "mlp",
    Ldp = "ldp",
    LdpV2 = "ldpv2",
    MiniCpmV = "resampler",
    GlmEdge = "adapter",
    Qwen2Vl = "qwen2vl_merger",
    Qwen25Vl = "qwen2.5vl_merger",
    Qwen3Vl = "qwen3vl_merger",
    Ling3Vl = "ling3vl",
    Step3Vl = "step3vl",
    Gemma3 = "gemma3",
    Gemma3Nv = "gemma3nv",
    Gemma3Na = "gemma3na",
    Gemma4V = "gemma4v",
    Gemma4A = "gemma4a",
    Gemma4Uv = "gemma4uv",
    Gemma4Ua = "gemma4ua",
    Phi4 = "phi4",
    Idefics3 = "idefics3",
    Pixtral = "pixtral",
    Ultravox = "ultravox",
    InternVl = "internvl",
    Llama4 = "llama4",
    Qwen2A = "qwen2a",
    Qwen3A = "qwen3a",
    GlmA = "glma",
    Qwen25O = "qwen2.5o",
    Voxtral = "voxtral",
    Meralion = "meralion",
    MusicFlamingo = "musicflamingo",
    Lfm2 = "lfm2",
    KimiVl = "kimivl",
    PaddleOcr = "paddleocr",
    LightOnOcr = "lightonocr",
    CogVlm = "cogvlm",
    JanusPro = "janus_pro",
    DotsOcr = "dots_ocr",
    Dots3NoteV = "dots3note_v",
    Dots3NoteA = "dots3note_a",
    DeepSeekOcr = "deepseekocr",
    DeepSeekOcr2 = "deepseekocr2",
    DeepSeek4V = "deepseek4v",
    Lfm2A = "lfm2a",
    Glm4V = "glm4v",
    Glm5V = "glm5v",
    YoutuVl = "youtuvl",
    Yasa2 = "yasa2",
    KimiK25 = "kimik25",
    NemotronV2Vl = "nemotron_v2_vl",
    Exaone45 = "exaone4_5",
    HunyuanVl = "hunyuanvl",
    MiniCpmV46 = "minicpmv4_6",
    GraniteSpeech = "granite_speech",
    MimoVl = "mimovl",
    MiniMaxM3 = "minimax_m3",
    Granite4Vision = "granite4_vision",
    MimoAudio = "mimo_audio",
    Parakeet = "parakeet",
    Qwen3TtsSpkEnc = "qwen3tts_spkenc",
    Qwen3TtsGen = "qwen3tts_gen",
    PocketTtsSpkEnc = "pockettts_spkenc",
    PocketTtsGen = "pockettts_gen",
    MuseGlimmer = "muse-glimmer",
}

/// Where the number of patches merged per side comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// Always this.
    Fixed(u64),
    /// `clip.vision.projector.scale_factor`, or this.
    ScaleFactor(u64),
    /// `clip.vision.spatial_merge_size`, or this.
    SpatialMergeSize(u64),
}

/// Where the limits of an image's tokens come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenLimits {
    /// Images have one size, or are cut into tiles of one size.
    None,
    /// The options only.
    Options,
    /// These, unless the options say otherwise.
    Tokens(u64, u64),
    /// `clip.vision.image_min_pixels` and `image_max_pixels`.
    Pixels,
}

/// The image for which memory is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dummy {
    /// One of `clip.vision.image_size`.
    ImageSize,
    /// A square with this many tokens per side, unless the options allow fewer.
    Tokens(u64),
    /// The largest square that the limits allow.
    Largest,
}

impl ProjectorType {
    /// Patches merged per side.
    pub(super) const fn merge(self) -> Merge {
        match self {
            Self::InternVl
            | Self::NemotronV2Vl
            | Self::Idefics3
            | Self::Lfm2
            | Self::KimiVl
            | Self::KimiK25
            | Self::Llama4
            | Self::DotsOcr
            | Self::DeepSeek4V
            | Self::Gemma3Nv => Merge::ScaleFactor(1),
            Self::Gemma3 | Self::MiniCpmV46 | Self::Step3Vl => Merge::ScaleFactor(4),
            Self::Gemma4V | Self::Gemma4Uv => Merge::ScaleFactor(3),
            Self::Pixtral | Self::LightOnOcr | Self::Dots3NoteV => Merge::SpatialMergeSize(1),
            Self::Qwen2Vl
            | Self::Qwen25Vl
            | Self::Qwen3Vl
            | Self::Ling3Vl
            | Self::MiniMaxM3
            | Self::MuseGlimmer
            | Self::MimoVl
            | Self::YoutuVl
            | Self::Glm4V
            | Self::Glm5V
            | Self::HunyuanVl
            | Self::Exaone45 => Merge::SpatialMergeSize(2),
            Self::PaddleOcr => Merge::Fixed(2),
            _ => Merge::Fixed(1),
        }
    }

    /// Whether options replace the limits of pixels in its header, as of one type only.
    pub(super) fn limits_pixels_by_options(self) -> bool {
        self == Self::Glm5V
    }

    /// The limits of an image's tokens.
    pub(super) const fn token_limits(self) -> TokenLimits {
        match self {
            Self::Qwen2Vl | Self::Qwen25Vl | Self::Qwen3Vl | Self::Ling3Vl | Self::Glm4V => {
                TokenLimits::Tokens(8, 4096)
            }
            Self::Pixtral | Self::KimiVl => TokenLimits::Tokens(8, 1024),
            Self::Gemma4V | Self::Gemma4Uv => TokenLimits::Tokens(70, 1120),
            Self::Lfm2 => TokenLimits::Tokens(64, 256),
            Self::MiniMaxM3 => TokenLimits::Tokens(8, 576),
            Self::MuseGlimmer => TokenLimits::Tokens(1, 4096),
            Self::YoutuVl => TokenLimits::Tokens(1, 62_500),
            Self::HunyuanVl => TokenLimits::Tokens(256, 16_384),
            Self::KimiK25 => TokenLimits::Tokens(2, 4096),
            Self::Phi4
            | Self::DotsOcr
            | Self::Dots3NoteV
            | Self::MimoVl
            | Self::Exaone45
            | Self::Glm5V
            | Self::PaddleOcr => TokenLimits::Pixels,
            Self::Idefics3 | Self::LightOnOcr => TokenLimits::Options,
            _ => TokenLimits::None,
        }
    }

    /// The image for which memory is reserved.
    pub(super) const fn dummy(self) -> Dummy {
        match self {
            Self::Qwen2Vl
            | Self::Qwen25Vl
            | Self::Qwen3Vl
            | Self::Ling3Vl
            | Self::Glm4V
            | Self::Glm5V
            | Self::DotsOcr
            | Self::Dots3NoteV
            | Self::MimoVl
            | Self::Exaone45 => Dummy::Tokens(46),
            Self::Phi4
            | Self::Pixtral
            | Self::LightOnOcr
            | Self::KimiVl
            | Self::Gemma4V
            | Self::Gemma4Uv
            | Self::MiniMaxM3
            | Self::DeepSeek4V
            | Self::YoutuVl => Dummy::Tokens(16),
            Self::MuseGlimmer | Self::HunyuanVl => Dummy::Tokens(32),
            Self::PaddleOcr => Dummy::Tokens(28),
            Self::Lfm2 | Self::KimiK25 => Dummy::Largest,
            _ => Dummy::ImageSize,
        }
    }

    /// Whether several images can be encoded at once (`clip_graph::support_batch`, `models.h`, 0.1.161).
    pub(super) const fn encodes_batches(self) -> bool {
        matches!(self, Self::Gemma4V | Self::InternVl)
    }

    /// Whether frames are stacked before they are projected (`clip_model::audio_has_stack_frames`).
    pub(super) const fn stacks_frames(self) -> bool {
        matches!(self, Self::Ultravox | Self::Voxtral | Self::Meralion)
    }

    /// Whether pairs of positions are averaged after the last block (`clip_model::audio_has_avgpool`).
    pub(super) const fn averages_pairs(self) -> bool {
        matches!(self, Self::Qwen2A | Self::Voxtral | Self::MusicFlamingo)
    }

    /// Encoders of Whisper's kind.
    pub(super) const fn is_whisper(self) -> bool {
        matches!(
            self,
            Self::Ultravox
                | Self::Voxtral
                | Self::Qwen2A
                | Self::Qwen3A
                | Self::GlmA
                | Self::Meralion
                | Self::MusicFlamingo
        )
    }

    /// Whether up and down may have each other's names in old files (`is_ffn_swapped`).
    pub(super) const fn may_have_swapped_names(self) -> bool {
        matches!(
            self,
            Self::Mlp
                | Self::Ldp
                | Self::LdpV2
                | Self::Qwen2Vl
                | Self::Qwen25Vl
                | Self::Exaone45
                | Self::GlmEdge
                | Self::Gemma3
                | Self::Idefics3
                | Self::MiniCpmV
                | Self::MiniCpmV46
        )
    }
}
