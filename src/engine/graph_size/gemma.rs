//! gemma, gemma2, gemma3, and gemma3n at four times the size. Source: `fs/ggml/ggml.go`, Ollama, May 2026.

use super::expr::{product, quotient};
use super::letters::{B, C, D_K, E, H};
use super::rule::{BranchRule, GraphRule, branch, max, part};
use super::shared::{LOGITS, LOGITS_DEQUANTISED};

const ATTENTION: BranchRule = branch(
    "attention",
    &[
        part("positions", product!(4, B, 2)),
        part("attention mask", product!(4, B, C)),
        part("attention scores", product!(4, B, C, H)),
        part("activations", product!(4, B, 2, E)),
        part("queries", product!(4, B, 2, D_K, H)),
    ],
);

const ATTENTION_PARTIAL: BranchRule = branch(
    "attention",
    &[
        part("activations", product!(4, B, 2, E)),
        part("positions", product!(4, B)),
        part("queries", product!(4, B, 2, D_K, H)),
        part("attention mask", product!(4, B, C)),
        part("attention scores", product!(4, B, C, H)),
        part("keys of the context", product!(4, D_K, C, 8)),
        part("dequantised attention weights", quotient!((product!(9, E, D_K, H)), 16)),
    ],
);

pub(super) static FULL: GraphRule = max(&[LOGITS, ATTENTION]);
pub(super) static PARTIAL: GraphRule = max(&[LOGITS_DEQUANTISED, ATTENTION_PARTIAL]);

pub(super) static GEMMA3N_FULL: GraphRule = max(&[LOGITS, ATTENTION]).times(4);
pub(super) static GEMMA3N_PARTIAL: GraphRule = max(&[LOGITS_DEQUANTISED, ATTENTION_PARTIAL]).times(4);
