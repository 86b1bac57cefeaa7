//! Hyperparameters specific to an architecture (`load_arch_hparams` in `models/*.cpp`, 0.1.161).
#![allow(clippy::unnecessary_wraps, reason = "rows of the table name them beside those that may fail")]

mod drafts;
mod linear;
mod sparse;
mod uncounted;

use super::{HeaderKeys, Hparams, Ssm};
use crate::engine::llama_cpp::architecture::{Architecture, Trait, Window};
use crate::engine::llama_cpp::error::LoadError;
use crate::engine::llama_cpp::transformer::gating;

/// Hyperparameters that were read, or why llama.cpp would not load the file.
type Read = Result<(), LoadError>;

impl Hparams {
    /// Those with a share in every row: experts.
    pub(super) fn read_experts(&mut self, keys: &HeaderKeys<'_>, architecture: &Architecture) {
        self.n_layer_dense_lead = keys.count("leading_dense_block_count").unwrap_or(0);
        self.expert_weights_norm = keys.flag("expert_weights_norm").unwrap_or(false);
        if !architecture.has(Trait::IgnoresExpertWeightsScale) {
            self.expert_weights_scale = keys.float("expert_weights_scale").unwrap_or(0.0);
        }
        let given = keys.number("expert_gating_func").filter(|given| *given != gating::NONE);
        self.expert_gating = given.unwrap_or(architecture.gating);
    }

    /// Those that rows of the table name: windows, scales and limits.
    pub(super) fn read_named(&mut self, keys: &HeaderKeys<'_>, architecture: &Architecture) -> Read {
        let has = |it| architecture.has(it);
        self.causal &= !has(Trait::Diffusion) && !has(Trait::ReadsOnly);
        self.parallel_residual = keys.flag("use_parallel_residual").unwrap_or(true);
        self.clamp_kqv = has(Trait::ReadsKqvClamp) && keys.float("attention.clamp_kqv").unwrap_or(0.0) > 0.0;
        self.attn_temperature = has(Trait::ReadsTemperature) && keys.is_given("attention.temperature_scale");
        self.attn_soft_cap = has(Trait::CapsScores);
        self.logit_scale = has(Trait::ScalesLogits) || has(Trait::ReadsLogitScale) && keys.is_given("logit_scale");
        self.final_soft_cap =
            has(Trait::CapsLogits) || has(Trait::ReadsLogitCap) && keys.is_given("final_logit_softcapping");
        if has(Trait::SeveralPositionsBySections) {
            let sections = keys.list("rope.dimension_sections").unwrap_or_default();
            self.mrope = sections.len() > 1 && sections[0] > 0 && sections[1] > 0;
        }
        match architecture.window {
            Window::None => Ok(()),
            Window::Optional(period) => self.optional_window(keys, period),
            Window::Needed(period) => self.needed_window(keys, period),
            Window::DenseFirst(period) => self.dense_first_window(keys, period),
        }
    }

    pub(crate) fn scaled_embeddings(&mut self) -> Read {
        self.embedding_scale = true;
        Ok(())
    }

    pub(crate) fn scaled_stream(&mut self) -> Read {
        self.residual_scale = true;
        self.scaled_embeddings()
    }

    pub(crate) fn baichuan(&mut self) -> Read {
        self.has_rope = self.n_layer() == 32;
        Ok(())
    }

    pub(crate) fn no_rope_every(&mut self, blocks: u64) -> Read {
        self.no_rope_layer_step = blocks;
        Ok(())
    }

    pub(crate) fn grovemoe(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.n_group_experts = keys.need("experts_per_group")?;
        Ok(())
    }

    pub(crate) fn minicpm3(&mut self, keys: &HeaderKeys<'_>) -> Read {
        keys.need("attention.q_lora_rank")?;
        (self.residual_scale, self.scales_final) = (true, true);
        self.plm(keys)
    }

    pub(crate) fn plm(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.n_lora_kv = keys.need("attention.kv_lora_rank")?;
        Ok(())
    }

    pub(crate) fn chameleon(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.swin_norm = keys.flag("swin_norm").unwrap_or(false);
        Ok(())
    }

    pub(crate) fn deepstack(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.n_deepstack_layers = keys.number("n_deepstack_layers").unwrap_or(0);
        Ok(())
    }

    /// Constants of llama.cpp, whatever the header says.
    pub(crate) fn gemma3n(&mut self) -> Read {
        (self.n_layer_kv_from_start, self.n_embd_per_layer) = (Some(20), 256);
        Ok(())
    }

    pub(crate) fn exaone4(&mut self, keys: &HeaderKeys<'_>) -> Read {
        if self.n_layer() == 64 { self.window_of_4096(keys, 4) } else { Ok(()) }
    }

    pub(crate) fn cohere2_moe(&mut self, keys: &HeaderKeys<'_>) -> Read {
        keys.need("attention.sliding_window")?;
        self.norm_rms = keys.is_given("attention.layer_norm_rms_epsilon");
        Ok(())
    }

    pub(crate) fn smallthinker(&mut self) -> Read {
        self.n_swa = self.n_swa.map(|_| 4096);
        self.no_rope_every(if self.has_swa() { 4 } else { self.n_layer() as u64 })
    }

    pub(crate) fn falcon_h1(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.is_recr.fill(true);
        self.attends = vec![true; self.n_layer_all];
        self.read_ssm(keys)
    }

    pub(crate) fn mamba(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.read_ssm(keys)?;
        self.ssm.n_group = 0;
        Ok(())
    }

    pub(crate) fn jamba(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.recurrent_without_heads();
        self.mamba(keys)
    }

    pub(crate) fn delta_nets(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.recurrent_interval(keys, 4);
        self.read_ssm(keys)
    }

    /// A block without heads is recurrent if it has no feed-forward part either, and has attention if it has heads only.
    pub(crate) fn nemotron_h(&mut self, keys: &HeaderKeys<'_>) -> Read {
        let n_layer = self.n_layer();
        let is_recurrent = |il: usize| il < n_layer && self.n_head_kv[il] == 0 && self.n_ff[il] == 0;
        self.is_recr = (0..self.n_layer_all).map(is_recurrent).collect();
        self.attends = (0..self.n_layer_all).map(|il| !self.is_recr[il] && self.n_ff[il] == 0).collect();
        self.read_ssm(keys)
    }

    pub(crate) fn lfm2(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.n_shortconv_l_cache = keys.need("shortconv.l_cache")?;
        self.recurrent_without_heads();
        if let Some(window) = keys.number("attention.sliding_window").filter(|window| *window > 0) {
            self.n_swa = Some(window);
            self.is_swa = self.is_recr.iter().map(|recurrent| !recurrent).collect();
        }
        Ok(())
    }

    pub(crate) fn mamba2(&mut self, keys: &HeaderKeys<'_>) -> Read {
        if keys.release.mamba2_needs_heads && self.n_head.first() == Some(&0) {
            return Err(LoadError::model(format!(
                "llama.cpp release {} needs attention heads in the header of a Mamba 2 model: use a newer release",
                keys.release.name
            )));
        }
        self.read_ssm(keys)
    }

    /// The limits of gated activations.
    pub(crate) fn swiglu_clamps(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.swiglu_clamp_shexp = self.limits(keys, "swiglu_clamp_shexp");
        self.swiglu_clamp_exp(keys)
    }

    /// That of experts alone.
    pub(crate) fn swiglu_clamp_exp(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.swiglu_clamp_exp = self.limits(keys, "swiglu_clamp_exp");
        Ok(())
    }

    /// A limit per block.
    pub(super) fn limits(&self, keys: &HeaderKeys<'_>, name: &str) -> Vec<f32> {
        keys.floats(name, self.n_layer_all).into_iter().map(|limit| limit as f32).collect()
    }

    pub(super) fn read_ssm(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.ssm = Ssm {
            d_conv: keys.need("ssm.conv_kernel")?,
            d_inner: keys.need("ssm.inner_size")?,
            d_state: keys.need("ssm.state_size")?,
            dt_rank: keys.need("ssm.time_step_rank")?,
            n_group: keys.number("ssm.group_count").unwrap_or(0),
            dt_b_c_rms: keys.flag("ssm.dt_b_c_rms").unwrap_or(false),
        };
        Ok(())
    }

    /// The blocks with a sliding window: from a list in the header, or all but every `period`-th.
    pub(super) fn swa_pattern(&mut self, keys: &HeaderKeys<'_>, period: u64) {
        if let Some(list) = keys.list("attention.sliding_window_pattern") {
            for (il, window) in list.into_iter().take(self.n_layer_all).enumerate() {
                self.is_swa[il] = window != 0;
            }
            return;
        }
        let period = keys.number("attention.sliding_window_pattern").unwrap_or(period);
        for il in 0..self.n_layer() {
            self.is_swa[il] = period == 0 || il as u64 % period < period - 1;
        }
    }

    /// The same if the first block of a period has no window.
    fn dense_first_window(&mut self, keys: &HeaderKeys<'_>, period: u64) -> Read {
        self.optional_window(keys, period)?;
        if self.n_swa.is_some() && keys.list("attention.sliding_window_pattern").is_none() {
            let period = keys.number("attention.sliding_window_pattern").unwrap_or(period);
            for il in 0..self.n_layer() {
                self.is_swa[il] = period == 0 || !(il as u64).is_multiple_of(period);
            }
        }
        Ok(())
    }

    pub(crate) fn window_of_4096(&mut self, keys: &HeaderKeys<'_>, period: u64) -> Read {
        self.n_swa = Some(keys.number("attention.sliding_window").unwrap_or(4096));
        self.swa_pattern(keys, period);
        Ok(())
    }

    fn needed_window(&mut self, keys: &HeaderKeys<'_>, period: u64) -> Read {
        self.n_swa = Some(keys.need("attention.sliding_window")?);
        self.swa_pattern(keys, period);
        Ok(())
    }

    #[allow(clippy::float_cmp, reason = "exactly these two values mean nothing")]
    pub(crate) fn mimo2(&mut self, keys: &HeaderKeys<'_>) -> Read {
        let scale = keys.float("attention.value_scale").unwrap_or(0.0);
        self.attention_scale = scale != 0.0 && scale as f32 != 1.0;
        Ok(())
    }

    fn optional_window(&mut self, keys: &HeaderKeys<'_>, period: u64) -> Read {
        self.n_swa = keys.number("attention.sliding_window").filter(|window| *window > 0);
        if self.n_swa.is_some() {
            self.swa_pattern(keys, period);
        }
        Ok(())
    }

    /// Blocks without KV heads are recurrent.
    fn recurrent_without_heads(&mut self) {
        self.is_recr = self.n_head_kv.iter().map(|heads| *heads == 0).collect();
    }

    /// The recurrent blocks: from a list in the header, or all but every n-th.
    pub(super) fn recurrent_interval(&mut self, keys: &HeaderKeys<'_>, interval: usize) {
        if let Some(list) = keys.list("attention.recurrent_layers") {
            for (il, recurrent) in list.into_iter().take(self.n_layer_all).enumerate() {
                self.is_recr[il] = recurrent != 0;
            }
            return;
        }
        let interval = keys.count("full_attention_interval").unwrap_or(interval).max(1);
        for il in 0..self.n_layer() {
            self.is_recr[il] = !(il + 1).is_multiple_of(interval);
        }
    }

    fn granite_scales(&mut self, keys: &HeaderKeys<'_>) {
        self.residual_scale = keys.is_given("residual_scale");
        self.embedding_scale = keys.is_given("embedding_scale");
        self.has_rope = keys.flag("rope.scaling.finetuned").unwrap_or(true);
    }

    /// Granite; its blocks may list the deepstack level that each adds.
    pub(crate) fn granite(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.granite_scales(keys);
        self.logit_scale = true;
        if let Some(list) = keys.list("deepstack_mapping") {
            for (il, level) in list.into_iter().take(self.n_layer_all).enumerate() {
                self.deepstack_mapping[il] = level;
            }
        }
        let mut levels: Vec<_> = self.deepstack_mapping.iter().filter(|level| **level >= 0).collect();
        levels.sort_unstable();
        levels.dedup();
        self.n_deepstack_layers = levels.len() as u64;
        Ok(())
    }

    pub(crate) fn granite_hybrid(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.granite_scales(keys);
        if self.read_ssm(keys).is_ok() {
            self.recurrent_without_heads();
        }
        Ok(())
    }

    pub(crate) fn granite_swa(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.granite(keys)?;
        self.has_rope = true;
        let pattern = keys.list("attention.rope_pattern").unwrap_or_default();
        self.rope_pattern = pattern.into_iter().map(|rotates| rotates != 0).collect();
        Ok(())
    }

    pub(crate) fn gemma4(&mut self, keys: &HeaderKeys<'_>) -> Read {
        let shared = keys.count("attention.shared_kv_layers").unwrap_or(0);
        self.n_layer_kv_from_start = Some(self.n_layer_all.saturating_sub(shared));
        self.n_embd_per_layer = keys.need("embedding_length_per_layer_input")?;
        // llama.cpp's default is 30, so the cap applies unless the header has 0
        self.final_soft_cap = keys.float("final_logit_softcapping").unwrap_or(30.0) != 0.0;
        Ok(())
    }

    pub(crate) fn llama4(&mut self, keys: &HeaderKeys<'_>) -> Read {
        keys.need("interleave_moe_layer_step")?;
        self.use_kq_norm = self.n_expert != 128;
        if keys.number("attention.sliding_window") == Some(0) {
            self.no_rope_layer_step = self.n_layer() as u64;
        } else {
            self.n_swa = Some(8192);
            self.no_rope_layer_step = 4;
            self.swa_pattern(keys, 4);
        }
        Ok(())
    }

    /// Sizes of the compressed cache, if in the header.
    pub(super) fn read_latent(&mut self, keys: &HeaderKeys<'_>) {
        self.n_lora_kv = keys.number("attention.kv_lora_rank").unwrap_or(0);
        let decompressed = |name| keys.number(name).filter(|size| *size > 0);
        self.mla = decompressed("attention.key_length_mla").zip(decompressed("attention.value_length_mla"));
    }

    pub(crate) fn deepseek2(&mut self, keys: &HeaderKeys<'_>) -> Read {
        let n_vocab = keys.number("vocab_size").unwrap_or(0);
        let n_layer = self.n_layer();
        let lite = n_layer == 27 || n_layer == 26 || (n_layer == 48 && n_vocab == 128_256);
        if !lite {
            keys.need("attention.q_lora_rank")?;
        }
        keys.need("attention.kv_lora_rank")?;
        self.read_latent(keys);
        if self.expert_gating == gating::NONE {
            let glm = (n_layer == 47 || n_layer == 48) && n_vocab == 154_880;
            self.expert_gating = if glm { gating::SIGMOID } else { gating::SOFTMAX };
        }
        Ok(())
    }
}
