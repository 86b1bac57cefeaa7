//! plimsoll: how far a machine may be loaded with a language model.
//!
//! The rooms, in the order in which data walks through them. No room imports one further down, and circles of files
//! stay within one folder; the one exception is that [`plan`] takes the engines' names from [`engine::id`], which imports
//! nothing but settings.
//!
//! - [`units`]: every number carries its unit.
//! - [`gguf`]: untrusted bytes become a [`gguf::Header`].
//! - [`model`]: a header becomes a [`model::Model`]: hyperparameters and weights per layer.
//! - [`machine`]: GPUs and RAM as plain values.
//! - [`settings`]: the knobs, their ranges and their snapping points, and what an engine makes of them.
//! - [`plan`]: what engines make and every view, export and answer reads. Nothing after it does arithmetic on memory.
//! - [`engine`]: who decides where things go. `(Model, Machine, Settings) -> Plan`, a pure function.
//! - [`answer`]: questions put to an engine: how far a knob can go, why a layer spilled, what brings it back, what fits
//!   where, what can live together, and the verdict in words.
//! - [`export`]: a plan taken away: for Ollama, for llama-server, as JSON, as a table and as a picture; and answers.
//! - [`teach`]: the memory model, taught on a plan: what the scheduler and the allocator do, step by step.
//!
//! Behind cargo features, the doors to the world:
//!
//! - [`hardware`]: the world becomes a `Machine`.
//! - [`source`]: the world becomes the bytes of a header.
//! - [`library`]: the models that there are to choose from, and what a machine would make of each.
//! - [`tui`]: the planner's screen.
//! - [`cli`]: arguments, text reports, and the way into the planner.

pub mod answer;
pub mod engine;
pub mod export;
pub mod gguf;
pub mod machine;
pub mod model;
pub mod plan;
pub mod settings;
pub mod teach;
pub mod units;

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "hardware")]
pub mod hardware;
#[cfg(feature = "source")]
pub mod library;
#[cfg(feature = "source")]
pub mod source;
#[cfg(feature = "tui")]
pub mod tui;
