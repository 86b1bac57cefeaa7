//! Figures printed by Ollama's estimators, compared line by line.

mod line;
pub mod ollama_011;
pub mod ollama_024;
pub mod outcome;
mod sizes;
