//! mllama, Llama 3.2 Vision. Source: `fs/ggml/ggml.go`, Ollama, May 2026.

use super::expr::product;
use super::letters::{B, C, D_K, E, H, H_KV, R_FREQ};
use super::rule::{GraphRule, branch, max, part};
use super::shared::{LOGITS, LOGITS_DEQUANTISED};

pub(super) static FULL: GraphRule = max(&[
    branch(
        "attention",
        &[
            part("positions", product!(4, B, 2)),
            part("activations", product!(4, B, 3, E)),
            part("queries", product!(4, B, D_K, H)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H)),
        ],
    ),
    LOGITS,
]);

pub(super) static PARTIAL: GraphRule = max(&[
    branch(
        "attention",
        &[
            part("activations", product!(4, B, 2, E)),
            part("positions", product!(4, B)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H)),
            part("queries", product!(4, B, D_K, H)),
            part("RoPE frequencies", product!(4, R_FREQ)),
            part("keys of the context", product!(4, D_K, C, H_KV)),
        ],
    ),
    LOGITS_DEQUANTISED,
]);
