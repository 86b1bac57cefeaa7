//! Test modules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod answers;
mod builds;
mod cards;
mod catalogue;
mod check;
mod cli;
mod exports;
#[allow(dead_code, reason = "shared with benches that need more of it")]
mod fixtures;
mod formulas;
mod gguf;
mod harness;
mod house;
mod journeys;
mod laws;
mod llama_cpp;
mod mixtures;
mod mlx;
mod model;
#[cfg(feature = "net")]
pub(crate) mod net;
mod observed;
mod ollama;
mod ollama_024;
mod ollama_030;
mod ollama_starts;
mod original;
mod package;
mod pinned;
mod placement;
mod plain;
mod projectors;
mod quantise;
mod random;
mod readme;
mod real_server;
pub(crate) mod running;
mod screens;
mod server;
mod source;
mod speeds;
mod stepwise_fit;
mod store;
mod support;
mod teach;
mod terminal;
mod vectors;
