//! Linear attention: Kimi's delta attention (KDA) between blocks with compressed attention, lightning attention, RWKV,
//! and `PLaMo`'s state spaces.

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

    /// `PLaMo` 2: blocks without KV heads are recurrent (`plamo2.cpp`, 0.1.161).
    pub(super) fn plamo2(&mut self, keys: &HeaderKeys<'_>) -> Result<(), LoadError> {
        keys.need("ssm.group_count")?;
        self.read_ssm(keys)?;
        if self.ssm.n_group != 0 || self.ssm.dt_rank == 0 || !self.ssm.d_inner.is_multiple_of(self.ssm.dt_rank) {
            let why = "ssm.group_count must be 0, and ssm.inner_size a multiple of ssm.time_step_rank: llama.cpp ends \
                       with an error otherwise";
            return Err(LoadError::model(why.to_owned()));
        }
        // the first block has no heads that would give them
        let size = |name, now: [u64; 2]| keys.number(name).map_or(now, |size| [size; 2]);
        self.n_embd_head_k = size("attention.key_length", self.n_embd_head_k);
        self.n_embd_head_v = size("attention.value_length", self.n_embd_head_v);
        self.is_recr = self.n_head_kv.iter().map(|heads| *heads == 0).collect();
        Ok(())
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
        keys.need("attention.kv_lora_rank")?;
        self.read_latent(keys);
        self.ssm.d_conv = keys.need("ssm.conv_kernel")?;
        self.n_embd_head_kda = keys.need("kda.head_dim")?;
        self.bounded_decay = keys.float("kda.gate_lower_bound").is_some();
        if architecture == Architecture::KimiK3 {
            self.residual_bank = usize::try_from(keys.need("attn_res.block_size")?).unwrap_or(0);
            self.scales_up = keys.float("activation.situ_linear_beta").unwrap_or(0.0) > 0.0;
        }
        let n_layer = self.n_layer();
        self.is_recr = self.n_head_kv.iter().enumerate().map(|(il, heads)| il < n_layer && *heads == 0).collect();
        if architecture == Architecture::BailingMoe3 {
            self.read_rope_sections(keys);
            self.read_swiglu_clamps(keys);
        } else {
            self.has_rope = false;
        }
        Ok(())
    }
}
