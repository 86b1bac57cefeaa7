//! The cache of each layer: the generic rule, recurrent layers, and architectures with their own rules.
//! Source: `fs/ggml/ggml.go`, `GraphSize`, Ollama, August 2025 and May 2026.

use std::sync::Arc;

use super::expr::{DivisionByZero, Expr, product, sum};
use super::keys::OllamaKeys;
use super::letters::{
    B, C, D_CONV, D_INNER, D_K, D_STATE, D_V, H_KV, H_KV_LAYER, Letter, LetterValues, N_GROUPS, N_P, WINDOW,
};
use super::model_facts::ModelFacts;
use super::release::OllamaRelease;
use super::rule;
use crate::model::Model;
use crate::plan::Term;

/// Keys and values of all tokens of the context.
static ATTENTION: CacheRule = ("KV cache", Expr::Elements(&product!(C, (sum!(D_K, D_V)), H_KV_LAYER)));

/// The older release counts every layer, including recurrent ones, with the maximum number of KV heads.
static ATTENTION_MOST_HEADS: CacheRule = ("KV cache", Expr::Elements(&product!(C, (sum!(D_K, D_V)), H_KV)));

/// The state of a recurrent layer and its convolution, in f32.
static RECURRENT: CacheRule = (
    "recurrent state",
    product!(
        (sum!(
            (product!(
                (Expr::Difference(&D_CONV, &Expr::Number(1))),
                (sum!(D_INNER, (product!(2, N_GROUPS, D_STATE))))
            )),
            (product!(D_STATE, D_INNER))
        )),
        4
    ),
);

/// The same without a convolution.
static RECURRENT_BARE: CacheRule = ("recurrent state", product!((product!(D_STATE, D_INNER)), 4));

/// gemma3: five of six layers have a sliding window.
static SLIDING: CacheRule =
    ("KV cache, sliding window", Expr::Elements(&product!((sum!((product!(N_P, WINDOW)), B)), (sum!(D_K, D_V)), H_KV)));
const GEMMA3_GLOBAL_EVERY: usize = 6;

/// mllama: cross-attention layers keep 1601 vision tokens of 4 tiles, in f32.
static CROSS_ATTENTION: CacheRule = ("vision cache", product!(H_KV, (sum!(D_K, D_V)), 4, 1601, 4));

/// gpt-oss: even layers have a window, assumed to be 4096 tokens per sequence plus one batch.
static GPTOSS_EVEN: CacheRule = (
    "KV cache, sliding window",
    product!((Expr::Elements(&product!((sum!(D_K, D_V)), H_KV))), (sum!((product!(N_P, 4096)), B))),
);
static GPTOSS_ODD: CacheRule = ("KV cache", product!((Expr::Elements(&product!((sum!(D_K, D_V)), H_KV))), C));

/// A name and the formula of the bytes.
pub(super) type CacheRule = (&'static str, Expr);

/// The caches of all blocks.
pub(super) struct BlockCaches {
    /// Bytes of each block with their formula.
    pub layers: Vec<Arc<Term>>,
    /// The total by the generic rule, before architecture-specific rules: gpt-oss's graph is a share of it.
    pub generic_total: u64,
    /// Letters used by the rules.
    pub letters: Vec<Letter>,
    /// The rules used, with their results.
    pub made: Vec<AppliedRule>,
}

/// A rule applied to blocks with `kv_heads` KV heads. Layers of the same kind share one explanation.
pub(super) struct AppliedRule {
    pub rule: &'static CacheRule,
    pub kv_heads: u64,
    pub term: Arc<Term>,
}

impl BlockCaches {
    pub fn of(model: &Model, facts: &ModelFacts, values: &LetterValues) -> Result<Self, DivisionByZero> {
        let mut caches = Self {
            layers: Vec::with_capacity(facts.heads.len()),
            generic_total: 0,
            letters: Vec::new(),
            made: Vec::new(),
        };
        let keys = OllamaKeys { model, release: facts.release };
        let cross_attention = keys.signed("attention.cross_attention_layers");
        let mut cache = RuleCache { values, made: Vec::new() };
        for (block, (&heads, &kv_heads)) in facts.heads.iter().zip(&facts.kv_heads).enumerate() {
            let generic = match facts.release {
                OllamaRelease::August2025 => &ATTENTION_MOST_HEADS,
                OllamaRelease::May2026 | OllamaRelease::August2026 => generic(heads, kv_heads, values),
            };
            let own = match model.architecture.as_str() {
                "gemma3" if (block + 1) % GEMMA3_GLOBAL_EVERY != 0 => &SLIDING,
                "mllama" if cross_attention.iter().any(|&layer| usize::try_from(layer) == Ok(block)) => {
                    &CROSS_ATTENTION
                }
                "gptoss" | "gpt-oss" if block % 2 == 0 => &GPTOSS_EVEN,
                "gptoss" | "gpt-oss" => &GPTOSS_ODD,
                _ => generic,
            };
            let before = cache.term(generic, kv_heads)?;
            caches.generic_total = caches.generic_total.wrapping_add(before.bytes.0);
            caches.layers.push(cache.term(own, kv_heads)?);
        }
        caches.made = cache.made;
        for made in &caches.made {
            made.rule.1.letters(&mut |letter| caches.letters.push(letter));
        }
        Ok(caches)
    }

    /// Bytes of all blocks.
    pub fn total(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.wrapping_add(layer.bytes.0))
    }
}

/// A layer without heads counts as recurrent.
fn generic(heads: u64, kv_heads: u64, values: &LetterValues) -> &'static CacheRule {
    if heads > 0 && kv_heads > 0 {
        &ATTENTION
    } else if values.get(Letter::Dconv) > 0 {
        &RECURRENT
    } else {
        &RECURRENT_BARE
    }
}

/// Results of the rules used so far.
struct RuleCache<'v> {
    values: &'v LetterValues,
    made: Vec<AppliedRule>,
}

impl RuleCache<'_> {
    fn term(&mut self, rule: &'static CacheRule, kv_heads: u64) -> Result<Arc<Term>, DivisionByZero> {
        if let Some(made) = self.made.iter().find(|made| std::ptr::eq(made.rule, rule) && made.kv_heads == kv_heads) {
            return Ok(Arc::clone(&made.term));
        }
        let values = self.values.clone().with(Letter::HkvLayer, kv_heads);
        let term = Arc::new(rule::term(rule.0, &rule.1, &values)?);
        self.made.push(AppliedRule { rule, kv_heads, term: Arc::clone(&term) });
        Ok(term)
    }
}
