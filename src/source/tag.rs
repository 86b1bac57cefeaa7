//! The knobs that a model's tag sets, as Ollama keeps them.

use serde_json::Value as Json;

use crate::settings::knob::MAX_VALUE;
use crate::settings::{Context, Flag, GpuLayers, Settings, Source};

/// The parameters of a tag that affect a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagParameters {
    /// Context, in tokens.
    pub num_ctx: Option<u64>,
    /// Layers on GPUs; negative means as many as fit.
    pub num_gpu: Option<i32>,
    /// Tokens that are drafted at most; none are below one.
    pub draft_num_predict: Option<i32>,
}

impl TagParameters {
    /// Gives `settings` the parameters, except for what a source above has given; returns one sentence for each.
    pub(super) fn apply(self, settings: &mut Settings) -> Vec<String> {
        let mut notes = Vec::new();
        let is_raw = settings.raw;
        if let Some(tokens) = self.num_ctx.filter(|_| !is_raw) {
            let ctx = Context::Tokens(tokens.min(MAX_VALUE));
            if settings.give_by(Flag::Context, Source::Tag, |settings| settings.ctx = ctx) {
                notes.push(format!("context set to {tokens} tokens by the model's tag (num_ctx)"));
            }
        }
        if let Some(layers) = self.num_gpu.filter(|_| !is_raw) {
            let gpu_layers = u64::try_from(layers).map_or(GpuLayers::Auto, GpuLayers::Count);
            if settings.give_by(Flag::GpuLayers, Source::Tag, |settings| settings.gpu_layers = gpu_layers) {
                notes.push(format!("GPU layers set to {layers} by the model's tag (num_gpu)"));
            }
        }
        if let Some(tokens) = self.draft_num_predict.filter(|_| settings.ollama.draft_num_predict.is_none()) {
            settings.ollama.draft_num_predict = Some(tokens.into());
            notes.push(format!("Ollama drafts {tokens} tokens by the model's tag (draft_num_predict)"));
        }
        notes
    }

    /// Parses a params layer, a JSON object; anything else sets nothing.
    pub(super) fn of_json(json: &[u8]) -> Self {
        let Ok(Json::Object(params)) = serde_json::from_slice(json) else { return Self::default() };
        // Go writes whole floats as integers, other tools may not
        let number = |value: &Json| value.as_i64().or_else(|| value.as_f64().map(|x| x as i64));
        Self::of(&|key| params.get(key).and_then(number))
    }

    /// Parses parameters as Ollama prints them: a name and a value per line.
    #[cfg(feature = "net")]
    pub(super) fn of_text(text: &str) -> Self {
        Self::of(&|key| {
            text.lines().find_map(|line| {
                let mut words = line.split_whitespace();
                words.next().filter(|name| *name == key).and_then(|_| words.next()?.parse().ok())
            })
        })
    }

    fn of(number: &dyn Fn(&str) -> Option<i64>) -> Self {
        let num_ctx = number("num_ctx").and_then(|tokens| u64::try_from(tokens).ok()).filter(|tokens| *tokens > 0);
        let small = |key: &str| {
            let number = number(key)?;
            Some(i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX }))
        };
        Self { num_ctx, num_gpu: small("num_gpu"), draft_num_predict: small("draft_num_predict") }
    }
}
