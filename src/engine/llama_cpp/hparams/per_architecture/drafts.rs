//! Hyperparameters of models that draft for another one (`models/eagle3.cpp`, `models/dflash.cpp`,
//! `models/gemma4-assistant.cpp`, 0.1.161).

use super::super::{DraftHparams, HeaderKeys, Hparams};
use super::Read;
use crate::engine::llama_cpp::error::LoadError;

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
