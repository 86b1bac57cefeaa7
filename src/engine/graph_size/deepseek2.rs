//! deepseek2. Source: `fs/ggml/ggml.go`, Ollama, May 2026.

use super::expr::{product, quotient};
use super::letters::{B, C, D_K, E, H_KV, V};
use super::rule::{GraphRule, branch, max, part};

pub(super) static FULL: GraphRule = max(&[
    branch("logits", &[part("activations", product!(4, B, 3, E)), part("logits", product!(4, B, V))]),
    branch(
        "attention",
        &[
            part("activations", product!(4, B, 3, E)),
            part("positions", product!(4, B, 2)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H_KV)),
            part("keys of the batch", product!(4, B, 2, D_K, H_KV)),
        ],
    ),
]);

pub(super) static PARTIAL: GraphRule = max(&[
    branch(
        "logits",
        &[
            part("activations", product!(4, B, 3, E)),
            part("logits", product!(4, B, V)),
            part("dequantised output weights", quotient!((product!(105, E, V)), 128)),
        ],
    ),
    branch(
        "attention",
        &[
            part("activations", product!(4, B, 2, E)),
            part("positions", product!(4, B)),
            part("keys of the batch", product!(4, B, 2, D_K, H_KV)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H_KV)),
            part("keys of the context", product!(4, D_K, C, H_KV)),
            part("dequantised attention weights", quotient!((product!(9, E, D_K, H_KV)), 16)),
        ],
    ),
]);
