//! Facts about Ollama up to 0.11.

use crate::engine::facts::EngineFacts;
use crate::engine::ollama_024;

/// The facts: those of Ollama up to 0.24, with these differences.
pub const FACTS: EngineFacts =
    EngineFacts { counts_projectors: true, places_output_last: true, ..ollama_024::facts::FACTS };
