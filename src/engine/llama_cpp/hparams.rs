//! Hyperparameters as llama.cpp reads them: keys, defaults and rules per architecture (`llama-model.cpp`,
//! `llama-hparams.cpp` and `models/*.cpp`, 0.1.161).

mod per_architecture;

use super::architecture::{Architecture, Trait};
use super::error::LoadError;
use super::release::ReleaseTraits;
use super::transformer::gating;
use super::weights::{LlmTensor, TensorSuffix, Weights};
use crate::gguf::{Header, Value};
use crate::settings::Pooling;

/// llama.cpp's hyperparameters, before tensors are considered. Lists have one entry per block.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
#[allow(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub struct Hparams {
    pub n_ctx_train: u64,
    pub n_ctx_orig_yarn: u64,
    pub n_embd: u64,
    /// Tokens of the vocabulary; 0 if the header does not say.
    pub n_vocab: u64,
    pub n_embd_per_layer: u64,
    pub n_layer_all: usize,
    pub n_layer_nextn: usize,
    /// Per block, that of the file whose weights it runs; empty if all have their own.
    pub weight_blocks: Vec<usize>,
    /// Blocks of one pass, if the final norm ends every pass.
    pub normed_pass: Option<usize>,
    /// The stacks of HRM-Text, if the model has them.
    pub hrm: Option<HrmStacks>,
    /// Blocks of the decoder, if there is one besides the encoder.
    pub dec_n_layer: usize,
    /// The last block only chooses adapters: a cache without weights.
    pub has_router_block: bool,
    /// The first blocks, which have their own KV caches; the others share those.
    pub n_layer_kv_from_start: Option<usize>,
    pub n_head: Vec<u64>,
    pub n_head_kv: Vec<u64>,
    pub n_ff: Vec<u64>,
    pub n_expert: u64,
    pub n_expert_used: Vec<u64>,
    pub n_expert_groups: u64,
    pub n_group_used: u64,
    pub expert_weights_norm: bool,
    pub expert_weights_scale: f64,
    pub expert_gating: u64,
    pub no_rope_layer_step: u64,
    /// Blocks with rotary positions; empty for all.
    pub rope_pattern: Vec<bool>,
    /// The first blocks, which have no experts.
    pub n_layer_dense_lead: usize,
    /// Per block, the limit of its experts' gated activation, 0 for none; empty for none at all.
    pub swiglu_clamp_exp: Vec<f32>,
    /// The same of dense parts and shared experts.
    pub swiglu_clamp_shexp: Vec<f32>,
    /// Experts of the first set that share one of the second; 0 without a second set.
    pub n_group_experts: u64,
    /// Norms follow both halves instead of preceding them.
    pub swin_norm: bool,
    /// The final norm's result is multiplied by a constant.
    pub scales_final: bool,
    /// Norms are root-mean-square ones where the header decides.
    pub norm_rms: bool,
    /// Head sizes of blocks with full attention and of blocks with a sliding window.
    pub n_embd_head_k: [u64; 2],
    pub n_embd_head_v: [u64; 2],
    pub n_rot: [u64; 2],
    /// Head sizes of K and V after MLA's compressed cache is decompressed.
    pub mla: Option<(u64, u64)>,
    pub n_lora_kv: u64,
    /// The same two of blocks with a sliding window, where they differ.
    pub latent_swa: Option<((u64, u64), u64)>,
    /// The lightning indexer of sparse attention, if the model has one.
    pub indexer: Option<Indexer>,
    /// Per block, the tokens that a row of its compressed cache stands for, 0 without one; empty if no block has one.
    pub compress_ratios: Vec<u64>,
    /// Groups of heads whose results are projected apart.
    pub n_output_groups: u64,
    /// The first blocks, whose experts are chosen by a table of tokens.
    pub n_hash_layers: usize,
    /// The sliding window in tokens, if some blocks have one.
    pub n_swa: Option<u64>,
    pub is_swa: Vec<bool>,
    /// Recurrent blocks.
    pub is_recr: Vec<bool>,
    /// Blocks with attention.
    pub attends: Vec<bool>,
    pub ssm: Ssm,
    pub n_shortconv_l_cache: u64,
    /// Parallel residual streams (hyper-connections); 0 for one.
    pub n_hyper_connections: u64,
    /// Rounds in which their mixing is balanced (Sinkhorn); 0 if they are not mixed.
    pub n_sinkhorn_iterations: u64,
    /// Size of a head of RWKV's time mixing; 0 for none.
    pub wkv_head_size: u64,
    /// Tokens of RWKV's rolling state: that before in each half.
    pub token_shift_count: u64,
    pub rescale_every_n_layers: usize,
    /// Size of a head of lightning attention; 0 for none.
    pub n_embd_head_la: u64,
    /// Size of a head of Kimi's delta attention; 0 for none.
    pub n_embd_head_kda: u64,
    /// The decay of Kimi's delta attention is bounded from below.
    pub bounded_decay: bool,
    /// Blocks after which the residual is banked again; 0 for none.
    pub residual_bank: usize,
    /// The up part of the gated activation is bounded too.
    pub scales_up: bool,
    pub n_deepstack_layers: u64,
    pub deepstack_mapping: Vec<i64>,
    pub mrope: bool,
    pub has_rope: bool,
    /// The output of attention is multiplied by a constant.
    pub attention_scale: bool,
    pub use_kq_norm: bool,
    pub clamp_kqv: bool,
    pub attn_soft_cap: bool,
    pub final_soft_cap: bool,
    pub logit_scale: bool,
    pub residual_scale: bool,
    pub embedding_scale: bool,
    pub attn_temperature: bool,
    /// Attention and feed-forward of a block are in parallel.
    pub parallel_residual: bool,
    pub causal: bool,
    /// How embeddings are pooled, where the header says it.
    pub pooling: Option<Pooling>,
    /// An encoder: whole texts, no cache, no logits.
    pub reads_only: bool,
    /// The table of n-grams that one block reads.
    pub ngrams: Option<NgramTable>,
    pub draft: DraftHparams,
}

/// A table of embeddings that a block looks up by hashes of the last tokens, and a convolution over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NgramTable {
    /// The block.
    pub block: usize,
    /// Tokens of the longest n-gram, and the distance of the convolution's taps.
    pub ngram_size: u64,
    /// Rows that are looked up per token.
    pub heads: u64,
    /// Taps of the convolution.
    pub conv_kernel: u64,
}

impl NgramTable {
    /// Tokens before the batch that the convolution reads.
    pub const fn history(&self) -> u64 {
        self.conv_kernel.saturating_sub(1) * self.ngram_size
    }
}

/// Hyperparameters of models that draft for another one.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DraftHparams {
    /// The layers of the other model whose inputs they read.
    pub target_layers: Vec<usize>,
    /// Elements of the other model's hidden state, if they read that.
    pub n_embd_out: u64,
    pub norm_before_residual: bool,
    pub attn_value_scale: bool,
    /// Tokens drafted at once at most.
    pub block_size: u64,
    /// The first of them is drafted too.
    pub sample_from_anchor: bool,
    pub conv_kernel_size: u64,
    pub conv_group_size: u64,
    pub selector_rank: u64,
    pub selector_top_k: u64,
}

/// The lightning indexer (DSA): scores every cached token by small keys of its own, so that attention reads only the best.
#[derive(Clone, Debug, Default)]
pub struct Indexer {
    /// Heads of its queries; its keys have one.
    pub n_head: u64,
    /// Size of a head.
    pub head_size: u64,
    /// Tokens, or blocks of them, that attention reads at most.
    pub top_k: u64,
    /// Positions of a block; 0 if tokens are chosen.
    pub block_size: u64,
    /// Per block, whether it has an indexer; the others use the choice of the block before.
    pub is_full: Vec<bool>,
    /// It chooses pools of tokens by pooled keys, which are cached too.
    pub pools: Option<Pools>,
    /// Per block, whether attention reads what an indexer chooses; otherwise its keys are cached in vain.
    pub is_read: Vec<bool>,
}

/// Pools of tokens that an indexer chooses whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pools {
    /// Tokens of a pool.
    pub size: u64,
    /// Vectors of a head's size that are cached per token: the pooled key, and what it is computed from.
    pub row: u64,
    /// The tokens behind the last complete pool are always chosen.
    pub keeps_tail: bool,
}

impl Indexer {
    /// Elements that are cached per token.
    pub fn row(&self) -> u64 {
        self.head_size * self.pools.map_or(1, |pools| pools.row)
    }
}

/// Two stacks of blocks in nested cycles: a high cycle is several passes of the low stack and one of the high stack.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct HrmStacks {
    pub layers_per_stack: usize,
    pub h_cycles: usize,
    pub l_cycles: usize,
}

/// Sizes of a state-space or delta-net block.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Ssm {
    pub d_conv: u64,
    pub d_inner: u64,
    pub d_state: u64,
    pub dt_rank: u64,
    pub n_group: u64,
    pub dt_b_c_rms: bool,
}

impl Ssm {
    /// Whether the states have a size.
    const fn is_sized(&self) -> bool {
        self.d_conv > 0 && self.d_inner > 0 && self.d_state > 0
    }
}

/// Reads the hyperparameters of one architecture.
pub(super) type ReadsHparams = fn(&mut Hparams, &HeaderKeys<'_>) -> Result<(), LoadError>;

impl Hparams {
    /// Reads them from a header, those of its architecture alone by `own`.
    ///
    /// # Errors
    /// When a key required by this release of llama.cpp is missing, or lists are shorter than the number of blocks.
    pub(super) fn read(
        header: &Header,
        architecture: &Architecture,
        release: &'static ReleaseTraits,
        own: ReadsHparams,
    ) -> Result<Self, LoadError> {
        let keys = HeaderKeys::of(header, release);
        let n_layer_all = usize::try_from(keys.need("block_count")?).unwrap_or(usize::MAX);
        let n_embd = keys.need("embedding_length")?;
        let n_ctx_train = keys.need("context_length")?;
        if n_layer_all == 0 || n_layer_all > MAX_LAYERS {
            return Err(LoadError::model(format!(
                "block_count is {n_layer_all}: llama.cpp supports 1 to {MAX_LAYERS}"
            )));
        }
        let n_head = keys.each("attention.head_count", n_layer_all)?.unwrap_or_else(|| vec![0; n_layer_all]);
        let n_head_kv = keys.each("attention.head_count_kv", n_layer_all)?.unwrap_or_else(|| n_head.clone());
        let (mut k, mut v, mut rot) = (0, 0, 0);
        if let Some(even) = n_embd.checked_div(n_head[0]) {
            k = keys.number("attention.key_length").unwrap_or(even);
            v = keys.number("attention.value_length").unwrap_or(even);
            rot = keys.number("rope.dimension_count").unwrap_or(k);
        }
        let swa = |name, full| keys.number(name).unwrap_or(full);
        let mut hparams = Self {
            n_ctx_train,
            n_ctx_orig_yarn: keys.number("rope.scaling.original_context_length").unwrap_or(n_ctx_train),
            n_embd,
            n_vocab: keys.vocabulary(),
            n_layer_all,
            n_layer_nextn: keys.count("nextn_predict_layers").unwrap_or(0),
            n_head,
            n_head_kv,
            n_ff: keys.each("feed_forward_length", n_layer_all)?.unwrap_or_else(|| vec![0; n_layer_all]),
            n_expert: keys.number("expert_count").unwrap_or(0),
            n_expert_used: keys.each("expert_used_count", n_layer_all)?.unwrap_or_else(|| vec![0; n_layer_all]),
            n_expert_groups: keys.number("expert_group_count").unwrap_or(0),
            n_group_used: keys.number("expert_group_used_count").unwrap_or(0),
            n_embd_head_k: [k, swa("attention.key_length_swa", k)],
            n_embd_head_v: [v, swa("attention.value_length_swa", v)],
            n_rot: [rot, swa("rope.dimension_count_swa", rot)],
            is_swa: vec![false; n_layer_all],
            is_recr: vec![architecture.has(Trait::Recurrent); n_layer_all],
            deepstack_mapping: vec![-1; n_layer_all],
            has_rope: true,
            attention_scale: false,
            reads_only: architecture.reads_only() || architecture.has(Trait::Diffusion),
            causal: keys.flag("attention.causal").unwrap_or(true),
            pooling: keys.number("pooling_type").and_then(Pooling::of_number),
            ..Self::default()
        };
        if hparams.n_layer_nextn >= n_layer_all && !architecture.has(Trait::OnlyDrafts) {
            return Err(LoadError::model("nextn_predict_layers leaves no block: block_count must be larger"));
        }
        hparams.read_experts(&keys, architecture);
        hparams.read_named(&keys, architecture)?;
        own(&mut hparams, &keys)?;
        if hparams.attends.is_empty() {
            hparams.attends = hparams.is_recr.iter().map(|recurrent| !recurrent).collect();
        }
        hparams.check_bounds()?;
        Ok(hparams)
    }

    /// The block of the file whose weights block `il` runs.
    pub fn weight_block(&self, il: usize) -> usize {
        self.weight_blocks.get(il).copied().unwrap_or(il)
    }

    /// Blocks in the graph; the rest are MTP blocks.
    pub fn n_layer(&self) -> usize {
        self.n_layer_all.saturating_sub(self.n_layer_nextn)
    }

    /// Blocks of the graph that a context of default type runs: those that are no MTP blocks, or all if there are no
    /// others.
    pub fn n_layer_graph(&self) -> usize {
        if self.n_layer() == 0 { self.n_layer_all } else { self.n_layer() }
    }

    /// Size of a K head of block `il`.
    pub fn head_k(&self, il: usize) -> u64 {
        self.n_embd_head_k[usize::from(self.is_swa[il])]
    }

    /// Size of a V head of block `il`.
    pub fn head_v(&self, il: usize) -> u64 {
        self.n_embd_head_v[usize::from(self.is_swa[il])]
    }

    /// Elements of K per token in block `il`.
    pub fn k_gqa(&self, il: usize) -> u64 {
        self.head_k(il) * self.n_head_kv[il]
    }

    /// Elements of V per token in block `il`.
    pub fn v_gqa(&self, il: usize) -> u64 {
        self.head_v(il) * self.n_head_kv[il]
    }

    /// Maximum [`Self::v_gqa`] of all blocks.
    pub fn v_gqa_max(&self) -> u64 {
        (0..self.n_layer_all).map(|il| self.v_gqa(il)).max().unwrap_or(0)
    }

    /// Elements of the rolling state of a recurrent block, per sequence.
    pub fn n_embd_r(&self) -> u64 {
        if self.wkv_head_size != 0 {
            return self.token_shift_count * self.n_embd;
        }
        if self.n_shortconv_l_cache != 0 {
            return self.n_embd * (self.n_shortconv_l_cache - 1);
        }
        if self.n_embd_head_kda != 0 {
            let columns = if self.ssm.d_conv == 0 { 3 } else { self.ssm.d_conv - 1 };
            return 3 * columns * self.n_head[0] * self.n_embd_head_kda;
        }
        let Ssm { d_conv, d_inner, d_state, n_group, .. } = self.ssm;
        d_conv.saturating_sub(1) * (d_inner + 2 * n_group * d_state)
    }

    /// Elements of the recurrent state of a block, per sequence.
    pub fn n_embd_s(&self) -> u64 {
        if self.wkv_head_size != 0 {
            return self.n_embd * self.wkv_head_size;
        }
        if self.n_embd_head_kda != 0 {
            return self.n_embd_head_kda * self.n_embd_head_kda * self.n_head[0];
        }
        if self.n_embd_head_la != 0 {
            return self.n_embd_head_la * self.n_embd_head_la * self.n_head[0];
        }
        self.ssm.d_state * self.ssm.d_inner
    }

    /// Elements of the rolling state of the table of n-grams, per sequence; 0 without one.
    pub fn n_embd_ngrams(&self) -> u64 {
        self.ngrams.map_or(0, |table| table.history() * self.n_hyper_connections * self.n_embd)
    }

    /// Elements of an input embedding, including deepstack levels.
    pub fn n_embd_inp(&self) -> u64 {
        self.n_embd * (1 + self.n_deepstack_layers)
    }

    /// Positions per token: several for multi-axis rotary positions (M-RoPE).
    pub fn n_pos_per_embd(&self, architecture: &Architecture) -> u64 {
        if architecture.has_several_positions(self.mrope) { 4 } else { 1 }
    }

    /// Whether the header assigns deepstack levels to blocks; otherwise the first blocks get them.
    pub fn maps_deepstack(&self) -> bool {
        self.deepstack_mapping.iter().any(|level| *level >= 0)
    }

    /// Whether some blocks have a sliding window.
    pub fn has_swa(&self) -> bool {
        self.n_swa.is_some()
    }
}

/// `LLAMA_MAX_LAYERS` (`llama-hparams.h`, 0.1.161).
const MAX_LAYERS: usize = 512;

// The header keys of an architecture.

/// A header's keys of one architecture.
pub(crate) struct HeaderKeys<'a> {
    header: &'a Header,
    architecture: &'a str,
    /// The release that reads them.
    pub release: &'static ReleaseTraits,
}

impl<'a> HeaderKeys<'a> {
    pub fn of(header: &'a Header, release: &'static ReleaseTraits) -> Self {
        let architecture = header.metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
        Self { header, architecture, release }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.header.metadata.get(&format!("{}.{name}", self.architecture))
    }

    /// A number; of a list, which llama.cpp does not take for one, the first.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Array(list) => list.elements.integers()?.first().and_then(|first| u64::try_from(*first).ok()),
            value => value.as_u64(),
        }
    }

    /// A number of items in memory, limited to `usize`.
    pub fn count(&self, name: &str) -> Option<usize> {
        self.number(name).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub fn float(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }

    /// Whether a number is there and not 0.
    pub fn is_given(&self, name: &str) -> bool {
        self.float(name).unwrap_or(0.0) != 0.0
    }

    /// Whether the file has a tensor of this name.
    pub fn has_tensor(&self, name: &str) -> bool {
        self.header.tensors.iter().any(|tensor| *tensor.name == *name)
    }

    /// Tokens of the vocabulary; 0 if unknown.
    pub fn vocabulary(&self) -> u64 {
        let tokens = self.header.metadata.get("tokenizer.ggml.tokens").and_then(Value::as_array);
        tokens.map(|tokens| tokens.len).or_else(|| self.number("vocab_size")).unwrap_or(0)
    }

    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }

    pub fn need(&self, name: &str) -> Result<u64, LoadError> {
        self.number(name).ok_or_else(|| {
            LoadError::model(format!(
                "the header has no numeric key {}.{name}: convert the model again",
                self.architecture
            ))
        })
    }

    /// The elements of a list of numbers or flags.
    pub fn list(&self, name: &str) -> Option<Vec<i64>> {
        self.get(name)?.as_array()?.elements.integers()
    }

    /// One number per block: from a list of them, or the same for all; empty if there is none.
    pub fn floats(&self, name: &str, count: usize) -> Vec<f64> {
        if let Some(number) = self.float(name) {
            return vec![number; count];
        }
        self.get(name).and_then(Value::as_array).and_then(|list| list.elements.floats()).unwrap_or_default()
    }

    /// One number per block: from a list, or the same for all.
    pub fn each(&self, name: &str, count: usize) -> Result<Option<Vec<u64>>, LoadError> {
        let Some(list) = self.list(name) else { return Ok(self.number(name).map(|number| vec![number; count])) };
        if list.len() < count {
            let architecture = self.architecture;
            return Err(LoadError::model(format!(
                "{architecture}.{name} has {} elements for {count} blocks: convert the model again",
                list.len()
            )));
        }
        Ok(Some(list.iter().take(count).map(|n| u64::try_from(*n).unwrap_or(0)).collect()))
    }
}

// Hyperparameters derived from the tensors, for architectures that are not listed.

/// The required tensors of a recurrent block, for each kind.
const RECURRENT: [&[LlmTensor]; 3] = [
    &[LlmTensor::ShortConvIn, LlmTensor::ShortConvConv, LlmTensor::ShortConvOut],
    &[
        LlmTensor::SsmIn,
        LlmTensor::SsmConv1d,
        LlmTensor::SsmX,
        LlmTensor::SsmDt,
        LlmTensor::SsmA,
        LlmTensor::SsmD,
        LlmTensor::SsmOut,
    ],
    &[LlmTensor::SsmIn, LlmTensor::SsmConv1d, LlmTensor::SsmA, LlmTensor::SsmD, LlmTensor::SsmOut],
];

/// The tensors with the keys of an attention block.
const KEYS: [LlmTensor; 3] = [LlmTensor::AttnK, LlmTensor::AttnQkv, LlmTensor::AttnKvAMqa];

impl Hparams {
    /// Determines which blocks are recurrent, which have attention, and of what kind.
    ///
    /// # Errors
    /// When the size of a cache exceeds the limits.
    pub(super) fn read_blocks(&mut self, keys: &HeaderKeys<'_>, weights: &Weights) -> Result<(), LoadError> {
        let holds = |il: usize, slot: LlmTensor| weights.find(il, slot, TensorSuffix::Weight).is_some();
        let anywhere = |slot: LlmTensor| (0..self.n_layer_all).any(|il| holds(il, slot));
        let (latent, short, first) =
            (anywhere(LlmTensor::AttnKvAMqa), anywhere(LlmTensor::ShortConvIn), anywhere(LlmTensor::SsmX));
        self.reads_only = !self.causal;
        if self.expert_gating == gating::NONE {
            self.expert_gating = gating::SOFTMAX;
        }
        self.expert_weights_norm = keys.flag("expert_weights_norm").unwrap_or(true);
        self.read_window(keys);
        if latent {
            self.read_latent(keys);
        }
        self.n_shortconv_l_cache = if short { keys.number("shortconv.l_cache").unwrap_or(0) } else { 0 };
        let sized = self.n_shortconv_l_cache > 0 || self.read_ssm(keys).is_ok_and(|()| self.ssm.is_sized());
        if first {
            self.ssm.n_group = 0;
        }
        for il in 0..self.n_layer_all {
            self.is_recr[il] = sized && RECURRENT.iter().any(|slots| slots.iter().all(|slot| holds(il, *slot)));
            self.attends[il] = !self.is_recr[il] && KEYS.into_iter().any(|slot| holds(il, slot));
        }
        self.guess_heads(weights);
        self.check_bounds()
    }

    /// Windows count only if the header has their pattern: without one assume full attention, which overestimates.
    fn read_window(&mut self, keys: &HeaderKeys<'_>) {
        let has_pattern = keys.list("attention.sliding_window_pattern").is_some()
            || keys.number("attention.sliding_window_pattern").is_some();
        self.n_swa = keys.number("attention.sliding_window").filter(|window| *window > 0 && has_pattern);
        if self.n_swa.is_some() {
            self.swa_pattern(keys, 1);
        }
    }

    /// Without head counts, assume one head as wide as the matrices.
    fn guess_heads(&mut self, weights: &Weights) {
        if self.n_head.iter().any(|heads| *heads > 0) {
            return;
        }
        let width = |il, slot| weights.find(il, slot, TensorSuffix::Weight).map(|at| weights.all[at].ne[1]);
        for (slot, sizes) in [(LlmTensor::AttnK, &mut self.n_embd_head_k), (LlmTensor::AttnV, &mut self.n_embd_head_v)]
        {
            *sizes = [(0..self.n_layer_all).find_map(|il| width(il, slot)).unwrap_or(0); 2];
        }
        self.n_head = self.attends.iter().map(|attends| u64::from(*attends)).collect();
        self.n_head_kv.clone_from(&self.n_head);
    }
}

// Limits of hyperparameters: far beyond every published model, and small enough that no product of them and a
// context overflows.

/// Limit of row sizes: embeddings, feed-forward, inner sizes.
const MAX_WIDTH: u64 = 1 << 22;
/// Limit of counts and sizes of heads, experts, groups.
const MAX_COUNT: u64 = 1 << 14;
/// Limit of the elements per token of a block's cache, or of a state.
const MAX_CACHED: u64 = 1 << 26;

impl Hparams {
    /// Refuses impossible hyperparameters.
    ///
    /// # Errors
    /// When one that recurrent blocks need is missing, or one of them or a cache size exceeds its limit.
    fn check_bounds(&self) -> Result<(), LoadError> {
        let Ssm { d_conv, d_inner, d_state, dt_rank, n_group, .. } = self.ssm;
        let max = |list: &[u64]| list.iter().copied().max().unwrap_or(0);
        let indexer = self.indexer.clone().unwrap_or_default();
        let (mla, (latent, latent_lora)) = (self.mla.unwrap_or_default(), self.latent_swa.unwrap_or_default());
        let numbers = [
            ("context_length", self.n_ctx_train, u64::from(u32::MAX)),
            ("embedding_length", self.n_embd, MAX_WIDTH),
            ("feed_forward_length", max(&self.n_ff), MAX_WIDTH),
            ("attention.head_count", max(&self.n_head), MAX_COUNT),
            ("attention.head_count_kv", max(&self.n_head_kv), MAX_COUNT),
            ("attention.key_length", max(&self.n_embd_head_k), MAX_COUNT),
            ("attention.value_length", max(&self.n_embd_head_v), MAX_COUNT),
            ("rope.dimension_count", max(&self.n_rot), MAX_COUNT),
            ("attention.sliding_window", self.n_swa.unwrap_or(0), u64::from(u32::MAX)),
            ("expert_count", self.n_expert, MAX_COUNT),
            ("expert_used_count", max(&self.n_expert_used), MAX_COUNT),
            ("expert_group_count", self.n_expert_groups, MAX_COUNT),
            ("expert_group_used_count", self.n_group_used, MAX_COUNT),
            ("embedding_length_per_layer_input", self.n_embd_per_layer, MAX_COUNT),
            ("n_deepstack_layers", self.n_deepstack_layers, 64),
            ("shortconv.l_cache", self.n_shortconv_l_cache, MAX_COUNT),
            ("attention.kv_lora_rank", self.n_lora_kv.max(latent_lora), MAX_COUNT),
            ("attention.key_length_mla", mla.0.max(latent.0), MAX_COUNT),
            ("attention.value_length_mla", mla.1.max(latent.1), MAX_COUNT),
            ("attention.compress_ratios", max(&self.compress_ratios), MAX_WIDTH),
            ("attention.indexer.head_count", indexer.n_head, MAX_COUNT),
            ("attention.indexer.key_length", indexer.head_size, MAX_COUNT),
            ("attention.indexer.block_size", indexer.block_size, MAX_COUNT),
            ("attention.indexer.kpool", indexer.pools.map_or(0, |pools| pools.size), MAX_COUNT),
            ("attention.indexer.top_k", indexer.top_k, u64::from(u32::MAX)),
            ("embedding_length_out", self.draft.n_embd_out, MAX_WIDTH),
            ("block_size", self.draft.block_size, MAX_COUNT),
            ("conv_kernel_size", self.draft.conv_kernel_size, MAX_COUNT),
            ("conv_group_size", self.draft.conv_group_size, MAX_WIDTH),
            ("selector_rank", self.draft.selector_rank, MAX_WIDTH),
            ("selector_top_k", self.draft.selector_top_k, u64::from(u32::MAX)),
            ("vocabulary", self.n_vocab, u64::from(u32::MAX)),
            ("hyper_connection.count", self.n_hyper_connections, 64),
            ("hyper_connection.sinkhorn_iterations", self.n_sinkhorn_iterations, 1024),
            ("attention.output_group_count", self.n_output_groups, MAX_COUNT),
            ("wkv.head_size", self.wkv_head_size, MAX_COUNT),
            ("token_shift_count", self.token_shift_count, 64),
            ("kda.head_dim", self.n_embd_head_kda, MAX_COUNT),
            ("ssm.conv_kernel", d_conv, MAX_COUNT),
            ("ssm.inner_size", d_inner, MAX_WIDTH),
            ("ssm.state_size", d_state, MAX_COUNT),
            ("ssm.time_step_rank", dt_rank, MAX_COUNT),
            ("ssm.group_count", n_group, MAX_COUNT),
        ];
        if let Some((key, value, most)) = numbers.into_iter().find(|(_, value, most)| value > most) {
            return Err(LoadError::model(format!("{key} is {value}: more than {most} is not supported")));
        }
        let sized = self.n_shortconv_l_cache != 0
            || self.n_embd_head_kda != 0
            || self.wkv_head_size != 0
            || self.n_embd_head_la != 0;
        let lacks_size = !sized && [d_conv, d_inner, d_state].contains(&0) || self.n_embd_head_kda != 0 && d_conv == 0;
        if self.is_recr.contains(&true) && lacks_size {
            let why =
                "recurrent blocks need ssm.conv_kernel, ssm.inner_size and ssm.state_size: convert the model again";
            return Err(LoadError::model(why));
        }
        let cached = (0..self.n_layer_all).map(|il| self.k_gqa(il).max(self.v_gqa(il))).max().unwrap_or(0);
        let kept = cached.max(self.n_embd_r()).max(self.n_embd_s()).max(self.n_embd_ngrams());
        if kept > MAX_CACHED {
            return Err(LoadError::model(format!("a cache of {kept} elements per token is not supported")));
        }
        Ok(())
    }
}
