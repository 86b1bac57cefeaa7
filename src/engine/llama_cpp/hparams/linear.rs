//! Linear attention: Kimi's delta attention (KDA) between blocks with compressed attention, and RWKV.

use super::Hparams;
use super::keys::HeaderKeys;
use crate::engine::llama_cpp::architecture::Architecture;
use crate::engine::llama_cpp::error::LoadError;

impl Hparams {
    /// `MiniMax` 01: seven of eight blocks have lightning attention unless the header says otherwise (`minimax-01.cpp`,
    /// 0.1.161).
    pub(super) fn lightning(&mut self, keys: &HeaderKeys<'_>) {
        self.n_embd_head_la = self.n_embd_head_k[0];
        self.recurrent_interval(keys, 8);
    }

    /// RWKV 6 and 7 (`rwkv6.cpp`, `rwkv7.cpp`, 0.1.161).
    pub(super) fn rwkv(&mut self, keys: &HeaderKeys<'_>) -> Result<(), LoadError> {
        self.wkv_head_size = keys.need("wkv.head_size")?;
        self.token_shift_count = keys.number("token_shift_count").unwrap_or(2);
        self.rescale_every_n_layers = keys.count("rescale_every_n_layers").unwrap_or(0);
        Ok(())
    }

    /// Kimi Linear, Kimi K3 and Ling 3 (`kimi-linear.cpp`, `kimi-k3.cpp`, `bailingmoe3.cpp`, 0.1.161). Blocks without KV heads are recurrent.
    pub(super) fn kimi_delta(&mut self, keys: &HeaderKeys<'_>, architecture: Architecture) -> Result<(), LoadError> {
        self.delta_attention(keys)?;
        if architecture == Architecture::KimiK3 {
            self.residual_bank = usize::try_from(keys.need("attn_res.block_size")?).unwrap_or(0);
            self.scales_up = keys.float("activation.situ_linear_beta").unwrap_or(0.0) > 0.0;
        }
        if architecture == Architecture::BailingMoe3 {
            self.read_rope_sections(keys);
            self.read_swiglu_clamps(keys);
        } else {
            self.has_rope = false;
        }
        Ok(())
    }

    /// Compressed attention, and between it blocks of delta attention.
    pub(super) fn delta_attention(&mut self, keys: &HeaderKeys<'_>) -> Result<(), LoadError> {
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
