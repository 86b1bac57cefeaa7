//! A turn of a conversation, as `--turn` and `--cached` describe it.

use schemars::JsonSchema;
use serde::Serialize;

use super::fields::Settings;

/// What is sent and written in a turn.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Turn {
    /// Tokens sent, with all that was said before.
    pub prompt: u64,
    /// Tokens written.
    pub answer: u64,
    /// The share of the prompt that the server still has.
    pub cached: f64,
}

impl Turn {
    /// The turn that `settings` ask for, if they say anything of one; what they do not say is a short question.
    pub fn asked(settings: &Settings) -> Option<Self> {
        let Settings { prompt_tokens, answer_tokens, cached, .. } = *settings;
        let is_asked = prompt_tokens.is_some() || answer_tokens.is_some() || cached.is_some();
        is_asked.then(|| Self {
            prompt: prompt_tokens.unwrap_or(2048),
            answer: answer_tokens.unwrap_or(512),
            cached: cached.unwrap_or(0.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_asked_for_by_any_part_of_it() {
        assert_eq!(Turn::asked(&Settings::default()), None);
        let cached = Settings { cached: Some(0.5), ..Settings::default() };
        assert_eq!(Turn::asked(&cached), Some(Turn { prompt: 2048, answer: 512, cached: 0.5 }));
        let long = Settings { prompt_tokens: Some(30_000), ..Settings::default() };
        assert_eq!(Turn::asked(&long), Some(Turn { prompt: 30_000, answer: 512, cached: 0.0 }));
    }
}
