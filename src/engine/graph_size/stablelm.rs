//! stablelm. Source: `fs/ggml/ggml.go`, Ollama, May 2026.

use super::expr::product;
use super::letters::{B, C, E, H, V};
use super::rule::{BranchRule, GraphRule, branch, max, part};

const ATTENTION: BranchRule = branch(
    "attention",
    &[
        part("attention mask", product!(4, B, C)),
        part("attention scores", product!(4, B, C, H)),
        part("activations", product!(4, B, 3, E)),
        part("positions", product!(4, B, 2)),
    ],
);

pub(super) static FULL: GraphRule = max(&[ATTENTION]);

pub(super) static PARTIAL: GraphRule = max(&[
    branch("logits", &[part("logits", product!(4, B, V)), part("activations", product!(4, B, 2, E))]),
    ATTENTION,
]);
