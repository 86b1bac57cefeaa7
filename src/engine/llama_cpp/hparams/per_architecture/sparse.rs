//! Sparse attention: the indexer and the blocks that have one.

use super::super::{HeaderKeys, Hparams, Indexer, Pools};
use super::Read;
use crate::engine::llama_cpp::error::LoadError;
use crate::engine::llama_cpp::transformer::gating;

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
