//! The types of projectors, a row each (`PROJECTOR_TYPE_NAMES` in `clip-impl.h`, 0.1.161).
//!
//! To add one: read its lines in `clip.cpp` of llama.cpp and its file in `tools/mtmd/models/`, and add a row: its name in
//! headers; the architectures of the `models` that it belongs to; where the merging of patches, the limits of an image's
//! tokens and the dummy image come from; how many tokens an input becomes (`clip_n_output_tokens`) and which tensor has
//! their width (`clip_n_mmproj_embd`); the tensors that its loader asks for (`load_tensors`); `graph`, a function of its own
//! in `graph/`, or the graph is modelled by that of other types; `hparams`, which reads the keys that others lack; and its
//! traits. Then add a file of that type and what clip took for it to `tests/projectors/`, or say that it was not `compared`:
//! a test there fails for a row that does neither. Code asks for traits, not for types.
#![allow(
    clippy::redundant_closure_for_method_calls,
    reason = "the path of a method is of one lifetime, a closure of any"
)]

use super::graph::{ClipGraph, Norm};
use super::hparams::{ClipHparams, ClipKeys};
use super::image::{Pieces, Size, idefics3, lfm2, resampled};
use super::{Encoder, ImageLimits, Modality};
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::error::LoadError;
use Dummy::{Largest, Tokens as Square};
use Merge::{Fixed, ScaleFactor, SpatialMergeSize};
use TokenLimits::{ByRelease, Options, Pixels, Tokens};
use Trait as T;

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
    /// The same, but releases differ.
    ByRelease,
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

/// What some types have or do, and most not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// Several images can be encoded at once (`clip_graph::support_batch`, `models.h`, 0.1.161).
    EncodesBatches,
    /// Frames are stacked before they are projected (`clip_model::audio_has_stack_frames`).
    StacksFrames,
    /// Pairs of positions are averaged after the last block (`clip_model::audio_has_avgpool`).
    AveragesPairs,
    /// An encoder of Whisper's kind.
    Whisper,
    /// Audio is read as samples, not as a spectrogram.
    ReadsSamples,
    /// Up and down may have each other's names in old files (`is_ffn_swapped`).
    MaySwapNames,
    /// The keys of pixels replace the limits of the type and of the options, if the header has both.
    PrefersPixels,
    /// The options replace the limits of pixels in the header.
    LimitsPixelsByOptions,
    /// A token has the outputs of some blocks too.
    Deepstack,
    /// Matrix products are limited to a range before and after.
    ClampsProducts,
    /// Values are normalised too.
    NormsValues,
    /// The model reads its images without a causal mask, in one ubatch (`mtmd_decode_use_non_causal`).
    ReadAtOnce,
    /// The same, but newer releases mask the images of the small models.
    ReadAtOnceIfLarge,
}

/// What is known of a type.
pub(super) struct ProjectorRow {
    name: &'static str,
    /// The architectures of the models that it belongs to, by the converters of llama.cpp (`conversion/`, b11312; those of
    /// `LLaVA` and MiniCPM-V by the models that its documentation names); none if they are not known.
    models: &'static [&'static str],
    /// The types of its vision and audio encoder, where it is the name of both.
    encoders: Option<[ProjectorType; 2]>,
    /// Patches merged per side.
    pub merge: Merge,
    /// The limits of an image's tokens.
    pub limits: TokenLimits,
    /// The image for which memory is reserved.
    pub dummy: Dummy,
    /// Reads the hyperparameters that others lack.
    pub hparams: fn(&mut ClipHparams, &ClipKeys<'_>) -> Result<(), LoadError>,
    /// What an image of some size is resized to, or cut into.
    pub pieces: fn(&Encoder, Size, &ImageLimits) -> Pieces,
    /// Tokens of an image.
    pub image: fn(&Encoder, Size) -> u64,
    /// Tokens of so many frames of audio.
    pub audio: fn(&ClipHparams, u64) -> u64,
    /// The tensors one of whose dimensions is the width of a token, the first that there is; otherwise it is the
    /// header's.
    pub width: &'static [(&'static str, usize)],
    /// The tensors that its loader asks for outside blocks, besides what all have in common; none if they are not known.
    /// `.*` stands for a weight and its bias, `.*?` for one whose bias may be missing, `.??` for both that may be, and `?`
    /// marks any other that may be missing.
    pub tensors: Option<&'static [&'static str]>,
    /// The same in every block, asked for after those outside.
    pub in_blocks: &'static [&'static str],
    /// Builds its graph; none if it is modelled by that of other types.
    pub graph: Option<fn(&mut ClipGraph<'_>) -> TensorId>,
    /// There are figures to check that graph by.
    pub compared: bool,
    traits: &'static [Trait],
}

/// The second matrix of a network of two.
const SECOND: &[(&str, usize)] = &[("mm.2.weight", 1)];
/// A network of two matrices.
const TWO: Option<&[&str]> = Some(&["mm.0.*", "mm.2.*"]);
const NORM_AND_TWO: Option<&[&str]> = Some(&["mm.input_norm.*", "mm.1.*", "mm.2.*"]);

impl ProjectorRow {
    /// Patches and blocks, and nothing besides.
    const PLAIN: Self = Self {
        name: "",
        models: &[],
        encoders: None,
        merge: Fixed(1),
        limits: TokenLimits::None,
        dummy: Dummy::ImageSize,
        hparams: |_, _| Ok(()),
        pieces: Encoder::scaled_or_tiled,
        image: Encoder::patches,
        audio: |_, frames| frames,
        width: &[],
        tensors: None,
        in_blocks: &[],
        graph: None,
        compared: true,
        traits: &[],
    };

    /// Images of many sizes, two patches merged per side.
    const SQUARES: Self = Self {
        merge: SpatialMergeSize(2),
        limits: Tokens(8, 4096),
        dummy: Square(46),
        image: |it, size| it.squares(size, 2),
        width: SECOND,
        tensors: TWO,
        ..Self::PLAIN
    };

    /// GLM-4.xV.
    const GLM: Self = Self {
        width: &[("mm.down.weight", 1)],
        tensors: Some(&[
            "mm.model.fc.weight",
            "mm.up.*?",
            "mm.gate.*?",
            "mm.down.*?",
            "mm.post_norm.*?",
            "mm.patch_merger.*",
        ]),
        graph: Some(|build| build.glm4v()),
        ..Self::SQUARES
    };

    /// The projections of Gemma 4's images.
    const GEMMA4: Self = Self {
        merge: ScaleFactor(3),
        limits: ByRelease,
        dummy: Square(16),
        image: Encoder::merged,
        width: &[("mm.input_projection.weight", 1)],
        ..Self::PLAIN
    };

    /// Tokens are merged units of the image, the last of a row or column may be begun only.
    const UNITS: Self = Self {
        merge: ScaleFactor(1),
        image: |it, (width, height)| {
            let unit = it.hparams.token_side();
            width.div_ceil(unit) * height.div_ceil(unit)
        },
        width: SECOND,
        tensors: NORM_AND_TWO,
        ..Self::PLAIN
    };

    /// The rows of an image, with a token between them if the file has one.
    const ROWS: Self = Self {
        merge: SpatialMergeSize(1),
        dummy: Square(16),
        image: |it, (width, height)| {
            let side = it.hparams.token_side();
            let (x, y) = (width / side, height / side);
            let breaks = it.weights.global("v.token_embd.img_break").is_some();
            x * y + if breaks { y.saturating_sub(1) } else { 0 }
        },
        width: SECOND,
        graph: Some(|build| build.pixtral()),
        ..Self::PLAIN
    };

    /// Encoders of Whisper's kind.
    const WHISPER: Self = Self { audio: |_, frames| frames / 2, width: &[("mm.a.mlp.2.weight", 1)], ..Self::PLAIN };
}

macro_rules! projector_types {
    ($($variant:ident: $name:literal $(as $base:ident)? { $($field:ident: $value:expr),* $(,)? })*) => {
        /// The type of a projector.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum ProjectorType { $($variant,)* }

        impl ProjectorType {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
        }

        static ROWS: [ProjectorRow; ProjectorType::ALL.len()] =
            [$(ProjectorRow { name: $name, $($field: $value,)* ..base!($($base)?) }),*];
    };
}

/// The row that others are written after.
macro_rules! base {
    () => {
        ProjectorRow::PLAIN
    };
    ($base:ident) => {
        ProjectorRow::$base
    };
}

use ProjectorType as P;

projector_types! {
    Mlp: "mlp" {
        models: &["llama", "phi2", "phi3", "qwen2", "granite"],
        width: &[("mm.3.bias", 0), ("mm.2.weight", 1), ("mm.0.weight", 1)],
        tensors: Some(&["mm.0.??", "mm.1.??", "mm.2.??", "mm.3.??", "mm.4.??", "v.image_newline?"]),
        graph: Some(|build| build.llava()), traits: &[T::MaySwapNames],
    }
    Ldp: "ldp" {
        models: &["llama"],
        image: |it, size| it.patches(size) / 4,
        tensors: Some(&[
            "mm.model.mlp.1.*", "mm.model.mlp.3.*", "mm.model.mb_block.1.block.0.0.weight",
            "mm.model.mb_block.1.block.0.1.*", "mm.model.mb_block.1.block.1.fc1.*", "mm.model.mb_block.1.block.1.fc2.*",
            "mm.model.mb_block.1.block.2.0.weight", "mm.model.mb_block.1.block.2.1.*",
            "mm.model.mb_block.2.block.0.0.weight", "mm.model.mb_block.2.block.0.1.*",
            "mm.model.mb_block.2.block.1.fc1.*", "mm.model.mb_block.2.block.1.fc2.*",
            "mm.model.mb_block.2.block.2.0.weight", "mm.model.mb_block.2.block.2.1.*",
        ]),
        traits: &[T::MaySwapNames],
    }
    LdpV2: "ldpv2" {
        models: &["llama"],
        image: |it, size| it.patches(size) / 4,
        tensors: Some(&["mm.model.mlp.0.*", "mm.model.mlp.2.*", "mm.model.peg.0.*"]), traits: &[T::MaySwapNames],
    }
    MiniCpmV: "resampler" {
        models: &["llama", "minicpm", "qwen2", "qwen3"],
        pieces: |it, size, _| resampled(&it.hparams, size, false), image: |it, _| it.hparams.query_num,
        width: &[("resampler.proj.weight", 0)],
        tensors: Some(&[
            "resampler.pos_embed_k", "resampler.query", "resampler.proj.weight", "resampler.kv.weight",
            "resampler.attn.q.weight", "resampler.attn.k.weight", "resampler.attn.v.weight", "resampler.attn.q.bias",
            "resampler.attn.k.bias", "resampler.attn.v.bias", "resampler.attn.out.*", "resampler.ln_q.*",
            "resampler.ln_kv.*", "resampler.ln_post.*",
        ]),
        graph: Some(|build| build.minicpmv()), traits: &[T::MaySwapNames],
    }
    GlmEdge: "adapter" {
        models: &["chatglm", "glm4"],
        image: |it, size| it.patches(size) / 4 + 2 * u64::from(it.weights.global("adapter.boi").is_some()),
        tensors: Some(&[
            "adapter.conv.*", "adapter.linear.linear.weight", "adapter.linear.norm1.*",
            "adapter.linear.dense_h_to_4h.weight", "adapter.linear.gate.weight", "adapter.linear.dense_4h_to_h.weight",
            "adapter.boi", "adapter.eoi",
        ]),
        traits: &[T::MaySwapNames],
    }
    Qwen2Vl: "qwen2vl_merger" as SQUARES {
        models: &["qwen2vl", "llama"],
        hparams: |hp, keys| hp.windows(keys), graph: Some(|build| build.qwen2vl(Norm::Layer)),
        traits: &[T::MaySwapNames],
    }
    Qwen25Vl: "qwen2.5vl_merger" as SQUARES {
        models: &["qwen2vl"],
        hparams: |hp, keys| hp.needed_windows(keys), graph: Some(|build| build.qwen2vl(Norm::Rms)),
        traits: &[T::MaySwapNames],
    }
    Qwen3Vl: "qwen3vl_merger" as SQUARES {
        models: &["qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", "qwen4exp"],
        hparams: |hp, keys| hp.windows(keys), width: &[("mm.2.bias", 0)], graph: Some(|build| build.qwen3vl()),
        traits: &[T::Deepstack],
    }
    Ling3Vl: "ling3vl" as SQUARES {
        models: &["bailingmoe3"], tensors: Some(&["mm.input_norm.*", "mm.0.*", "mm.2.*"])
    }
    Step3Vl: "step3vl" {
        models: &["qwen3", "step35"],
        merge: ScaleFactor(4), image: |it, size| it.squares(size, it.hparams.n_merge),
        width: &[("mm.model.fc.weight", 1)], tensors: Some(&["mm.0.*?", "mm.1.*?", "mm.model.fc.weight"]),
    }
    Gemma3: "gemma3" {
        models: &["gemma3"],
        merge: ScaleFactor(4), image: Encoder::merged, width: &[("mm.input_projection.weight", 0)],
        tensors: Some(&["mm.input_projection.weight", "mm.soft_emb_norm.weight"]),
        graph: Some(|build| build.siglip(false, ClipGraph::gemma3)), traits: &[T::MaySwapNames, T::ReadAtOnce],
    }
    Gemma3Nv: "gemma3nv" {
        models: &["gemma3n"],
        merge: ScaleFactor(1), image: |it, _| it.hparams.image_size / it.hparams.patch_size,
        width: &[("mm.input_projection.weight", 0)],
    }
    Gemma3Na: "gemma3na" { models: &["gemma3n"] }
    Gemma4V: "gemma4v" as GEMMA4 {
        models: &["gemma4"],
        tensors: Some(&["mm.input_projection.weight", "v.std_bias?", "v.std_scale?"]), graph: Some(|build| build.gemma4v()),
        traits: &[T::EncodesBatches, T::ClampsProducts, T::NormsValues, T::ReadAtOnceIfLarge],
    }
    Gemma4A: "gemma4a" {
        models: &["gemma4"],
        audio: |_, frames| frames.div_ceil(2).div_ceil(2), width: &[("mm.a.input_projection.weight", 1)],
        tensors: Some(&[
            "a.conv1d.0.*?", "a.conv1d.0.norm.weight?", "a.conv1d.1.*?", "a.conv1d.1.norm.weight?",
            "a.input_projection.*?", "a.pre_encode.out.??", "mm.a.soft_emb_norm.weight?",
            "mm.a.input_projection.weight?",
        ]),
        in_blocks: &[
            "ffn_norm.weight", "attn_pre_norm.weight?", "per_dim_scale.weight?", "per_dim_k_scale.weight?",
            "attn_k_rel.weight?", "conv_norm.weight?", "conv_norm.bias?", "conv_pw1.weight", "conv_pw1.bias?",
            "conv_dw.weight", "conv_dw.bias?", "norm_conv.weight?", "norm_conv.bias?", "conv_pw2.weight",
            "conv_pw2.bias?", "ffn_norm_1.weight", "ffn_up_1.weight", "ffn_up_1.bias?", "ffn_down_1.weight",
            "ffn_down_1.bias?", "ffn_post_norm_1.weight?",
        ],
        graph: Some(|build| build.gemma4a()), traits: &[T::ClampsProducts],
    }
    Gemma4Uv: "gemma4uv" as GEMMA4 {
        models: &["gemma4"],
        hparams: |hp, _| hp.merging_convolution(),
        tensors: Some(&[
            "mm.input_projection.weight", "v.patch_norm.1.*", "v.patch_norm.2.*", "v.patch_norm.3.*",
        ]),
        graph: Some(|build| build.gemma4uv()), traits: &[T::ReadAtOnce],
    }
    Gemma4Ua: "gemma4ua" {
        models: &["gemma4"],
        width: &[("mm.a.input_projection.weight", 1)], tensors: Some(&["mm.a.input_projection.weight"]),
        graph: Some(|build| build.gemma4ua()), traits: &[T::ReadsSamples],
    }
    Phi4: "phi4" {
        models: &["phi3"],
        limits: Pixels, dummy: Square(16), width: SECOND, tensors: TWO,
        graph: Some(|build| build.siglip(true, ClipGraph::two_matrices)), compared: false,
    }
    Idefics3: "idefics3" {
        models: &["llama"],
        merge: ScaleFactor(1), limits: Options, hparams: |hp, keys| hp.longest_edge(keys, 0),
        pieces: |it, size, limits| idefics3(&it.hparams, size, limits), image: Encoder::merged,
        width: &[("mm.model.fc.weight", 1)], tensors: Some(&["mm.model.fc.weight"]),
        graph: Some(|build| build.siglip(false, ClipGraph::idefics3)), traits: &[T::MaySwapNames],
    }
    Pixtral: "pixtral" as ROWS {
        models: &["llama", "mistral3", "mistral4"],
        limits: Tokens(8, 1024),
        tensors: Some(&[
            "mm.1.*?", "mm.2.*?", "v.token_embd.img_break", "mm.input_norm.weight?", "mm.patch_merger.weight?",
        ]),
    }
    Ultravox: "ultravox" as WHISPER {
        models: &["llama", "gemma3", "qwen3", "glm4moe"],
        hparams: |hp, _| hp.stacked(), audio: |hp, frames| hp.stacks(frames) / 2,
        tensors: Some(&[
            "a.conv1d.1.*", "a.conv1d.2.*", "mm.a.mlp.1.weight", "mm.a.mlp.2.weight", "mm.a.norm_pre.weight",
            "mm.a.norm_mid.weight",
        ]),
        graph: Some(|build| build.whisper(ClipGraph::ultravox)), traits: &[T::StacksFrames, T::Whisper],
    }
    InternVl: "internvl" {
        models: &["internlm2", "llama", "phi3", "qwen2", "qwen3", "qwen3moe", "gpt-oss"],
        merge: ScaleFactor(1), hparams: |hp, keys| hp.grids_of_tiles(keys), image: Encoder::merged,
        width: &[("mm.model.mlp.3.weight", 1)],
        tensors: Some(&["mm.model.mlp.0.*", "mm.model.mlp.1.*", "mm.model.mlp.3.*"]), graph: Some(|build| build.internvl()),
        traits: &[T::EncodesBatches],
    }
    Llama4: "llama4" {
        models: &["llama4"],
        merge: ScaleFactor(1), hparams: |hp, _| hp.grids_up_to(3), image: Encoder::merged,
        width: &[("mm.model.fc.weight", 1)],
        tensors: Some(&["mm.model.fc.weight", "mm.model.mlp.1.weight", "mm.model.mlp.2.weight"]),
        graph: Some(|build| build.llama4()),
    }
    Qwen2A: "qwen2a" as WHISPER {
        models: &["qwen2"],
        audio: |_, frames| frames / 2 / 2, width: &[("mm.a.fc.weight", 1)],
        tensors: Some(&["a.conv1d.1.*", "a.conv1d.2.*", "mm.a.fc.*"]),
        graph: Some(|build| build.whisper(|build, x| build.linear(x, ["mm.a.fc.weight", "mm.a.fc.bias"]))),
        traits: &[T::AveragesPairs, T::Whisper],
    }
    Qwen3A: "qwen3a" as WHISPER {
        models: &["qwen3vl", "qwen3vlmoe"],
        audio: |_, frames| frames / 100 * 13,
        tensors: Some(&[
            "a.conv2d.1.*", "a.conv2d.2.*", "a.conv2d.3.*", "a.conv_out.weight", "mm.a.mlp.1.*", "mm.a.mlp.2.*",
        ]),
        traits: &[T::Whisper],
    }
    GlmA: "glma" as WHISPER {
        models: &["llama"],
        hparams: |hp, _| hp.stacked(), audio: |hp, frames| frames / 2 / hp.stack_factor.max(1) + 2,
        tensors: Some(&[
            "a.conv1d.1.*", "a.conv1d.2.*", "mm.a.mlp.1.*", "mm.a.mlp.2.*", "mm.a.norm_pre.*", "v.boi", "v.eoi",
        ]),
        graph: Some(|build| build.whisper(ClipGraph::glm_audio)), compared: false, traits: &[T::Whisper],
    }
    Qwen25O: "qwen2.5o" {
        models: &["qwen2vl"], encoders: Some([P::Qwen25Vl, P::Qwen2A])
    }
    Voxtral: "voxtral" as WHISPER {
        models: &["llama"],
        hparams: |hp, _| hp.stacked(), audio: |hp, frames| hp.stacks(frames) / 2 / 2,
        tensors: Some(&["a.conv1d.1.*", "a.conv1d.2.*", "mm.a.mlp.1.weight", "mm.a.mlp.2.weight"]),
        graph: Some(|build| build.whisper(ClipGraph::audio_matrices)), compared: false,
        traits: &[T::StacksFrames, T::AveragesPairs, T::Whisper],
    }
    Meralion: "meralion" as WHISPER {
        models: &["gemma2"],
        hparams: |hp, _| hp.stacked(), audio: |hp, frames| hp.stacks(frames) / 2, width: &[("mm.a.mlp.3.weight", 1)],
        tensors: Some(&[
            "a.conv1d.1.*", "a.conv1d.2.*", "mm.a.mlp.0.*", "mm.a.mlp.1.*", "mm.a.mlp.2.*", "mm.a.mlp.3.*",
            "mm.a.norm_pre.*",
        ]),
        graph: Some(|build| build.whisper(ClipGraph::meralion)), compared: false,
        traits: &[T::StacksFrames, T::Whisper],
    }
    MusicFlamingo: "musicflamingo" as WHISPER {
        models: &["qwen2"],
        audio: |_, frames| frames / 2 / 2,
        tensors: Some(&["a.conv1d.1.*", "a.conv1d.2.*", "mm.a.mlp.1.*", "mm.a.mlp.2.*"]),
        graph: Some(|build| build.whisper(ClipGraph::audio_matrices)), compared: false,
        traits: &[T::AveragesPairs, T::Whisper],
    }
    Lfm2: "lfm2" as UNITS {
        models: &["lfm2", "lfm2moe"],
        limits: Tokens(64, 256), dummy: Largest, pieces: |it, size, limits| lfm2(&it.hparams, size, limits),
        tensors: Some(&["mm.input_norm.??", "mm.1.*", "mm.2.*"]),
        graph: Some(|build| build.siglip(true, ClipGraph::lfm2)),
    }
    KimiVl: "kimivl" as UNITS {
        models: &["deepseek2"], limits: Tokens(8, 1024), dummy: Square(16), graph: Some(|build| build.kimivl())
    }
    PaddleOcr: "paddleocr" {
        models: &["paddleocr", "ernie4_5"],
        merge: Fixed(2), limits: Pixels, dummy: Square(28), image: Encoder::merges_begun, width: SECOND,
        tensors: NORM_AND_TWO,
    }
    LightOnOcr: "lightonocr" as ROWS {
        models: &["qwen3"],
        limits: Options, hparams: |hp, keys| hp.longest_edge(keys, hp.image_size),
        tensors: Some(&["mm.1.*?", "mm.2.*?", "mm.input_norm.weight?", "mm.patch_merger.weight?"]), compared: false,
    }
    CogVlm: "cogvlm" {
        models: &["cogvlm"],
        image: |it, size| it.patches(size) + 2,
        tensors: Some(&[
            "mm.model.fc.weight", "mm.post_fc_norm.*", "mm.up.weight", "mm.gate.weight", "mm.down.weight", "v.boi",
            "v.eoi",
        ]),
        compared: false, graph: Some(|build| build.cogvlm()),
    }
    JanusPro: "janus_pro" {
        models: &["llama"],
        width: &[("mm.1.bias", 0)], tensors: Some(&["mm.0.*", "mm.1.*"]),
        graph: Some(|build| build.siglip(false, ClipGraph::janus_pro)), compared: false,
    }
    DotsOcr: "dots_ocr" {
        models: &["qwen2"],
        merge: ScaleFactor(1), limits: Pixels, dummy: Square(46), image: Encoder::merges_begun, width: SECOND,
        tensors: Some(&["mm.0.*", "mm.2.*", "mm.input_norm.*", "mm.post_norm.weight"]),
    }
    Dots3NoteV: "dots3note_v" {
        models: &["dots3note"],
        merge: SpatialMergeSize(1), limits: Pixels, dummy: Square(46), image: Encoder::merges_begun, width: SECOND,
        tensors: Some(&["mm.0.*", "mm.2.*", "mm.input_norm.*", "mm.post_norm.weight"]),
    }
    Dots3NoteA: "dots3note_a" {
        models: &["dots3note"], audio: |_, frames| frames.div_ceil(8)
    }
    DeepSeekOcr: "deepseekocr" {
        models: &["deepseek2-ocr"], hparams: |hp, _| hp.sized(16, 1024)
    }
    DeepSeekOcr2: "deepseekocr2" {
        models: &["deepseek2-ocr"], hparams: |hp, _| hp.sized(16, 1024)
    }
    DeepSeek4V: "deepseek4v" {
        models: &["deepseek4"],
        merge: ScaleFactor(1), dummy: Square(16), width: SECOND,
        tensors: Some(&[
            "mm.1.*", "mm.2.*", "v.image_newline", "v.token_embd.img_start", "v.token_embd.img_end",
            "v.token_embd.img_pad",
        ]),
        traits: &[T::ReadAtOnce],
    }
    Lfm2A: "lfm2a" {
        models: &["lfm2"],
        audio: |_, frames| frames.div_ceil(2).div_ceil(2).div_ceil(2),
        tensors: Some(&[
            "a.conv1d.0.*", "a.conv1d.2.*", "a.conv1d.3.*", "a.conv1d.5.*", "a.conv1d.6.*", "a.pre_encode.out.*",
            "mm.a.mlp.0.*", "mm.a.mlp.1.*", "mm.a.mlp.3.*",
        ]),
        in_blocks: &[
            "ffn_norm.weight", "ffn_norm.bias", "ffn_norm_1.weight", "ffn_norm_1.bias", "ffn_up_1.weight",
            "ffn_up_1.bias", "ffn_down_1.weight", "ffn_down_1.bias", "pos_bias_u", "pos_bias_v", "norm_conv.weight",
            "norm_conv.bias", "linear_pos.weight", "conv_norm.weight", "conv_norm.bias", "conv_dw.weight",
            "conv_dw.bias", "conv_pw1.weight", "conv_pw1.bias", "conv_pw2.weight", "conv_pw2.bias",
        ],
    }
    Glm4V: "glm4v" as GLM { models: &["glm4", "glm4moe"] }
    Glm5V: "glm5v" as GLM {
        models: &["glm5-next"], limits: Pixels, compared: false, traits: &[T::LimitsPixelsByOptions]
    }
    YoutuVl: "youtuvl" as SQUARES {
        models: &["deepseek2"],
        limits: Tokens(1, 62_500), dummy: Square(16), tensors: Some(&["mm.input_norm.weight", "mm.0.*", "mm.2.*"]),
    }
    Yasa2: "yasa2" { image: |_, _| 64 }
    KimiK25: "kimik25" as UNITS {
        models: &["deepseek2", "glm-dsa"],
        limits: Tokens(2, 4096), dummy: Largest, graph: Some(|build| build.kimik25()), compared: false, traits: &[T::PrefersPixels],
    }
    NemotronV2Vl: "nemotron_v2_vl" {
        models: &["nemotron_h", "nemotron_h_moe"],
        merge: ScaleFactor(1), image: Encoder::merged, width: &[("mm.model.mlp.3.weight", 1)],
        tensors: Some(&["mm.model.mlp.0.weight", "mm.model.mlp.1.weight", "mm.model.mlp.3.weight"]),
    }
    Exaone45: "exaone4_5" as SQUARES {
        models: &["exaone4"],
        limits: Pixels, hparams: |hp, keys| hp.windows(keys), traits: &[T::MaySwapNames],
    }
    HunyuanVl: "hunyuanvl" {
        models: &["hunyuan_vl", "hunyuan-dense"],
        merge: SpatialMergeSize(2), limits: Tokens(256, 16_384), dummy: Square(32),
        image: |it, (width, height)| {
            let side = it.hparams.token_side();
            (width / side + 1) * (height / side) + 2
        },
        width: &[("mm.model.fc.weight", 1)],
        tensors: Some(&[
            "mm.0.*", "mm.2.*", "mm.model.fc.*", "mm.pre_norm.weight", "mm.post_norm.weight", "mm.image_begin",
            "mm.image_end", "v.image_newline", "v.view_seperator?",
        ]),
        traits: &[T::PrefersPixels],
    }
    MiniCpmV46: "minicpmv4_6" {
        models: &["qwen35"],
        merge: ScaleFactor(4), hparams: |hp, _| hp.merges_two_or_four(),
        pieces: |it, size, _| resampled(&it.hparams, size, it.hparams.n_merge == 2), image: Encoder::merged,
        width: &[("mm.down.weight", 1)],
        tensors: Some(&[
            "v.vit_merger.ln1.??", "v.vit_merger.attn_q.??", "v.vit_merger.attn_k.??", "v.vit_merger.attn_v.??",
            "v.vit_merger.attn_out.??", "v.vit_merger.ds_ln.??", "v.vit_merger.ds_ffn_up.??",
            "v.vit_merger.ds_ffn_down.??", "mm.input_norm.*?", "mm.up.*?", "mm.down.*?",
        ]),
        graph: Some(|build| build.minicpmv4_6()), compared: false, traits: &[T::MaySwapNames],
    }
    GraniteSpeech: "granite_speech" { models: &["granite", "granitehybrid"] }
    MimoVl: "mimovl" as SQUARES {
        models: &["mimo2"], limits: Pixels, tensors: Some(&["mm.0.*?", "mm.2.*?"])
    }
    MiniMaxM3: "minimax_m3" as SQUARES {
        models: &["minimax-m3"],
        limits: Tokens(8, 576), dummy: Square(16), width: &[],
        tensors: Some(&["mm.1.*", "mm.2.*", "mm.merger.fc1.*", "mm.merger.fc2.*"]),
    }
    Granite4Vision: "granite4_vision" { models: &["granite", "granitehybrid"] }
    MimoAudio: "mimo_audio" { models: &["mimo2"] }
    Parakeet: "parakeet" { models: &["nemotron_h", "nemotron_h_moe"] }
    Qwen3TtsSpkEnc: "qwen3tts_spkenc" { models: &["qwen3tts"] }
    Qwen3TtsGen: "qwen3tts_gen" { models: &["qwen3tts"] }
    PocketTtsSpkEnc: "pockettts_spkenc" { models: &["pockettts"] }
    PocketTtsGen: "pockettts_gen" { models: &["pockettts"] }
    MuseGlimmer: "muse-glimmer" as SQUARES {
        models: &["muse-glimmer"],
        limits: Tokens(1, 4096), dummy: Square(32), tensors: Some(&["mm.0.weight", "mm.1.weight", "mm.2.weight"]),
    }
}

impl ProjectorType {
    /// The type with this name in a header.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    pub(super) fn row(self) -> &'static ProjectorRow {
        &ROWS[self as usize]
    }

    /// Its name in a header.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether it belongs to models of this architecture, or nothing is known of that.
    pub fn is_of(self, architecture: &str) -> bool {
        let models = self.row().models;
        models.is_empty() || models.contains(&architecture)
    }

    /// The architectures of the models that it belongs to; none if they are not known.
    pub fn models(self) -> &'static [&'static str] {
        self.row().models
    }

    /// The type of the encoder that reads this.
    pub(super) fn encoder(self, modality: Modality) -> Self {
        self.row().encoders.map_or(self, |encoders| encoders[modality as usize])
    }

    /// Whether it has this trait.
    pub fn has(self, it: Trait) -> bool {
        self.row().traits.contains(&it)
    }

    /// Builds its graph, or that of the nearest type.
    pub(super) fn graph(self) -> fn(&mut ClipGraph<'_>) -> TensorId {
        self.row().graph.unwrap_or(|build| build.nearest())
    }

    /// Whether its graph is clip's own, and not that of the nearest type.
    pub fn is_exact(self) -> bool {
        self.row().graph.is_some()
    }

    /// Whether its graph follows clip's source, but there are no figures to check it by.
    pub fn is_unchecked(self) -> bool {
        self.is_exact() && !self.row().compared
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = ProjectorType::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), ProjectorType::ALL.len());
        assert!(ProjectorType::ALL.iter().all(|kind| ProjectorType::named(kind.name()) == Some(*kind)));
    }
}
