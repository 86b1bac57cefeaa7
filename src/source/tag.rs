//! The knobs that a model's tag sets, as Ollama keeps them.

use serde_json::Value as Json;

use crate::settings::knob::{Knob, MAX_VALUE};
use crate::settings::{Context, GpuLayers, Settings, Source};

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

/// Knobs set by the user, which tags must not override.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a knob of its own")]
pub struct GivenKnobs {
    /// The context.
    pub ctx: bool,
    /// Layers on GPUs.
    pub gpu_layers: bool,
    /// The projector.
    pub projector: bool,
    /// Ollama's version.
    pub ollama: bool,
}

impl TagParameters {
    /// Applies the parameters to `settings`, except for knobs in `held`; returns one sentence for each.
    pub fn apply(self, settings: &mut Settings, held: GivenKnobs) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(tokens) = self.num_ctx.filter(|_| !held.ctx) {
            settings.ctx = Context::Tokens(tokens.min(MAX_VALUE));
            settings.set_by(Knob::Context, Source::Modelfile);
            notes.push(format!("context set to {tokens} tokens by the model's tag (num_ctx)"));
        }
        if let Some(layers) = self.num_gpu.filter(|_| !held.gpu_layers) {
            settings.gpu_layers = u64::try_from(layers).map_or(GpuLayers::Auto, |n| GpuLayers::Count(n.min(MAX_VALUE)));
            settings.set_by(Knob::GpuLayers, Source::Modelfile);
            notes.push(format!("GPU layers set to {layers} by the model's tag (num_gpu)"));
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
