//! The knobs as the user sets them. What an engine makes of them is in [`InEffect`].
//!
//! ```
//! use plimsoll::settings::{CacheType, Context, Settings};
//!
//! let settings = Settings {
//!     ctx: Context::Tokens(32_768),
//!     cache_type_k: Some("q8_0".parse()?),
//!     cache_type_v: Some(CacheType::Q8_0),
//!     ..Settings::default()
//! };
//! assert_eq!(settings.cache_type_k, settings.cache_type_v);
//! # Ok::<(), String>(())
//! ```

mod adapter;
mod draft;
mod engine;
mod fields;
pub mod flag;
mod given;
mod in_effect;
mod kept_ram;
pub mod knob;
pub mod ollama;
mod option;
mod placement;
mod program;
pub mod program_defaults;
mod programs;
mod release;
pub mod seen;
mod turn;
mod values;
pub mod written;

pub use adapter::{KvOverride, Lora, LoraPair, LoraPairs};
pub use draft::LlamaProgram;
pub use draft::LoadMode;
pub use draft::Pooling;
pub use draft::{DraftSettings, NgramSizes, SpecType};
pub use draft::{ImageSize, MmprojDevice, MmprojOptions};
pub use engine::EngineId;
pub use fields::Settings;
pub use flag::{Flag, VariableMeaning};
pub use given::{GivenValues, Source};
pub use in_effect::InEffect;
pub use in_effect::StashedKnobs;
pub use in_effect::{CHECKPOINTS, PROMPT_CACHE, llama_server_variables};
pub use kept_ram::KeptRam;
pub use ollama::{OllamaSettings, OllamaVersion};
pub use option::{GivenOption, ListedKind, ListedOption, ServerOption};
pub use placement::{DeviceName, LazyMode, SplitMode, TensorOverride, TensorPattern};
pub use program_defaults::ProgramDefaults;
pub use programs::Ships;
pub use release::{BUILDS, OLDEST_BUILD};
pub use release::{Build, NearestRelease, Release};
pub use turn::Turn;
pub use values::{ALL_LAYERS, CacheType, Context, FlashAttn, GpuLayers, Outputs};
