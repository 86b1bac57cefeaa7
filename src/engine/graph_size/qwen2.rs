//! qwen2, including Qwen 2.5. Source: `fs/ggml/ggml.go`, Ollama, May 2026.

use super::expr::product;
use super::letters::{B, C, E, H};
use super::rule::{GraphRule, branch, max, part};
use super::shared::{LOGITS, LOGITS_DEQUANTISED};

pub(super) static FULL: GraphRule = max(&[
    LOGITS,
    branch(
        "attention",
        &[
            part("positions", product!(4, B)),
            part("activations", product!(4, B, 2, E)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H)),
        ],
    ),
]);

pub(super) static PARTIAL: GraphRule = max(&[
    LOGITS_DEQUANTISED,
    branch(
        "attention",
        &[
            part("positions", product!(4, B)),
            part("activations", product!(4, B, 2, E)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H)),
            part("one embedding", product!(4, E)),
            part("keys of the context", product!(4, E, C)),
        ],
    ),
]);
