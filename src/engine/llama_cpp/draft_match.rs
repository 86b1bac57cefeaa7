//! Whether a model can draft for another one.
//!
//! llama-server only warns where vocabularies differ, and then translates every token
//! (`common_speculative_are_compatible`, `common/speculative.cpp`); heads trained for another model it cannot use.

use super::prepared::PreparedModel;
use super::speculation::Speculation;
use crate::gguf::Value;
use crate::settings::{Release, SpecType};

/// Tokens by which vocabularies may differ (`SPEC_VOCAB_MAX_SIZE_DIFFERENCE`, `common/speculative.cpp`).
const MAX_DIFFERENCE: u64 = 128;

impl PreparedModel {
    /// How `draft` would draft for this model.
    ///
    /// # Errors
    /// Why it cannot, as one sentence without a full stop.
    pub fn drafted_by(&self, draft: &Self) -> Result<SpecType, String> {
        let refuse = |why: String| Err(format!("{} cannot draft for {}: {why}", draft.name, self.name));
        let [main, loaded] = [self, draft].map(|model| model.llama_cpp(Release::default()));
        let (main, loaded) = match (main, loaded) {
            (Ok(main), Ok(loaded)) => (main, loaded),
            (Err(error), _) | (_, Err(error)) => return refuse(error.to_string()),
        };
        if !loaded.hparams.causal {
            return refuse("it does not generate text".to_owned());
        }
        let kind = Speculation::kind_of(loaded);
        if kind == SpecType::DraftSimple {
            let sizes = (self.hyper.vocabulary, draft.hyper.vocabulary);
            let kinds = [self, draft].map(|model| model.value("tokenizer.ggml.model").and_then(Value::as_str));
            return match (sizes, kinds) {
                ((Some(own), Some(other)), _) if own.abs_diff(other) > MAX_DIFFERENCE => {
                    refuse(format!("its vocabulary has {other} tokens, not {own}"))
                }
                // the catalogue's models say "none"
                (_, [Some(own), Some(other)]) if own != other && own != "none" && other != "none" => {
                    refuse(format!("its vocabulary is of type {other}, not {own}"))
                }
                _ => Ok(kind),
            };
        }
        let number = |key: &str| draft.value(key).and_then(Value::as_u64);
        let widths = ["target_hidden_size", "embedding_length_out", "embedding_length"];
        let (own, other) =
            (self.value("embedding_length").and_then(Value::as_u64), widths.into_iter().find_map(number));
        let deepest = loaded.hparams.draft.target_layers.iter().max();
        match (own, other) {
            (Some(own), Some(other)) if own != other => {
                refuse(format!("it was made for a model with embeddings of {other} elements, not {own}"))
            }
            _ if deepest.is_some_and(|layer| *layer > main.hparams.n_layer()) => {
                refuse("it reads layers that the model does not have".to_owned())
            }
            _ => Ok(kind),
        }
    }
}
