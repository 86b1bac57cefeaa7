//! chatglm, with and without a bias of the fused QKV weights.
//! Source: `fs/ggml/ggml.go`, Ollama, May 2026.

use super::expr::product;
use super::letters::{B, C, D_K, E, H, S_BIAS};
use super::rule::{GraphRule, branch, max, part};
use super::shared::{LOGITS, LOGITS_DEQUANTISED};

pub(super) static FULL: GraphRule = max(&[LOGITS]);
pub(super) static PARTIAL: GraphRule = max(&[LOGITS_DEQUANTISED]);

pub(super) static BIASED_FULL: GraphRule = max(&[
    LOGITS,
    branch(
        "attention",
        &[
            part("positions", product!(4, B, 2)),
            part("activations", product!(4, B, 2, E)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H)),
            part("queries", product!(4, B, D_K, H)),
            part("biases", product!(4, B, S_BIAS)),
        ],
    ),
]);

pub(super) static BIASED_PARTIAL: GraphRule = max(&[
    LOGITS_DEQUANTISED,
    branch(
        "attention",
        &[
            part("positions", product!(4, B)),
            part("activations", product!(4, B, 2, E)),
            part("queries", product!(4, B, D_K, H)),
            part("attention mask", product!(4, B, C)),
            part("attention scores", product!(4, B, C, H)),
            part("keys of the context", product!(4, D_K, C)),
            part("values of the context", product!(4, C, D_K)),
            part("bias", product!(4, S_BIAS)),
        ],
    ),
]);
