//! plimsoll: how far a machine may be loaded with a language model.
//!
//! The modules, in the order of the data flow:
//!
//! ```text
//! path or name -> source -> bytes -> gguf::Header -> model::Model ┐
//!                        hardware or --gpu -> machine::Machine ───┼-> engine -> plan::Plan -> answer -> page | export | screen
//!                        sliders or options -> Settings ──────────┘
//! ```
//!
//! One direction, no way back: no module imports one further down, and files import one another only within a folder
//! (`tests/house.rs` checks both). An engine is a pure function: no clock, file, environment or terminal. Whoever asks for
//! many plans spreads them over cores. The terminal part is a loop: event -> keymap -> action -> `Host::update`, which
//! returns effects as data -> effects run on threads, and the newest request of a kind wins -> one drawing for all events
//! that came.
//!
//! - [`units`]: bytes, tokens and shares as types.
//! - [`text`]: cleans text from files, networks and drivers before it is shown.
//! - [`budget`]: what a conversation with servers, or a text that somebody else wrote, may cost.
//! - [`gguf`]: parses untrusted bytes into a [`gguf::Header`].
//! - [`safetensors`]: the same of safetensors files, which MLX runs.
//! - [`model`]: a [`model::Model`]: hyperparameters, and weights per layer.
//! - [`machine`]: GPUs and RAM as plain values.
//! - [`settings`]: the knobs with their ranges and stops, and the settings in effect.
//! - [`plan`]: the result of an engine, which all views, exports and answers read. Later modules do no memory
//!   arithmetic.
//! - [`catalogue`]: models and projectors by name, made from published facts.
//! - [`engine`]: `(Model, Machine, Settings) -> Plan`, a pure function per engine.
//! - [`speed`]: a plan and bandwidths -> tokens per second, as a range with its terms.
//! - [`observed`]: the text of a log -> what a program said that it took; no memory arithmetic.
//! - [`command`]: a command that was pasted, or a file that starts servers -> what it asks of an engine.
//! - [`answer`]: questions answered by planning: the largest value of a knob, why a layer does not fit, what would make
//!   it fit, which models run together, comparisons.
//! - [`page`]: an answer as a page, and its renderers.
//! - [`export`]: plans as Modelfile, environment, command line, JSON, Markdown and SVG; answers as JSON.
//! - [`teach`]: lessons on a plan: what the scheduler and the allocator do, step by step.
//! - [`question`]: the questions, whole: how each is asked, and its answer in every form.
//!
//! Behind cargo features:
//!
//! - [`hardware`]: detects the machine.
//! - [`source`]: reads headers from files, model stores and the network.
//! - [`library`]: the models available, and how each fits a machine.
//! - [`running`]: what runs: loads a plan, and follows what programs hold.
//! - [`tui`]: the terminal interface.
//! - [`cli`]: arguments and text reports.
//!
//! A plan, which needs no feature:
//!
//! ```
//! use plimsoll::engine::{EngineId, PlanRequest};
//! use plimsoll::settings::{Context, Settings};
//! use plimsoll::{catalogue, machine::Machine};
//!
//! // or of the first megabytes of a file: gguf::read, then Model::from_header
//! let model = catalogue::model("qwen3-8b").ok_or("no such model")?;
//! let machine = Machine::described(&["RTX 4090", "12GiB"], "64GiB")?;
//! let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
//! let plan = PlanRequest::new(EngineId::LlamaCpp, model, machine, settings).plan()?;
//! for device in &plan.devices {
//!     println!("{}: {} of {} free", device.id, device.needed(), device.free);
//! }
//! # assert_eq!(plan.offloaded, plan.layers.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Before version 1.0, types may change with a second number (0.2 to 0.3), and grow with a third. What scripts read has a
//! version of its own: see `plimsoll schema`. Figures change with every version: they follow the programs.

pub mod answer;
pub mod budget;
pub mod catalogue;
pub mod command;
pub mod engine;
pub mod export;
#[cfg(any(feature = "hardware", feature = "source"))]
mod files;
pub mod gguf;
pub mod machine;
pub mod model;
mod named;
pub mod observed;
pub mod page;
pub mod plan;
pub mod question;
pub mod safetensors;
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
#[cfg(feature = "running")]
pub mod running;
#[cfg(all(unix, feature = "tui"))]
mod signals;
#[cfg(feature = "source")]
pub mod source;
#[cfg(feature = "tui")]
pub mod tui;
