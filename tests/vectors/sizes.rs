//! Caches and graphs, as both estimators print them, compared with a plan.

use plimsoll::plan::Plan;
use serde_json::Value;

use super::line::{bytes, list};
use super::outcome::Differences;

/// Compares each block's cache, and both graphs with their terms.
pub fn sizes(all: &mut Differences, out: &Value, plan: &Plan) {
    let blocks = plan.layers.len() - 1;
    let caches: Vec<u64> = plan.layers[..blocks].iter().map(|layer| layer.cache_term.bytes.0).collect();
    all.field("kv", list(&out["kv"]), caches.clone());
    all.field("kv_total", out["kv_total"].as_u64().unwrap(), caches.iter().fold(0, |sum, kv| sum.wrapping_add(*kv)));
    let graph = &plan.graph;
    for (name, got) in [
        ("graph_partial", graph.partial.own),
        ("graph_full", graph.full.own),
        ("graph_partial_effective", graph.partial.bytes),
        ("graph_full_effective", graph.full.bytes),
    ] {
        all.total(name, bytes(&out[name]).0, got.0);
    }
    for size in [&graph.partial, &graph.full] {
        let terms = size.terms().iter().fold(0u64, |sum, term| sum.wrapping_add(term.bytes.0));
        all.field("terms of the graph", size.bytes.0, terms);
        let most = size.branches.iter().map(|branch| branch.bytes).max();
        all.field("winning branch", most, size.branches.get(size.winner).map(|branch| branch.bytes));
    }
}
