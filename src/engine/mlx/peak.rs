//! What a prompt takes besides weights and caches, at most: attention scores where no fused kernel serves, and a bound for
//! the rest.

use super::caches::{Feed, Held, Moments};
use super::device::MlxDevice;
use crate::model::mlx::{Architecture, Heads, LayerCache};
use crate::plan::{Branch, GraphPlan, GraphSize, GraphUse, Symbol, Term};
use crate::safetensors::Dtype;
use crate::units::Bytes;

/// What LM Studio's engine keeps for all that its formula does not name; the largest that it saw was 2.41 GiB, at chunks of
/// 2048 on several Macs. Source: `context_fit.py`, lmstudio-ai/mlx-engine, August 2026.
pub(super) const REST: Bytes = Bytes::gib(3);

/// The largest scores of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scores {
    /// Query heads.
    queries: u64,
    /// Length of a key.
    key: u64,
    /// Tokens of the chunk.
    chunk: u64,
    /// Tokens that it attends to.
    keys: u64,
    /// Bytes of one score.
    size: u64,
}

impl Scores {
    fn bytes(self) -> u64 {
        self.queries.saturating_mul(self.chunk).saturating_mul(self.keys).saturating_mul(self.size)
    }

    /// The largest of any layer and chunk of the prompt; none where all are fused.
    pub(super) fn largest(model: &Architecture, device: &MlxDevice<'_>, feed: &Feed, dtype: Dtype) -> Option<Self> {
        let prompt = feed.prompt.saturating_sub(1);
        let chunk = feed.chunk.unwrap_or(1).min(prompt).max(1);
        // the last chunk may be short, and the one before it has more scores
        let rest = prompt % chunk;
        let chunks = [(chunk, prompt - rest), (rest, prompt)];
        let of_layer = |(cache, &queries): (&Option<LayerCache>, &u64)| {
            let (heads, window): (Heads, Option<u64>) = match cache.as_ref()? {
                LayerCache::Kv(heads) => (*heads, None),
                LayerCache::Window { tokens, heads } | LayerCache::Chunk { tokens, heads } => (*heads, Some(*tokens)),
                LayerCache::States(_) => return None,
            };
            let quantised = feed.kv_bits.is_some() && prompt >= feed.quantised_from;
            let scores = chunks.into_iter().filter(|(chunk, _)| *chunk > 0).filter_map(|(chunk, end)| {
                let keys = window.map_or(end, |window| end.min(window.saturating_sub(1).saturating_add(chunk)));
                let is_fused = device.is_fused(heads, chunk, window.is_some(), quantised, dtype);
                let size = if dtype == Dtype::F32 { 4 } else { 2 };
                (!is_fused).then_some(Self { queries, key: heads.key, chunk, keys, size })
            });
            scores.max_by_key(|scores| scores.bytes())
        };
        model.caches.iter().zip(&model.queries).filter_map(of_layer).max_by_key(|scores| scores.bytes())
    }
}

/// The bound of the peak, with its terms.
pub(super) fn graph(scores: Option<Scores>, moments: &Moments, sequences: u64) -> GraphPlan {
    let held = |held: &Held| held.bytes().saturating_mul(sequences);
    let (before, after) = (held(&moments.after_prompt), held(&moments.after));
    let mut terms = vec![Term {
        name: "all else, at most".to_owned(),
        formula: "3 GiB".to_owned(),
        numbers: "3 GiB".to_owned(),
        bytes: REST,
    }];
    if let Some(scores) = scores {
        terms.push(Term {
            name: "attention scores".to_owned(),
            formula: format!("{}·H·S·K", scores.size),
            numbers: format!("{}·{}·{}·{}", scores.size, scores.queries, scores.chunk, scores.keys),
            bytes: Bytes(scores.bytes().saturating_mul(sequences)),
        });
    }
    if before > after {
        terms.push(Term {
            name: "windows while the prompt is read".to_owned(),
            formula: "P − C".to_owned(),
            numbers: format!("{before} − {after}"),
            bytes: Bytes(before - after),
        });
    }
    terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
    let bytes: Bytes = terms.iter().map(|term| term.bytes).sum();
    let why = match scores {
        Some(scores) => format!(
            "No kernel of MLX serves heads of {} here without storing their scores, so a prompt's largest chunk stores them.",
            scores.key
        ),
        None => "MLX stores no attention scores here.".to_owned(),
    };
    let symbol = |letter, meaning, value: u64| Symbol { letter, meaning, value: value.to_string() };
    let legend = scores.map_or_else(Vec::new, |scores| {
        vec![
            symbol("H", "query heads", scores.queries),
            symbol("S", "tokens of a chunk of the prompt", scores.chunk),
            symbol("K", "tokens that it attends to", scores.keys),
        ]
    });
    let branch = Branch { name: "peak of a prompt, at most".to_owned(), bytes, terms };
    let full = GraphSize { bytes, own: bytes, branches: vec![branch], winner: 0 };
    GraphPlan { partial: full.clone(), full, used: GraphUse::Full, why, legend, peaks: Vec::new() }
}
