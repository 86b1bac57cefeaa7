//! A turn of a conversation, as `--turn` and `--cached` describe it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// What is sent and written in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Turn {
    /// Tokens sent, with all that was said before.
    pub prompt: u64,
    /// Tokens written.
    pub answer: u64,
    /// The share of the prompt that the server still has.
    pub cached: f64,
}

/// Reads `32k,1k`.
impl FromStr for Turn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a turn: use the tokens sent and written, such as 32k,1k");
        let (prompt, answer) = text.split_once(',').ok_or_else(wrong)?;
        let tokens = |text: &str| {
            let text = text.trim().to_ascii_lowercase();
            let (digits, unit) = text.strip_suffix('k').map_or((text.as_str(), 1), |digits| (digits, 1024));
            digits.parse::<u64>().ok()?.checked_mul(unit).filter(|tokens| (1..=1 << 30).contains(tokens))
        };
        let (prompt, answer) = tokens(prompt).zip(tokens(answer)).ok_or_else(wrong)?;
        Ok(Self { prompt, answer, cached: 0.0 })
    }
}

/// `32768,1024`
impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.prompt, self.answer)
    }
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
        assert_eq!("32k,1k".parse(), Ok(Turn { prompt: 32_768, answer: 1024, cached: 0.0 }));
        assert_eq!("3000, 500".parse(), Ok(Turn { prompt: 3000, answer: 500, cached: 0.0 }));
        for text in ["32k", "0,1", "a,b", "", "1,99999999999"] {
            assert!(text.parse::<Turn>().unwrap_err().contains("is not a turn"), "{text}");
        }
    }
}
