//! llama.cpp: what llama-server allocates for a model, to the byte: weights, caches and compute buffers.
//!
//! The reference is the llama.cpp of package `llama-cpp-sys-2`; [`Release`](crate::settings::Release) names the versions.

mod architecture;
pub mod architectures;
pub mod cache;
pub mod context;
mod devices;
pub mod draft;
mod draft_match;
pub(super) mod engine;
pub mod error;
pub mod fit;
pub mod graph;
pub mod homes;
pub mod hparams;
mod loaded;
mod measure;
pub mod partner;
mod peak;
pub mod placement;
mod plan;
mod prepared;
mod probe;
pub mod projector;
pub mod release;
mod resolved;
pub mod speculation;
pub(super) mod transformer;
pub mod weights;

pub use architecture::{Architecture, Compared, GraphFamily, Trait};
pub use devices::Device;
pub(super) use devices::gpus as visible;
pub use loaded::LoadedModel;
pub use measure::{AllocationDetails, MemoryBreakdown, Pipeline, Reservation, TokenGraph};
pub use placement::LayerSplit;
pub use plan::{Evidence, Likeness, ModelledError, cache_layout, evidence};
pub(super) use plan::{plan, preflight, resolve, summary};
pub use prepared::{DraftFile, PreparedModel};
pub use resolved::{DeviceBuffers, RequestBuffers, ResolvedRequest};
