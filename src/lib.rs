//! plimsoll: how far a machine may be loaded with a language model.
//!
//! The modules, in the order of the data flow. No module imports one further down, and import cycles stay within one
//! folder; the one exception is that [`plan`] takes the engines' names from [`engine::id`], which imports nothing but
//! settings.
//!
//! - [`units`]: bytes, tokens and shares as types.
//! - [`text`]: cleans text from files, networks and drivers before it is shown.
//! - [`gguf`]: parses untrusted bytes into a [`gguf::Header`].
//! - [`model`]: a [`model::Model`]: hyperparameters, and weights per layer.
//! - [`machine`]: GPUs and RAM as plain values.
//! - [`settings`]: the knobs with their ranges and stops, and the settings in effect.
//! - [`plan`]: the result of an engine, which all views, exports and answers read. Later modules do no memory
//!   arithmetic.
//! - [`engine`]: `(Model, Machine, Settings) -> Plan`, a pure function per engine.
//! - [`speed`]: a plan and bandwidths -> tokens per second, as a range with its terms.
//! - [`observed`]: the text of a log -> what a program said that it took; no memory arithmetic.
//! - [`answer`]: questions answered by planning: the largest value of a knob, why a layer does not fit, what would make
//!   it fit, which models run together, comparisons.
//! - [`page`]: an answer as a page, and its renderers.
//! - [`export`]: plans as Modelfile, environment, command line, JSON, Markdown and SVG; answers as JSON.
//! - [`teach`]: lessons on a plan: what the scheduler and the allocator do, step by step.
//!
//! Behind cargo features:
//!
//! - [`hardware`]: detects the machine.
//! - [`source`]: reads headers from files, model stores and the network.
//! - [`library`]: the models available, and how each fits a machine.
//! - [`tui`]: the terminal interface.
//! - [`cli`]: arguments and text reports.

pub mod answer;
pub mod engine;
pub mod export;
pub mod gguf;
pub mod machine;
pub mod model;
pub mod observed;
pub mod page;
pub mod plan;
pub mod settings;
pub mod speed;
pub mod teach;
pub mod text;
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
