//! A turn of a conversation, as `--turn` and `--cached` describe it.

use schemars::JsonSchema;
use serde::Serialize;

use super::fields::Settings;
use super::flag::count;

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

/// Tokens sent and written: `32k,1k`.
///
/// # Errors
/// One clause with an example.
pub(super) fn turn(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("'{text}' is not a turn: use the tokens sent and written, such as 32k,1k");
    let (prompt, answer) = text.split_once(',').ok_or_else(wrong)?;
    let tokens = |text: &str| count(text).map_err(|_| wrong());
    Ok((tokens(prompt)?, tokens(answer)?))
}

/// A share, in percent: `90%`, `90`.
///
/// # Errors
/// One clause.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let percent = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| format!("'{text}' is not a share: use 0% to 100%"))
}

/// [`share`] written.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as options are written")]
pub(super) fn percent(share: &f64) -> String {
    format!("{}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_read_and_refused() {
        assert_eq!(turn("32k,1k"), Ok((32_768, 1024)));
        assert_eq!(turn("3000, 500"), Ok((3000, 500)));
        for text in ["32k", "0,1", "a,b", "", "1,99999999999999"] {
            assert!(turn(text).unwrap_err().contains("is not a turn"), "{text}");
        }
    }

    #[test]
    fn a_turn_is_asked_for_by_any_part_of_it() {
        assert_eq!(Turn::asked(&Settings::default()), None);
        let cached = Settings { cached: Some(0.5), ..Settings::default() };
        assert_eq!(Turn::asked(&cached), Some(Turn { prompt: 2048, answer: 512, cached: 0.5 }));
        let long = Settings { prompt_tokens: Some(30_000), ..Settings::default() };
        assert_eq!(Turn::asked(&long), Some(Turn { prompt: 30_000, answer: 512, cached: 0.0 }));
    }
}
