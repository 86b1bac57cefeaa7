//! Hyperparameters as llama.cpp reads them: keys, defaults and rules per architecture (`llama-model.cpp`,
//! `llama-hparams.cpp` and `models/*.cpp`, 0.1.161).

mod from_tensors;
mod header_keys;
mod limits;
mod per_architecture;

use super::architecture::{Architecture, Trait};
use super::error::LoadError;
use super::release::ReleaseTraits;
use crate::gguf::Header;
use crate::settings::Pooling;
pub(crate) use header_keys::HeaderKeys;

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
