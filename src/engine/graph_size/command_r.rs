//! command-r. Source: `fs/ggml/ggml.go`, Ollama, May 2026.

use super::expr::{product, quotient};
use super::letters::{B, C, E, H};
use super::rule::{GraphRule, branch, max, part};
use super::shared::{LOGITS, LOGITS_DEQUANTISED};

pub(super) static FULL: GraphRule = max(&[
    LOGITS,
    branch(
        "attention",
        &[
            part("positions", product!(4, B, 2)),
            part("activations", product!(4, B, 4, E)),
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
            part("keys of the context", product!(4, E, C)),
            part("dequantised attention weights", quotient!((product!(9, E, E)), 16)),
        ],
    ),
]);
