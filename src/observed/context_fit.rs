//! What LM Studio's engine of MLX says of the context that it takes: one line with every term of its bound.
//!
//! `Model context auto-fit: family=… max=… fitted=… working_set=…GiB reserve=…GiB baseline=…GiB full_kv=…B/token …`
//! Source: `context_fit.py`, lmstudio-ai/mlx-engine 08f0c07 (August 2026).

use serde::Serialize;

use super::hole;

/// What begins the line's terms.
const BEGINS: &str = "Model context auto-fit: ";
/// Most chunks of a line.
const MOST_STEPS: usize = 16;

/// The terms of LM Studio's bound, as its line has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObservedFit {
    /// The type of model that it takes it for.
    pub family: String,
    /// Tokens that the model was trained for.
    pub longest: u64,
    /// The context that it takes.
    pub fitted: u64,
    /// What the GPU may use, in GiB of two decimals, as are the next three.
    pub working_set: f64,
    /// What it keeps for all that it does not name.
    pub reserve: f64,
    /// What was taken when the model was loaded.
    pub baseline: f64,
    /// Windows without the chunk.
    pub rotating_constant: f64,
    /// Bytes of caches of all tokens, for each.
    pub full_kv: u64,
    /// Bytes of a prompt's inputs, for each token.
    pub prompt_inputs: u64,
    /// Bytes of scores, for each token of the chunk and one that it attends to.
    pub attention: u64,
    /// Bytes of windows, for each token of the chunk.
    pub rotating_per_step: u64,
    /// The most tokens with chunks of this many.
    pub steps: Vec<(u64, u64)>,
}

/// A line of LM Studio; none of another one.
pub(super) fn read(text: &str) -> Option<ObservedFit> {
    let (_, terms) = text.split_once(BEGINS)?;
    let term = |key: &str| {
        let start = format!("{key}=");
        terms.split_whitespace().find_map(|word| word.strip_prefix(start.as_str()))
    };
    let count = |text: &str| text.replace(',', "").parse::<u64>().ok();
    let gib = |key: &str| term(key)?.strip_suffix("GiB")?.parse::<f64>().ok().filter(|gib| (0.0..1e6).contains(gib));
    let bytes = |key: &str| count(term(key)?.split('B').next()?);
    // each is of two numbers, of which the second has its own commas
    let steps = term("steps").map(|text| steps(text, &count)).unwrap_or_default();
    Some(ObservedFit {
        family: hole::clip(term("family")?, 64),
        longest: count(term("max")?)?,
        fitted: count(term("fitted")?)?,
        working_set: gib("working_set")?,
        reserve: gib("reserve")?,
        baseline: gib("baseline")?,
        rotating_constant: gib("rotating_constant").unwrap_or(0.0),
        full_kv: bytes("full_kv")?,
        prompt_inputs: bytes("prompt_inputs").unwrap_or(0),
        attention: bytes("attention_coefficient").unwrap_or(0),
        rotating_per_step: bytes("rotating_per_step").unwrap_or(0),
        steps,
    })
}

/// `2048:38,912,1024:61,440`: between two colons stand a number with commas and, after the last of them, the next chunk.
fn steps(text: &str, count: &dyn Fn(&str) -> Option<u64>) -> Vec<(u64, u64)> {
    let mut pieces = text.split(':').take(MOST_STEPS).peekable();
    let (mut found, mut step) = (Vec::new(), pieces.next().and_then(count));
    while let Some(piece) = pieces.next() {
        let (tokens, next) = match piece.rsplit_once(',').filter(|_| pieces.peek().is_some()) {
            Some((tokens, next)) => (tokens, count(next)),
            None => (piece, None),
        };
        found.extend(step.zip(count(tokens)));
        step = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "2026-08-22 10:00:00 [INFO] Model context auto-fit: family=qwen3_5 max=262,144 fitted=102,400 \
                        working_set=25.00GiB reserve=3.00GiB baseline=19.20GiB full_kv=20480B/token prompt_inputs=4096B/token \
                        attention_coefficient=32B/context/step rotating_constant=0.00GiB rotating_per_step=0B \
                        steps=2048:38,912,1024:61,440,512:102,400";

    #[test]
    fn every_term_is_read() {
        let fit = read(LINE).unwrap();
        assert_eq!((fit.family.as_str(), fit.longest, fit.fitted), ("qwen3_5", 262_144, 102_400));
        assert_eq!((fit.working_set, fit.reserve, fit.baseline, fit.rotating_constant), (25.0, 3.0, 19.2, 0.0));
        assert_eq!((fit.full_kv, fit.prompt_inputs, fit.attention, fit.rotating_per_step), (20_480, 4096, 32, 0));
        assert_eq!(fit.steps, [(2048, 38_912), (1024, 61_440), (512, 102_400)]);
    }

    #[test]
    fn lines_that_are_cut_are_none() {
        for end in (0..LINE.len()).filter(|end| LINE.is_char_boundary(*end)) {
            let _ = read(&LINE[..end]);
        }
        assert_eq!(read("Model context auto-fit failed; leaving context unchanged"), None);
        assert_eq!(read("Model context auto-fit: family=x max=99999999999999999999999 fitted=1"), None);
        assert!(read(&LINE.replace("steps=2048", "steps=:::,,x")).is_some());
    }
}
