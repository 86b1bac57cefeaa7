//! Architectures without a formula: a share of the cache.
//! Source: `llm/server.go`, `llamaServer.Load`, Ollama, May 2026.

use super::expr::{larger, product, quotient};
use super::letters::{H, H_KV_MIN, KV};
use super::rule::{GraphRule, branch, max, part};

pub(super) static PARTIAL: GraphRule = max(&[branch(
    "share of the cache",
    &[part("share of the cache", quotient!((product!((quotient!(H, (larger!(H_KV_MIN, 1)))), KV)), 6))],
)]);
