//! Branches shared by several families.

use super::expr::{product, quotient};
use super::letters::{B, E, V};
use super::rule::{BranchRule, branch, part};

/// The output layer on a GPU: `4·B·(E + V)`.
pub(super) const LOGITS: BranchRule =
    branch("logits", &[part("activations", product!(4, B, E)), part("logits", product!(4, B, V))]);

/// The output layer with dequantised weights: 105/128 bytes per weight, as for `Q6_K`.
pub(super) const LOGITS_DEQUANTISED: BranchRule = branch(
    "logits",
    &[
        part("activations", product!(4, B, E)),
        part("logits", product!(4, B, V)),
        part("dequantised output weights", quotient!((product!(105, E, V)), 128)),
    ],
);
