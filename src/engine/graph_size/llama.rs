//! llama and llama4, including Mistral, and Mixtral in its two formats.
//! Source: `fs/ggml/ggml.go`, Ollama, May 2026.

use super::expr::{larger, product, quotient, sum};
use super::letters::{B, C, D, E, FF, H, H_KV, W_DIM, W_GATE};
use super::rule::{GraphRule, TermRule, branch, max, part};
use super::shared::{LOGITS, LOGITS_DEQUANTISED};

pub(super) static FULL: GraphRule = max(&[
    branch(
        "attention",
        &[
            part("positions", product!(4, B)),
            part("activations", product!(4, B, 4, E)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H)),
        ],
    ),
    LOGITS,
]);

const INPUT: &[TermRule] = &[part("input embeddings", product!(4, B, E))];

pub(super) static PARTIAL: GraphRule = max(&[
    branch(
        "attention",
        &[
            part("positions", product!(4, B)),
            part("activations", product!(4, B, E)),
            part("attention mask or activations", product!(4, B, (larger!(C, E)))),
            part("dequantised attention weights", quotient!((product!(9, E, E)), 16)),
            part("attention scores", product!(4, B, C, H)),
            part("keys of the context", product!(4, C, D, H_KV)),
        ],
    ),
    LOGITS_DEQUANTISED,
])
.plus(INPUT);

/// Experts in one tensor, as in Mixtral 8x22B.
pub(super) static STACKED_EXPERTS_PARTIAL: GraphRule = max(&[
    branch(
        "experts",
        &[
            part("expert weights", product!(3, W_GATE)),
            part("feed-forward activations", product!(4, B, 2, FF)),
            part("KV heads", product!(4, B, H_KV)),
            part("activations", product!(4, B, E)),
            part("attention mask", product!(4, B, C)),
            part("keys of the batch", product!(4, B, D, H_KV)),
        ],
    ),
    branch(
        "attention",
        &[
            part("attention scores", product!(4, B, C, H)),
            part("keys of the context", product!(4, C, D, H_KV)),
            part("routing", product!(4, B, 1024)),
            part("keys of the batch", product!(4, D, H_KV, B)),
        ],
    ),
]);

/// One tensor per expert, as in Mixtral 8x7B.
pub(super) static SINGLE_EXPERTS_FULL: GraphRule = max(&[branch(
    "experts",
    &[
        part("positions", product!(4, B, 2)),
        part("activations", product!(4, B, 3, E)),
        part("attention mask", product!(4, B, C)),
        part("attention scores", product!(4, B, C, H)),
        part("KV heads", product!(4, B, 2, H_KV)),
        part("feed-forward activations", product!(4, B, W_DIM)),
    ],
)]);

/// One tensor per expert, as in Mixtral 8x7B.
pub(super) static SINGLE_EXPERTS_PARTIAL: GraphRule = max(&[
    branch(
        "experts",
        &[
            part("positions", product!(4, B, 3)),
            part("keys of the batch", product!(4, B, D, H_KV)),
            part("activations", product!(4, B, E)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H)),
            part("feed-forward activations", product!(4, B, W_DIM)),
            part(
                "dequantised expert weights",
                quotient!((product!(9, (sum!((product!(E, E)), (product!(3, E, H_KV, W_DIM)))))), 16),
            ),
        ],
    ),
    branch(
        "attention",
        &[
            part("positions", product!(4, B)),
            part("activations", product!(4, B, 2, E)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H)),
            part("keys of the context", product!(E, (quotient!((product!(6, C, H_KV)), H)))),
            part("dequantised attention weights", product!(E, (quotient!((product!(9, E)), 16)))),
        ],
    ),
]);
