//! The rules that turn the context options into those in effect: context, batches, outputs, flash attention
//! (`llama_context` and `llama_init_from_model` in `llama-context.cpp`, 0.1.161).

use std::sync::Arc;

use super::adapters::AdapterPairs;
use super::architecture::{GraphFamily, Trait};
use super::error::LoadError;
use super::loaded::LoadedModel;
use super::moe_cache::MoeCacheRequest;
use super::release::ReleaseTraits;
use crate::engine::ggml::Type;
use crate::settings::{FlashAttn, Pooling};

/// llama.cpp's context options (`llama_context_params`), before its rules are applied.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct ContextParams {
    /// Tokens of context over all sequences; 0 for the training context.
    pub n_ctx: u64,
    /// Tokens of a logical batch.
    pub n_batch: u64,
    /// Tokens of a physical batch; 0 for that of the logical one.
    pub n_ubatch: u64,
    /// Parallel sequences.
    pub n_seq_max: u64,
    /// Tokens of a batch with logits; 0 for all.
    pub n_outputs_max: u64,
    /// Whether the compute buffers of a pipeline are refused, whatever is free; `None` goes by what is free.
    pub pipeline_refused: Option<bool>,
    /// Whether a pipeline multiplies inputs that nothing reads; none for what the release does.
    pub unread_inputs: Option<bool>,
    /// The same of one sequence; 0 for the same as over all.
    pub n_outputs_max_per_seq: u64,
    /// Snapshots of recurrent states to roll back to, per sequence.
    pub n_rs_seq: u64,
    /// Whether it runs the model or its MTP blocks.
    pub ctx_type: ContextType,
    /// What drafting asks of the context after it is made.
    pub drafting: DraftingOutputs,
    /// The adapters whose products are added to those of weights, once they are loaded.
    pub adapters: Option<Arc<AdapterPairs>>,
    /// Embeddings are computed, pooled so.
    pub embeddings: Option<Pooling>,
    /// Format of the K cache.
    pub type_k: Type,
    /// Format of the V cache.
    pub type_v: Type,
    /// Flash attention.
    pub flash_attn: FlashAttn,
    /// One KV cache for all sequences.
    pub kv_unified: bool,
    /// Caches are on the devices of their layers; otherwise in RAM.
    pub offload_kqv: bool,
    /// GPUs may run operations whose weights are in RAM.
    pub op_offload: bool,
    /// Caches of blocks with a sliding window have full size.
    pub swa_full: bool,
    /// The cache on GPUs for experts that are in RAM, if there is one.
    pub moe_cache: Option<MoeCacheRequest>,
}

/// `llama_context_type` (`llama.h`, 0.1.161).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextType {
    /// The model without its MTP blocks.
    #[default]
    Default,
    /// The MTP blocks alone, which draft tokens.
    Mtp,
}

/// What drafting asks of a context besides logits. Each makes the context reserve its memory again
/// (`common/speculative.cpp`, 0.1.161).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftingOutputs {
    /// The best tokens of every sequence, chosen by the device of the output layer.
    pub samplers: bool,
    /// The hidden states before the output layer.
    pub embeddings_nextn: NextnRows,
    /// The inputs of these layers.
    pub layer_inputs: Vec<usize>,
}

/// The tokens whose hidden states are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NextnRows {
    /// None.
    #[default]
    None,
    /// Those with logits (masked).
    Outputs,
    /// All.
    All,
}

impl Default for ContextParams {
    /// `llama_context_default_params`, 0.1.161, with the batches of llama-server.
    fn default() -> Self {
        Self {
            n_ctx: 0,
            n_batch: 2048,
            n_ubatch: 512,
            n_seq_max: 1,
            n_outputs_max: 0,
            pipeline_refused: None,
            unread_inputs: None,
            n_outputs_max_per_seq: 0,
            n_rs_seq: 0,
            ctx_type: ContextType::Default,
            drafting: DraftingOutputs::default(),
            adapters: None,
            embeddings: None,
            type_k: Type::F16,
            type_v: Type::F16,
            flash_attn: FlashAttn::Auto,
            kv_unified: false,
            offload_kqv: true,
            op_offload: true,
            swa_full: false,
            moe_cache: None,
        }
    }
}

/// The parameters in effect.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Cparams {
    /// Tokens over all sequences.
    pub n_ctx: u64,
    /// Tokens per sequence.
    pub n_ctx_seq: u64,
    pub n_batch: u64,
    pub n_ubatch: u64,
    pub n_seq_max: u64,
    pub n_outputs_max: u64,
    pub n_outputs_max_per_seq: u64,
    pub n_rs_seq: u64,
    pub ctx_type: ContextType,
    pub drafting: DraftingOutputs,
    pub adapters: Option<Arc<AdapterPairs>>,
    pub embeddings: Option<Pooling>,
    pub type_k: Type,
    pub type_v: Type,
    pub flash_attn: bool,
    /// Flash attention is on if the devices can compute it.
    pub auto_fa: bool,
    /// The delta rule is a fused operation for batches of several tokens per sequence.
    pub fused_delta_chunks: bool,
    /// The same for batches of one token per sequence.
    pub fused_delta_token: bool,
    /// Which parts of hyper-connections are fused operations.
    pub fused_hc: FusedHyperConnections,
    pub kv_unified: bool,
    pub offload_kqv: bool,
    pub op_offload: bool,
    pub swa_full: bool,
    /// Whether a pipeline multiplies inputs that nothing reads; none for what the release does.
    pub unread_inputs: Option<bool>,
}

/// The operations of mixed residual streams that are fused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FusedHyperConnections {
    /// The mix that a half reads.
    pub pre: bool,
    /// The matrix that mixes the streams with one another.
    pub comb: bool,
    /// The streams after a half.
    pub post: bool,
}

/// The batch that a graph is built for, with the same number of tokens in every sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Tokens.
    pub n_tokens: u64,
    /// Tokens with logits.
    pub n_outputs: u64,
    /// Sequences.
    pub n_seqs: u64,
}

impl Batch {
    /// Tokens per sequence.
    pub fn n_seq_tokens(self) -> u64 {
        self.n_tokens / self.n_seqs.max(1)
    }

    /// Few enough tokens that norms are kept on their block's device (`graph_get_cb` in `llama-context.cpp`, 0.1.161).
    pub const fn has_few_tokens(self) -> bool {
        self.n_tokens < 32
    }
}

/// `LLAMA_MAX_SEQ` (`llama-cparams.h`, 0.1.161).
const MAX_SEQUENCES: u64 = 256;
/// Maximum of its options, which are signed 32-bit integers.
const MAX_TOKENS: u64 = i32::MAX as u64;

impl Cparams {
    /// Applies llama.cpp's rules.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn new(options: &ContextParams, model: &LoadedModel) -> Result<Self, LoadError> {
        let LoadedModel { hparams, release, family, .. } = model;
        let architecture = family.architecture;
        let flash = if architecture.has(Trait::ForbidsFlashAttention) { FlashAttn::Off } else { options.flash_attn };
        if architecture.has(Trait::NeedsFlashAttentionOff) && flash != FlashAttn::Off {
            return Err(LoadError::settings(
                "llama.cpp would end with an error: its graph of this model cannot use flash attention: turn it off",
            ));
        }
        check(options, flash, model)?;
        let n_seq_max = options.n_seq_max.max(1);
        let asked = if options.n_ctx == 0 { hparams.n_ctx_train } else { options.n_ctx };
        let n_batch = if hparams.causal { asked.min(options.n_batch) } else { options.n_batch };
        let n_batch = n_batch.max(release.mask_rows);
        let n_ubatch = n_batch.min(if options.n_ubatch == 0 { options.n_batch } else { options.n_ubatch });
        let cells = cells(flash != FlashAttn::Off, release);
        let mut n_ctx = asked.next_multiple_of(cells);
        let mut n_ctx_seq = n_ctx;
        if !options.kv_unified {
            n_ctx_seq = (n_ctx / n_seq_max).next_multiple_of(cells);
            n_ctx = n_ctx_seq * n_seq_max;
        }
        if n_ctx_seq == 0 {
            return Err(LoadError::settings(format!(
                "a context of {asked} tokens is too small for {n_seq_max} sequences: raise it"
            )));
        }
        let sparse = flash != FlashAttn::Off && (n_seq_max == 1 || !options.kv_unified);
        if sparse && hparams.blocks_lack_indexer_heads() {
            return Err(LoadError::settings(
                "llama.cpp would end with an error: its sparse attention needs as many heads of the indexer as KV heads: \
                 turn flash attention off",
            ));
        }
        if architecture.has(Trait::OneCacheOnly) && n_seq_max > 1 && !options.kv_unified {
            return Err(LoadError::settings(
                "llama.cpp would end with an error: its graph of this model only works with one cache for all sequences: \
                 use a unified cache, or one sequence",
            ));
        }
        if architecture.has(Trait::ReservesOneSequence)
            && !options.kv_unified
            && !n_ctx.min(n_ubatch).is_multiple_of(n_seq_max)
        {
            return Err(LoadError::settings(format!(
                "llama.cpp would end with an error: a ubatch of {} tokens cannot be split over {n_seq_max} sequences: use \
                 a multiple of {n_seq_max}, or a unified cache",
                n_ctx.min(n_ubatch)
            )));
        }
        let all_rows = options.n_outputs_max == 0 || !release.limits_outputs || architecture.has(Trait::HasEncoder);
        let n_outputs_max = if all_rows { n_batch } else { options.n_outputs_max };
        if n_outputs_max < n_seq_max {
            // an assertion of `llama_context::output_reserve`, which takes one for each
            let raise = match (options.n_batch < n_seq_max, all_rows) {
                (true, _) => "batch",
                (_, true) => "context",
                (_, false) => "number of outputs",
            };
            return Err(LoadError::settings(format!(
                "llama.cpp would end with an error: {n_outputs_max} tokens of a batch may have logits, fewer than the \
                 {n_seq_max} sequences: use a larger {raise}"
            )));
        }
        let per_seq = if options.n_outputs_max_per_seq == 0 { n_outputs_max } else { options.n_outputs_max_per_seq };
        Ok(Self {
            n_ctx,
            n_ctx_seq,
            n_batch,
            n_ubatch,
            n_seq_max,
            n_outputs_max,
            n_outputs_max_per_seq: per_seq.min(n_outputs_max),
            n_rs_seq: if architecture.rolls_back.contain(release) { options.n_rs_seq } else { 0 },
            ctx_type: options.ctx_type,
            drafting: options.drafting.clone(),
            adapters: options.adapters.clone(),
            embeddings: options.embeddings,
            type_k: options.type_k,
            type_v: options.type_v,
            flash_attn: flash != FlashAttn::Off,
            auto_fa: flash == FlashAttn::Auto,
            fused_delta_chunks: true,
            fused_delta_token: true,
            fused_hc: FusedHyperConnections { pre: true, comb: true, post: true },
            kv_unified: options.kv_unified,
            offload_kqv: options.offload_kqv,
            op_offload: options.op_offload,
            unread_inputs: options.unread_inputs,
            swa_full: options.swa_full,
        })
    }

    /// The number of cells of which caches have a multiple.
    pub fn cells(&self, release: &ReleaseTraits) -> u64 {
        cells(self.flash_attn, release)
    }

    /// The batch for which memory is reserved.
    pub fn reserved(&self) -> Batch {
        self.reserved_for(self.n_seq_max)
    }

    /// The same with all tokens in so many sequences.
    pub fn reserved_for(&self, n_seqs: u64) -> Batch {
        let n_tokens = self.n_ctx.min(self.n_ubatch);
        Batch { n_tokens: n_tokens.next_multiple_of(n_seqs), n_outputs: n_tokens.min(self.n_outputs_max), n_seqs }
    }

    /// A small batch for probe graphs.
    pub fn probe(&self, tokens_per_sequence: u64) -> Batch {
        let n_tokens = tokens_per_sequence * self.n_seq_max;
        Batch { n_tokens, n_outputs: n_tokens, n_seqs: self.n_seq_max }
    }
}

fn cells(flash: bool, release: &ReleaseTraits) -> u64 {
    if flash { release.cells.0 } else { release.cells.1 }
}

fn check(options: &ContextParams, flash: FlashAttn, model: &LoadedModel) -> Result<(), LoadError> {
    let LoadedModel { hparams, release, family: GraphFamily { architecture, .. }, .. } = model;
    let refuse = |why: String| Err(LoadError::settings(why));
    if options.n_batch == 0 {
        return refuse("llama.cpp would end with an error: a batch has 0 tokens: raise it".to_owned());
    }
    for (name, tokens) in [("context", options.n_ctx), ("batch", options.n_batch), ("ubatch", options.n_ubatch)] {
        if tokens > MAX_TOKENS {
            return refuse(format!("a {name} of {tokens} tokens is too large for llama.cpp: use at most {MAX_TOKENS}"));
        }
    }
    if options.ctx_type == ContextType::Mtp && hparams.n_layer_nextn == 0 {
        return refuse(
            "the model has no MTP blocks, so it cannot draft with draft-mtp: use another --spec-type".to_owned(),
        );
    }
    if options.ctx_type == ContextType::Mtp && architecture.has(Trait::NoMtpGraph) {
        return refuse(
            "llama.cpp has no graph of this model's MTP blocks, so it cannot draft with draft-mtp: use another \
             --spec-type"
                .to_owned(),
        );
    }
    if options.n_ctx == 0 && hparams.n_ctx_train == 0 {
        return refuse("the model has no training context: set a context".to_owned());
    }
    if options.n_seq_max > MAX_SEQUENCES {
        return refuse(format!(
            "{} parallel sequences are too many: llama.cpp supports at most {MAX_SEQUENCES}",
            options.n_seq_max
        ));
    }
    let (type_k, type_v) = (options.type_k, options.type_v);
    let one_row = hparams.mla.is_some() || !hparams.compress_ratios.is_empty();
    if release.mla_one_type && one_row && type_k != type_v {
        return refuse(format!(
            "this model stores K and V in one cache: use the same type for both, not {type_k} and \
                               {type_v}"
        ));
    }
    let flash = flash != FlashAttn::Off;
    if type_v.block() > 1 && !flash {
        return refuse(format!("a V cache of {type_v} needs flash attention: turn it on or use f16"));
    }
    for (name, ty, sizes) in [("K", type_k, &hparams.n_embd_head_k), ("V", type_v, &hparams.n_embd_head_v)] {
        let block = ty.block();
        // forks fill the last block of a head, or have blocks across heads
        if matches!(ty, Type::Fork(_)) {
            continue;
        }
        let odd = (0..hparams.n_layer())
            .map(|il| sizes[usize::from(hparams.is_swa[il])])
            .find(|head| !head.is_multiple_of(block));
        if let (true, true, Some(head)) = (flash, block > 1, odd) {
            return refuse(format!(
                "a {name} head of {head} elements is not a multiple of the {ty} block size {block}: use f16"
            ));
        }
    }
    Ok(())
}
