//! Hyperparameters specific to an architecture (`load_arch_hparams` in `models/*.cpp`, 0.1.161).

use super::keys::HeaderKeys;
use super::{Hparams, Ssm, gating};
use crate::engine::llama_cpp::architecture::Architecture;
use crate::engine::llama_cpp::error::LoadError;
use crate::engine::llama_cpp::release::ReleaseTraits;

impl Hparams {
    pub(super) fn read_architecture(
        &mut self,
        keys: &HeaderKeys<'_>,
        architecture: Architecture,
        release: &ReleaseTraits,
    ) -> Result<(), LoadError> {
        use Architecture as A;
        self.read_experts(keys, architecture);
        match architecture {
            A::Granite | A::GraniteHybrid => self.granite(keys, architecture),
            A::MiniCpm => (self.embedding_scale, self.residual_scale, self.logit_scale) = (true, true, true),
            A::Gemma4 => self.gemma4(keys)?,
            A::ModernBert => self.dense_first_window(keys, 3),
            A::GptNeoX => self.parallel_residual = keys.flag("use_parallel_residual").unwrap_or(true),
            A::Mpt | A::Olmo | A::Dbrx => self.clamp_kqv = keys.float("attention.clamp_kqv").unwrap_or(0.0) > 0.0,
            A::Llama4 => self.llama4(keys)?,
            A::Baichuan => self.has_rope = self.n_layer() == 32,
            A::HyV3 => self.sigmoid_by_default(),
            A::Mimo2 => self.mimo2(keys)?,
            A::Dream | A::LladaMoe | A::Rnd1 => self.causal = false,
            A::DeepSeek2Ocr if self.expert_gating == gating::NONE => self.expert_gating = gating::SOFTMAX,
            A::SmolLm3 => self.no_rope_layer_step = 4,
            A::CommandR => self.logit_scale = keys.float("logit_scale").unwrap_or(0.0) != 0.0,
            A::Mistral3 => self.attn_temperature = keys.float("attention.temperature_scale").unwrap_or(0.0) != 0.0,
            A::DeepSeek2 | A::Mistral4 => self.deepseek2(keys)?,
            A::GroveMoe => self.n_group_experts = keys.need("experts_per_group")?,
            A::MiniCpm3 => {
                keys.need("attention.q_lora_rank")?;
                self.n_lora_kv = keys.need("attention.kv_lora_rank")?;
                (self.residual_scale, self.scales_final) = (true, true);
            }
            A::Plm => self.n_lora_kv = keys.need("attention.kv_lora_rank")?,
            A::Chameleon => self.swin_norm = keys.flag("swin_norm").unwrap_or(false),
            A::Talkie => self.logit_scale = true,
            A::MiniMaxM3 => self.block_sparse(keys)?,
            A::Dots3Note => self.windowed_latent(keys)?,
            A::MiniMax01 => self.lightning(keys),
            A::Nanbeige => self.looped(keys)?,
            A::HrmText => self.hrm_text(keys)?,
            A::T5 => self.t5(keys)?,
            A::GraniteSwitch => self.granite_switch(keys)?,
            A::Grok => {
                (self.embedding_scale, self.logit_scale, self.attn_soft_cap) = (true, true, true);
                self.final_soft_cap = keys.float("final_logit_softcapping").unwrap_or(0.0) != 0.0;
            }
            A::DeepSeek32 | A::GlmDsa | A::HyV4 => self.sparse_latent(keys, architecture)?,
            A::DeepSeek4 => self.compressed_windows(keys)?,
            A::Glm4 | A::Glm4Moe | A::HunyuanVl => {
                self.read_rope_sections(keys);
                if architecture == A::Glm4Moe {
                    self.sigmoid_by_default();
                }
            }
            A::Qwen3Vl | A::Qwen3VlMoe => self.n_deepstack_layers = keys.number("n_deepstack_layers").unwrap_or(0),
            A::Eagle3 => self.eagle3(keys)?,
            A::DFlash => self.dflash(keys)?,
            A::Gemma4Assistant => self.gemma4_assistant(keys)?,
            _ if architecture.is_recurrent() || architecture.is_hybrid() => {
                self.read_recurrent(keys, architecture, release)?;
            }
            _ => self.read_windows(keys, architecture)?,
        }
        Ok(())
    }

    /// The same of those with sliding windows.
    fn read_windows(&mut self, keys: &HeaderKeys<'_>, architecture: Architecture) -> Result<(), LoadError> {
        use Architecture as A;
        match architecture {
            A::Gemma2 => {
                self.n_swa = Some(keys.number("attention.sliding_window").unwrap_or(4096));
                self.swa_pattern(keys, 2);
                (self.attn_soft_cap, self.final_soft_cap) = (true, true);
            }
            A::Gemma3 => {
                self.optional_window(keys, 6);
                self.final_soft_cap = keys.float("final_logit_softcapping").unwrap_or(0.0) != 0.0;
            }
            A::Gemma3n => {
                self.needed_window(keys, 5)?;
                // constants of llama.cpp, whatever the header says
                (self.n_layer_kv_from_start, self.n_embd_per_layer) = (Some(20), 256);
                self.final_soft_cap = true;
            }
            A::GptOss => self.needed_window(keys, 2)?,
            A::GemmaEmbedding => {
                self.needed_window(keys, 6)?;
                self.causal = false;
            }
            A::Cohere2 => {
                self.needed_window(keys, 4)?;
                self.logit_scale = keys.float("logit_scale").unwrap_or(0.0) != 0.0;
            }
            A::Exaone4 if self.n_layer() == 64 => {
                self.n_swa = Some(keys.number("attention.sliding_window").unwrap_or(4096));
                self.swa_pattern(keys, 4);
            }
            A::MuseGlimmer => {
                self.needed_window(keys, 4)?;
                self.logit_scale = true;
                self.final_soft_cap = keys.float("final_logit_softcapping").unwrap_or(0.0) != 0.0;
            }
            A::ExaoneMoe | A::Spark25 => self.needed_window(keys, 4)?,
            A::Maple => {
                self.needed_window(keys, 4)?;
                self.swiglu_clamp_exp = self.limits(keys, "swiglu_clamp_exp");
            }
            A::GraniteSwa => {
                self.granite(keys, architecture);
                self.has_rope = true;
                self.needed_window(keys, 4)?;
                let pattern = keys.list("attention.rope_pattern").unwrap_or_default();
                self.rope_pattern = pattern.into_iter().map(|rotates| rotates != 0).collect();
            }
            A::Step35 => {
                self.needed_window(keys, 4)?;
                self.sigmoid_by_default();
                self.read_swiglu_clamps(keys);
            }
            A::Cohere2Moe => {
                keys.need("attention.sliding_window")?;
                self.dense_first_window(keys, 4);
                self.sigmoid_by_default();
                self.logit_scale = keys.float("logit_scale").unwrap_or(0.0) != 0.0;
                self.norm_rms = keys.float("attention.layer_norm_rms_epsilon").unwrap_or(0.0) != 0.0;
            }
            A::SmallThinker => {
                self.dense_first_window(keys, 4);
                self.n_swa = self.n_swa.map(|_| 4096);
                self.no_rope_layer_step = if self.has_swa() { 4 } else { self.n_layer() as u64 };
            }
            A::AfMoe => {
                self.optional_window(keys, 4);
                self.sigmoid_by_default();
                self.no_rope_layer_step = 4;
            }
            A::Plamo3 => self.optional_window(keys, 8),
            A::Olmo2 | A::Mellum => self.optional_window(keys, 4),
            A::Laguna => {
                self.dense_first_window(keys, 4);
                self.sigmoid_by_default();
            }
            _ => {}
        }
        Ok(())
    }

    /// The same of those with recurrent blocks.
    fn read_recurrent(
        &mut self,
        keys: &HeaderKeys<'_>,
        architecture: Architecture,
        release: &ReleaseTraits,
    ) -> Result<(), LoadError> {
        use Architecture as A;
        match architecture {
            A::Rwkv6 | A::Rwkv6Qwen2 | A::Rwkv7 | A::Arwkv7 => self.rwkv(keys)?,
            A::KimiLinear | A::KimiK3 | A::BailingMoe3 => self.kimi_delta(keys, architecture)?,
            A::Glm5Next => self.pooled_latent(keys)?,
            A::Mamba2 => self.mamba2(keys, release)?,
            A::FalconH1 => {
                self.read_ssm(keys)?;
                self.is_recr.fill(true);
            }
            A::Jamba => {
                self.read_ssm(keys)?;
                self.ssm.n_group = 0;
                self.is_recr = self.n_head_kv.iter().map(|heads| *heads == 0).collect();
            }
            A::Plamo2 => self.plamo2(keys)?,
            A::Mamba => {
                self.read_ssm(keys)?;
                self.ssm.n_group = 0;
            }
            A::Qwen3Next | A::Qwen35 | A::Qwen35Moe => {
                self.read_ssm(keys)?;
                self.recurrent_interval(keys, 4);
            }
            A::Qwen4Exp => self.delta_nets_with_ngrams(keys)?,
            A::NemotronH => {
                self.read_ssm(keys)?;
                let n_layer = self.n_layer();
                self.is_recr = (0..self.n_layer_all)
                    .map(|il| il < n_layer && self.n_head_kv[il] == 0 && self.n_ff[il] == 0)
                    .collect();
            }
            A::Lfm2 => {
                self.n_shortconv_l_cache = keys.need("shortconv.l_cache")?;
                self.is_recr = self.n_head_kv.iter().map(|heads| *heads == 0).collect();
                if let Some(window) = keys.number("attention.sliding_window").filter(|window| *window > 0) {
                    self.n_swa = Some(window);
                    self.is_swa = self.is_recr.iter().map(|recurrent| !recurrent).collect();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether rotary positions have several axes.
    pub(super) fn read_rope_sections(&mut self, keys: &HeaderKeys<'_>) {
        let sections = keys.list("rope.dimension_sections").unwrap_or_default();
        self.mrope = sections.len() > 1 && sections[0] > 0 && sections[1] > 0;
    }

    /// Experts are chosen by sigmoid unless the header says otherwise.
    pub(super) fn sigmoid_by_default(&mut self) {
        if self.expert_gating == gating::NONE {
            self.expert_gating = gating::SIGMOID;
        }
    }

    /// The limits of gated activations.
    pub(super) fn read_swiglu_clamps(&mut self, keys: &HeaderKeys<'_>) {
        self.swiglu_clamp_exp = self.limits(keys, "swiglu_clamp_exp");
        self.swiglu_clamp_shexp = self.limits(keys, "swiglu_clamp_shexp");
    }

    /// A limit per block.
    pub(super) fn limits(&self, keys: &HeaderKeys<'_>, name: &str) -> Vec<f32> {
        keys.floats(name, self.n_layer_all).into_iter().map(|limit| limit as f32).collect()
    }

    fn read_experts(&mut self, keys: &HeaderKeys<'_>, architecture: Architecture) {
        self.n_layer_dense_lead = keys.count("leading_dense_block_count").unwrap_or(0);
        self.expert_weights_norm = keys.flag("expert_weights_norm").unwrap_or(false);
        if !architecture.ignores_expert_weights_scale() {
            self.expert_weights_scale = keys.float("expert_weights_scale").unwrap_or(0.0);
        }
        self.expert_gating = keys.number("expert_gating_func").unwrap_or(gating::NONE);
    }

    pub(super) fn read_ssm(&mut self, keys: &HeaderKeys<'_>) -> Result<(), LoadError> {
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
    fn dense_first_window(&mut self, keys: &HeaderKeys<'_>, period: u64) {
        self.n_swa = keys.number("attention.sliding_window").filter(|window| *window > 0);
        if self.n_swa.is_none() {
            return;
        }
        self.swa_pattern(keys, period);
        if keys.list("attention.sliding_window_pattern").is_none() {
            let period = keys.number("attention.sliding_window_pattern").unwrap_or(period);
            for il in 0..self.n_layer() {
                self.is_swa[il] = period == 0 || !(il as u64).is_multiple_of(period);
            }
        }
    }

    fn needed_window(&mut self, keys: &HeaderKeys<'_>, period: u64) -> Result<(), LoadError> {
        self.n_swa = Some(keys.need("attention.sliding_window")?);
        self.swa_pattern(keys, period);
        Ok(())
    }

    #[allow(clippy::float_cmp, reason = "exactly these two values mean nothing")]
    fn mimo2(&mut self, keys: &HeaderKeys<'_>) -> Result<(), LoadError> {
        self.needed_window(keys, 1)?;
        let scale = keys.float("attention.value_scale").unwrap_or(0.0);
        self.attention_scale = scale != 0.0 && scale as f32 != 1.0;
        Ok(())
    }

    fn optional_window(&mut self, keys: &HeaderKeys<'_>, period: u64) {
        self.n_swa = keys.number("attention.sliding_window").filter(|window| *window > 0);
        if self.n_swa.is_some() {
            self.swa_pattern(keys, period);
        }
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

    fn mamba2(&mut self, keys: &HeaderKeys<'_>, release: &ReleaseTraits) -> Result<(), LoadError> {
        if release.mamba2_needs_heads && self.n_head.first() == Some(&0) {
            return Err(LoadError::model(format!(
                "llama.cpp release {} needs attention heads in the header of a Mamba 2 model: use a newer release",
                release.name
            )));
        }
        self.read_ssm(keys)
    }

    fn granite(&mut self, keys: &HeaderKeys<'_>, architecture: Architecture) {
        let mapped = matches!(architecture, Architecture::Granite | Architecture::GraniteSwa);
        self.logit_scale = mapped || keys.float("logit_scale").unwrap_or(0.0) != 0.0;
        self.residual_scale = keys.float("residual_scale").unwrap_or(0.0) != 0.0;
        self.embedding_scale = keys.float("embedding_scale").unwrap_or(0.0) != 0.0;
        self.has_rope = keys.flag("rope.scaling.finetuned").unwrap_or(true);
        if mapped {
            if let Some(list) = keys.list("deepstack_mapping") {
                for (il, level) in list.into_iter().take(self.n_layer_all).enumerate() {
                    self.deepstack_mapping[il] = level;
                }
            }
            let mut levels: Vec<_> = self.deepstack_mapping.iter().filter(|level| **level >= 0).collect();
            levels.sort_unstable();
            levels.dedup();
            self.n_deepstack_layers = levels.len() as u64;
        } else if self.read_ssm(keys).is_ok() {
            self.is_recr = self.n_head_kv.iter().map(|heads| *heads == 0).collect();
        }
    }

    fn gemma4(&mut self, keys: &HeaderKeys<'_>) -> Result<(), LoadError> {
        self.n_swa = Some(keys.need("attention.sliding_window")?);
        self.swa_pattern(keys, 1);
        let shared = keys.count("attention.shared_kv_layers").unwrap_or(0);
        self.n_layer_kv_from_start = Some(self.n_layer_all.saturating_sub(shared));
        self.n_embd_per_layer = keys.need("embedding_length_per_layer_input")?;
        // llama.cpp's default is 30, so the cap applies unless the header has 0
        self.final_soft_cap = keys.float("final_logit_softcapping").unwrap_or(30.0) != 0.0;
        Ok(())
    }

    fn llama4(&mut self, keys: &HeaderKeys<'_>) -> Result<(), LoadError> {
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

    fn deepseek2(&mut self, keys: &HeaderKeys<'_>) -> Result<(), LoadError> {
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
        self.attn_temperature = keys.float("attention.temperature_scale").unwrap_or(0.0) != 0.0;
        Ok(())
    }
}
