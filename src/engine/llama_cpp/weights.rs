//! A model's tensors by block and role, on which devices each may be, and the layouts in which RAM holds them.

use std::borrow::Cow;

use super::architectures::Trait;
use super::error::LoadError;
use super::hparams::Hparams;
use super::{Device, LoadedModel};
use crate::engine::ggml::tensor::{BackendId, Buffer, Op};
use crate::engine::ggml::{Backend, Graph, Tensor, Type};
use crate::gguf::{self, Header};
use crate::machine::CpuInstructions;

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
}

impl Weight {
    /// Bytes on a device of this kind.
    pub fn on(&self, backend: &dyn Backend) -> u64 {
        backend.align(backend.bytes(&Tensor::new(self.ty, self.ne)))
    }
}

type TensorTable = [[u32; SUFFIXES.len()]; LlmTensor::COUNT];

/// All tensors of a file.
#[derive(Clone, Debug)]
pub struct Weights {
    /// In file order.
    pub all: Vec<Weight>,
    /// Per block, then model-wide.
    table: Vec<TensorTable>,
}

impl Weights {
    /// Indexes the tensors of `header`, which has `blocks` blocks.
    ///
    /// # Errors
    /// When a tensor has more than four dimensions or an empty one.
    pub fn read(header: &Header, blocks: usize) -> Result<Self, LoadError> {
        let mut weights = Self {
            all: Vec::with_capacity(header.tensors.len()),
            table: vec![[[u32::MAX; SUFFIXES.len()]; LlmTensor::COUNT]; blocks + 1],
        };
        // tensors follow one another in the order of the header (`gguf_init_from_file_impl` in `gguf.cpp`, 0.1.161)
        let (alignment, mut start) = (header.alignment(), 0);
        for (index, tensor) in header.tensors.iter().enumerate() {
            let (block, rest) = split_block(&tensor.name);
            let role = role(&rest);
            let mut ne = [1; 4];
            if tensor.dims.len() > 4 || tensor.dims.contains(&0) {
                return Err(LoadError::model(format!("tensor {} has a shape that ggml does not support", tensor.name)));
            }
            ne[..tensor.dims.len()].copy_from_slice(&tensor.dims);
            let row = block.unwrap_or(blocks);
            if let (Some((slot, part)), Some(row)) = (role, weights.table.get_mut(row)) {
                row[slot as usize][part as usize] = index as u32;
            }
            let bytes = Tensor::new(tensor.ty, ne).bytes();
            weights.all.push(Weight { block, role, index, ty: tensor.ty, ne, bytes, file: 0, start });
            start = (start + bytes).next_multiple_of(alignment);
        }
        Ok(weights)
    }

    /// Splits the rows of matrices with this role into `groups`, as llama.cpp does that reads them as one per group
    /// (`TENSOR_ALLOW_RESHAPE` in `models/deepseek4.cpp`, 0.1.161).
    pub fn split_groups(&mut self, slot: LlmTensor, groups: u64) {
        for weight in &mut self.all {
            let [wide, rows, more, 1] = weight.ne else { continue };
            let all = rows * more;
            if weight.role == Some((slot, TensorSuffix::Weight)) && groups > 0 && all.is_multiple_of(groups) {
                weight.ne = [wide, all / groups, groups, 1];
            }
        }
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

/// Splits `blk.7.attn_q.weight` into 7 and `attn_q.weight`. A decoder's tensors have the names of other models', an
/// encoder's begin with `enc.`.
fn split_block(name: &str) -> (Option<usize>, Cow<'_, str>) {
    let (encoder, own) = match name.strip_prefix("enc.") {
        Some(own) => (true, own),
        None => (false, name.strip_prefix("dec.").unwrap_or(name)),
    };
    let block = own.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    let block = block.and_then(|(number, rest)| Some((number.parse().ok()?, rest)));
    match block {
        Some((number, rest)) if encoder => (Some(number), Cow::Owned(format!("enc.{rest}"))),
        Some((number, rest)) => (Some(number), Cow::Borrowed(rest)),
        None => (None, Cow::Borrowed(if encoder { name } else { own })),
    }
}

/// The role of a tensor from its name without block.
fn role(name: &str) -> Option<(LlmTensor, TensorSuffix)> {
    SUFFIXES
        .into_iter()
        .find_map(|(suffix, part)| Some((LlmTensor::named(name.strip_suffix(suffix)?)?, part)))
        .or_else(|| Some((LlmTensor::named(name)?, TensorSuffix::Weight)))
}

// Which weights a device cannot use: they go to RAM, whatever the device of their layer (`weight_buft_supported` in
// `llama-model-loader.cpp`, 0.1.161).

/// Tokens of the operation that a weight is tried with.
const TOKENS: u64 = 512;
/// Sequences of a state-space operation that a weight is tried with.
const SEQUENCES: u64 = 3;

/// An operation, and type and shape of a weight.
type TriedWeight = (Op, Type, [u64; 4]);

/// The weights that GPUs refuse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeightHomes {
    /// Per GPU, indices into [`Weights::all`], ascending.
    refused: Vec<Vec<usize>>,
    /// Per GPU, whether it refuses the token embeddings as output matrix.
    refuses_tied_output: Vec<bool>,
    /// Bytes of the weights that the CPU repacks where they are in RAM, by index into [`Weights::all`]; empty if none.
    repacked: Vec<Option<u64>>,
    /// The same of the token embeddings as output matrix.
    repacked_tied_output: Option<u64>,
}

impl WeightHomes {
    /// The weights of `model` that `devices` refuse, and those for which the CPU has `layouts`.
    pub fn new(model: &LoadedModel, devices: &[Device], layouts: Layouts) -> Self {
        let mut homes = Self::default();
        let tied = model.weights.find_global(LlmTensor::TokenEmbd, TensorSuffix::Weight);
        if layouts.instructions != CpuInstructions::None {
            let repacked = |weight: &Weight| layouts.bytes(operation(weight, model)?, weight);
            homes.repacked = model.weights.all.iter().map(repacked).collect();
            homes.repacked_tied_output = tied.and_then(|at| layouts.bytes(Op::MulMat, &model.weights.all[at]));
        }
        let mut graph = Graph::default();
        for device in devices {
            let mut tried: Vec<(TriedWeight, bool)> = Vec::new();
            let mut refuses = |op: Op, weight: &Weight| {
                let key = (op, weight.ty, weight.ne);
                if let Some((_, known)) = tried.iter().find(|(other, _)| *other == key) {
                    return *known;
                }
                let refused = !can_use(&*device.backend, op, weight, &model.hparams, &mut graph);
                tried.push((key, refused));
                refused
            };
            let refused = |(at, weight): (usize, &Weight)| refuses(operation(weight, model)?, weight).then_some(at);
            homes.refused.push(model.weights.all.iter().enumerate().filter_map(refused).collect());
            let output = tied.map(|index| &model.weights.all[index]);
            homes.refuses_tied_output.push(output.is_some_and(|output| refuses(Op::MulMat, output)));
        }
        homes
    }

    /// Whether `device` cannot use the weight with this index. The CPU uses all.
    pub fn refuses(&self, device: BackendId, index: usize) -> bool {
        self.refused.get(usize::from(device)).is_some_and(|refused| refused.binary_search(&index).is_ok())
    }

    /// Bytes of the weight with this index in a layout of the CPU's own, if it has one.
    pub fn repacked(&self, index: usize) -> Option<u64> {
        self.repacked.get(index).copied().flatten()
    }

    /// The same of the token embeddings as output matrix.
    pub fn repacked_tied_output(&self) -> Option<u64> {
        self.repacked_tied_output
    }

    /// Whether any GPU refuses any weight.
    pub fn refuses_any(&self) -> bool {
        self.refused.iter().any(|refused| !refused.is_empty())
    }

    /// Whether `device` cannot use the token embeddings as output matrix.
    pub fn refuses_tied_output(&self, device: BackendId) -> bool {
        self.refuses_tied_output.get(usize::from(device)).copied().unwrap_or(false)
    }
}

/// The operation that a weight is used in, if a device may refuse it (`LLM_TENSOR_INFOS` in `llama-arch.cpp`, 0.1.161).
fn operation(weight: &Weight, model: &LoadedModel) -> Option<Op> {
    let slot = match weight.role? {
        (slot, TensorSuffix::Weight) => slot,
        (_, TensorSuffix::LoraA | TensorSuffix::LoraB) => return Some(Op::MulMatId),
        _ => return None,
    };
    Some(match slot {
        LlmTensor::TokenEmbd
        | LlmTensor::PositionEmbd
        | LlmTensor::TokenTypes
        | LlmTensor::PerLayerTokenEmbd
        | LlmTensor::NextnEmbedTokens
        | LlmTensor::AttnRelB
        | LlmTensor::EncAttnRelB
        | LlmTensor::D2t
        | LlmTensor::AttnCompressorApe
        | LlmTensor::IndexerCompressorApe
        | LlmTensor::FfnGateTid2Eid
        | LlmTensor::DsparkMarkovW1
        | LlmTensor::DflashSelectorPrev
        | LlmTensor::DflashSelectorNext => Op::GetRows,
        LlmTensor::FfnGateExps
        | LlmTensor::FfnUpExps
        | LlmTensor::FfnGateUpExps
        | LlmTensor::FfnDownExps
        | LlmTensor::FfnGateChexps
        | LlmTensor::FfnUpChexps
        | LlmTensor::FfnDownChexps => Op::MulMatId,
        LlmTensor::HcAttnNorm
        | LlmTensor::HcFfnNorm
        | LlmTensor::HcHeadNorm
        | LlmTensor::PleNormKey
        | LlmTensor::PleNormQuery
        | LlmTensor::PleNormConv
        | LlmTensor::NextnHnorm
        | LlmTensor::NextnHcHeadNorm => Op::Mul,
        LlmTensor::SsmConv1d | LlmTensor::ShortConvConv | LlmTensor::PleConv1d => Op::SsmConv,
        // that of delta nets is a factor, and no operand of a scan
        LlmTensor::SsmA if model.hparams.n_embd_head_kda > 0 => return None,
        // PLaMo 2's has one dimension
        LlmTensor::SsmA if weight.ne[1] > 1 || model.family.architecture.has(Trait::DecayIsScanned) => Op::SsmScan,
        _ if weight.ne[1] > 1 && slot != LlmTensor::SsmD => Op::MulMat,
        _ => return None,
    })
}

/// Whether `backend` can compute `op` with `weight`.
fn can_use(backend: &dyn Backend, op: Op, weight: &Weight, hparams: &Hparams, graph: &mut Graph) -> bool {
    graph.clear();
    let [rows, columns, x, y] = weight.ne;
    let w = graph.given(weight.ty, weight.ne, Buffer::Unallocated, "", -1);
    let mut operand = |ty: Type, ne: [u64; 4]| graph.input(ty, ne, "");
    let result = match op {
        Op::GetRows => {
            let ids = operand(Type::I32, [TOKENS, 1, 1, 1]);
            graph.get_rows(w, ids)
        }
        Op::MulMatId => {
            let used = hparams.n_expert_used.iter().copied().max().unwrap_or(1).max(1);
            let input = operand(Type::F32, [rows, used, TOKENS, 1]);
            let ids = operand(Type::I32, [used, TOKENS, 1, 1]);
            graph.mul_mat_id(w, input, ids)
        }
        Op::Mul => {
            let input = operand(Type::F32, weight.ne);
            graph.mul(input, w)
        }
        Op::SsmConv => {
            let input = operand(Type::F32, [rows + TOKENS - 1, columns, SEQUENCES, 1]);
            graph.ssm_conv(input, w)
        }
        Op::SsmScan => {
            let state = if rows == 1 { hparams.ssm.d_state } else { rows };
            let (heads, groups) = (columns, hparams.ssm.n_group.max(1));
            let head = hparams.ssm.d_inner / heads.max(1);
            let s = operand(Type::F32, [state, head, heads, SEQUENCES]);
            let x = operand(Type::F32, [head, heads, TOKENS, SEQUENCES]);
            let dt = operand(Type::F32, [heads, TOKENS, SEQUENCES, 1]);
            let [b, c] = [0; 2].map(|_| operand(Type::F32, [state, groups, TOKENS, SEQUENCES]));
            let ids = operand(Type::I32, [SEQUENCES, 1, 1, 1]);
            graph.ssm_scan([s, x, dt, w, b, c, ids], 1)
        }
        _ => {
            let input = operand(Type::F32, [rows, TOKENS, x, y]);
            graph.mul_mat(w, input)
        }
    };
    backend.supports(graph, &graph[result])
}

impl Weights {
    /// Whether RAM holds the token embeddings twice if they are the output matrix too: as rows to look up and as a
    /// matrix they are in different buffers if a GPU can use one of the two from its host buffer and not the other.
    pub fn embeddings_twice_in_ram(&self, homes: &WeightHomes) -> bool {
        let embeddings = self.find_global(LlmTensor::TokenEmbd, TensorSuffix::Weight);
        embeddings.is_some_and(|index| homes.refuses(0, index) != homes.refuses_tied_output(0))
    }
}

// Weights that the CPU computes with in a layout of its own: llama.cpp writes them into buffers beside the file
// (`CPU_REPACK`, and `AMX`), unless a GPU offers host buffers, which come first (`make_cpu_buft_list` in
// `llama-model.cpp`, `ggml-cpu/repack.cpp` and `ggml-cpu/amx/`, 0.1.161). Builds with `KleidiAI` or for other
// processors have further layouts, which are not planned.

/// The layouts that a build of llama.cpp has for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layouts {
    /// The CPU's instructions.
    pub instructions: CpuInstructions,
    /// There is one of one-bit weights for ARM (from 0.1.159 on).
    pub one_bit: bool,
}

impl Layouts {
    /// Bytes that `weight` takes in a layout of its own as the weight of `op`; none if it stays as it is in the file.
    pub(super) fn bytes(self, op: Op, weight: &Weight) -> Option<u64> {
        self.layout(op, weight.ty, weight.ne)
    }

    /// Whether experts that are in RAM get a layout of the CPU's own.
    pub fn takes_experts(self, tensor: &gguf::Tensor) -> bool {
        self.layout(Op::MulMatId, tensor.ty, sides(tensor)).is_some()
    }

    /// Whether a matrix that is in RAM gets one.
    pub fn takes_matrix(self, tensor: &gguf::Tensor) -> bool {
        self.layout(Op::MulMat, tensor.ty, sides(tensor)).is_some()
    }

    fn layout(self, op: Op, ty: Type, ne: [u64; 4]) -> Option<u64> {
        self.amx(op, ty, ne).or_else(|| self.repacks(op, ty, ne).then(|| Tensor::new(ty, ne).bytes()))
    }

    /// As `ggml_repack_get_optimal_repack_type` chooses, and `supports_op` allows: products with whole groups of rows.
    fn repacks(self, op: Op, ty: Type, ne: [u64; 4]) -> bool {
        use CpuInstructions as C;
        let dimensions = ne.iter().rposition(|&n| n != 1).map_or(1, |last| last + 1);
        if !matches!((op, dimensions), (Op::MulMat, 2) | (Op::MulMatId, 3)) {
            return false;
        }
        let rows = match (self.instructions, ty) {
            (C::Avx2 | C::Avx512 | C::Amx, Type::Q4_0 | Type::Q4K | Type::Iq4Nl | Type::Mxfp4)
            | (C::Avx512 | C::Amx, Type::Q2K)
            | (C::NeonDotprod | C::NeonI8mm, Type::Q4K | Type::Q5K | Type::Q6K) => 8,
            (C::NeonDotprod | C::NeonI8mm, Type::Q4_0 | Type::Iq4Nl | Type::Mxfp4 | Type::Q8_0) => 4,
            (C::NeonDotprod | C::NeonI8mm, Type::Q1_0) if self.one_bit => 4,
            _ => return false,
        };
        ne[1].is_multiple_of(rows)
    }

    /// Bytes in AMX's own buffer (`ggml_backend_amx_get_alloc_size` in `ggml-cpu/amx/mmq.cpp`, 0.1.161).
    fn amx(self, op: Op, ty: Type, ne: [u64; 4]) -> Option<u64> {
        /// Rows of the result that are computed at once (2 `TILE_N`).
        const ROWS: u64 = 32;
        if self.instructions != CpuInstructions::Amx || op != Op::MulMat || !ne[1].is_multiple_of(ROWS) {
            return None;
        }
        // columns that are computed at once, and what each block has besides in that layout
        let (columns, more) = match ty {
            Type::Q4_0 | Type::Q4_1 => (32, 0),
            Type::Q8_0 => (32, 4),
            Type::Q4K | Type::Q5K => (256, 4),
            Type::Q6K => (256, 0),
            Type::Iq4Xs => (256, 2),
            Type::F16 => (16, 0),
            _ => return None,
        };
        let [wide, rows, ..] = ne;
        let blocks = if more > 0 { wide / ty.block() * rows } else { 0 };
        // of quantised weights room for one matrix is reserved, whatever they have
        let matrix = Tensor::new(ty, [wide, rows, 1, 1]).bytes() + more * blocks;
        let bytes = if ty == Type::F16 { Tensor::new(ty, ne).bytes() } else { matrix };
        wide.is_multiple_of(columns).then_some(bytes)
    }
}

/// The shape of a tensor in a file.
fn sides(tensor: &gguf::Tensor) -> [u64; 4] {
    std::array::from_fn(|at| tensor.dims.get(at).copied().unwrap_or(1))
}

/// What of a model's weights is in RAM, and in which buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightsInRam {
    /// Bytes in buffers of the CPU's own layouts.
    pub repacked: u64,
    /// Bytes of the other weights.
    pub others: u64,
    /// Bytes from the first to the last of the others in the mapped files.
    pub span: u64,
}

impl WeightsInRam {
    /// All bytes where the file is mapped: what is not read through the mapping is in it all the same.
    pub const fn mapped(self) -> u64 {
        self.repacked + self.span
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn weight(ty: Type, ne: [u64; 4]) -> Weight {
        Weight { block: Some(0), role: None, index: 0, ty, ne, bytes: Tensor::new(ty, ne).bytes(), file: 0, start: 0 }
    }

    #[rstest]
    #[case("avx2", Type::Q4K, true)]
    #[case("avx2", Type::Q2K, false)]
    #[case("avx512", Type::Q2K, true)]
    #[case("avx512", Type::Q6K, false)]
    #[case("avx512", Type::Q8_0, false)]
    #[case("avx2", Type::Mxfp4, true)]
    #[case("neon-dotprod", Type::Q6K, true)]
    #[case("neon-i8mm", Type::Q8_0, true)]
    #[case("neon-i8mm", Type::Q2K, false)]
    #[case("none", Type::Q4_0, false)]
    #[case("avx512", Type::F16, false)]
    fn types_are_repacked_by_the_instructions(#[case] cpu: &str, #[case] ty: Type, #[case] repacked: bool) {
        let layouts = Layouts { instructions: cpu.parse().unwrap(), one_bit: true };
        let dense = weight(ty, [2048, 1024, 1, 1]);
        assert_eq!(layouts.bytes(Op::MulMat, &dense), repacked.then_some(dense.bytes));
        let experts = weight(ty, [2048, 1024, 8, 1]);
        assert_eq!(layouts.bytes(Op::MulMatId, &experts), repacked.then_some(experts.bytes));
        // rows to look up, a product with several matrices, and rows that are no whole groups
        assert_eq!(layouts.bytes(Op::GetRows, &dense), None);
        assert_eq!(layouts.bytes(Op::MulMat, &experts), None);
        assert_eq!(layouts.bytes(Op::MulMat, &weight(ty, [2048, 1026, 1, 1])), None);
    }

    #[test]
    fn one_bit_weights_have_a_layout_for_arm_since_0_1_159() {
        let bits = weight(Type::Q1_0, [2048, 1024, 1, 1]);
        let arm = |one_bit| Layouts { instructions: CpuInstructions::NeonDotprod, one_bit };
        assert!(arm(true).bytes(Op::MulMat, &bits).is_some() && arm(false).bytes(Op::MulMat, &bits).is_none());
    }

    #[test]
    fn amx_takes_products_before_anything_else_does() {
        let amx = Layouts { instructions: CpuInstructions::Amx, one_bit: true };
        let of = |ty| amx.bytes(Op::MulMat, &weight(ty, [4096, 1024, 1, 1]));
        let plain = |ty| weight(ty, [4096, 1024, 1, 1]).bytes;
        assert_eq!(of(Type::Q8_0), Some(plain(Type::Q8_0) + 4 * 128 * 1024));
        assert_eq!(of(Type::Q4K), Some(plain(Type::Q4K) + 4 * 16 * 1024));
        assert_eq!(of(Type::F16), Some(plain(Type::F16)));
        assert_eq!(of(Type::Q2K), Some(plain(Type::Q2K)), "repacked");
        assert_eq!(of(Type::Q3K), None);
        // its products are no experts', which are repacked
        let experts = weight(Type::Q4K, [4096, 1024, 8, 1]);
        assert_eq!(amx.bytes(Op::MulMatId, &experts), Some(experts.bytes));
    }
}
