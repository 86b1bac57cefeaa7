//! Which models to list. The same words and limits hold on the command line and in the browser.

use super::Item;
use crate::answer::FitSummary;
use crate::catalogue::Use;
use crate::model::Modalities;
use crate::plan::{Outcome, Plan};

/// Limits on the models of a list; each is off by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelFilter {
    /// Only models with experts, or only models without.
    pub experts: Option<bool>,
    /// Only models with at least this many parameters.
    pub min: Option<u64>,
    /// Only models with at most this many parameters.
    pub max: Option<u64>,
    /// Only models with this outcome or a faster one.
    pub fits: Option<Outcome>,
    /// Only models that read all of this, with a projector that may have to be fetched.
    pub reads: Modalities,
    /// Only models that are for all of this.
    pub uses: Vec<Use>,
    /// Only models that write, or read where they write nothing, this many tokens per second; those of which no speed is
    /// known are kept out.
    pub min_speed: Option<f64>,
}

/// Words for what a model is for.
const USES: [(&str, Use); 17] = [
    ("chat", Use::Chat),
    ("code", Use::Code),
    ("coding", Use::Code),
    ("programming", Use::Code),
    ("reasoning", Use::Reasoning),
    ("embed", Use::Embedding),
    ("embedding", Use::Embedding),
    ("embeddings", Use::Embedding),
    ("rerank", Use::Reranking),
    ("reranker", Use::Reranking),
    ("reranking", Use::Reranking),
    ("translate", Use::Translation),
    ("translation", Use::Translation),
    ("translating", Use::Translation),
    ("ocr", Use::Ocr),
    ("documents", Use::Ocr),
    ("speech", Use::Audio),
];

/// The word for a kind or a use that `word` may have been meant for.
pub fn meant(word: &str) -> Option<&'static str> {
    let words = ["moe", "dense", "vision", "audio"].into_iter().chain(USES.iter().map(|(name, _)| *name));
    let lower = word.to_lowercase();
    let near = words.map(|name| (strsim::levenshtein(&lower, name), name));
    let likely = near.filter(|(distance, name)| *distance <= 2 && *distance * 3 <= name.len());
    likely.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

impl ModelFilter {
    /// Takes `moe`, `dense`, `vision`, `audio`, `coding`, `embedding` and other uses, `>7b` and `<120b` out of typed words;
    /// returns the words that are left.
    pub fn typed(words: &str) -> (Self, String) {
        let mut filter = Self::default();
        let mut rest = Vec::new();
        for word in words.split_whitespace() {
            let limit = |sign: char| word.strip_prefix(sign).and_then(parameters);
            match word.to_ascii_lowercase().as_str() {
                "moe" => filter.experts = Some(true),
                "dense" => filter.experts = Some(false),
                "vision" => filter.reads.vision = true,
                "audio" => filter.reads.audio = true,
                other if USES.iter().any(|(name, _)| *name == other) => {
                    filter.uses.extend(USES.iter().filter(|(name, _)| *name == other).map(|(_, use_)| *use_));
                }
                _ => match (limit('>'), limit('<')) {
                    (Some(min), _) => filter.min = Some(min),
                    (_, Some(max)) => filter.max = Some(max),
                    _ => rest.push(word),
                },
            }
        }
        (filter, rest.join(" "))
    }

    /// Whether any limit is set.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// Whether `item` is listed with this plan and, where that is known, this summary. One that was not trained for the
    /// context that is needed fits in no way.
    pub fn keeps(&self, item: &Item, plan: &Plan, summary: Option<&FitSummary>, need: Option<u64>) -> bool {
        let (model, outcome) = (&plan.model, plan.mainly());
        let speed = |summary: &FitSummary| summary.tokens_per_second();
        let is_fast = |least: f64| summary.is_none_or(|summary| speed(summary).is_some_and(|speed| speed >= least));
        let is_for = |use_: &Use| item.entry().is_some_and(|entry| entry.uses.contains(use_));
        let fits = match self.fits {
            None => true,
            Some(_) if need.is_some_and(|tokens| !model.is_trained_for(tokens)) => false,
            // without a GPU, RAM is where a model fits
            Some(Outcome::LayersInRam) => outcome < Outcome::FromDisk,
            Some(most) => outcome <= most,
        };
        fits && item.can_read().include(self.reads)
            && self.uses.iter().all(is_for)
            && self.min_speed.is_none_or(is_fast)
            && self.experts.is_none_or(|experts| experts == model.experts.is_some())
            && self.min.is_none_or(|min| model.parameters >= min)
            && self.max.is_none_or(|max| model.parameters <= max)
    }
}

/// A number of parameters as people write it: `7b`, `1.5B`, `500m`, `1t`.
pub fn parameters(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let (digits, scale) = [('t', 1e12), ('b', 1e9), ('m', 1e6)]
        .into_iter()
        .find_map(|(unit, scale)| Some((lower.strip_suffix(unit)?, scale)))?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = digits.trim_end().parse::<f64>().ok().filter(|number| plain && (0.0..1e6).contains(number))?;
    Some((number * scale) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let read = ["7b", "1.5B", "500m", "1t", "7", "b", "-1b", "infb", "1e3b"].map(parameters);
        let (some, none) = read.split_at(4);
        assert_eq!(some, [7_000_000_000, 1_500_000_000, 500_000_000, 1_000_000_000_000].map(Some));
        assert!(none.iter().all(Option::is_none), "{none:?}");
    }

    #[test]
    fn typed_words_set_limits() {
        let (filter, rest) = ModelFilter::typed("qwen MoE >20b <40b coder vision");
        assert_eq!(rest, "qwen coder");
        let expected = ModelFilter {
            experts: Some(true),
            min: Some(20_000_000_000),
            max: Some(40_000_000_000),
            fits: None,
            reads: Modalities { vision: true, audio: false },
            ..ModelFilter::default()
        };
        assert_eq!(filter, expected);
        assert_eq!(
            ModelFilter::typed("> <x dense"),
            (ModelFilter { experts: Some(false), ..ModelFilter::default() }, "> <x".to_owned())
        );
    }
}
