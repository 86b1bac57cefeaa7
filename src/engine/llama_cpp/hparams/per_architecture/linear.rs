//! Linear attention: Kimi's delta attention (KDA) between blocks with compressed attention, lightning attention,
//! RWKV, and `PLaMo`'s state spaces.

use super::super::{HeaderKeys, Hparams, NgramTable};
use super::Read;
use crate::engine::llama_cpp::error::LoadError;

/// `LLAMA_MAX_PLE_NGRAM` (`llama-hparams.h`, 0.1.161).
const MAX_PLE_NGRAM: u64 = 8;
/// `LLAMA_MAX_PLE_HEADS` (`llama-hparams.h`, 0.1.161).
const MAX_PLE_HEADS: u64 = 64;
/// Limit of a convolution's taps, far beyond every published model.
const MAX_TAPS: u64 = 1 << 14;

impl Hparams {
    /// `MiniMax` 01: seven of eight blocks have lightning attention unless the header says otherwise (`minimax-01.cpp`,
    /// 0.1.161).
    pub(crate) fn lightning(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.n_embd_head_la = self.n_embd_head_k[0];
        self.recurrent_interval(keys, 8);
        Ok(())
    }

    /// `PLaMo` 2: blocks without KV heads are recurrent (`plamo2.cpp`, 0.1.161).
    pub(crate) fn plamo2(&mut self, keys: &HeaderKeys<'_>) -> Read {
        keys.need("ssm.group_count")?;
        self.read_ssm(keys)?;
        if self.ssm.n_group != 0 || self.ssm.dt_rank == 0 || !self.ssm.d_inner.is_multiple_of(self.ssm.dt_rank) {
            let why = "ssm.group_count must be 0, and ssm.inner_size a multiple of ssm.time_step_rank: llama.cpp ends \
                       with an error otherwise";
            return Err(LoadError::model(why));
        }
        // the first block has no heads that would give them
        let size = |name, now: [u64; 2]| keys.number(name).map_or(now, |size| [size; 2]);
        self.n_embd_head_k = size("attention.key_length", self.n_embd_head_k);
        self.n_embd_head_v = size("attention.value_length", self.n_embd_head_v);
        self.recurrent_without_heads();
        Ok(())
    }

    /// RWKV 6 and 7 (`rwkv6.cpp`, `rwkv7.cpp`, 0.1.161).
    pub(crate) fn rwkv(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.wkv_head_size = keys.need("wkv.head_size")?;
        self.token_shift_count = keys.number("token_shift_count").unwrap_or(2);
        self.rescale_every_n_layers = keys.count("rescale_every_n_layers").unwrap_or(0);
        Ok(())
    }

    /// Kimi Linear: blocks without KV heads are recurrent, and nothing has positions (`kimi-linear.cpp`, 0.1.161).
    pub(crate) fn kimi_linear(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.has_rope = false;
        self.delta_attention(keys)
    }

    /// Kimi K3: the same with a bank of residuals (`kimi-k3.cpp`, 0.1.161).
    pub(crate) fn kimi_k3(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.kimi_linear(keys)?;
        self.residual_bank = usize::try_from(keys.need("attn_res.block_size")?).unwrap_or(0);
        self.scales_up = keys.float("activation.situ_linear_beta").unwrap_or(0.0) > 0.0;
        Ok(())
    }

    /// Ling 3: the same with positions (`bailingmoe3.cpp`, 0.1.161).
    pub(crate) fn bailing_moe3(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.delta_attention(keys)?;
        self.swiglu_clamps(keys)
    }

    /// Qwen 3.8 Flash Next: gated delta nets, and one block with a table of n-grams (`qwen4exp.cpp`, 0.1.161).
    pub(crate) fn delta_nets_with_ngrams(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.read_ssm(keys)?;
        self.recurrent_interval(keys, 4);
        self.n_hyper_connections = keys.need("hyper_connection.count")?;
        if self.n_hyper_connections < 2 || self.ssm.n_group == 0 || self.ssm.dt_rank == 0 {
            return Err(LoadError::model(
                "llama.cpp cannot load this model: it needs 2 residual streams at least, and groups and ranks of its delta \
                 nets",
            ));
        }
        self.ngrams = self.ngram_table(keys)?;
        self.pooled_attention(keys)
    }

    fn ngram_table(&self, keys: &HeaderKeys<'_>) -> Result<Option<NgramTable>, LoadError> {
        let blocks = keys.list("ple.layers").unwrap_or_default();
        let Some(block) = blocks.first().and_then(|block| usize::try_from(*block).ok()) else { return Ok(None) };
        let ngram_size = keys.need("ple.ngram_size")?;
        let heads = ngram_size.saturating_sub(1).saturating_mul(keys.need("ple.heads_per_ngram")?);
        let conv_kernel = keys.need("ple.conv_kernel")?;
        let fits = |number: u64, most: u64| (1..=most).contains(&number);
        let is_recurrent = self.is_recr.get(block) == Some(&true);
        let is_sized = ngram_size <= MAX_PLE_NGRAM && fits(heads, MAX_PLE_HEADS) && fits(conv_kernel, MAX_TAPS);
        if blocks.len() > 1 || !is_recurrent || !is_sized {
            return Err(LoadError::model(
                "llama.cpp cannot load this model: its table of n-grams must belong to one block that is a delta net, and \
                 have 1 to 64 rows per token",
            ));
        }
        Ok(Some(NgramTable { block, ngram_size, heads, conv_kernel }))
    }

    /// Compressed attention, and between it blocks of delta attention.
    pub(super) fn delta_attention(&mut self, keys: &HeaderKeys<'_>) -> Read {
        keys.need("attention.kv_lora_rank")?;
        self.read_latent(keys);
        self.ssm.d_conv = keys.need("ssm.conv_kernel")?;
        self.n_embd_head_kda = keys.need("kda.head_dim")?;
        self.bounded_decay = keys.float("kda.gate_lower_bound").is_some();
        let n_layer = self.n_layer();
        self.is_recr = self.n_head_kv.iter().enumerate().map(|(il, heads)| il < n_layer && *heads == 0).collect();
        Ok(())
    }
}
