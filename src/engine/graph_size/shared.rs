//! Branches that several families share.

use super::expr::{product, quotient};
use super::letters::{B, E, V};
use super::rule::{BranchRule, branch, part};

/// The output layer on a GPU: `4·B·(E + V)`.
pub(super) const LOGITS: BranchRule =
    branch("logits", &[part("activations", product!(4, B, E)), part("logits", product!(4, B, V))]);

/// The output layer whose weights are dequantised on the way: 105/128 bytes a weight, `Q6_K`'s share.
pub(super) const LOGITS_DEQUANTISED: BranchRule = branch(
    "logits",
    &[
        part("activations", product!(4, B, E)),
        part("logits", product!(4, B, V)),
        part("dequantised output weights", quotient!((product!(105, E, V)), 128)),
    ],
);
