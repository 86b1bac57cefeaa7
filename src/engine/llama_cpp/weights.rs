//! A model's tensors by block and role, on which devices each may be, and the layouts in which RAM holds them.

mod block_weights;
mod name;

use std::mem;

use super::error::LoadError;
use crate::engine::ggml::{Backend, Tensor, Type};
use crate::gguf::Header;
pub use block_weights::BlockWeights;
pub(super) use block_weights::numbered;
pub(super) use name::split_block;

/// The suffix of a tensor's name: the matrix, its bias, the scale of its result, or the two matrices of its adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TensorSuffix {
    Weight,
    Bias,
    Scale,
    LoraA,
    LoraB,
}

/// The suffixes as files have them.
const SUFFIXES: [(&str, TensorSuffix); 5] = [
    (".weight", TensorSuffix::Weight),
    (".bias", TensorSuffix::Bias),
    (".scale", TensorSuffix::Scale),
    (".lora_a", TensorSuffix::LoraA),
    (".lora_b", TensorSuffix::LoraB),
];

macro_rules! slots {
    ($($variant:ident = $name:literal,)*) => {
        /// The role of a tensor. Names are those of GGUF files (`llama-arch.cpp`, 0.1.161).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum LlmTensor { $($variant,)* }

        impl LlmTensor {
            const COUNT: usize = [$($name,)*].len();

            /// All roles.
            #[cfg(test)]
            pub const ALL: [Self; Self::COUNT] = [$(Self::$variant,)*];

            fn named(name: &str) -> Option<Self> {
                Some(match name { $($name => Self::$variant,)* _ => return None })
            }

            /// The name in a file, without block and suffix.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

slots! {
    TokenEmbd = "token_embd",
    Output = "output",
    OutputNorm = "output_norm",
    TokenEmbdNorm = "token_embd_norm",
    TokenTypes = "token_types",
    PositionEmbd = "position_embd",
    RopeFreqs = "rope_freqs",
    RopeLong = "rope_factors_long",
    RopeShort = "rope_factors_short",
    PerLayerTokenEmbd = "per_layer_token_embd",
    PerLayerModelProj = "per_layer_model_proj",
    PerLayerProjNorm = "per_layer_proj_norm",
    AttnNorm = "attn_norm",
    AttnQ = "attn_q",
    AttnK = "attn_k",
    AttnV = "attn_v",
    AttnQkv = "attn_qkv",
    AttnOutput = "attn_output",
    AttnQNorm = "attn_q_norm",
    AttnKNorm = "attn_k_norm",
    AttnPostNorm = "post_attention_norm",
    AttnOutNorm = "attn_output_norm",
    AttnOutA = "attn_output_a",
    AttnOutB = "attn_output_b",
    AttnCompressorKv = "attn_compressor_kv",
    AttnCompressorGate = "attn_compressor_gate",
    AttnCompressorApe = "attn_compressor_ape",
    AttnCompressorNorm = "attn_compressor_norm",
    AttnNorm2 = "attn_norm_2",
    AttnSinks = "attn_sinks",
    AttnGate = "attn_gate",
    AttnQA = "attn_q_a",
    AttnQB = "attn_q_b",
    AttnKv = "attn_kv",
    AttnKvAMqa = "attn_kv_a_mqa",
    AttnKvB = "attn_kv_b",
    AttnKB = "attn_k_b",
    AttnVB = "attn_v_b",
    AttnQANorm = "attn_q_a_norm",
    AttnKvANorm = "attn_kv_a_norm",
    IndexerKNorm = "indexer.k_norm",
    IndexerProj = "indexer.proj",
    IndexerQProj = "indexer.q_proj",
    IndexerKProj = "indexer.k_proj",
    IndexerQNorm = "indexer.q_norm",
    IndexerAttnK = "indexer.attn_k",
    IndexerAttnQB = "indexer.attn_q_b",
    IndexerCompressorKv = "indexer_compressor_kv",
    IndexerCompressorGate = "indexer_compressor_gate",
    IndexerCompressorApe = "indexer_compressor_ape",
    IndexerCompressorNorm = "indexer_compressor_norm",
    FfnNorm = "ffn_norm",
    FfnGate = "ffn_gate",
    FfnUp = "ffn_up",
    FfnDown = "ffn_down",
    FfnAct = "ffn.act.scales",
    FfnPostNorm = "post_ffw_norm",
    LayerOutNorm = "layer_output_norm",
    FfnPreNorm2 = "pre_ffw_norm_2",
    FfnPostNorm1 = "post_ffw_norm_1",
    FfnPostNorm2 = "post_ffw_norm_2",
    FfnGateInp = "ffn_gate_inp",
    FfnGateInpShexp = "ffn_gate_inp_shexp",
    FfnGateTid2Eid = "ffn_gate_tid2eid",
    FfnGateExps = "ffn_gate_exps",
    FfnUpExps = "ffn_up_exps",
    FfnGateUpExps = "ffn_gate_up_exps",
    FfnDownExps = "ffn_down_exps",
    FfnGateChexps = "ffn_gate_chexps",
    FfnUpChexps = "ffn_up_chexps",
    FfnDownChexps = "ffn_down_chexps",
    FfnNormExps = "ffn_norm_exps",
    FfnSubNorm = "ffn_sub_norm",
    AttnSubNorm = "attn_sub_norm",
    FfnGateShexp = "ffn_gate_shexp",
    FfnUpShexp = "ffn_up_shexp",
    FfnDownShexp = "ffn_down_shexp",
    FfnLatentDown = "ffn_latent_down",
    FfnLatentUp = "ffn_latent_up",
    FfnRoutedDown = "ffn_routed_down",
    FfnRoutedUp = "ffn_routed_up",
    FfnRoutedNorm = "ffn_routed_norm",
    AttnResScore = "attn_res_score",
    FfnResScore = "ffn_res_score",
    OutputResScore = "output_res_score",
    ExpProbsB = "exp_probs_b",
    LayerOutScale = "layer_output_scale",
    HcHeadFn = "output_hc_fn",
    HcHeadBase = "output_hc_base",
    HcHeadScale = "output_hc_scale",
    HcAttnFn = "hc_attn_fn",
    HcAttnBase = "hc_attn_base",
    HcAttnScale = "hc_attn_scale",
    HcFfnFn = "hc_ffn_fn",
    HcFfnBase = "hc_ffn_base",
    HcFfnScale = "hc_ffn_scale",
    HcHeadNorm = "output_hc_norm",
    HcHeadDown = "output_hc_down",
    HcHeadUp = "output_hc_up",
    HcAttnNorm = "hc_attn_norm",
    HcAttnDown = "hc_attn_down",
    HcAttnUp = "hc_attn_up",
    HcAttnInject = "hc_attn_inject",
    HcFfnNorm = "hc_ffn_norm",
    HcFfnDown = "hc_ffn_down",
    HcFfnUp = "hc_ffn_up",
    HcFfnInject = "hc_ffn_inject",
    PleKey = "ple_key",
    PleValue = "ple_value",
    PleNormKey = "ple_norm_key",
    PleNormQuery = "ple_norm_query",
    PleNormConv = "ple_norm_conv",
    PleConv1d = "ple_conv1d",
    AltupProj = "altup_proj",
    AltupUnembdProj = "altup_unembd_proj",
    AltupCorrectCoef = "altup_correct_coef",
    AltupCorrectScale = "altup_correct_scale",
    AltupPredictCoef = "altup_predict_coef",
    AltupRouter = "altup_router",
    AltupRouterNorm = "altup_router_norm",
    LaurelL = "laurel_l",
    LaurelR = "laurel_r",
    LaurelPostNorm = "laurel_post_norm",
    PerLayerInpGate = "inp_gate",
    PerLayerProj = "proj",
    PerLayerPostNorm = "post_norm",
    SsmIn = "ssm_in",
    SsmConv1d = "ssm_conv1d",
    SsmX = "ssm_x",
    SsmDt = "ssm_dt",
    SsmDtNorm = "ssm_dt_norm",
    SsmBNorm = "ssm_b_norm",
    SsmCNorm = "ssm_c_norm",
    SsmA = "ssm_a",
    SsmD = "ssm_d",
    SsmNorm = "ssm_norm",
    SsmOut = "ssm_out",
    SsmBetaAlpha = "ssm_ba",
    SsmBeta = "ssm_beta",
    SsmAlpha = "ssm_alpha",
    SsmConv1dQ = "ssm_conv1d_q",
    SsmConv1dK = "ssm_conv1d_k",
    SsmConv1dV = "ssm_conv1d_v",
    SsmFA = "ssm_f_a",
    SsmFB = "ssm_f_b",
    SsmGA = "ssm_g_a",
    SsmGB = "ssm_g_b",
    SsmG = "ssm_g",
    TimeMixW0 = "time_mix_w0",
    TimeMixW1 = "time_mix_w1",
    TimeMixW2 = "time_mix_w2",
    TimeMixA0 = "time_mix_a0",
    TimeMixA1 = "time_mix_a1",
    TimeMixA2 = "time_mix_a2",
    TimeMixV0 = "time_mix_v0",
    TimeMixV1 = "time_mix_v1",
    TimeMixV2 = "time_mix_v2",
    TimeMixG1 = "time_mix_g1",
    TimeMixG2 = "time_mix_g2",
    TimeMixKK = "time_mix_k_k",
    TimeMixKA = "time_mix_k_a",
    TimeMixRK = "time_mix_r_k",
    TimeMixLerpX = "time_mix_lerp_x",
    TimeMixLerpW = "time_mix_lerp_w",
    TimeMixLerpK = "time_mix_lerp_k",
    TimeMixLerpV = "time_mix_lerp_v",
    TimeMixLerpR = "time_mix_lerp_r",
    TimeMixLerpG = "time_mix_lerp_g",
    TimeMixLerpFused = "time_mix_lerp_fused",
    TimeMixFirst = "time_mix_first",
    TimeMixDecay = "time_mix_decay",
    TimeMixDecayW1 = "time_mix_decay_w1",
    TimeMixDecayW2 = "time_mix_decay_w2",
    TimeMixKey = "time_mix_key",
    TimeMixValue = "time_mix_value",
    TimeMixReceptance = "time_mix_receptance",
    TimeMixGate = "time_mix_gate",
    TimeMixLn = "time_mix_ln",
    TimeMixOutput = "time_mix_output",
    ChannelMixLerpK = "channel_mix_lerp_k",
    ChannelMixLerpR = "channel_mix_lerp_r",
    ChannelMixKey = "channel_mix_key",
    ChannelMixValue = "channel_mix_value",
    ChannelMixReceptance = "channel_mix_receptance",
    ShortConvConv = "shortconv.conv",
    ShortConvIn = "shortconv.in_proj",
    ShortConvOut = "shortconv.out_proj",
    NextnEhProj = "nextn.eh_proj",
    NextnEnorm = "nextn.enorm",
    NextnHnorm = "nextn.hnorm",
    NextnEmbedTokens = "nextn.embed_tokens",
    NextnSharedHeadHead = "nextn.shared_head_head",
    NextnSharedHeadNorm = "nextn.shared_head_norm",
    NextnHcHeadNorm = "nextn.hc_head_norm",
    NextnHcHeadDown = "nextn.hc_head_down",
    NextnHcHeadUp = "nextn.hc_head_up",
    NextnProjPre = "nextn.pre_projection",
    NextnProjPost = "nextn.post_projection",
    MaskedEmbdCentroids = "masked_embd_centroids",
    MaskedEmbdOrdering = "masked_embd_ordering",
    Fc = "fc",
    EncOutputNorm = "enc.output_norm",
    EncAttnNorm = "enc.attn_norm",
    EncAttnRelB = "enc.attn_rel_b",
    EncAttnQ = "enc.attn_q",
    EncAttnK = "enc.attn_k",
    EncAttnV = "enc.attn_v",
    EncAttnO = "enc.attn_o",
    EncFfnNorm = "enc.ffn_norm",
    EncFfnGate = "enc.ffn_gate",
    EncFfnUp = "enc.ffn_up",
    EncFfnDown = "enc.ffn_down",
    AttnRelB = "attn_rel_b",
    AttnO = "attn_o",
    CrossAttnNorm = "cross_attn_norm",
    CrossAttnRelB = "cross_attn_rel_b",
    CrossAttnQ = "cross_attn_q",
    CrossAttnK = "cross_attn_k",
    CrossAttnV = "cross_attn_v",
    CrossAttnO = "cross_attn_o",
    HrmZLInit = "hrm.z_l_init",
    D2t = "d2t",
    DsparkMarkovW1 = "markov_w1",
    DsparkMarkovW2 = "markov_w2",
    DsparkConfProj = "conf_proj",
    DflashAttnConvBase = "attn_conv_base",
    DflashAttnConvProj = "attn_conv_proj",
    DflashFfnConvBase = "ffn_conv_base",
    DflashFfnConvProj = "ffn_conv_proj",
    DflashSelectorPrev = "selector_predecessor",
    DflashSelectorNext = "selector_successor",
    DflashSelectorHidden = "selector_hidden",
}

impl LlmTensor {
    /// Tensors of the input layer, which llama.cpp always keeps in RAM (`load_tensors` in `llama-model.cpp`, 0.1.161).
    pub const INPUT_LAYER: [Self; 6] = [
        Self::TokenEmbd,
        Self::PerLayerTokenEmbd,
        Self::PositionEmbd,
        Self::TokenTypes,
        Self::MaskedEmbdCentroids,
        Self::MaskedEmbdOrdering,
    ];

    /// Factors of rotary positions, of which every device that uses them has a copy.
    pub const fn is_rope_factors(self) -> bool {
        matches!(self, Self::RopeFreqs | Self::RopeLong | Self::RopeShort)
    }

    /// Model-wide tensors of drafts that belong to the output layer (`LLM_TENSOR_INFOS` in `llama-arch.cpp`, 0.1.161).
    pub const fn is_in_output_layer_of_draft(self) -> bool {
        matches!(
            self,
            Self::Fc
                | Self::EncOutputNorm
                | Self::D2t
                | Self::NextnProjPost
                | Self::DsparkMarkovW1
                | Self::DsparkMarkovW2
                | Self::DsparkConfProj
                | Self::DflashSelectorPrev
                | Self::DflashSelectorNext
                | Self::DflashSelectorHidden
        )
    }
}

/// A tensor of the file.
#[derive(Clone, Debug)]
pub struct Weight {
    /// Its block; none for model-wide tensors.
    pub block: Option<usize>,
    /// Its role, if known.
    pub role: Option<(LlmTensor, TensorSuffix)>,
    /// Index into [`Header::tensors`].
    pub index: usize,
    /// Element type.
    pub ty: Type,
    /// Shape.
    pub ne: [u64; 4],
    /// Size in the file, in bytes.
    pub bytes: u64,
    /// Which file of a split model it is in.
    pub file: usize,
    /// Where it begins in the file, from the first tensor on.
    pub start: u64,
    /// Those of its role that follow one another with its type and shape: an index into [`Weights::kinds`].
    pub kind: usize,
}

impl Weight {
    /// Bytes in a layout that has so many for this type and shape: more, or fewer, if the file does.
    pub fn in_layout(&self, bytes: u64) -> u64 {
        bytes.saturating_add(self.bytes).saturating_sub(Tensor::new(self.ty, self.ne).bytes())
    }

    /// Bytes on a device of this kind.
    pub fn on(&self, backend: &dyn Backend) -> u64 {
        backend.align(self.bytes.saturating_add(backend.padding(self.ty, self.ne[0])))
    }
}

type TensorTable = [[u32; SUFFIXES.len()]; LlmTensor::COUNT];

/// All tensors of a file.
#[derive(Clone, Debug)]
pub struct Weights {
    /// In file order.
    pub all: Vec<Weight>,
    /// Of the weights of a role that follow one another with one type and shape the first: indices into `all`.
    pub kinds: Vec<usize>,
    /// Per block, then model-wide.
    table: Vec<TensorTable>,
    /// Per block.
    pub block_kinds: Vec<BlockWeights>,
}

impl Weights {
    /// Indexes the tensors of `header`, which has `blocks` blocks, and output matrices of attention in `groups` groups; zero
    /// for none.
    ///
    /// # Errors
    /// When a tensor has more than four dimensions or an empty one.
    pub fn read(header: &Header, blocks: usize, groups: u64) -> Result<Self, LoadError> {
        let mut weights = Self {
            all: Vec::with_capacity(header.tensors.len()),
            kinds: Vec::new(),
            table: vec![[[u32::MAX; SUFFIXES.len()]; LlmTensor::COUNT]; blocks + 1],
            block_kinds: Vec::new(),
        };
        // tensors follow one another in the order of the header (`gguf_init_from_file_impl` in `gguf.cpp`, 0.1.161)
        let (alignment, mut start) = (header.alignment(), 0);
        let mut last: TensorTable = [[u32::MAX; SUFFIXES.len()]; LlmTensor::COUNT];
        for (index, tensor) in header.tensors.iter().enumerate() {
            let (block, rest) = split_block(&tensor.name);
            let role = role(&rest);
            let mut ne = [1; 4];
            if tensor.dims.len() > 4 || tensor.dims.contains(&0) {
                return Err(LoadError::model(format!("tensor {} has a shape that ggml does not support", tensor.name)));
            }
            ne[..tensor.dims.len()].copy_from_slice(&tensor.dims);
            if role == Some((LlmTensor::AttnOutA, TensorSuffix::Weight)) {
                ne = in_groups(ne, groups);
            }
            let row = block.unwrap_or(blocks);
            if let (Some((slot, part)), Some(row)) = (role, weights.table.get_mut(row)) {
                row[slot as usize][part as usize] = index as u32;
            }
            let (ty, bytes) = (tensor.ty, tensor.bytes.0);
            let before = role.map(|(slot, part)| mem::replace(&mut last[slot as usize][part as usize], index as u32));
            let before = before.and_then(|before| weights.all.get(before as usize));
            let kind = before.filter(|before| before.ty == ty && before.ne == ne).map(|before| before.kind);
            let kind = kind.unwrap_or_else(|| {
                weights.kinds.push(index);
                weights.kinds.len() - 1
            });
            weights.all.push(Weight { block, role, index, ty, ne, bytes, file: 0, start, kind });
            start = (start + bytes).next_multiple_of(alignment);
        }
        weights.block_kinds = BlockWeights::of_all(&weights.all, blocks);
        Ok(weights)
    }

    /// Index into [`Self::all`] of the tensor of block `il` with this role.
    pub fn find(&self, il: usize, slot: LlmTensor, part: TensorSuffix) -> Option<usize> {
        let index = self.table.get(il)?[slot as usize][part as usize];
        (index != u32::MAX).then_some(index as usize)
    }

    /// Whether any block has a weight with this role.
    pub fn has(&self, slot: LlmTensor) -> bool {
        self.table.iter().any(|row| row[slot as usize][TensorSuffix::Weight as usize] != u32::MAX)
    }

    /// Index into [`Self::all`] of the model-wide tensor with this role.
    pub fn find_global(&self, slot: LlmTensor, part: TensorSuffix) -> Option<usize> {
        self.find(self.table.len() - 1, slot, part)
    }
}

/// The shape of a matrix whose rows llama.cpp reads as one matrix per group, if they are so many times a number
/// (`TENSOR_ALLOW_RESHAPE` in `models/deepseek4.cpp`, 0.1.161).
fn in_groups(ne: [u64; 4], groups: u64) -> [u64; 4] {
    let [wide, rows, more, 1] = ne else { return ne };
    let all = rows * more;
    if groups > 0 && all.is_multiple_of(groups) { [wide, all / groups, groups, 1] } else { ne }
}

/// The role of a tensor from its name without block.
fn role(name: &str) -> Option<(LlmTensor, TensorSuffix)> {
    SUFFIXES
        .into_iter()
        .find_map(|(suffix, part)| Some((LlmTensor::named(name.strip_suffix(suffix)?)?, part)))
        .or_else(|| Some((LlmTensor::named(name)?, TensorSuffix::Weight)))
}
