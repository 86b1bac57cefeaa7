//! The cache of each block, and its size per token.
//! Source: package `model/models`, Ollama, May 2026.

use crate::engine::graph_size::{Letter, ModelFacts, OllamaKeys};
use crate::model::Model;

/// gemma3: one of six layers has full attention.
const GEMMA3_GLOBAL_EVERY: usize = 6;
/// Tokens that gemma4 and gpt-oss keep beyond their windows, so that a conversation can be resumed from further back.
const LONG_MEMORY: u64 = 4096;
/// mllama: tokens per image tile times tiles.
const IMAGE_TOKENS: u64 = 1601 * 4;
/// Interval of attention layers if the header has none.
const ATTENTION_EVERY: u64 = 4;

/// A block's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockCache {
    pub keeps: CacheKind,
    /// Elements of K per token.
    pub k: u64,
    /// Elements of V per token.
    pub v: u64,
}

/// What a block caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheKind {
    Nothing,
    Everything,
    Chunks,
    Window {
        window: u64,
        /// Tokens kept beyond the window, if the model asks for it.
        memory: Option<u64>,
    },
    Image {
        tokens: u64,
    },
    State {
        /// Per sequence.
        elements: u64,
    },
}

/// The caches of all blocks of `model`.
pub(super) fn blocks(model: &Model, facts: &ModelFacts) -> Vec<BlockCache> {
    let reader = Reader { model, facts, keys: OllamaKeys { model, release: facts.release } };
    let shared = usize::try_from(reader.keys.number("attention.shared_kv_layers")).unwrap_or(usize::MAX);
    let owners = model.block_count().saturating_sub(shared);
    let block = |index: usize| {
        let keeps = if index < owners { reader.keeps(index) } else { CacheKind::Nothing };
        let (k, v) = reader.heads(matches!(keeps, CacheKind::Window { .. }));
        let heads = facts.kv_heads.get(index).copied().unwrap_or(0);
        let (k, v) = (k.saturating_mul(heads), v.saturating_mul(heads));
        let keeps = match keeps {
            CacheKind::Everything | CacheKind::Chunks | CacheKind::Window { .. } if k.saturating_add(v) == 0 => {
                CacheKind::Nothing
            }
            CacheKind::State { elements: 0 } => CacheKind::Nothing,
            keeps => keeps,
        };
        BlockCache { keeps, k, v }
    };
    (0..model.block_count()).map(block).collect()
}

struct Reader<'m> {
    model: &'m Model,
    facts: &'m ModelFacts,
    keys: OllamaKeys<'m>,
}

impl Reader<'_> {
    fn keeps(&self, index: usize) -> CacheKind {
        let kv_heads = self.facts.kv_heads.get(index).copied().unwrap_or(0);
        match self.model.architecture.as_str() {
            "bert" | "nomic-bert" => CacheKind::Nothing,
            "gemma2" => self.window(index.is_multiple_of(2), None),
            "gemma3" => self.window(!(index + 1).is_multiple_of(GEMMA3_GLOBAL_EVERY), None),
            "gemma3n" | "olmo3" => self.window(self.slides(index), None),
            "gemma4" => self.window(self.slides(index), Some(LONG_MEMORY)),
            "gptoss" | "gpt-oss" => self.window(index.is_multiple_of(2), Some(LONG_MEMORY)),
            "llama4" if self.slides(index) => CacheKind::Chunks,
            "mllama" if self.sees_images(index) => CacheKind::Image { tokens: IMAGE_TOKENS },
            "qwen35" | "qwen35moe" | "qwen3next" if self.is_recurrent(index) => self.state(),
            "lfm2" | "lfm2moe" if kv_heads == 0 => {
                let tail = self.keys.number("shortconv.l_cache").saturating_sub(1);
                CacheKind::State { elements: self.facts.values.get(Letter::E).saturating_mul(tail) }
            }
            "nemotron_h" | "nemotron_h_moe" | "nemotron_h_omni" if kv_heads == 0 => {
                let feeds_forward = self.model.hyper.feed_forward.get(index).is_some_and(|&width| width > 0);
                if feeds_forward { CacheKind::Nothing } else { self.state() }
            }
            // without attention there is only the state, of which architectures without ssm keys say nothing
            _ if kv_heads == 0 => self.state(),
            _ => CacheKind::Everything,
        }
    }

    /// A sliding window if `slides` and the header has its width.
    fn window(&self, slides: bool, memory: Option<u64>) -> CacheKind {
        let window = self.facts.values.get(Letter::Window);
        if slides && window > 0 { CacheKind::Window { window, memory } } else { CacheKind::Everything }
    }

    /// By the header's pattern; llama4 without one: three of four.
    fn slides(&self, index: usize) -> bool {
        let by_default = self.model.architecture == "llama4" && !(index + 1).is_multiple_of(4);
        self.model.hyper.sliding.get(index).copied().unwrap_or(by_default)
    }

    fn sees_images(&self, index: usize) -> bool {
        let layers = self.keys.signed("attention.cross_attention_layers");
        layers.iter().any(|&layer| usize::try_from(layer) == Ok(index))
    }

    /// By the block's number of KV heads if some blocks have none, else by the interval of attention layers.
    fn is_recurrent(&self, index: usize) -> bool {
        let heads = &self.facts.kv_heads;
        if heads.contains(&0) {
            return heads.get(index) == Some(&0);
        }
        let every = self.keys.number_or("full_attention_interval", 0);
        let every = if every == 0 { ATTENTION_EVERY } else { every };
        !(index as u64 + 1).is_multiple_of(every)
    }

    /// The convolution state and the recurrent state.
    fn state(&self) -> CacheKind {
        let of = |letter| self.facts.values.get(letter);
        let (inner, state) = (of(Letter::Dinner), of(Letter::Dstate));
        let groups = of(Letter::Ngroups).saturating_mul(state).saturating_mul(2);
        let tail = of(Letter::Dconv).saturating_sub(1).saturating_mul(inner.saturating_add(groups));
        CacheKind::State { elements: tail.saturating_add(state.saturating_mul(inner)) }
    }

    /// Lengths of a key and a value head; blocks with a sliding window may have their own.
    fn heads(&self, slides: bool) -> (u64, u64) {
        let (k, v) = (self.facts.values.get(Letter::Dk), self.facts.values.get(Letter::Dv));
        if !slides {
            return (k, v);
        }
        (self.keys.number_or("attention.key_length_swa", k), self.keys.number_or("attention.value_length_swa", v))
    }
}
