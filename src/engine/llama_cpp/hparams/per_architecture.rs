//! Hyperparameters specific to an architecture (`load_arch_hparams` in `models/*.cpp`, 0.1.161).
#![allow(clippy::unnecessary_wraps, reason = "rows of the table name them beside those that may fail")]

use super::{DraftHparams, HeaderKeys, Hparams, HrmStacks, Indexer, MAX_LAYERS, NgramTable, Pools, Ssm};
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

// Sparse attention: the indexer and the blocks that have one.

/// The training context from which GLM's blocks share indexers if the header does not say which (`glm-dsa.cpp`, 0.1.161).
const GLM_SHARES_FROM: u64 = 1 << 20;

impl Hparams {
    /// Compressed attention, which must be decompressed by head.
    fn latent_by_heads(&mut self, keys: &HeaderKeys<'_>) -> Read {
        keys.need("attention.q_lora_rank")?;
        keys.need("attention.kv_lora_rank")?;
        self.read_latent(keys);
        if self.mla.is_none() {
            return Err(LoadError::model(
                "the header lacks attention.key_length_mla and attention.value_length_mla: convert the model again",
            ));
        }
        Ok(())
    }

    /// `DeepSeek` 3.2: compressed attention with an indexer in every block (`deepseek32.cpp`, 0.1.161).
    pub(crate) fn deepseek32(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.latent_by_heads(keys)?;
        self.read_indexer(keys, vec![true; self.n_layer_all])
    }

    /// GLM 5: the same, but some blocks share an indexer (`glm-dsa.cpp`, 0.1.161).
    pub(crate) fn glm_dsa(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.latent_by_heads(keys)?;
        let mut is_full = vec![true; self.n_layer_all];
        if self.n_ctx_train >= GLM_SHARES_FROM {
            // GLM 5.2: the first two blocks, then every fourth
            is_full.iter_mut().enumerate().for_each(|(il, full)| *full = il < 2 || il % 4 == 2);
        }
        self.read_listed_indexers(keys, is_full)
    }

    /// Hy4: the same over several residual streams (`hy-v4.cpp`, 0.1.161). There are files without an indexer.
    pub(crate) fn hy_v4(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.latent_by_heads(keys)?;
        self.n_hyper_connections = keys.need("hyper_connection.count")?;
        self.swiglu_clamp_exp = self.limits(keys, "swiglu_clamp_exp");
        if keys.number("attention.indexer.top_k").unwrap_or(0) == 0 {
            return Ok(());
        }
        self.read_listed_indexers(keys, vec![true; self.n_layer_all])
    }

    /// The indexer, in the blocks that the header lists, or else in those of `is_full`.
    fn read_listed_indexers(&mut self, keys: &HeaderKeys<'_>, mut is_full: Vec<bool>) -> Read {
        if let Some(list) = keys.each("attention.indexer.types", self.n_layer())? {
            is_full.iter_mut().zip(list).for_each(|(full, listed)| *full = listed != 0);
        }
        self.read_indexer(keys, is_full)
    }

    /// dots 3 note: blocks with a window have compressed caches of another size, the others an indexer
    /// (`dots3note.cpp`, 0.1.161).
    pub(crate) fn windowed_latent(&mut self, keys: &HeaderKeys<'_>) -> Read {
        keys.need("attention.q_lora_rank")?;
        keys.need("attention.kv_lora_rank")?;
        self.read_latent(keys);
        let heads = (keys.need("attention.key_length_mla_swa")?, keys.need("attention.value_length_mla_swa")?);
        self.latent_swa = Some((heads, keys.need("attention.kv_lora_rank_swa")?));
        self.read_listed_indexers(keys, vec![false; self.n_layer_all])
    }

    /// `MiniMax` M3: all blocks with experts have an indexer, which chooses blocks of positions (`minimax-m3.cpp`,
    /// 0.1.161).
    pub(crate) fn block_sparse(&mut self, keys: &HeaderKeys<'_>) -> Read {
        if keys.need("attention.indexer.block_size")? == 0 {
            return Err(LoadError::model("attention.indexer.block_size is 0: convert the model again"));
        }
        self.read_indexer(keys, (0..self.n_layer_all).map(|il| il >= self.n_layer_dense_lead).collect())
    }

    /// Whether an indexer that chooses blocks of positions has other heads than the keys of its block (`minimax-m3.cpp`,
    /// 0.1.161).
    pub fn blocks_lack_indexer_heads(&self) -> bool {
        self.indexer.as_ref().is_some_and(|indexer| {
            let mut blocks = indexer.is_full.iter().zip(&self.n_head_kv);
            indexer.block_size > 0 && blocks.any(|(full, heads)| *full && *heads != indexer.n_head)
        })
    }

    /// `DeepSeek` 4: a window in every block, and in most a cache of compressed rows besides, of which those of 4 tokens
    /// have an indexer (`deepseek4.cpp`, 0.1.161).
    pub(crate) fn compressed_windows(&mut self, keys: &HeaderKeys<'_>) -> Read {
        let refuse = |why: &str| Err(LoadError::model(format!("{why}: convert the model again")));
        if !keys.has_tensor(&format!("blk.{}.nextn.eh_proj.weight", self.n_layer())) {
            self.n_layer_nextn = 0;
        }
        keys.need("attention.q_lora_rank")?;
        self.n_swa = Some(keys.need("attention.sliding_window")?);
        self.is_swa.fill(true);
        self.swiglu_clamp_exp = self.limits(keys, "swiglu_clamp_exp");
        if self.swiglu_clamp_exp.is_empty() {
            return refuse("the header lacks swiglu_clamp_exp");
        }
        self.swiglu_clamp_shexp = self.limits(keys, "swiglu_clamp_shexp");
        if self.swiglu_clamp_shexp.is_empty() {
            self.swiglu_clamp_shexp.clone_from(&self.swiglu_clamp_exp);
        }
        if keys.need("expert_gating_func")? != gating::SQRT_SOFTPLUS {
            return refuse("expert_gating_func is not the square root of softplus (4), which llama.cpp expects here");
        }
        keys.need("attention.output_lora_rank")?;
        self.n_output_groups = keys.need("attention.output_group_count")?;
        self.n_hyper_connections = keys.need("hyper_connection.count")?;
        self.n_sinkhorn_iterations = keys.need("hyper_connection.sinkhorn_iterations")?;
        if self.n_hyper_connections != 4 || self.n_sinkhorn_iterations == 0 {
            return refuse("the header has not four hyper-connections and at least one iteration to balance them");
        }
        self.n_hash_layers = usize::try_from(keys.need("hash_layer_count")?).unwrap_or(usize::MAX);
        self.compress_ratios = keys.each("attention.compress_ratios", self.n_layer_all)?.unwrap_or_default();
        if self.compress_ratios.is_empty() {
            return refuse("the header lacks attention.compress_ratios");
        }
        if !self.compress_ratios.iter().all(|ratio| matches!(ratio, 0 | 4 | 128)) {
            return refuse("attention.compress_ratios has others than 0, 4 and 128");
        }
        let is_full: Vec<bool> = self.compress_ratios.iter().map(|ratio| *ratio == 4).collect();
        let indexes = is_full.contains(&true);
        self.read_indexer(keys, is_full)?;
        // llama.cpp rotates the keys of an indexer whatever their format, takes any cache for one whose heads have that size,
        // and divides by zero to rotate one without blocks
        if !indexes || self.indexer.as_ref().is_some_and(|indexer| indexer.head_size == self.n_embd_head_k[0]) {
            return refuse(
                "llama.cpp would end with an error: no block has a compress ratio of 4, or heads are of the indexer's size",
            );
        }
        Ok(())
    }

    /// GLM 5.3: compressed attention without positions, whose indexer chooses pools, between blocks of delta attention
    /// (`glm5-next.cpp`, 0.1.161).
    pub(crate) fn pooled_latent(&mut self, keys: &HeaderKeys<'_>) -> Read {
        for key in ["attention.q_lora_rank", "attention.key_length_mla", "attention.value_length_mla"] {
            keys.need(key)?;
        }
        self.delta_attention(keys)?;
        self.n_embd_head_v = [self.n_lora_kv; 2];
        self.n_hyper_connections = keys.need("hyper_connection.count")?;
        self.n_sinkhorn_iterations = keys.need("hyper_connection.sinkhorn_iterations")?;
        if self.n_hyper_connections != 4 || self.n_rot[0] != 0 {
            return Err(LoadError::model(
                "llama.cpp would end with an error: it supports 4 residual streams and attention without positions only",
            ));
        }
        let mut is_full: Vec<bool> = self.is_recr.iter().map(|recurrent| !recurrent).collect();
        if let Some(list) = keys.each("attention.indexer.types", self.n_layer())? {
            is_full.iter_mut().zip(list).for_each(|(full, listed)| *full &= listed != 0);
        }
        self.read_indexer(keys, is_full)?;
        let keeps_tail = keys.flag("attention.indexer.kpool_select_tail").unwrap_or(true);
        // key, gate and pooled key
        self.read_pools(Pools { size: keys.need("attention.indexer.kpool")?, row: 3, keeps_tail })
    }

    /// Qwen 3.8 Flash Next: attention to pools of tokens, in blocks whose compress ratio is the size of a pool; without
    /// ratios attention is dense, and the indexer's keys are cached all the same (`qwen4exp.cpp`, 0.1.161).
    pub(super) fn pooled_attention(&mut self, keys: &HeaderKeys<'_>) -> Read {
        let mut ratios = keys.each("attention.compress_ratios", self.n_layer_all)?.unwrap_or_default();
        ratios.resize(self.n_layer_all, 0);
        let has_cache: Vec<bool> = self.is_recr.iter().map(|recurrent| !recurrent).collect();
        self.read_indexer(keys, has_cache)?;
        let Some(indexer) = &mut self.indexer else { return Ok(()) };
        indexer.is_read = ratios.iter().map(|ratio| *ratio > 0).collect();
        let mut sizes = ratios.into_iter().filter(|ratio| *ratio > 0);
        let Some(size) = sizes.next() else { return Ok(()) };
        if sizes.any(|other| other != size) {
            return Err(LoadError::model(
                "llama.cpp cannot load this model: the ratios of attention.compress_ratios differ",
            ));
        }
        // key and pooled key
        self.read_pools(Pools { size, row: 2, keeps_tail: true })
    }

    fn read_pools(&mut self, pools: Pools) -> Read {
        let Some(indexer) = &mut self.indexer else { return Ok(()) };
        if pools.size < 2 || !indexer.top_k.is_multiple_of(pools.size) {
            return Err(LoadError::model(format!(
                "llama.cpp cannot load this model: the {} tokens of attention.indexer.top_k are no multiple of pools of {}",
                indexer.top_k, pools.size
            )));
        }
        indexer.pools = Some(pools);
        Ok(())
    }

    fn read_indexer(&mut self, keys: &HeaderKeys<'_>, is_full: Vec<bool>) -> Read {
        self.indexer = Some(Indexer {
            n_head: keys.need("attention.indexer.head_count")?,
            head_size: keys.need("attention.indexer.key_length")?,
            top_k: keys.need("attention.indexer.top_k")?,
            block_size: keys.number("attention.indexer.block_size").unwrap_or(0),
            is_read: is_full.clone(),
            is_full,
            pools: None,
        });
        Ok(())
    }
}

// Linear attention: Kimi's delta attention (KDA) between blocks with compressed attention, lightning attention,
// RWKV, and `PLaMo`'s state spaces.

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

// Blocks that the file's `block_count` does not count one by one: those that run several times, a decoder beside an
// encoder, a block that chooses adapters.

/// The most adapters, and the highest rank, that llama.cpp takes (`granite-switch.cpp`, 0.1.161).
const MAX_ADAPTERS: u64 = 4096;

impl Hparams {
    /// Nanbeige: all blocks run several times, each time with caches of their own (`nanbeige.cpp`, 0.1.161).
    pub(crate) fn looped(&mut self, keys: &HeaderKeys<'_>) -> Read {
        let own = self.n_layer();
        let loops = keys.count("num_loops").unwrap_or(1);
        let blocks = own.checked_mul(loops).filter(|blocks| (1..=MAX_LAYERS).contains(blocks)).ok_or_else(|| {
            LoadError::model(format!("num_loops is {loops}: llama.cpp supports 1 to {}", MAX_LAYERS / own.max(1)))
        })?;
        if loops > 1 {
            let all: Vec<usize> = (0..blocks).map(|il| il % own).collect();
            for list in [&mut self.n_head, &mut self.n_head_kv, &mut self.n_ff, &mut self.n_expert_used] {
                *list = all.iter().map(|il| list[*il]).collect();
            }
            self.is_swa = vec![false; blocks];
            self.is_recr = vec![false; blocks];
            self.deepstack_mapping = vec![-1; blocks];
            self.n_layer_all = blocks;
            self.weight_blocks = all;
            let skips = keys.flag("skip_loop_final_norm").unwrap_or(false);
            self.normed_pass = (!skips).then_some(own);
        }
        Ok(())
    }

    /// HRM-Text: the file counts every pass of both stacks (`hrm-text.cpp`, 0.1.161).
    pub(crate) fn hrm_text(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.embedding_scale = keys.is_given("embedding_scale");
        let count = |name| keys.need(name).map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let stacks = HrmStacks {
            layers_per_stack: count("hrm.layers_per_stack")?,
            h_cycles: count("hrm.h_cycles")?,
            l_cycles: count("hrm.l_cycles")?,
        };
        let HrmStacks { layers_per_stack: stack, h_cycles, l_cycles } = stacks;
        let passes = l_cycles.checked_add(1).and_then(|passes| passes.checked_mul(h_cycles));
        let blocks = passes.and_then(|passes| passes.checked_mul(stack));
        if blocks != Some(self.n_layer()) || l_cycles == 0 {
            return Err(LoadError::model(format!(
                "block_count is {}, but not the {h_cycles} · ({l_cycles} + 1) passes of {stack} blocks: convert the model \
                 again",
                self.n_layer()
            )));
        }
        self.weight_blocks = (0..self.n_layer())
            .map(|il| {
                let high = (il / stack) % (l_cycles + 1) == l_cycles;
                il % stack + if high { stack } else { 0 }
            })
            .collect();
        self.hrm = Some(stacks);
        Ok(())
    }

    /// T5: the decoder has the encoder's number of blocks unless the header says otherwise (`t5.cpp`, 0.1.161).
    pub(crate) fn t5(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.dec_n_layer = keys.count("decoder_block_count").unwrap_or(self.n_layer());
        if self.dec_n_layer == 0 || self.dec_n_layer > self.n_layer() {
            return Err(LoadError::model(format!(
                "decoder_block_count is {}: llama.cpp supports at most the {} of the encoder",
                self.dec_n_layer,
                self.n_layer()
            )));
        }
        Ok(())
    }

    /// Granite Switch: a block after the others has one head and no weights, and chooses the adapter of every token
    /// (`granite-switch.cpp`, 0.1.161).
    pub(crate) fn granite_switch(&mut self, keys: &HeaderKeys<'_>) -> Read {
        if keys.float("logit_scale").is_none() {
            return Err(LoadError::model("the header has no logit_scale: convert the model again"));
        }
        self.granite_scales(keys);
        self.logit_scale = true;
        for name in ["adapters.count", "adapters.lora_rank"] {
            let number = keys.need(name)?;
            if number > MAX_ADAPTERS {
                return Err(LoadError::model(format!("{name} is {number}: llama.cpp supports at most {MAX_ADAPTERS}")));
            }
        }
        let adapters = keys.count("adapters.count").unwrap_or(0);
        for name in ["adapters.token_ids_activate", "adapters.token_ids_substitute"] {
            if keys.list(name).is_none_or(|ids| ids.len() != adapters) {
                return Err(LoadError::model(format!(
                    "{name} does not list one token for each of {adapters} adapters"
                )));
            }
        }
        if self.n_layer_all >= MAX_LAYERS {
            return Err(LoadError::model(format!("block_count is {}: llama.cpp supports fewer", self.n_layer_all)));
        }
        self.n_layer_all = self.n_layer() + 1;
        self.n_layer_nextn = 1;
        self.has_router_block = true;
        let all = self.n_layer_all;
        for (list, last) in
            [(&mut self.n_head, 1), (&mut self.n_head_kv, 1), (&mut self.n_ff, 0), (&mut self.n_expert_used, 0)]
        {
            list.truncate(all - 1);
            list.push(last);
        }
        self.is_swa.resize(all, false);
        self.is_recr.resize(all, false);
        self.deepstack_mapping.resize(all, -1);
        Ok(())
    }
}

// Hyperparameters of models that draft for another one (`models/eagle3.cpp`, `models/dflash.cpp`,
// `models/gemma4-assistant.cpp`, 0.1.161).

/// Layers whose inputs an EAGLE 3 draft reads.
const EAGLE3_LAYERS: usize = 3;

impl Hparams {
    pub(crate) fn eagle3(&mut self, keys: &HeaderKeys<'_>) -> Read {
        let target_layers = target_layers(keys)?;
        if target_layers.len() != EAGLE3_LAYERS {
            return Err(LoadError::model(format!(
                "an EAGLE 3 draft needs {EAGLE3_LAYERS} target_layers: convert it again"
            )));
        }
        keys.need("target_hidden_size")?;
        if self.n_layer_all != 1 {
            return Err(LoadError::model("an EAGLE 3 draft has one block: convert it again"));
        }
        self.draft = DraftHparams {
            target_layers,
            norm_before_residual: keys.flag("norm_before_residual").unwrap_or(false),
            ..DraftHparams::default()
        };
        Ok(())
    }

    pub(crate) fn dflash(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.embedding_scale = keys.is_given("embedding_scale");
        self.logit_scale = keys.is_given("logit_scale");
        self.final_soft_cap = keys.float("final_logit_softcapping").unwrap_or(0.0) > 0.0;
        self.draft = DraftHparams {
            target_layers: target_layers(keys)?,
            attn_value_scale: keys.is_given("attention.value_scale"),
            block_size: keys.number("block_size").unwrap_or(0),
            sample_from_anchor: keys.flag("sample_from_anchor").unwrap_or(true),
            conv_kernel_size: keys.number("conv_kernel_size").unwrap_or(0),
            conv_group_size: keys.number("conv_group_size").unwrap_or(0),
            selector_rank: keys.number("selector_rank").unwrap_or(0),
            selector_top_k: keys.number("selector_top_k").unwrap_or(0),
            ..DraftHparams::default()
        };
        let sections = keys.list("rope.dimension_sections").unwrap_or_default();
        self.mrope = sections.iter().any(|section| *section != 0);
        self.n_swa = keys.number("attention.sliding_window").filter(|window| *window > 0);
        if self.n_swa.is_some() {
            self.listed_windows(keys)?;
        }
        Ok(())
    }

    pub(crate) fn gemma4_assistant(&mut self, keys: &HeaderKeys<'_>) -> Read {
        self.n_swa = Some(keys.need("attention.sliding_window")?);
        self.listed_windows(keys)?;
        let n_embd_out = keys.need("embedding_length_out")?;
        self.draft = DraftHparams { n_embd_out, ..DraftHparams::default() };
        Ok(())
    }

    /// The blocks with a sliding window, which the header must list.
    fn listed_windows(&mut self, keys: &HeaderKeys<'_>) -> Read {
        let Some(list) = keys.list("attention.sliding_window_pattern") else {
            let why = "the header has no list attention.sliding_window_pattern: convert the draft again";
            return Err(LoadError::model(why));
        };
        self.is_swa.iter_mut().zip(list).for_each(|(is_swa, listed)| *is_swa = listed != 0);
        Ok(())
    }
}

fn target_layers(keys: &HeaderKeys<'_>) -> Result<Vec<usize>, LoadError> {
    let list = keys.list("target_layers").ok_or_else(|| {
        LoadError::model("the header has no list target_layers, which a draft needs: convert it again")
    })?;
    Ok(list.into_iter().map(|layer| usize::try_from(layer).unwrap_or(usize::MAX)).collect())
}
