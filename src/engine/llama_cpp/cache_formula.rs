//! The formula of a block's caches, in the field's letters: KV heads × head length × 2 × bytes × tokens.

use super::cache::{KvCache, KvLayer, Memory, Recurrent};
use super::hparams::Hparams;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::row;
use crate::plan::Term;
use crate::units::{Bytes, grouped};

/// A formula and its numbers.
struct Formula {
    words: String,
    numbers: String,
}

impl Memory {
    /// What a token of the context adds to the caches of block `il`; nothing for windows and states, which do not grow with
    /// it, nor for compressed rows, which several tokens share.
    pub fn per_token(&self, il: usize) -> Bytes {
        if self.compressed.is_some() {
            return Bytes::ZERO;
        }
        let grow = self.full.iter().chain(&self.indexer).filter(|cache| !cache.shared);
        let of = |cache: &KvCache| owned(cache, il).map(|layer| token(&layer));
        grow.filter_map(of).map(Bytes).sum()
    }

    /// The formula of the caches of block `il`.
    pub(super) fn term(&self, hparams: &Hparams, il: usize) -> Term {
        let bytes = self.of_block(il);
        let cells = [(&self.full, "tokens"), (&self.window, "cells of the window"), (&self.indexer, "tokens")];
        let cells = cells.into_iter().filter_map(|(cache, tokens)| Some((cache.as_ref()?, tokens)));
        let compressed = self.compressors().map(|compressor| (&compressor.keys, "compressed rows"));
        let caches = cells.chain(compressed).filter(|(cache, _)| !cache.shared).filter_map(|(cache, tokens)| {
            let layer = owned(cache, il)?;
            let known = cache.size * cache.streams * token(&layer);
            Some((of_cache(cache, &layer, hparams, il, tokens), known))
        });
        let states =
            self.recurrent.as_ref().and_then(|states| Some((of_states(states, il)?, self.states_of_block(il)?)));
        let parts: Vec<(Formula, u64)> = caches.chain(states).collect();
        let known: u64 = parts.iter().map(|(_, bytes)| *bytes).sum();
        let rest = bytes.checked_sub(known).filter(|rest| *rest > 0);
        let rest = rest.map(|rest| Formula { words: "unfinished rows".to_owned(), numbers: rest.to_string() });
        let parts: Vec<Formula> = parts.into_iter().map(|(formula, _)| formula).chain(rest).collect();
        if parts.is_empty() {
            return Term { bytes: Bytes(bytes), ..Term::nothing("cache") };
        }
        let joined = |text: fn(&Formula) -> &str| parts.iter().map(text).collect::<Vec<_>>().join(" + ");
        Term {
            name: "cache".to_owned(),
            formula: joined(|part| &part.words),
            numbers: joined(|part| &part.numbers),
            bytes: Bytes(bytes),
        }
    }
}

/// The part of `cache` that block `il` owns.
fn owned(cache: &KvCache, il: usize) -> Option<KvLayer> {
    cache.layers.get(il).copied().flatten().filter(|layer| layer.owner == il)
}

/// Bytes of one token.
fn token(layer: &KvLayer) -> u64 {
    row(layer.ty_k, layer.k) + layer.v.map_or(0, |v| row(layer.ty_v, v))
}

fn of_cache(cache: &KvCache, layer: &KvLayer, hparams: &Hparams, il: usize, tokens: &str) -> Formula {
    let cells = grouped(cache.size * cache.streams, '\u{2009}');
    let heads = hparams.n_head_kv.get(il).copied().unwrap_or(0);
    let (k, ty_k, ty_v) = (layer.k, layer.ty_k, layer.ty_v);
    let divides = |elements: u64| heads > 0 && elements.is_multiple_of(heads);
    let head = |elements: u64| elements / heads.max(1);
    match layer.v {
        Some(v) if v == k && ty_k == ty_v && divides(k) => Formula {
            words: format!("KV heads × head length × 2 × bytes × {tokens}"),
            numbers: format!("{heads} × {} × 2 × {} × {cells}", head(k), element(ty_k)),
        },
        Some(v) if divides(k) && divides(v) => Formula {
            words: format!("KV heads × (K length × bytes + V length × bytes) × {tokens}"),
            numbers: format!("{heads} × ({} × {} + {} × {}) × {cells}", head(k), element(ty_k), head(v), element(ty_v)),
        },
        Some(v) => Formula {
            words: format!("(K row × bytes + V row × bytes) × {tokens}"),
            numbers: format!("({k} × {} + {v} × {}) × {cells}", element(ty_k), element(ty_v)),
        },
        None => Formula {
            words: format!("row × bytes × {tokens}"),
            numbers: format!("{k} × {} × {cells}", element(ty_k)),
        },
    }
}

fn of_states(states: &Recurrent, il: usize) -> Option<Formula> {
    states.layers.get(il).copied().flatten()?;
    let (ngrams, rows) = (states.ngrams_of(il), states.rows());
    let (words, numbers) = if ngrams > 0 { (" + n-grams", format!(" + {ngrams}")) } else { ("", String::new()) };
    Some(Formula {
        words: format!("(convolution state + recurrent state{words}) × 4 × states"),
        numbers: format!("({} + {}{numbers}) × 4 × {rows}", states.r, states.s),
    })
}

/// Bytes of an element: `2`, `34/32` of a type with blocks.
fn element(ty: Type) -> String {
    match ty.block() {
        1 => ty.block_bytes().to_string(),
        block => format!("{}/{block}", ty.block_bytes()),
    }
}
