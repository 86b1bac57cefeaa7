//! Blocks that the file's `block_count` does not count one by one: those that run several times, a decoder beside an
//! encoder, a block that chooses adapters.

use super::super::{HeaderKeys, Hparams, HrmStacks, MAX_LAYERS};
use super::Read;
use crate::engine::llama_cpp::error::LoadError;

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
