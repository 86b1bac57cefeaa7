//! Lines that Ollama's own estimator printed in May 2026, all with raw settings.

mod compare;

use std::sync::OnceLock;

use super::outcome::{ModelOutcome, assert_all_exact, compare_all};

/// The number of lines.
pub const LINES: usize = 3457;

/// Every line, compared once.
pub fn outcomes() -> &'static [ModelOutcome] {
    static OUTCOMES: OnceLock<Vec<ModelOutcome>> = OnceLock::new();
    OUTCOMES.get_or_init(|| compare_all("ollama-0.24", compare::differences))
}

#[test]
fn every_line_agrees_to_the_byte() {
    assert_all_exact(outcomes(), LINES);
}
