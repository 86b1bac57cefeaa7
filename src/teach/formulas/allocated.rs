//! Formulas of the engines that run llama.cpp: caches by their shapes, and each compute buffer at its peak.

use super::{Amount, FormulaNode};
use crate::engine::EngineError;
use crate::engine::PreparedModel;
use crate::engine::ggml::{Tensor, Type};
use crate::engine::llama_cpp::cache::{CompressorStates, KvLayer};
use crate::engine::llama_cpp::{self, cache::KvCache};
use crate::plan::{Plan, Symbol};
use crate::settings::Settings;
use crate::units::Bytes;

/// The caches of `plan`, and the letters of their formulas.
pub(super) fn caches(
    model: &PreparedModel,
    plan: &Plan,
    settings: &Settings,
) -> Result<(FormulaNode, Vec<Symbol>), EngineError> {
    let memory = llama_cpp::cache_layout(model, plan, settings)?;
    let mut parts = Vec::new();
    let mut legend = Vec::new();
    let mut define = |letter, meaning, value: u64| legend.push(Symbol { letter, meaning, value: value.to_string() });
    for (cache, letter, name) in [
        (&memory.full, "N", "KV cache"),
        (&memory.window, "N_w", "KV cache, sliding window"),
        (&memory.indexer, "N", "indexer keys"),
    ] {
        let Some(cache) = cache else { continue };
        let kinds = kinds(cache);
        if kinds.is_empty() {
            continue;
        }
        let meaning = if letter == "N" {
            "cells of a cache for all tokens, all sequences together"
        } else {
            "cells of a sliding-window cache, all sequences together"
        };
        if name != "indexer keys" {
            define(letter, meaning, cells(cache));
        }
        parts.extend(kinds.into_iter().map(|(layer, count)| kv(name, letter, cache, &layer, count)));
    }
    for (compressor, letter, name) in memory.compressed.iter().flat_map(|caches| {
        [
            (&caches.csa, "N_4", "KV cache, four tokens to a row"),
            (&caches.lid, "N_4", "indexer keys, four tokens to a row"),
            (&caches.hca, "N_128", "KV cache, 128 tokens to a row"),
        ]
    }) {
        let kinds = kinds(&compressor.keys);
        if kinds.is_empty() {
            continue;
        }
        if !name.starts_with("indexer") {
            define(letter, "rows of a compressed cache, all sequences together", cells(&compressor.keys));
        }
        parts.extend(kinds.into_iter().map(|(layer, count)| kv(name, letter, &compressor.keys, &layer, count)));
        parts.push(unfinished(name, &compressor.states));
    }
    if let Some(states) = &memory.recurrent {
        let count = states.layers.iter().flatten().count() as u64;
        if count > 0 {
            define("R", "elements of a block's convolution state", states.r);
            define("S", "elements of a block's recurrent state", states.s);
            define("N_p", "sequences, each with its own state", states.rows());
            let bytes = states.r.saturating_add(states.s).saturating_mul(states.rows()).saturating_mul(4 * count);
            parts.push(FormulaNode::leaf(
                format!("recurrent states of {count} blocks"),
                "n·(R + S)·4·N_p",
                format!("{count}·({} + {})·4·{}", states.r, states.s, states.rows()),
                Bytes(bytes),
            ));
        }
    }
    parts.extend(super::beside(plan, |memory| memory.cache));
    let known: Bytes = parts.iter().map(FormulaNode::bytes).sum();
    let rest = plan.totals.cache - known;
    if rest > Bytes::ZERO {
        parts.push(FormulaNode::leaf("alignment", "remainder", rest.0.to_string(), rest));
    }
    Ok((FormulaNode::sum("caches", plan.totals.cache, parts), legend))
}

fn cells(cache: &KvCache) -> u64 {
    cache.size.saturating_mul(cache.streams)
}

/// The states of a compressor.
fn unfinished(name: &str, states: &CompressorStates) -> FormulaNode {
    let count = states.layers.iter().flatten().count() as u64;
    let Tensor { ne: [width, tokens, streams, _], .. } = states.tensor();
    let bytes = count.saturating_mul(2 * states.tensor().bytes());
    FormulaNode::leaf(
        format!("unfinished rows of {count} blocks ({name})"),
        "n·2·elements·4·tokens·states",
        format!("{count}·2·{width}·4·{tokens}·{streams}"),
        Bytes(bytes),
    )
}

/// The cache shapes with the number of blocks of each; blocks that share another's cache are not counted.
fn kinds(cache: &KvCache) -> Vec<(KvLayer, u64)> {
    let mut kinds: Vec<(KvLayer, u64)> = Vec::new();
    let owned = cache.layers.iter().enumerate().filter_map(|(il, layer)| layer.filter(|layer| layer.owner == il));
    for layer in owned {
        match kinds.iter_mut().find(|(kind, _)| (kind.k, kind.v) == (layer.k, layer.v)) {
            Some((_, count)) => *count += 1,
            None => kinds.push((layer, 1)),
        }
    }
    kinds
}

fn kv(name: &str, letter: &str, cache: &KvCache, layer: &KvLayer, count: u64) -> FormulaNode {
    let cells = cells(cache);
    let half = |what: &str, ty: Type, elements: u64| {
        let row = (elements / ty.block()).saturating_mul(ty.block_bytes());
        let packed = |count: String| match ty.block() {
            1 => format!("{count}·{}", ty.block_bytes()),
            block => format!("{count}/{block}·{}", ty.block_bytes()),
        };
        let bytes = Bytes(row.saturating_mul(cells).saturating_mul(count));
        let formula = format!("n·{}·{letter}", packed("elements".to_owned()));
        FormulaNode::leaf(
            format!("{what} ({})", ty.name()),
            formula,
            format!("{count}·{}·{cells}", packed(elements.to_string())),
            bytes,
        )
    };
    let mut parts = vec![half("K", layer.ty_k, layer.k)];
    match layer.v {
        Some(v) => parts.push(half("V", layer.ty_v, v)),
        None => parts.push(FormulaNode {
            amount: Amount::Bytes(Bytes::ZERO),
            ..FormulaNode::leaf("V", "a part of K", "0", Bytes::ZERO)
        }),
    }
    let bytes = parts.iter().map(FormulaNode::bytes).sum();
    FormulaNode::sum(format!("{name} of {count} blocks"), bytes, parts)
}

/// Each device's compute buffer, with the tensors alive at its peak.
pub(super) fn graphs(plan: &Plan) -> FormulaNode {
    let buffers = plan.graph.in_force().branches.iter().filter(|branch| branch.bytes > Bytes::ZERO);
    let parts = buffers.map(|branch| {
        let buffer = FormulaNode::of_branch(branch);
        FormulaNode { name: format!("{}, at its peak", branch.name), ..buffer }
    });
    let parts = parts.chain(super::beside(plan, |memory| memory.graph)).collect();
    FormulaNode::sum("compute buffers", plan.totals.graph, parts)
}
