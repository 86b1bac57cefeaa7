//! A turn of a conversation: seconds to the first token of an answer, and to its last; and what of a prompt a server
//! need not read again.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::prompt::PromptSpeed;
use super::{Speed, SpeedRange};
use crate::engine::PreparedModel;
use crate::machine::Machine;
use crate::plan::{Confidence, Plan};
use crate::settings::{CHECKPOINTS, Turn};
use crate::units::Tokens;

/// Seconds, as a range.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Seconds {
    /// In the middle.
    pub seconds: f64,
    /// If it is fast.
    pub low: f64,
    /// If it is slow.
    pub high: f64,
}

/// How long a turn takes.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TurnTime {
    /// The turn.
    #[serde(flatten)]
    pub turn: Turn,
    /// Until the first token is written.
    pub first: Seconds,
    /// Until the last is.
    pub last: Seconds,
    /// How sure that is.
    pub confidence: Confidence,
}

impl Seconds {
    /// For `tokens` at a speed.
    pub fn of(tokens: u64, speed: SpeedRange) -> Self {
        let over = |per_second: f64| tokens as f64 / per_second;
        Self { seconds: over(speed.tokens_per_second), low: over(speed.high), high: over(speed.low) }
    }

    /// And then `other`.
    fn then(self, other: Self) -> Self {
        Self { seconds: self.seconds + other.seconds, low: self.low + other.low, high: self.high + other.high }
    }
}

impl TurnTime {
    /// The time of `turn` with `plan`, a plan of `model` on `machine`.
    ///
    /// # Errors
    /// Why no figure would be honest, as one clause.
    pub fn of(model: &PreparedModel, machine: &Machine, plan: &Plan, turn: Turn) -> Result<Self, String> {
        let room = plan.settings.ctx_per_sequence;
        if turn.prompt + turn.answer > room {
            return Err(format!("a context of {} tokens does not hold it", Tokens(room)));
        }
        let kept = ((turn.prompt as f64 * turn.cached) as u64).min(turn.prompt - 1);
        let read = turn.prompt - kept;
        let prompt = PromptSpeed::of(model, machine, plan, kept, read)?;
        let speed = Speed::of(model, machine, plan, turn.prompt + turn.answer / 2);
        let speed = speed.ok_or("how fast it generates is not known")?;
        let first = Seconds::of(read, prompt.range());
        let last = first.then(Seconds::of(turn.answer, speed.range()));
        Ok(Self { turn, first, last, confidence: prompt.confidence.max(speed.confidence) })
    }
}

/// `12–21 s`, `3–5 min`
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (divisor, unit) = if self.high >= 600.0 { (60.0, "min") } else { (1.0, "s") };
        let (low, high) = (super::range::two_digits(self.low / divisor), super::range::two_digits(self.high / divisor));
        f.pad(&if low == high { format!("about {low} {unit}") } else { format!("{low}–{high} {unit}") })
    }
}

/// `32 768 tokens sent, 29 491 of them still in the cache: 2–3 s to the first token, 30–44 s to the last of 1 024`
impl fmt::Display for TurnTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Turn { prompt, answer, cached } = self.turn;
        let kept = (prompt as f64 * cached) as u64;
        let kept = if kept > 0 { format!(", {} of them still in the cache", Tokens(kept)) } else { String::new() };
        write!(
            f,
            "{} tokens sent{kept}: {} to the first token, {} to the last of {}",
            Tokens(prompt),
            self.first,
            self.last,
            Tokens(answer)
        )
    }
}

/// What a server keeps of a prompt for the next.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Reuse {
    /// Whether it can go back to where a new prompt differs.
    pub goes_back: bool,
    /// What it keeps, as a sentence.
    pub reason: String,
}

impl Reuse {
    /// What the server of `plan` keeps; `swa_full` is whether sliding windows keep all tokens, as `--swa-full` asks.
    pub fn of(model: &PreparedModel, plan: &Plan, swa_full: bool) -> Self {
        let hparams = model.llama_cpp(plan.settings.llama_cpp_build()).ok().map(|loaded| &loaded.hparams);
        let is_recurrent = hparams.is_some_and(|hparams| hparams.is_recr.contains(&true));
        let window = hparams.and_then(|hparams| hparams.n_swa.filter(|_| hparams.is_swa.contains(&true)));
        let forgets = match (is_recurrent, window) {
            (true, _) => "its recurrent state cannot be taken back to an earlier token".to_owned(),
            (false, Some(window)) if !swa_full => {
                format!("its sliding windows of {} tokens forget what is before them", Tokens(window))
            }
            _ => {
                let reason = "the server keeps every token, and reads a prompt again only from where it differs";
                return Self { goes_back: true, reason: reason.to_owned() };
            }
        };
        // an engine without a release does not start llama-server
        let checkpoints = plan.settings.ctx_checkpoints.or(plan.settings.release.map(|_| CHECKPOINTS));
        let (goes_back, then) = match checkpoints {
            Some(most) if most > 0 => {
                let then = format!(
                    "the server goes back to the last of up to {most} checkpoints before a prompt differs, and reads on \
                     from there"
                );
                (true, then)
            }
            _ => (false, "only a prompt that continues the last one is not read again as a whole".to_owned()),
        };
        Self { goes_back, reason: format!("{forgets}: {then}") }
    }
}
