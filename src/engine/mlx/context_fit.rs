//! The context that LM Studio takes for a model of MLX: it solves its bound of a prompt's peak for the context, once at the load.
//! Source: `context_fit.py`, lmstudio-ai/mlx-engine 08f0c07 (August 2026).

use super::caches::element;
use super::peak::REST;
use crate::engine::error::EngineError;
use crate::engine::llama_cpp::PreparedModel;
use crate::model::mlx::{Allocator, Heads, LayerCache, MlxModel, State};
use crate::safetensors::Dtype;
use crate::units::Bytes;

/// Chunks of the prompt that are tried, the largest first.
pub const STEPS: [u64; 3] = [2048, 1024, 512];
/// The fewest tokens that it takes.
const LEAST: u64 = 4096;
/// Tokens by which a cache grows.
const ROOM: u64 = 256;

/// Layouts that it takes to store no scores: a type of model, and the length of its heads.
const FUSED: [(&str, u64); 1] = [("gpt_oss", 64)];

/// What its bound is made of, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextFit {
    /// Of the caches that keep all tokens, for a token.
    pub full_kv: u64,
    /// Of a prompt's inputs, for a token.
    pub prompt_inputs: u64,
    /// Of attention scores, for a token of the chunk and one that it attends to; none where a kernel stores none.
    pub attention: u64,
    /// Of windows, without the chunk.
    pub rotating_constant: u64,
    /// Of windows, for a token of the chunk.
    pub rotating_per_step: u64,
    /// Of recurrent states.
    pub states: u64,
    /// The tokens that the model was trained for.
    pub longest: u64,
}

impl PreparedModel {
    /// What LM Studio's bound is made of for this model, with the bytes of its weights; none where it leaves the context as it is.
    ///
    /// # Errors
    /// If the model is not MLX's, or nothing is known of its class.
    pub fn context_fit(&self) -> Result<Option<(ContextFit, Bytes)>, EngineError> {
        let mlx = super::of(self)?;
        let (weights, _) = mlx.in_mlx_lm().map_err(|error| EngineError::Model(error.to_string()))?;
        let fit = ContextFit::of(mlx, weights.activations);
        Ok(fit.map(|fit| (fit, Bytes(weights.bytes(Allocator::Metal)))))
    }
}

impl ContextFit {
    /// Those of a model with activations of this type; none of one that LM Studio leaves as it is: without caches of all tokens,
    /// with chunks of attention, or of a length that is not known.
    pub fn of(model: &MlxModel, activations: Dtype) -> Option<Self> {
        let architecture = model.architecture.as_ref().ok()?;
        let element = element(activations);
        let per_token = |heads: &Heads| heads.count.saturating_mul(heads.key + heads.value).saturating_mul(element);
        let (longest, width) = (model.config.context()?, model.config.number("hidden_size")?);
        let heads = ["num_attention_heads", "n_heads"].into_iter().find_map(|key| model.config.number(key))?;
        let layers = architecture.layer_count() as u64;
        let beside = model.config.number("hidden_size_per_layer_input").unwrap_or(0).saturating_mul(layers);
        let layout = (model.config.model_type(), model.config.number("head_dim"));
        let is_fused = FUSED.iter().any(|(kind, length)| layout == (*kind, Some(*length)));
        let mut fit = Self {
            full_kv: 0,
            prompt_inputs: width.saturating_add(beside).saturating_mul(element),
            attention: if is_fused { 0 } else { heads.saturating_mul(element) },
            rotating_constant: 0,
            rotating_per_step: 0,
            states: 0,
            longest,
        };
        for cache in architecture.caches.iter().flatten() {
            match cache {
                LayerCache::Kv(heads) => fit.full_kv = fit.full_kv.saturating_add(per_token(heads)),
                LayerCache::Window { tokens, heads } => {
                    let bytes = per_token(heads);
                    fit.rotating_per_step = fit.rotating_per_step.saturating_add(bytes);
                    let window = bytes.saturating_mul(tokens.saturating_sub(1));
                    fit.rotating_constant = fit.rotating_constant.saturating_add(window);
                }
                LayerCache::Chunk { .. } => return None,
                LayerCache::States(states) => {
                    let bytes = |state: &State| {
                        let size = if state.float32 { 4 } else { element };
                        state.shape.iter().copied().fold(size, u64::saturating_mul)
                    };
                    fit.states = states.iter().map(bytes).fold(fit.states, u64::saturating_add);
                }
            }
        }
        (fit.full_kv > 0).then_some(fit)
    }

    /// How far its tokens may be off where what is taken and what may be is known to within `bytes`.
    pub fn off_by(&self, step: u64, bytes: u64) -> u64 {
        let each = self.full_kv.saturating_add(self.prompt_inputs).saturating_add(self.attention.saturating_mul(step));
        (bytes / each.max(1)).saturating_add(ROOM)
    }

    /// The most tokens with chunks of `step`, where the GPU may use `most` and `loaded` are taken before.
    pub fn tokens_at(&self, step: u64, most: Bytes, loaded: Bytes) -> u64 {
        let windows = self.rotating_constant.saturating_add(self.rotating_per_step.saturating_mul(step));
        let fixed = loaded + Bytes(self.states) + Bytes(windows) + REST;
        let scores = self.attention.saturating_mul(step);
        let each = self.full_kv.saturating_add(self.prompt_inputs).saturating_add(scores).max(1);
        let tokens = (most - fixed).0 / each;
        tokens.div_ceil(ROOM).saturating_mul(ROOM).min(self.longest)
    }

    /// The context that it takes: that of its smallest chunk, though not less than a short one.
    pub fn tokens(&self, most: Bytes, loaded: Bytes) -> u64 {
        self.tokens_with(STEPS[STEPS.len() - 1], most, loaded)
    }

    /// The same where `step` is the smallest.
    pub fn tokens_with(&self, step: u64, most: Bytes, loaded: Bytes) -> u64 {
        self.tokens_at(step, most, loaded).max(LEAST).min(self.longest)
    }
}
