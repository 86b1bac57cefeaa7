//! Consecutive operations that one kernel computes; they keep their order (`ggml-vulkan.cpp`, 0.1.161 and 0.1.150).
//! Patterns with operations that no graph here has are left out.

use super::VulkanRules;
use crate::engine::ggml::tensor::Op;

/// Consecutive operations.
pub type Pattern = &'static [Op];

/// Routing of experts: its inputs are kept until its end.
const ROUTING: [Pattern; 4] = [
    &[
        Op::SoftMax,
        Op::Reshape,
        Op::Argsort,
        Op::View,
        Op::GetRows,
        Op::Reshape,
        Op::SumRows,
        Op::Clamp,
        Op::Div,
        Op::Reshape,
    ],
    &[
        Op::Unary,
        Op::Reshape,
        Op::Add,
        Op::Argsort,
        Op::View,
        Op::GetRows,
        Op::Reshape,
        Op::SumRows,
        Op::Clamp,
        Op::Div,
        Op::Reshape,
    ],
    &[Op::SoftMax, Op::Reshape, Op::Argsort, Op::View, Op::GetRows],
    &[Op::Argsort, Op::View, Op::GetRows, Op::Reshape, Op::SoftMax, Op::Reshape],
];

/// Norms and positions with what follows them.
const NORMS: [Pattern; 5] = [
    &[Op::RmsNorm, Op::Mul, Op::Add, Op::Mul],
    &[Op::RmsNorm, Op::Mul, Op::Add],
    &[Op::RmsNorm, Op::Mul, Op::Rope, Op::View, Op::SetRows],
    &[Op::RmsNorm, Op::View, Op::SetRows],
    &[Op::Rope, Op::View, Op::SetRows],
];

/// A pattern found in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Number of nodes.
    pub len: usize,
    /// Whether it routes tokens to experts.
    pub routes: bool,
}

/// The first pattern that starts with `ops`.
pub fn find(rules: VulkanRules, ops: impl Fn(usize) -> Option<Op>) -> Option<Found> {
    let norms = if rules.fuses_more { &NORMS[..] } else { &[] };
    let patterns = ROUTING.iter().map(|pattern| (*pattern, true)).chain(norms.iter().map(|pattern| (*pattern, false)));
    let matches = |pattern: Pattern| pattern.iter().enumerate().all(|(at, op)| ops(at) == Some(*op));
    patterns
        .into_iter()
        .find(|(pattern, _)| matches(pattern))
        .map(|(pattern, routes)| Found { len: pattern.len(), routes })
}
