//! Facts about this engine.

use crate::engine::facts::EngineFacts;
use crate::engine::ollama_024;

/// Facts about it: those of the one that came after it, but for these.
pub const FACTS: EngineFacts =
    EngineFacts { counts_projectors: true, places_output_last: true, ..ollama_024::facts::FACTS };
