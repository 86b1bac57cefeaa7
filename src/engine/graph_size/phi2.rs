//! phi2. Source: `fs/ggml/ggml.go`, Ollama, May 2026.

use super::expr::{product, quotient};
use super::letters::{B, C, E, H, V};
use super::rule::{GraphRule, branch, max, part};
use super::shared::LOGITS;

pub(super) static FULL: GraphRule = max(&[
    LOGITS,
    branch(
        "attention",
        &[
            part("positions", product!(4, B)),
            part("activations", product!(4, B, 4, E)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H)),
        ],
    ),
]);

pub(super) static PARTIAL: GraphRule = max(&[
    branch(
        "logits",
        &[
            part("activations", product!(4, B, 2, E)),
            part("logits", product!(4, B, V)),
            part("dequantised output weights", quotient!((product!(105, E, V)), 128)),
        ],
    ),
    branch(
        "attention",
        &[
            part("positions", product!(4, B, 2)),
            part("activations", product!(4, B, 3, E)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H)),
        ],
    ),
]);
